// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests with several bios or several origins. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "compat.bpf.h"
#include "counters.bpf.h"
#include "content.bpf.h"
#include "stripe.bpf.h"
#include "record.bpf.h"
#include "tasks.bpf.h"
#include "request_walk.bpf.h"
#include "xfs.bpf.h"

/*
 * Not inline: all frames of a call chain share 512 bytes of stack, and the deepest chain does not
 * include this function.
 */
__noinline int rt_read_done(__u64 key, __u64 origin, __u32 remember)
{
	__u64 *value = bpf_map_lookup_elem(&rt_learned, &key), was = value ? *value : 0;
	struct rt_task_key task = {
		.array = key >> RT_LEARNED_ARRAY_SHIFT,
		.origin_op = origin << 3 | RT_OP_READ,
	};
	struct rt_io io = { .bios = 1 };

	if (remember)
		rt_learn(key, origin);
	else if (value && !(was & 0xff))	/* no origin: only the read in flight */
		bpf_map_delete_elem(&rt_learned, &key);
	task.pid = rt_reader(was);
	if (task.pid) {
		io.bytes = rt_reader_bytes(was);
		rt_add_task(&task, &io);
		if (rt_recording)
			rt_emit_submission(key, 0, (__u64)task.pid << 32 | io.bytes,
					   rt_submitted(origin, RT_OP_READ, 0), 0);
	}
	return 0;
}

/* extent: offset in the bio << 32 | bytes; `one`: bytes of its first block */
__u64 rt_read_origin(__u64 bio, __u32 member, __u64 sector, __u64 extent,
		     __u64 by_address)
{
	__u32 size = extent, block = rt_found_block(by_address) << 9, one, a;
	__u64 whole = rt_found(rt_found_origin(by_address), size >> 9), key, found;
	struct rt_array *array;
	bool alone;

	key = rt_member_to_array(member, sector);
	a = key >> RT_LEARNED_ARRAY_SHIFT;
	array = bpf_map_lookup_elem(&rt_arrays, &a);
	if (!array)
		return whole;
	one = size < block ? size : block;
	if (rt_has_xfs && rt_found_xfs(by_address)) {
		if (rt_found_origin(by_address) != RT_ORIGIN_UNKNOWN)
			return whole;
		found = rt_xfs_content(rt_bio_address(bio, extent >> 32), block);
		rt_read_done(key, found, one == block);
		return rt_found(found, one >> 9);
	}
	if (!(array->flags & RT_ARRAY_EXT))
		return whole;
	/*
	 * RT_CONTENT_LATER: the pages hold cipher text; RT_CONTENT_SURE: found to be metadata at
	 * submission
	 */
	found = rt_bio_metadata(bio, (extent >> 32) << 32 | one,
				array->geometry.array_sectors / rt_found_block(by_address),
				array->flags & RT_ARRAY_CRYPT ? RT_CONTENT_LATER :
				rt_found_origin(by_address) == RT_ORIGIN_UNKNOWN ? RT_CONTENT_SURE :
				RT_CONTENT);
	/* the page is not the block device's: file data, as found by address */
	if (found == RT_NOT_METADATA && rt_found_origin(by_address) != RT_ORIGIN_UNKNOWN)
		return whole;
	/*
	 * ext4 itself reads single blocks. A larger read is readahead, or dd of the device: a block
	 * in it that is not recognised is file data. A block that looks like metadata is counted as
	 * metadata, but not learned, because it may belong to a file (an image).
	 */
	alone = BPF_CORE_READ((struct bio *)bio, bi_iter.bi_size) <= block;
	if (found == RT_NOT_METADATA)
		/* for example a copy made by md, whose page does not show the origin */
		found = RT_ORIGIN_UNKNOWN;
	else if (found == RT_ZEROES || (found == RT_ORIGIN_OTHER_METADATA && !alone))
		found = alone ? RT_ORIGIN_UNKNOWN : RT_ORIGIN_FILE_DATA;
	/* below dm-crypt, blocks are learned at the device above it */
	if (!(array->flags & RT_ARRAY_CRYPT))
		rt_read_done(key, found, alone && one == block && found != RT_ORIGIN_UNKNOWN);
	return rt_found(found, one >> 9);
}

