// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Completed requests on the members: classified and counted. With issue.bpf.c the hot path: two
 * programs per request. The shadow programs (_2, shadow.bpf.h) handle events for which the kernel
 * skipped the program, because it was already running on the same CPU.
 *
 * All programs are tp_btf: they read typed arguments with plain loads, whereas raw tracepoints need
 * a helper call per field.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "optional.bpf.h"
#include "stripe.bpf.h"
#include "page.bpf.h"
#include "record.bpf.h"
#include "request_walk.bpf.h"
#include "inflight.bpf.h"
#include "flush.bpf.h"
#include "shadow.bpf.h"

/* Adds one request and its times to a row. row: NULL if no row was free. */
static __always_inline void count_request(struct rt_row *row, struct rt_inflight *f,
					  struct request *rq, struct rt_dev *d, __u64 now)
{
	if (!row) {
		count_loss(RT_LOST_ROWS);
		return;
	}
	rt_bump(row->requests, 1);
	if (!f)
		return;
	rt_count_us(row->device, now - f->issue_ns);
	/*
	 * The time in the queue starts at the kernel's timestamp, which is valid only if the queue
	 * keeps statistics. A timestamp of our own at allocation would take a third program per
	 * request.
	 */
	if (d->flags & RT_DEV_START_TIME && rq->start_time_ns &&
	    rq->start_time_ns <= f->issue_ns)
		rt_count_us(row->queue, f->issue_ns - rq->start_time_ns);
}

/*
 * Emits the event of a recording. f: NULL if the issue was not seen; what: rt_what() and flags.
 * Called before counting: keeping the values until after counting would cost stack, and a fifth
 * more steps of the verifier.
 */
static __always_inline void emit(struct request *rq, struct rt_dev *d, struct rt_inflight *f,
				 __u64 now, __u64 sector, __u64 what)
{
	rt_emit_request(now, f ? f->issue_ns : 0,
			d->flags & RT_DEV_START_TIME ? rq->start_time_ns : 0,
			sector | rt_event_flags(rq->cmd_flags) << RT_EVENT_SECTOR_BITS, what);
}

/* Counts a completed flush request of blk-flush.c, which has no bio and no sector. */
static __noinline void complete_flush(struct request *rq, struct rt_dev *d,
				      struct rt_inflight *f, __u64 now, __u32 instance)
{
	struct request *first = flushed_request(rq);
	/* biotail, because bio is already NULL for the flush that follows the data */
	struct bio *bio = first ? BPF_CORE_READ(first, biotail) : NULL;
	struct rt_dev *own = flushed_dev(d, &bio);
	struct rt_part *part;
	__u64 sector;
	__u32 origin;

	if (bio && BPF_CORE_READ(bio, bi_io_vec)) {
		sector = own == d ? BPF_CORE_READ(first, __sector) : BPF_CORE_READ(bio, bi_iter.bi_sector);
		part = flushed_write(own, sector, &origin);
	} else {
		part = flushed_part(own, bio, &origin);
	}
	if (!part)
		return;
	if (rt_recording)
		emit(rq, d, f, now, 0, rt_what(part->member, origin, RT_OP_FLUSH, 0));
	count_request(rt_row(part->member, origin, RT_OP_FLUSH, instance), f, rq, d, now);
}

/*
 * True if the driver got this request, which has no data bytes: blk_mq_start_request() has set its
 * deadline, which blk_mq_rq_ctx_init() had cleared. Only a request with segments can have been
 * sent.
 */
static __always_inline bool was_sent(struct request *rq)
{
	return rq->nr_phys_segments && (!bpf_core_field_exists(rq->deadline) || rq->deadline);
}

/*
 * Counts a completed request without data bytes. The request either only asked for a flush, which
 * the kernel's statistics count as a write of 0 sectors; or this is the second completion of a
 * write whose FUA or PREFLUSH was emulated (blk-flush.c), which has been counted already. Only the
 * second kind was sent to the driver. The bio does not distinguish the two: since 6.18, the first
 * completion changes only the bio's size, and dm-crypt's bio for the flush before a write is a
 * clone of that write's bio, with its sector and pages (__send_empty_flush()); since 7.2 it has
 * segments.
 */
static __noinline void complete_empty(struct request *rq, struct rt_dev *d, __u64 now,
				      __u32 instance)
{
	struct bio *bio = (struct bio *)rt_peek((__u64)&rq->bio);
	struct rt_dev *own = flushed_dev(d, &bio);
	struct rt_part *part;
	__u32 origin;

	if (was_sent(rq))
		return;
	/* device mapper sends a flush of its own before a write, such as that of md's superblock */
	if (own != d && BPF_CORE_READ(bio, bi_io_vec))
		part = flushed_write(own, BPF_CORE_READ(bio, bi_iter.bi_sector), &origin);
	else
		part = flushed_part(own, bio, &origin);
	if (!part)
		return;
	if (rt_recording)
		emit(rq, d, NULL, now, 0, rt_what(part->member, origin, RT_OP_WRITE, 0));
	count_request(rt_row(part->member, origin, RT_OP_WRITE, instance), NULL, rq, d, now);
}

/* CLOCK_MONOTONIC when all programs were attached; set by userspace. */
__u64 rt_attached_ns;

/* True if the request started before the programs were attached, so that nothing was lost. */
static __always_inline bool started_before_attach(struct request *rq, struct rt_dev *d)
{
	return d->flags & RT_DEV_START_TIME && rq->start_time_ns < rt_attached_ns;
}

