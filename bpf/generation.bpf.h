/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Generations of programs. A change of the topology that the running programs cannot be updated
 * for needs new programs. Both generations are attached for a moment, and one of them counts. The
 * kernel calls programs in the order of attachment: for each event, the program of generation G
 * runs before that of generation G + 2. rt_counting is
 *
 * - G: the old programs count. The new ones only record what they need for events after the
 *   switchover: times of issue, reads in flight, reasons of md's bios.
 * - G + 1: handover. The old programs pass each completion on, and the new ones count the
 *   completions that were passed on. Without that, both would count a completion for which
 *   rt_counting changes between their runs.
 * - G + 2: the new programs count. Set when no program runs that has read G.
 */
#ifndef RAIDTRACE_GENERATION_BPF_H
#define RAIDTRACE_GENERATION_BPF_H

extern __u32 rt_counting;	/* in a map that all generations use */
extern const volatile __u32 rt_generation;	/* of these programs, an even number */

/*
 * True if these programs count. A bio for which rt_counting changes between both programs is
 * counted twice.
 */
static __always_inline bool rt_counts(void)
{
	return ((rt_counting + 1) & ~1) == rt_generation;
}

/* Slow path of rt_counts_completion(). */
int rt_hand_over(__u32 kind);

/*
 * True if this program counts a completion. Both generations call this once per completion. kind:
 * enum rt_seen_kinds
 */
static __always_inline bool rt_counts_completion(__u32 kind)
{
	return rt_counting == rt_generation || rt_hand_over(kind);
}

#endif
