// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests that a driver gets: timestamped. See request.bpf.c. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "inflight.bpf.h"
#include "shadow.bpf.h"

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
