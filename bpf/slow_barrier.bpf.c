// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Flushes and FUA writes of members: md's superblock, and what md makes of a journal's
 * commit record. A flush request of the disk belongs to nobody, because blk-flush merges
 * them; so these are bios.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow.bpf.h"

enum {
	RT_BIO_FUA = 1 << 17,		/* REQ_FUA and REQ_PREFLUSH, the same in 5.10 to 7.2 */
	RT_BIO_PREFLUSH = 1 << 18,
	RT_BARRIER_LEAST_NS = 1000000,
};

static __always_inline __u32 device_of(struct bio *bio)
{
	struct gendisk *disk;
	__u32 dev;

	if (rt_bio_has_part()) {
		dev = bio->bi_bdev->bd_dev;
		if (rt_slow_traced(dev, RT_SLOW_MEMBER | RT_SLOW_FS))
			return dev;
	}
	disk = rt_bio_disk(bio);
	return (__u32)disk->major << 20 | disk->first_minor;
}

static __always_inline int submitted(struct bio *bio)
{
	__u64 key = (__u64)bio;
	struct rt_slow_bio b = {};
	__u32 pid;
	struct rt_slow_task *t;
	struct rt_slow_commit *c;

	if (!(bio->bi_opf & (RT_BIO_FUA | RT_BIO_PREFLUSH)))
		return 0;
	b.dev = device_of(bio);
	if (rt_slow_traced(b.dev, RT_SLOW_FS)) {
		/* the commit record, or the flush before it */
		pid = bpf_get_current_pid_tgid();
		t = rt_slow_current(pid);
		c = t && t->kind == RT_SLOW_JBD2 ? bpf_map_lookup_elem(&rt_slow_commits, &pid) :
						   (void *)0;
		if (c && c->state_ns[RT_SLOW_LOGGED] && !c->record_ns)
			c->record_ns = bpf_ktime_get_ns();
	}
	if (!rt_slow_traced(b.dev, RT_SLOW_MEMBER))
		return 0;
	b.start_ns = bpf_ktime_get_ns();
	b.bytes = bio->bi_iter.bi_size;
	b.flags = bio->bi_opf;
	if (bpf_map_update_elem(&rt_slow_barriers, &key, &b, BPF_NOEXIST))
		rt_slow_lost(barriers);
	else
		__sync_fetch_and_add(&rt_slow_in_flight, 1);
	return 0;
}

/* bio: a number, because the request's bio has no type for the verifier on old kernels. */
static __always_inline int completed(__u64 bio)
{
	struct rt_slow_bio *b = bpf_map_lookup_elem(&rt_slow_barriers, &bio);
	struct rt_slow_barrier e = { .event = RT_SLOW_EVENT_BARRIER };

	if (!b)
		return 0;
	e.dev = b->dev;
	e.start_ns = b->start_ns;
	e.end_ns = bpf_ktime_get_ns();
	e.bytes = b->bytes;
	e.flags = b->flags;
	if (bpf_map_delete_elem(&rt_slow_barriers, &bio))
		return 0;
	__sync_fetch_and_add(&rt_slow_in_flight, -1);
	if (e.end_ns - e.start_ns >= RT_BARRIER_LEAST_NS &&
	    bpf_ringbuf_output(&rt_slow_events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		rt_slow_lost(events);
	return 0;
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_slow_bio, struct bio *bio)
{
	return submitted(bio);
}

/* before 5.15: (q, bio) */
SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_slow_bio_of_queue, struct request_queue *q, struct bio *bio)
{
	return submitted(bio);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(rt_slow_rq_done, struct request *rq)
{
	return rt_slow_in_flight ? completed((__u64)rq->bio) : 0;
}

/* A member without requests: device mapper, or another array. */
SEC("?tp_btf/block_bio_complete")
int BPF_PROG(rt_slow_bio_done, struct request_queue *q, struct bio *bio)
{
	return rt_slow_in_flight ? completed((__u64)bio) : 0;
}