/* Adds to the rows of RT_FIRST: shadow programs do not walk. */
static __always_inline void add_bytes(__u32 member, __u32 origin, __u32 op, __u64 bytes)
{
	struct rt_row *row = rt_row(member, origin, op, RT_FIRST);

	if (row)
		rt_bump(row->bytes, bytes);
	else
		count_loss(RT_LOST_ROWS);
}

/*
 * Adds a run of bytes of one origin. Not inline: rt_walk_step(), in the deepest call chain, has no
 * stack left.
 */
static __noinline void add_run(__u32 which, struct rt_walk *w, __u32 origin, __u64 bytes)
{
	if (!bytes)
		return;
	add_bytes(w->member, origin, w->op, bytes);
	if (rt_recording)
		rt_gather_run(which, origin, bytes);
}

/* Goes to the next bio of the request; returns false if there is none. */
static __always_inline bool next_bio(struct rt_walk *w)
{
	struct bio *bio = (struct bio *)w->bio;
	struct rt_segment *last;

	if (!bio || !w->left)
		return false;
	last = rt_last_segment();
	if (last)
		last->bio = 0;	/* invalidate the cached segment: an earlier bio may have had the same address */
	w->size = BPF_CORE_READ(bio, bi_iter.bi_size);
	w->sector = BPF_CORE_READ(bio, bi_iter.bi_sector) - w->start;
	w->current = w->bio;
	w->offset = 0;
	w->bio = (__u64)BPF_CORE_READ(bio, bi_next);
	if (w->size > w->left)
		w->size = w->left;
	w->left -= w->size;
	w->md_reason = RT_BY_ADDRESS;
	if (w->flags & RT_PART_MD_REASONS)
		w->md_reason = rt_md_reason(w->current, (__u64)BPF_CORE_READ(bio, bi_end_io), w->op, w->array,
				w->flags);
	return w->size;
}

/*
 * Switches to the member that the current bio belongs to. If there is none, skips the bio and
 * returns 1. Needed because requests are merged across partitions (blk_rq_merge_ok()), and a
 * discard request may join any sectors of a disk.
 */
__noinline int rt_walk_part(__u32 which)
{
	struct rt_walk *w = bpf_map_lookup_elem(&rt_walks, &which);
	struct rt_part *part;
	struct rt_dev *d;
	__u64 sector;

	if (!w)
		return 1;
	sector = w->sector + w->start;
	d = rt_dev_of(rt_read_disk_number(rt_number_disk(w->current)));
	if (!d) {
		/* the bios of a cloned request refer to the stacked disk: all belong to one member */
		w->sectors = ~0ULL;
		return 0;
	}
	part = rt_part_at(d, sector);
	if (!part) {
		w->size = 0;
		return 1;
	}
	w->sectors = part->end - part->start;
	if (part->member == w->member)
		return 0;
	add_run(which, w, w->origin, w->bytes);
	if (rt_recording)
		rt_gather_member(which, part->member, sector);
	w->bytes = 0;
	w->member = part->member;
	w->array = part->array;
	w->start = part->start;
	w->sector = sector - part->start;
	return 0;
}

/*
 * Processes the next piece of a request, up to the end of the bio or to the next change of origin.
 * Returns 1 if there is none. A separate function on a structure in memory, so that the verifier
 * checks one step instead of every walk.
 */
