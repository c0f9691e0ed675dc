// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Slow IO of members. It is traced as requests, with two exceptions that are traced as bios:
 * flushes and FUA writes (md's superblock, and the writes into which md turns a journal's commit
 * record), and all IO of members without requests. Flushes are traced as bios because blk-flush
 * merges them: a flush request of the disk does not belong to a single bio.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow_async.bpf.h"

enum {
	RT_BIO_FUA = 1 << 17,		/* REQ_FUA and REQ_PREFLUSH, the same in 5.10 to 7.2 */
	RT_BIO_PREFLUSH = 1 << 18,
	RT_SHORT_NS = 1000000,		/* shortest flush or pre-read that is sent */
	RT_MOST_BIOS = 16,		/* bios of a request whose operations are looked for */
};

/*
 * Device number of a bio before remapping: that of the partition if it is traced, else that of the
 * disk.
 */
static __always_inline __u32 bio_device(struct bio *bio)
{
	__u32 dev;

	if (rt_bio_has_part()) {
		dev = bio->bi_bdev->bd_dev;
		if (rt_slow_device(dev))
			return dev;
	}
	return rt_disk_number(rt_bio_disk(bio));
}

/* Records when the journal's thread submits the commit record, which is preceded by a flush. */
static __always_inline void note_record(void)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	struct rt_slow_commit *c;

	if (!t || t->kind != RT_SLOW_JBD2)
		return;
	c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
	if (c && c->state_ns[RT_SLOW_LOGGING] && !c->record_ns)
		c->record_ns = bpf_ktime_get_ns();
}

/*
 * True for a read of the stripe cache that was requested neither by a task nor by a resync: md
 * needs the block for parity. See ops_run_io() of drivers/md/raid5.c; its bios are inside their
 * stripe_head.
 */
static __always_inline bool is_pre_read(struct bio *bio)
{
	__u64 address = (__u64)bio, stripe, first, step, block;

	if (!rt_slow_raid5_end_read || !bpf_core_type_exists(struct stripe_head) ||
	    (__u64)BPF_CORE_READ(bio, bi_end_io) != rt_slow_raid5_end_read)
		return false;
	stripe = (__u64)BPF_CORE_READ(bio, bi_private);
	/* the verifier does not permit arithmetic with a typed pointer: a copy by a helper is a number */
	bpf_probe_read_kernel(&address, sizeof(address), &address);
	first = stripe + bpf_core_field_offset(struct stripe_head, dev);
	step = bpf_core_type_size(struct r5dev);
	block = (address - first) / step;
	return !BPF_CORE_READ((struct r5dev *)(first + block * step), toread) &&
	       !(BPF_CORE_READ((struct stripe_head *)stripe, state) & rt_slow_stripe_syncing);
}

/*
 * Notes when a limit (io.max) releases a bio that it held: a kworker submits it, not the task that
 * had.
 */
