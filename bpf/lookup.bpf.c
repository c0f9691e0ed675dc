// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Functions of lookup.bpf.h that are called too rarely to be inline. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"

__u32 rt_search(__u32 list, __u32 count, __u64 at)
{
	__u32 half, mid;
	__u64 *boundary;
	int i;

	for (i = 0; i < RT_RANGE_STEPS; i++) {
		if (count <= 1)
			break;
		half = count / 2;
		mid = list + half;
		boundary = bpf_map_lookup_elem(&rt_boundaries, &mid);
		if (!boundary)
			break;
		/* without a branch: for random IO, half of the branch predictions would be wrong */
		list += half & ((__u32)((at - rt_boundary_sector(*boundary)) >> 63) - 1);
		count -= half;
	}
	return list;
}

/* Inline: the deepest call chain, of rt_rq_complete, has no stack left for another frame. */
static __always_inline __u64 filter_lanes(__u64 key)
{
	__u64 lanes = 0x5555555555555555, *word;
	__u32 i;

	for (i = 0; i < RT_FILTER_HASHES; i++) {
		word = rt_filter_word(key, i, rt_filter_copy);
		if (word)
			lanes &= *word | *word >> 1;
	}
	return lanes >> rt_filter_shift(key);
}

__u64 rt_filter_lanes(__u64 key)
{
	return filter_lanes(key);
}

/*
 * Sectors from a block to the next one that may be learned, or to the end of the filter's word; 0:
 * the block is learned. A separate function, so that the verifier checks one step instead of
 * RT_FILTER_STEPS.
 */
__noinline __u64 rt_unlearned_step(__u64 key, __u32 log)
{
	__u64 lanes = filter_lanes(key), skip, zero, mask = (1ULL << (log & 7)) - 1;
	__u32 half;

	if (lanes & 1)
		return bpf_map_lookup_elem(&rt_learned, &key) ? 0 : mask + 1;
	if (lanes) {
		/* the lowest bit that is set, without branches that depend on the data */
		skip = 0;
		for (half = 32; half > 1; half /= 2) {
			zero = ((lanes & ((1ULL << half) - 1)) - 1) >> 63;
			lanes >>= zero * half;
			skip += zero * half;
		}
	} else {
		skip = 64 - rt_filter_shift(key);
	}
	return ((((key >> RT_FILTER_LANE) + skip / 2) << RT_FILTER_LANE) - key + mask) & ~mask;
}

/* Words and learned lanes that rt_learned_origin() visits. */
enum { RT_FILTER_STEPS = 64 };

__u64 rt_learned_origin(__u64 key, __u32 into, __u32 log, __u64 run, __u64 wanted)
{
	__u64 at = key, end = key + into + wanted, step, *learned;
	__u32 i;

	for (i = 0; i < RT_FILTER_STEPS && at < end; i++) {
		step = rt_unlearned_step(at, log);
		if (!step)
			break;
		at += step;
	}
	if (at > key)
		return rt_found(RT_ORIGIN_FILE_DATA, rt_min(at - key - into, run));
	learned = bpf_map_lookup_elem(&rt_learned, &key);
	return rt_found(learned ? *learned & 0xff : RT_ORIGIN_FILE_DATA,
			rt_min(run, (1U << (log & 7)) - into));
}

int rt_learn(__u64 key, __u64 value)
{
	__u32 i, shift = rt_filter_shift(key);
	__u64 *word;

	/* first the entry: userspace clears a copy of the filter before it reads the entries */
	bpf_map_update_elem(&rt_learned, &key, &value, BPF_ANY);
	for (i = 0; i < 2 * RT_FILTER_HASHES; i++) {
		word = rt_filter_word(key, i >> 1, i);
		if (word && !(*(volatile __u64 *)word >> shift & 3))
			__sync_fetch_and_add(word, 1ULL << shift);
	}
	return 0;
}

__u64 rt_origin_at(__u32 member, __u64 sector, __u32 op, __u64 wanted)
{
	return rt_member_origin(member, sector, op, wanted);
}

/* The outer array's member that is this nested array. Makes `sector` relative to that member. */
static __always_inline struct rt_member *outer_member(const struct rt_array *array, __u64 *sector)
{
	__u32 index = array->outer_member - 1;

	*sector -= array->outer_start;
	return bpf_map_lookup_elem(&rt_members, &index);
}

__u64 rt_outermost_origin(__u32 a, __u64 sector, __u32 op, __u64 wanted)
{
	struct rt_array *array = bpf_map_lookup_elem(&rt_arrays, &a);
	__u64 at, run = ~0ULL >> RT_FOUND_RUN;
	struct rt_member *m;
	__u32 depth;

	for (depth = 0; depth < RT_NESTING_MAX; depth++) {
		struct rt_place place = {};

		if (!array)
			break;
		if (!array->outer_member)
			return rt_found_within(rt_array_origin(a, array, sector, op, wanted), run);
		m = outer_member(array, &sector);
		if (!m)
			break;
		at = sector - m->data_offset;
		if (at >= m->data_sectors)
			return rt_found_within(rt_md_origin(m, sector), run);
		a = m->array;
		array = bpf_map_lookup_elem(&rt_arrays, &a);
		if (!array || array->flags & RT_ARRAY_RESHAPING)
			break;
		rt_locate(&array->geometry, &m->slot, at, &place);
		if (!place.run)
			break;
		run = rt_min(run, place.run);
		if (place.kind == RT_PLACE_UNUSED)
			return rt_found(RT_ORIGIN_RAW, run);
		if (place.kind != RT_PLACE_DATA)
			return rt_found(RT_ORIGIN_PARITY, run);
		sector = place.sector;
	}
	return rt_found(RT_ORIGIN_UNKNOWN, 8);
}

__u64 rt_member_to_array(__u32 index, __u64 sector)
{
	struct rt_member *m = bpf_map_lookup_elem(&rt_members, &index);
	struct rt_array *array;
	__u32 a, depth;

	for (depth = 0; depth < RT_NESTING_MAX; depth++) {
		struct rt_place place = {};

		if (!m)
			break;
		a = m->array;
		array = bpf_map_lookup_elem(&rt_arrays, &a);
		if (!array || array->flags & RT_ARRAY_RESHAPING)
			break;
		rt_locate(&array->geometry, &m->slot, sector - m->data_offset, &place);
		if (place.kind != RT_PLACE_DATA)
			break;
		sector = place.sector;
		if (!array->outer_member)
			return rt_learned_key(a, sector);
		m = outer_member(array, &sector);
	}
	return ~0ULL;
}
