// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends the events of a recording to userspace, see struct rt_event_request. No wake-up: userspace
 * polls the ring buffers, because a wake-up costs more than the rest of an event.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "files.bpf.h"
#include "record.bpf.h"

/* The ring buffer of this CPU. */
static __always_inline void *this_ring(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rt_events, &cpu);
}

/* Reserves an event; NULL if there is no room. */
static __always_inline void *reserve(__u64 size)
{
	void *ring = this_ring(), *e = ring ? bpf_ringbuf_reserve(ring, size, 0) : (void *)0;

	if (!e)
		count_loss(RT_LOST_RING);
	return e;
}

/*
 * sector_flags: sector | flags << RT_EVENT_SECTOR_BITS; what: rt_what() and the flags after
 * RT_WHAT_ORIGIN.
 */
static __always_inline void fill(struct rt_event_request *e, __u64 now, __u64 issue, __u64 start,
				 __u64 sector_flags, __u64 what)
{
	e->kind = what >> RT_WHAT_PARTIAL & 1 ? RT_EVENT_PART : RT_EVENT_REQUEST;
	e->op = what >> RT_WHAT_OP & 7;
	e->origin = what >> RT_WHAT_ORIGIN & RT_ORIGIN_MASK;
	e->error = what >> RT_WHAT_ERROR & 1;
	e->flags = sector_flags >> RT_EVENT_SECTOR_BITS;
	e->runs = 0;
	e->length = what;
	e->member = what >> RT_WHAT_MEMBER;
	e->now_ns = now;
	e->sector = sector_flags << (64 - RT_EVENT_SECTOR_BITS) >> (64 - RT_EVENT_SECTOR_BITS);
	e->issue_ns = issue;
	e->start_ns = start;
}

/* Sends an event with its runs. */
static __always_inline void send(struct rt_gather *g)
{
	__u64 runs = g->event.runs;
	void *ring;

	barrier_var(runs);
	if (runs > RT_RUNS)
		runs = 0;
	ring = this_ring();
	if (!ring || bpf_ringbuf_output(ring, g, sizeof(g->event) + runs * sizeof(g->run[0]),
					BPF_RB_NO_WAKEUP))
		count_loss(RT_LOST_RING);
}

/* Sends the runs so far as a part of the request. */
static __always_inline void send_part(struct rt_gather *g, __u64 now)
{
	g->event.now_ns = now;
	send(g);
	g->partly_sent = 1;
}

__noinline int rt_gather_begin(__u32 which, __u32 member, __u64 sector, __u32 op)
{
	struct rt_gather *g = bpf_map_lookup_elem(&rt_gathers, &which);

	if (!rt_recording || !g)
		return 0;
	__builtin_memset(&g->event, 0, sizeof(g->event));
	g->event.kind = RT_EVENT_PART;
	g->event.op = op;
	g->event.member = member;
	g->event.sector = sector;
	g->partly_sent = 0;
	return 0;
}

__noinline int rt_gather_run(__u32 which, __u32 origin, __u32 bytes)
{
	struct rt_gather *g = bpf_map_lookup_elem(&rt_gathers, &which);
	__u64 run;

	if (!rt_recording || !g)
		return 0;
	if (g->event.runs >= RT_RUNS) {
		send_part(g, bpf_ktime_get_ns());
		g->event.sector += g->event.length >> 9;
		g->event.length = 0;
		g->event.runs = 0;
	}
	run = g->event.runs;
	barrier_var(run);
	g->run[run & (RT_RUNS - 1)] = origin << RT_RUN_SHIFT | bytes >> 9;
	g->event.runs = run + 1;
	g->event.length += bytes;
	return 0;
}

__noinline int rt_gather_member(__u32 which, __u32 member, __u64 sector)
{
	struct rt_gather *g = bpf_map_lookup_elem(&rt_gathers, &which);

	if (!rt_recording || !g)
		return 0;
	if (g->event.runs)
		send_part(g, bpf_ktime_get_ns());
	g->event.member = member;
	g->event.sector = sector;
	g->event.length = 0;
	g->event.runs = 0;
	return 0;
}

/*
 * Sends the runs that rt_walk() gathered. The runs do not say which request they belong to (the
 * sector of a bio may differ from that of its request), so they are sent only in state
 * RT_WALK_GATHERED, in which the walk over this request has ended. A request for which no scratch
 * entry was free has no runs. Scratch entries: RT_SCRATCH_NESTED_ARRAY for bios of nested
 * arrays, RT_SCRATCH_INTERRUPT for a walk that interrupts another one.
 */
__noinline int rt_emit_walked(__u64 now, __u64 issue, __u64 start, __u64 sector_flags, __u64 what)
{
	__u32 which = (what >> RT_WHAT_NESTED_ARRAY & 1 ? RT_SCRATCH_NESTED_ARRAY : 0) |
		      (what >> RT_WHAT_INTERRUPT & 1 ? RT_SCRATCH_INTERRUPT : 0);
	struct rt_gather *g = bpf_map_lookup_elem(&rt_gathers, &which);
	struct rt_walk *w = bpf_map_lookup_elem(&rt_walks, &which);
	__u32 runs;

	if (!rt_recording || !g || !w || w->busy != RT_WALK_GATHERED)
		return 0;
	runs = g->event.runs;
	/*
	 * if some runs were already sent: send the rest as a part as well, then the request without
	 * runs
	 */
	if (g->partly_sent) {
		send_part(g, now);
		runs = RT_RUNS_SENT;
	}
	fill(&g->event, now, issue, start, sector_flags, what);
	if (runs > 1)
		g->event.runs = runs;
	if (!g->partly_sent || g->event.kind == RT_EVENT_REQUEST)
		send(g);
	w->busy = 0;
	return 1;
}

__noinline int rt_emit_request(__u64 now, __u64 issue, __u64 start, __u64 sector_flags, __u64 what)
{
	struct rt_event_request *e;

	if (!rt_recording)
		return 0;
	if (what >> RT_WHAT_WALKED & 1 && rt_emit_walked(now, issue, start, sector_flags, what))
		return 0;
	e = reserve(sizeof(*e));
	if (!e)
		return 0;
	fill(e, now, issue, start, sector_flags, what);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

__noinline __u64 rt_emit_submission(__u64 key, __u64 inode, __u64 pid_bytes, __u32 what, __u64 now)
{
	struct rt_event_submission *e;

	if (!rt_recording || !rt_counts())
		return 0;
	e = reserve(sizeof(*e));
	if (!e)
		return 0;
	e->kind = now ? RT_EVENT_REFUSED : RT_EVENT_SUBMISSION;
	if (!now)
		now = bpf_ktime_get_ns();
	/* rt_submitted() */
	e->op = what & 0xff;
	e->origin = what >> 8 & RT_ORIGIN_MASK;
	e->nowait = what >> 31;
	e->flags = what >> 16 & RT_EVENT_FLAGS;
	e->array = key >> RT_LEARNED_ARRAY_SHIFT;
	e->length = pid_bytes;
	e->pid = pid_bytes >> 32;
	e->now_ns = now;
	e->sector = rt_learned_sector(key);
	__builtin_memset(&e->file, 0, sizeof(e->file));
	rt_identify(inode, &e->file);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return now;
}
