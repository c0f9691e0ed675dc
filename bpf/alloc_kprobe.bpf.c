// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* As alloc_groups.bpf.c, for kernels that refuse fentry: dearer. */
#define __VMLINUX_H__	/* to bpf_tracing.h: registers by the kernel's names */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di, si, dx, ax;
} __attribute__((preserve_access_index));
#define RT_KPROBES
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
} __attribute__((preserve_access_index));
#define RT_KPROBES
#endif

#include <bpf/bpf_tracing.h>
#include "alloc_groups.bpf.h"

#ifdef RT_KPROBES

SEC("?kprobe/ext4_mb_good_group")
int BPF_KPROBE(rt_al_group_kin, struct ext4_allocation_context *ac, __u32 group, __u32 criterion)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());

	if (!c)
		return 0;
	if (c->ac != (__u64)ac)
		rt_alloc_change(c, (__u64)ac, BPF_CORE_READ(ac, ac_sb, s_dev));
	rt_alloc_look(c, criterion);
	c->lost += c->task != 0;
	c->task = bpf_get_current_pid_tgid();
	c->call = (__u64)ac;
	c->group = group;
	c->criterion = criterion;
	return 0;
}

SEC("?kretprobe/ext4_mb_good_group")
int BPF_KRETPROBE(rt_al_group_kout, __u64 good)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());

	/* moved to this CPU in the middle: the other one counts it as lost */
	if (!c || c->task != bpf_get_current_pid_tgid())
		return 0;
	c->task = 0;
	if (!(good & 0xff))
		rt_alloc_refuse(c, (struct ext4_allocation_context *)c->call, c->group, c->criterion);
	return 0;
}

SEC("?kprobe/ext4_wait_block_bitmap")
int BPF_KPROBE(rt_al_wait_kin, struct super_block *sb, __u32 group, struct buffer_head *bh)
{
	return rt_alloc_wait_begins(BPF_CORE_READ(sb, s_dev), BPF_CORE_READ(bh, b_state));
}

SEC("?kretprobe/ext4_wait_block_bitmap")
int BPF_KRETPROBE(rt_al_wait_kout)
{
	return rt_alloc_wait_ends();
}

#endif