static __noinline int released(__u64 bio)
{
	struct rt_slow_async *a;

	if (rt_slow_current(bpf_get_current_pid_tgid()))
		return 0;
	a = rt_slow_async_of_bio(bio);
	if (a)
		a->released_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int submitted(struct bio *bio)
{
	bool flush = bio->bi_opf & (RT_BIO_FUA | RT_BIO_PREFLUSH);
	__u64 key = (__u64)bio;
	struct rt_slow_io b = { .event = RT_SLOW_EVENT_IO };
	__u32 what;

	if (bio->bi_flags & rt_slow_throttled)
		released(rt_number(bio));
	if (!flush && !rt_slow_bio_based)
		return 0;
	b.dev = bio_device(bio);
	what = rt_slow_device(b.dev);
	/*
	 * a bio without data is the flush of the filesystem's device before a record on an external
	 * journal
	 */
	if (flush && what & RT_SLOW_FS && bio->bi_iter.bi_size)
		note_record();
	if (!(what & RT_SLOW_MEMBER) || !(flush || what & RT_SLOW_BIO_BASED))
		return 0;
	b.start_ns = bpf_ktime_get_ns();
	b.bytes = bio->bi_iter.bi_size;
	b.flags = bio->bi_opf;
	b.pre_read = is_pre_read(bio);
	if (!bpf_map_update_elem(&rt_slow_bios, &key, &b, BPF_NOEXIST))
		__sync_fetch_and_add(&rt_slow_in_flight, 1);
	/* the end of an earlier bio at this address was missed */
	else if (bpf_map_update_elem(&rt_slow_bios, &key, &b, BPF_ANY))
		rt_slow_lost(bios);
	return 0;
}

/* Sends an IO if it was slow, unless too many have been sent since the last drain. */
static __always_inline void send(const struct rt_slow_io *e)
{
	bool flush_or_pre_read = e->pre_read || e->flags & (RT_BIO_FUA | RT_BIO_PREFLUSH);

	if (e->end_ns - e->start_ns >= (flush_or_pre_read ? RT_SHORT_NS : rt_slow_io_ns)) {
		if (rt_slow_sent >= RT_SLOW_MOST_IOS) {
			rt_slow_lost(ios);
			return;
		}
		__sync_fetch_and_add(&rt_slow_sent, 1);
		if (bpf_ringbuf_output(&rt_slow_events, (void *)e, sizeof(*e), BPF_RB_NO_WAKEUP))
			rt_slow_lost(events);
	}
}

/*
 * The IO that this CPU completed last; NULL while no CPU has completed one of rt_slow_io_ns or
 * more.
 */
static __always_inline struct rt_slow_own_io *last_io(void)
{
	__u32 zero = 0;

	return rt_slow_noted ? bpf_map_lookup_elem(&rt_slow_own_ios, &zero) : (void *)0;
}

/* Stores an IO of a member in the operation whose bio this is. */
static __noinline int store(__u64 bio, const struct rt_slow_own_io *io)
{
	struct rt_slow_async *a = rt_slow_async_of_bio(bio);

	if (a)
		a->io = *io;
	return 0;
}

/*
 * A member's IO has ended, whose bios will be completed now, and then, on this CPU, those of which
 * they are clones or splits. bio: its first bio. issue_ns: given to the driver; 0: unknown
 */
static __noinline int note(__u64 bio, const struct rt_slow_io *e, __u64 issue_ns)
{
	struct rt_slow_own_io *last;
	__u32 zero = 0;
	int i;

	if (e->pre_read || e->end_ns - e->start_ns < rt_slow_io_ns)
		return 0;
	last = bpf_map_lookup_elem(&rt_slow_own_ios, &zero);
	if (!last)
		return 0;
	last->start_ns = e->start_ns;
	last->issue_ns = issue_ns >= e->start_ns && issue_ns <= e->end_ns ? issue_ns : 0;
	last->end_ns = e->end_ns;
	last->dev = e->dev;
	last->pid = bpf_get_current_pid_tgid();
	rt_slow_noted = 1;
	for (i = 0; i < RT_MOST_BIOS && bio; i++) {
		store(bio, last);
		bio = rt_peek(bio + bpf_core_field_offset(struct bio, bi_next));
	}
	return 0;
}

/*
 * Returns 1 if the bio is in rt_slow_bios. A number, because on old kernels a request's bio has no
 * type for the verifier. issue_ns: given to the driver; 0: with its submission
 */
static __always_inline int completed(__u64 bio, __u64 issue_ns)
{
	struct rt_slow_io e, *b;

	if (!rt_slow_in_flight)
		return 0;
	b = bpf_map_lookup_elem(&rt_slow_bios, &bio);
	if (!b)
		return 0;
	e = *b;
	e.end_ns = bpf_ktime_get_ns();
	if (!bpf_map_delete_elem(&rt_slow_bios, &bio)) {
		__sync_fetch_and_add(&rt_slow_in_flight, -1);
		send(&e);
		/* it may be in a list of other bios */
		note(rt_number((void *)bio), &e, issue_ns ?: e.start_ns);
	}
	return 1;
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_slow_bio_queue, struct bio *bio)
{
	return submitted(bio);
}

/* 5.10: (q, bio) */
SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_slow_bio_queue_q, struct request_queue *q, struct bio *bio)
{
	return submitted(bio);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(rt_slow_rq_done, struct request *rq, int error, unsigned int nr_bytes)
{
	struct rt_slow_io e = { .event = RT_SLOW_EVENT_IO };
	struct rt_slow_own_io *last = last_io();
	struct gendisk *disk;
	__u32 dev;
	__u64 ns;

	/*
	 * blk-flush executes such a request in steps: it completes again after the flush that
	 * follows a FUA write
	 */
	if (last)
		last->end_ns = 0;
	if (rq->rq_flags & rt_slow_flush_seq || completed((__u64)rq->bio, rq->io_start_time_ns ?: ~0ULL))
		return 0;
	/* start_time_ns is 0 if the queue keeps no statistics */
	e.start_ns = rq->start_time_ns;
	e.end_ns = bpf_ktime_get_ns();
	ns = e.end_ns - e.start_ns;
	if (!e.start_ns || ns < RT_SHORT_NS || !nr_bytes)
		return 0;
	e.pre_read = is_pre_read(rq->bio);
	if (!e.pre_read && ns < rt_slow_io_ns)
		return 0;
	disk = rt_rq_disk(rq);
	if (!disk)
		return 0;
	e.dev = rt_disk_number(disk);
	if (!(rt_slow_device(e.dev) & RT_SLOW_DISK))
		return 0;
	/* A disk can have members of several arrays: the bio has the partition. */
	if (rt_bio_has_part() && rq->bio) {
		dev = rq->bio->bi_bdev->bd_dev;
		if (rt_slow_device(dev) & RT_SLOW_MEMBER)
			e.dev = dev;
	}
	e.bytes = nr_bytes;
	e.flags = rq->cmd_flags;
	send(&e);
	note(rt_number(rq->bio), &e, rq->io_start_time_ns);
	return 0;
}

/* Members without requests: device mapper, or another array. */
SEC("?tp_btf/block_bio_complete")
int BPF_PROG(rt_slow_bio_done, struct request_queue *q, struct bio *bio)
{
	struct rt_slow_own_io *last = last_io();

	if (completed((__u64)bio, 0) || !last || !last->end_ns)
		return 0;
	/* a thread of md completes other bios, and after a while this CPU does */
	if (last->pid == (__u32)bpf_get_current_pid_tgid() &&
	    bpf_ktime_get_ns() - last->end_ns < RT_SHORT_NS)
		store(rt_number(bio), last);
	return 0;
}
