// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CPU profile: samples each CPU about 99 times per second with a perf event on the CPU clock, which
 * is an hrtimer and needs no PMU. A separate BPF object.
 *
 * The event fires in a timer interrupt. So code that runs with interrupts off is sampled at the
 * point where they are enabled again, and the interrupt is never in the stack.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "shared/profile.h"

/* Address range of handle_softirqs(), which runs softirqs; 0: unknown. */
const volatile __u64 rt_softirq_begin, rt_softirq_end;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);	/* set before load */
} rt_samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rt_sample_ticks);
} rt_ticks SEC(".maps");

/* One entry per CPU is enough, because a CPU's clock does not interrupt itself. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rt_sample_scratch);
} rt_scratch SEC(".maps");

/*
 * True if the sample is of user mode, by the registers at the start of struct bpf_perf_event_data.
 * The result of bpf_get_stack() does not suffice: without a kernel stack it is 0, or -EFAULT on
 * older kernels, which can also be an error.
 */
static __always_inline bool user_mode(const __u64 *regs, long bytes)
{
#if defined(__TARGET_ARCH_x86)
	return regs[17] & 3;	/* cs of struct pt_regs */
#else
	return bytes == 0;
#endif
}

/* True if the CPU is in the idle task, and not in a softirq. */
static __always_inline bool idle(const struct rt_sample_scratch *s)
{
	__u64 i;

	if (s->sample.pid)
		return false;
	if (rt_softirq_end)
		for (i = 0; i < RT_SAMPLE_FRAMES && i < s->sample.frames; i++)
			if (s->stack[i] >= rt_softirq_begin && s->stack[i] < rt_softirq_end)
				return false;
	return true;
}

SEC("perf_event")
int rt_sample(__u64 *ctx)
{
	struct rt_sample_ticks *ticks;
	struct rt_sample_scratch *s;
	__u32 zero = 0;
	__u64 task;
	long bytes;

	s = bpf_map_lookup_elem(&rt_scratch, &zero);
	ticks = bpf_map_lookup_elem(&rt_ticks, &zero);
	if (!s || !ticks)
		return 0;
	task = bpf_get_current_pid_tgid();
	s->sample.pid = task;
	s->sample.tgid = task >> 32;
	bytes = bpf_get_stack(ctx, s->stack, sizeof(s->stack), 0);
	s->sample.mode = user_mode(ctx, bytes) ? RT_SAMPLE_USER :
			 bytes <= 0	       ? RT_SAMPLE_NO_STACK :
						 RT_SAMPLE_KERNEL;
	if (bytes < 0 || bytes > (long)sizeof(s->stack))
		bytes = 0;
	s->sample.frames = bytes / sizeof(s->stack[0]);
	if (idle(s)) {
		ticks->idle++;
		return 0;
	}
	s->sample.now_ns = bpf_ktime_get_ns();
	s->sample.cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(s->sample.comm, sizeof(s->sample.comm));
	if (bpf_ringbuf_output(&rt_samples, s, sizeof(s->sample) + bytes, BPF_RB_NO_WAKEUP))
		ticks->lost++;
	return 0;
}

/* bpf_get_stack() requires a licence compatible with the GPL. */
char _license[] SEC("license") = "Dual BSD/GPL";
