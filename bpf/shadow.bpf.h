/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Twins. The kernel skips a program that is running on that CPU already
 * (__bpf_trace_run(), bpf_prog_get_recursion_context()):
 *
 * - when an interrupt completes a request in the middle of another completion.
 *   Disks with one hardware queue, and requests that complete on another CPU's
 *   behalf, complete in BLOCK_SOFTIRQ, with interrupts on; the others in the
 *   interrupt (blk_mq_complete_request_remote());
 * - where tracepoints are called with preemption on (commit a46023d5616e,
 *   "tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast"),
 *   when a task is switched away in the middle of a program: milliseconds.
 *
 * The first needs a disk that completes in the interrupt: as a rule, one with several
 * hardware queues. Without such a disk the twin of rt_rq_complete is attached when the
 * kernel has first skipped a run (recursion_misses): it costs every completion 60 ns.
 *
 * A program to which that can happen has a twin behind it on the tracepoint, which
 * does what the first was skipped for. What both would write to is there twice.
 */
#ifndef RAIDTRACE_AGAIN_BPF_H
#define RAIDTRACE_AGAIN_BPF_H

#include "counters.bpf.h"
#include "peek.bpf.h"

/* False where no twin is loaded, or none is attached behind the first program. */
static __always_inline bool rt_has_twin(__u32 look, __u32 kind)
{
	return rt_twins >> kind & 1 && (look == RT_AGAIN || rt_twins_attached >> kind & 1);
}

/*
 * First of all in both: whether there is nothing to do. The first one notes what
 * it looks at, the second takes that away, for the same bio comes again. Every bio,
 * also those that are not watched, or what was lost could not be told from what
 * was caught. By CPU: what is moved to another one just between the two is looked at
 * twice. mark: tells the bio or request from others.
 */
static __always_inline bool rt_looked_at(__u32 look, __u32 kind, __u64 mark)
{
	__u64 wanted, at;
	struct rt_looked *looked;
	__u32 i, key = kind;	/* `kind` stays a constant */

	if (!rt_has_twin(look, kind))
		return false;
	looked = bpf_map_lookup_elem(&rt_looked, &key);
	if (!looked)
		return look == RT_AGAIN;
	/* in the middle of the twin, which is skipped then: nobody would take the mark away */
	if (look == RT_FIRST && looked->again)
		return false;
	/* nearly always the first: others are of what was interrupted */
	wanted = look == RT_FIRST ? 0 : mark;
	for (i = 0; i < RT_LOOKED_SLOTS; i++) {
		if (looked->mark[i] == wanted)
			break;
	}
	/* 64 bits and opaque, as in rt_row() */
	at = i;
	barrier_var(at);
	at &= RT_LOOKED_SLOTS - 1;
	if (look == RT_FIRST) {
		looked->mark[at] = mark;
		return false;
	}
	if (i < RT_LOOKED_SLOTS) {
		looked->mark[at] = 0;
		return true;
	}
	count_loss(caught[kind]);
	return false;
}

/* Around all of a twin. */
static __always_inline void rt_again(__u32 kind, __u64 on)
{
	struct rt_looked *looked = bpf_map_lookup_elem(&rt_looked, &kind);

	if (looked)
		*(volatile __u64 *)&looked->again = on;
}

#define rt_twin(kind, call) ({	\
	int ret_;		\
				\
	rt_again(kind, 1);	\
	ret_ = (call);		\
	rt_again(kind, 0);	\
	ret_;			\
})

#endif