__noinline int rt_walk_step(__u32 which)
{
	struct rt_walk *w = bpf_map_lookup_elem(&rt_walks, &which);
	__u32 origin;
	__u64 found, bytes, run;

	if (!w)
		return 1;
	if (!w->size) {
		if (!next_bio(w))
			return 1;
		if (w->flags & RT_WALK_PARTS && w->sector >= w->sectors && rt_walk_part(which))
			return 0;
	}
	if (w->md_reason != RT_BY_ADDRESS) {
		origin = w->md_reason;
		bytes = w->size;
	} else {
		found = rt_origin_at(w->member, w->sector, w->op, w->size >> 9);
		origin = rt_found_origin(found);
		run = rt_found_run(found);
		bytes = run < (w->size >> 9) ? run << 9 : w->size;
		if (needs_content(w->op, origin)) {
			if (w->flags & RT_WALK_FAILED)
				found = rt_found(RT_ORIGIN_UNKNOWN, bytes >> 9);
			else
				found = rt_read_origin(w->current, w->member, w->sector,
						       w->offset << 32 | bytes, found);
			origin = rt_found_origin(found);
			bytes = rt_found_run(found) << 9;
			if (!bytes || bytes > w->size)
				return 1;
		}
	}
	if (!w->pieces)
		w->first = origin;
	w->pieces++;
	if (origin != w->origin) {
		add_run(which, w, w->origin, w->bytes);
		w->origin = origin;
		w->bytes = 0;
	}
	w->bytes += bytes;
	w->size -= bytes;
	w->offset += bytes;
	w->sector += bytes >> 9;
	return 0;
}

/*
 * Takes up to RT_WALK_STEPS steps; returns 1 if none is left. The verifier follows every iteration
 * of a loop: RT_WALK_ROUNDS calls take it a fraction of the time of RT_PIECES iterations.
 */
__noinline int rt_walk_some(__u32 which)
{
	__u32 i;

	for (i = 0; i < RT_WALK_STEPS; i++) {
		if (rt_walk_step(which))
			return 1;
	}
	return 0;
}

__noinline __u32 rt_walk_begin(__u64 bio, __u32 member, __u64 start, __u32 op_flags, __u32 bytes)
{
	__u32 op = op_flags & ((1 << RT_WALK_FLAGS_SHIFT) - 1), flags = op_flags >> RT_WALK_FLAGS_SHIFT;
	__u32 which = flags & RT_WALK_NESTED_ARRAY ? RT_SCRATCH_NESTED_ARRAY : 0;
	struct rt_walk *w = bpf_map_lookup_elem(&rt_walks, &which);
	struct rt_member *m = bpf_map_lookup_elem(&rt_members, &member);

	if (w && w->busy) {
		which |= RT_SCRATCH_INTERRUPT;
		w = bpf_map_lookup_elem(&rt_walks, &which);
	}
	if (!w || !m || w->busy) {
		/* no such member, or completions nested three deep: task, softirq, hardirq */
		add_bytes(member, RT_ORIGIN_UNKNOWN, op, bytes);
		count_loss(RT_LOST_BUSY);
		return RT_SCRATCHES;
	}
	__builtin_memset(w, 0, sizeof(*w));
	w->busy = 1;
	w->bio = bio;
	w->member = member;
	w->array = m->array;
	w->start = start;
	w->op = op;
	w->flags = flags;
	w->left = bytes;
	if (rt_recording)
		rt_gather_begin(which, member, BPF_CORE_READ((struct bio *)bio, bi_iter.bi_sector),
				op);
	return which;
}

__noinline __u32 rt_walk_end(__u32 which)
{
	struct rt_walk *w = bpf_map_lookup_elem(&rt_walks, &which);

	if (!w)
		return RT_ORIGIN_UNKNOWN;
	add_run(which, w, w->origin, w->bytes);
	if (w->left + w->size) {
		add_run(which, w, RT_ORIGIN_UNKNOWN, w->left + w->size);
		count_loss(RT_LOST_PIECES);
	}
	if (!rt_recording) {
		w->busy = 0;
		return w->first;
	}
	w->busy = RT_WALK_GATHERED;
	return w->first | RT_WALKED | (which & RT_SCRATCH_INTERRUPT ? RT_WALKED_INTERRUPT : 0);
}