/* arg: address of the tracepoint argument that holds the request */
static __always_inline int on_complete(struct request *rq, int error, unsigned int nr_bytes,
				       unsigned long long *arg, __u32 instance)
{
	struct rt_dev *d;
	__u64 sector, start, now, found, address = 0;
	__u32 op, origin, member, flags, reason;
	struct rt_row *row = NULL;
	struct rt_inflight *f;
	struct rt_part *part;
	struct bio *bio;
	bool is_one_bio, is_one_origin;

	/*
	 * The mark is the address of the request and its start time, because a stale mark may belong
	 * to the previous request with this tag, which has the same address.
	 */
	if (rt_has_shadow(instance, RT_SEEN_COMPLETE) &&
	    rt_already_seen(instance, RT_SEEN_COMPLETE, rt_peek((__u64)arg) ^ rq->start_time_ns))
		return 0;
	d = rt_dev_of(rt_disk_number(rt_rq_disk(rq)));
	if (!d || !d->nr_parts || !rt_counts_completion(RT_SEEN_COMPLETE))
		return 0;
	/*
	 * Before the branches: for each pointer that is loaded from rq, the verifier searches all types
	 * of the kernel by name (btf_nested_type_is_trusted(); one by one, where the types are not
	 * sorted), and does so again on each path that it follows.
	 */
	bio = rq->bio;
	is_one_bio = bio == rq->biotail;
	if ((rq->cmd_flags & RT_REQ_OP_MASK) >= RT_REQ_OP_PASSTHROUGH)
		return 0;	/* passthrough: no sectors, not in the disk statistics */
	now = bpf_ktime_get_ns();
	op = rt_op_of(rq->cmd_flags);
	f = inflight(d, rq);
	if (f && f->rq != (__u64)rq)
		f = NULL;

	if (!bio) {
		if (op == RT_OP_FLUSH)
			complete_flush(rq, d, f, now, instance);
		return 0;
	}
	if (!nr_bytes) {
		if (!rq->__data_len)
			complete_empty(rq, d, now, instance);
		return 0;
	}
	part = rt_part_at(d, rq->__sector);
	if (!part)
		return 0;
	member = part->member;
	start = part->start;
	flags = part->flags;
	sector = rq->__sector - start;
	is_one_origin = is_one_bio;
	if (instance == RT_SHADOW) {
		/*
		 * The first bio's address does not determine the origin of a request with several
		 * bios or of a stripe. For a read through the device's page cache, only the content
		 * does.
		 */
		if (is_one_bio && !flags &&
		    (op != RT_OP_READ || (!error && rt_is_file_page(bio))))
			origin = rt_one_origin(member, sector, op, nr_bytes);
		else
			origin = rt_no_origin();
		is_one_origin = true;
		goto counted;
	}
	/*
	 * read as a number, because global functions take no pointers on 5.10; most writes do not need it
	 */
	if (flags || !is_one_bio || op == RT_OP_READ)
		address = rt_peek((__u64)&rq->bio);

	reason = RT_BY_ADDRESS;
	if (flags && is_one_bio)
		reason = rt_md_reason(address, (__u64)bio->bi_end_io, op, part->array, flags);
	if (reason != RT_BY_ADDRESS) {
		origin = reason;
	} else {
		/*
		 * The common request: one bio, one origin. The bio itself is not read, which would
		 * be a cache miss: it was last written on the CPU that submitted it.
		 */
		found = rt_member_origin(member, sector, op, nr_bytes >> 9);
		origin = rt_found_origin(found);
		is_one_origin &= rt_found_run(found) >= nr_bytes >> 9;
		if (is_one_origin && needs_content(op, origin) &&
		    (error || origin == RT_ORIGIN_UNKNOWN || !rt_is_file_page(bio))) {
			found = error ? rt_found(RT_ORIGIN_UNKNOWN, nr_bytes >> 9) :
				rt_read_origin(address, member, sector, nr_bytes, found);
			origin = rt_found_origin(found);
			is_one_origin = rt_found_run(found) >= nr_bytes >> 9;
		}
	}
	if (!is_one_origin && !address)
		address = rt_peek((__u64)&rq->bio);
	if (!is_one_origin)
		origin = rt_walk(address, member, start,
				 op | (flags | (error ? RT_WALK_FAILED : 0) |
				       (d->nr_parts > 1 || start ? RT_WALK_PARTS : 0)) << RT_WALK_FLAGS_SHIFT,
				 nr_bytes);
counted:
	if (rt_recording)
		emit(rq, d, f, now, rq->__sector,
		     rt_what(member, origin, op, nr_bytes) |
		     (error ? 1ULL << RT_WHAT_ERROR : 0) |
		     (nr_bytes < rq->__data_len ? 1ULL << RT_WHAT_PARTIAL : 0));
	origin &= RT_ORIGIN_MASK;
	row = rt_row(member, origin, op, instance);
	if (row && is_one_origin)
		rt_bump(row->bytes, nr_bytes);

	/* A partial completion does not end the request. */
	if (nr_bytes < rq->__data_len)
		return 0;
	if (!f && !started_before_attach(rq, d))
		count_loss(RT_LOST_ISSUE);
	count_request(row, f, rq, d, now);
	if (f)
		f->rq = 0;	/* a timestamp is for one completion */
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(rt_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	return on_complete(rq, error, nr_bytes, &ctx[0], RT_FIRST);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(rt_rq_complete_2, struct request *rq, int error, unsigned int nr_bytes)
{
	return rt_shadow(RT_SEEN_COMPLETE,
		       on_complete(rq, error, nr_bytes, &ctx[0], RT_SHADOW));
}
