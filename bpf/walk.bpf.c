// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests that are more than one bio with one origin. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "classify.bpf.h"
#include "count.bpf.h"
#include "learn.bpf.h"
#include "tasks.bpf.h"
#include "walk.bpf.h"

/*
 * What the read of a block has shown: to the task that asked, and to later IO.
 * Not inline: all frames of a call chain share 512 bytes of stack, and this
 * one's is not needed by the deepest.
 */
__noinline int rt_told(__u32 array, __u64 sector, __u64 origin, __u32 remember)
{
	__u64 key = rt_learned_key(array, sector), *value, was;
	struct rt_task_key task = {
		.array = array,
		.origin = origin,
		.op = RT_OP_READ,
	};
	struct rt_task_io io = { .bios = 1 };

	value = bpf_map_lookup_elem(&rt_learned, &key);
	was = value ? *value : 0;
	if (remember)
		rt_learn(array, sector, origin);
	else if (value && !(was & 0xff))
		bpf_map_delete_elem(&rt_learned, &key);
	task.pid = was >> 32;
	if (task.pid) {
		io.bytes = (was >> 8 & 0xffffff) << 9;
		rt_add_task(&task, &io);
	}
	return 0;
}

__u64 rt_read_origin(__u64 bio, __u32 member, __u64 sector, __u64 extent, __u32 origin)
{
	struct rt_member *m = bpf_map_lookup_elem(&rt_members, &member);
	__u64 whole = rt_answer(origin, (__u32)extent >> 9), found, one, at;
	__u32 a, size = extent, block;
	struct rt_array *array;
	bool alone;

	if (!m)
		return whole;
	a = m->array;
	array = bpf_map_lookup_elem(&rt_arrays, &a);
	if (!array || !array->block_sectors)
		return whole;
	block = array->block_sectors << 9;
	one = size < block ? size : block;
	found = rt_bio_metadata(bio, (extent >> 32) << 32 | one,
				array->geometry.array_sectors / array->block_sectors, 1);
	if (found == RT_NOT_METADATA && origin != RT_ORIGIN_UNKNOWN)
		return whole;
	/*
	 * One block alone is what ext4 asked for. More are read ahead, or by
	 * dd: there a block that proves nothing is some file's, and one that
	 * looks like metadata may be a file's too (an image), so that it is
	 * taken for what it looks like this time but not remembered.
	 */
	alone = BPF_CORE_READ((struct bio *)bio, bi_iter.bi_size) <= block;
	if (found == RT_NOT_METADATA)
		found = RT_ORIGIN_UNKNOWN;	/* md's copy, say: its page tells nothing */
	else if (found == RT_ZEROES || (found == RT_ORIGIN_OTHER_METADATA && !alone))
		found = alone ? RT_ORIGIN_UNKNOWN : RT_ORIGIN_FILE_DATA;
	at = rt_member_to_array(member, sector);
	rt_told(a, at, found, alone && one == block && found != RT_ORIGIN_UNKNOWN);
	return rt_answer(found, one >> 9);
}

static __always_inline void add_bytes(__u32 member, __u32 origin, __u32 op, __u64 bytes)
{
	struct rt_row *row = rt_row(member, origin, op);

	if (row)
		row->bytes += bytes;
	else
		count_loss(rows);
}

/*
 * The next piece of a merged request: up to where its bio or its origin ends.
 * Returns 1 when there is none. A function of its own, on a structure in
 * memory, so that the verifier proves one step and not every walk.
 */
__noinline int rt_walk_step(void)
{
	__u32 zero = 0, origin;
	struct rt_walk *w = bpf_map_lookup_elem(&rt_walks, &zero);
	struct bio *bio;
	__u64 found, bytes, run;

	if (!w)
		return 1;
	if (!w->size) {
		bio = (struct bio *)w->bio;
		if (!bio || !w->left)
			return 1;
		w->size = BPF_CORE_READ(bio, bi_iter.bi_size);
		w->sector = BPF_CORE_READ(bio, bi_iter.bi_sector) - w->start;
		w->current = w->bio;
		w->offset = 0;
		w->bio = (__u64)BPF_CORE_READ(bio, bi_next);
		if (w->size > w->left)
			w->size = w->left;
		if (!w->size)
			return 1;
		w->left -= w->size;
	}
	found = rt_member_origin(w->member, w->sector);
	origin = rt_answer_origin(found);
	run = rt_answer_run(found);
	bytes = run < (w->size >> 9) ? run << 9 : w->size;
	if (asks_content(w->op, origin)) {
		found = rt_read_origin(w->current, w->member, w->sector, w->offset << 32 | bytes,
				       origin);
		origin = rt_answer_origin(found);
		bytes = rt_answer_run(found) << 9;
		if (!bytes || bytes > w->size)
			return 1;
	}
	if (!w->pieces)
		w->first = origin;
	w->pieces++;
	if (origin != w->origin) {
		if (w->bytes)
			add_bytes(w->member, w->origin, w->op, w->bytes);
		w->origin = origin;
		w->bytes = 0;
	}
	w->bytes += bytes;
	w->size -= bytes;
	w->offset += bytes;
	w->sector += bytes >> 9;
	return 0;
}

__u32 rt_walk(__u64 bio, __u32 member, __u64 start, __u32 op, __u32 bytes)
{
	__u32 zero = 0, i;
	struct rt_walk *w = bpf_map_lookup_elem(&rt_walks, &zero);

	if (!w)
		return RT_ORIGIN_UNKNOWN;
	__builtin_memset(w, 0, sizeof(*w));
	w->bio = bio;
	w->member = member;
	w->start = start;
	w->op = op;
	w->left = bytes;
	for (i = 0; i < RT_PIECES; i++) {
		if (rt_walk_step())
			break;
	}
	if (w->bytes)
		add_bytes(member, w->origin, op, w->bytes);
	if (w->left + w->size) {
		add_bytes(member, RT_ORIGIN_UNKNOWN, op, w->left + w->size);
		count_loss(pieces);
	}
	return w->first;
}
