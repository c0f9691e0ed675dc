// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests that a driver gets, timestamped, or gives back. See request.bpf.c. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "inflight.bpf.h"
#include "shadow.bpf.h"

/*
 * Requests that the driver gave back and has not got again, by address. The tag does not identify
 * them: with a scheduler they have none meanwhile.
 */
struct rt_requeue {
	__u64 rq;		/* 0: free */
	__u64 start_ns;		/* rq->start_time_ns: later the address is that of another request */
	__u64 since_ns;
};

enum { RT_REQUEUE_SET_BITS = 10, RT_REQUEUE_WAYS = 4 };

struct rt_requeue rt_requeues[RT_REQUEUE_WAYS << RT_REQUEUE_SET_BITS];
__u64 rt_requeued;		/* entries in use: almost always 0, and then nothing is looked up */

/* The entry of a request, or else a free one if `insert`. */
static __always_inline struct rt_requeue *requeue_of(__u64 rq, bool insert)
{
	__u32 set = (rq >> 6) * 0x9e3779b97f4a7c15 >> (64 - RT_REQUEUE_SET_BITS), i;
	struct rt_requeue *ways = &rt_requeues[set * RT_REQUEUE_WAYS], *found = NULL;

	for (i = 0; i < RT_REQUEUE_WAYS; i++) {
		if (ways[i].rq == rq)
			return &ways[i];
		if (insert && !ways[i].rq)
			found = &ways[i];
	}
	return found;
}

/* figure: enum rt_counted_figures. Atomic: the programs here may interrupt each other. */
static __always_inline void add_counted(struct rt_dev *d, struct request *rq, __u32 figure,
					__u64 n)
{
	struct rt_part *part = rt_counts() ? rt_part_at(d, rq->__sector) : NULL;
	struct rt_row *row;

	if (!part)
		return;
	row = rt_row(part->member, RT_ORIGIN_UNKNOWN, rt_op_of(rq->cmd_flags), RT_FIRST);
	if (row)
		__sync_fetch_and_add(&row->counted[figure], n);
	else
		count_loss(RT_LOST_ROWS);
}

/* key: address of the request as a number */
static __noinline void reissue(struct rt_dev *d, struct request *rq, __u64 key)
{
	struct rt_requeue *requeue = requeue_of(key, false);

	if (!requeue)
		return;
	if (requeue->start_ns == rq->start_time_ns)
		add_counted(d, rq, RT_REQUEUE_NS, bpf_ktime_get_ns() - requeue->since_ns);
	requeue->rq = 0;
	__sync_fetch_and_add(&rt_requeued, -1);
}

/* A driver gives a request back, which is issued again later. arg: as in on_issue() */
static __always_inline int on_requeue(struct request *rq, unsigned long long *arg)
{
	__u64 key = rt_peek((__u64)arg);
	struct rt_dev *d = rt_dev_of(rt_disk_number(rt_rq_disk(rq)));
	struct rt_requeue *requeue;

	if (!d || !d->nr_parts || (rq->cmd_flags & RT_REQ_OP_MASK) >= RT_REQ_OP_PASSTHROUGH)
		return 0;
	add_counted(d, rq, RT_REQUEUES, 1);
	requeue = requeue_of(key, true);
	if (!requeue) {
		count_loss(RT_LOST_ISSUE);
		return 0;
	}
	if (!requeue->rq)
		__sync_fetch_and_add(&rt_requeued, 1);
	requeue->rq = key;
	requeue->start_ns = rq->start_time_ns;
	requeue->since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/block_rq_requeue")
int BPF_PROG(rt_rq_requeue, struct request *rq)
{
	return on_requeue(rq, &ctx[0]);
}

/* Before commit a54895fa057c, like rt_rq_issue_q. */
SEC("?tp_btf/block_rq_requeue")
int BPF_PROG(rt_rq_requeue_q, struct request_queue *q, struct request *rq)
{
	return on_requeue(rq, &ctx[1]);
}

/* arg: address of the tracepoint argument that holds the request */
static __always_inline int on_issue(struct request *rq, unsigned long long *arg, __u32 instance)
{
	struct rt_inflight *f;
	struct rt_dev *d;

	if (rt_already_seen(instance, RT_SEEN_ISSUE, rt_peek((__u64)arg)))
		return 0;
	d = rt_dev_of(rt_disk_number(rt_rq_disk(rq)));
	if (!d || !d->nr_parts)
		return 0;
	if (rt_requeued)
		reissue(d, rq, rt_peek((__u64)arg));
	f = inflight(d, rq);
	if (!f)
		return 0;	/* the loss is counted at completion */
	f->rq = (__u64)rq;
	f->issue_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(rt_rq_issue, struct request *rq)
{
	return on_issue(rq, &ctx[0], RT_FIRST);
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(rt_rq_issue_2, struct request *rq)
{
	return rt_shadow(RT_SEEN_ISSUE, on_issue(rq, &ctx[0], RT_SHADOW));
}

/*
 * Arguments before commit a54895fa057c ("block: remove the request_queue to argument request based
 * tracepoints").
 */
SEC("?tp_btf/block_rq_issue")
int BPF_PROG(rt_rq_issue_q, struct request_queue *q, struct request *rq)
{
	return on_issue(rq, &ctx[1], RT_FIRST);
}
