/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Wire contract of profile.bpf.c. See shared/wire.h for that of the other programs. */
#ifndef RAIDTRACE_PROFILE_H
#define RAIDTRACE_PROFILE_H

enum rt_sample_limits {
	RT_SAMPLE_FRAMES = 127,	/* PERF_MAX_STACK_DEPTH */
	RT_SAMPLE_COMM = 16,
};

enum rt_sample_modes {
	RT_SAMPLE_KERNEL,
	RT_SAMPLE_USER,		/* user mode: there is no kernel stack */
	RT_SAMPLE_NO_STACK,	/* bpf_get_stack() returned no kernel stack */
};

/* A sample of a CPU. Followed by `frames` addresses, innermost first. */
struct rt_sample {
	__u64 now_ns;
	__u32 cpu;
	__u32 pid;	/* thread id; 0: softirqs on an idle CPU */
	__u32 tgid;
	__u16 frames;
	__u16 mode;
	__u8 comm[RT_SAMPLE_COMM];
};

/* Per-CPU counts of samples that were not sent. */
struct rt_sample_ticks {
	__u64 idle;
	__u64 lost;	/* the CPU was busy, but the ring buffer was full */
};

struct rt_sample_scratch {
	struct rt_sample sample;
	__u64 stack[RT_SAMPLE_FRAMES];
};

#endif
