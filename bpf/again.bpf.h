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
 * A program to which that can happen has a twin behind it on the tracepoint, which
 * does what the first was skipped for. What both would write to is there twice.
 */
#ifndef RAIDTRACE_AGAIN_BPF_H
#define RAIDTRACE_AGAIN_BPF_H

#include "count.bpf.h"
#include "peek.bpf.h"

static __always_inline __u64 *rt_looked_slot(__u32 kind, __u64 address)
{
	struct rt_looked *looked = bpf_map_lookup_elem(&rt_looked, &kind);
	__u32 slot = address >> 6;

	return looked ? &looked->address[slot & (RT_LOOKED_SLOTS - 1)] : NULL;
}

/*
 * First of all in both: whether there is nothing to do. The first one notes what
 * it looks at, the second takes that away, for the same bio comes again. Every bio,
 * also those that are not watched, or what was lost could not be told from what
 * was caught. By CPU: what is moved to another one just between the two, or has its
 * slot taken by another task's bio there, is looked at twice. arg: where the tracepoint's arguments hold the bio or request.
 */
static __always_inline bool rt_looked_at(__u32 look, __u32 kind, unsigned long long *arg)
{
	__u64 address, *slot;

	if (!(rt_twins >> kind & 1))
		return false;
	address = rt_peek((__u64)arg);
	slot = rt_looked_slot(kind, address);
	if (!slot)
		return look == RT_AGAIN;
	if (look == RT_FIRST) {
		*slot = address;
		return false;
	}
	if (*slot == address) {
		*slot = 0;
		return true;
	}
	count_loss(caught[kind]);
	return false;
}

#endif
