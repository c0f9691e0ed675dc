/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shadow programs. The kernel skips a program that already runs on the same CPU
 * (__bpf_trace_run(), bpf_prog_get_recursion_context()):
 *
 * - when an interrupt completes a request in the middle of another completion.
 *   Requests of disks with one hardware queue, and those submitted by a CPU that
 *   shares no cache with this one (with rq_affinity 2, by any other), complete in
 *   BLOCK_SOFTIRQ, with interrupts on; other requests complete in the interrupt
 *   (blk_mq_complete_request_remote());
 * - if tracepoints are called with preemption on (commit a46023d5616e,
 *   "tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast"),
 *   when a task is switched out in the middle of a program, for milliseconds.
 *
 * The first case needs a disk that completes in the interrupt: as a rule, one with
 * several hardware queues. Without such a disk the shadow of rt_rq_complete is attached
 * only after the kernel has skipped a run (recursion_misses), because a shadow program adds
 * 60 ns to each completion.
 *
 * A shadow program runs after its program on the same tracepoint and does the work of
 * skipped runs. Maps to which both write have an entry per program.
 */
#ifndef RAIDTRACE_SHADOW_BPF_H
#define RAIDTRACE_SHADOW_BPF_H

#include "counters.bpf.h"
#include "peek.bpf.h"

/* True if a shadow program is loaded and, for the first program, attached. */
static __always_inline bool rt_has_shadow(__u32 instance, __u32 kind)
{
	return rt_shadows >> kind & 1 && (instance == RT_SHADOW || rt_shadows_attached >> kind & 1);
}

/*
 * True if the first program has handled this bio or request. Both programs call this before
 * anything else. The first program marks each bio or request. The shadow program removes the mark,
 * because the same bio may come again. Bios of unwatched devices are marked too: otherwise a lost
 * bio could not be distinguished from a recovered one. Marks are per CPU: if a task is moved to
 * another CPU between the two programs, its bio is counted twice and its mark stays. mark: unique
 * among bios or requests in flight.
 */
static __always_inline bool rt_already_seen(__u32 instance, __u32 kind, __u64 mark)
{
	__u64 wanted, at;
	struct rt_seen *seen;
	__u32 i, key = kind;	/* a copy, so that `kind` stays a constant */

	if (!rt_has_shadow(instance, kind))
		return false;
	seen = bpf_map_lookup_elem(&rt_seen, &key);
	if (!seen)
		return instance == RT_SHADOW;
	/*
	 * this event interrupted the shadow program, which the kernel will skip for it: nothing would
	 * remove a mark
	 */
	if (instance == RT_FIRST && seen->shadowing)
		return false;
	/* nearly always the first slot: the others hold marks of interrupted programs */
	wanted = instance == RT_FIRST ? 0 : mark;
	for (i = 0; i < RT_SEEN_SLOTS; i++) {
		if (seen->mark[i] == wanted)
			break;
	}
	/*
	 * All slots have marks that will never be removed: from before the shadow program was
	 * attached, or of moved tasks. Slots are overwritten in turn, because a fixed one could
	 * hold the mark of the interrupted completion.
	 */
	if (instance == RT_FIRST && i == RT_SEEN_SLOTS)
		i = seen->overwrite++;
	/* 64 bits and opaque, as in rt_row() */
	at = i;
	barrier_var(at);
	at &= RT_SEEN_SLOTS - 1;
	if (instance == RT_FIRST) {
		seen->mark[at] = mark;
		return false;
	}
	if (i < RT_SEEN_SLOTS) {
		seen->mark[at] = 0;
		return true;
	}
	rt_bump_loss(recovered[kind]);
	return false;
}

/* Set while a shadow program runs. */
static __always_inline void rt_shadowing(__u32 kind, __u64 on)
{
	struct rt_seen *seen = bpf_map_lookup_elem(&rt_seen, &kind);

	if (seen)
		*(volatile __u64 *)&seen->shadowing = on;
}

#define rt_shadow(kind, call) ({	\
	int ret_;		\
				\
	rt_shadowing(kind, 1);	\
	ret_ = (call);		\
	rt_shadowing(kind, 0);	\
	ret_;			\
})

#endif
