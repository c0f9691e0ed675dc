/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Slots of requests that the driver has. */
#ifndef RAIDTRACE_INFLIGHT_BPF_H
#define RAIDTRACE_INFLIGHT_BPF_H

/*
 * In-flight slot of a request. The hardware queue and the tag on its disk identify a request that
 * the driver has, so that an array suffices instead of a hash.
 */
static __always_inline struct rt_inflight *inflight(struct rt_dev *d, struct request *rq)
{
	__u32 tag = rq->tag, slot = tag;

	if (tag >= d->depth)
		return NULL;
	if (d->nr_slots != d->depth)	/* several hardware queues */
		slot += rq->mq_hctx->queue_num * d->depth;
	if (slot >= d->nr_slots)
		return NULL;
	slot += d->slot_base;
	return bpf_map_lookup_elem(&rt_inflights, &slot);
}

#endif
