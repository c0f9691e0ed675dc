/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Address -> origin. Stateless but for the learned blocks: a tracer started
 * in the middle of an incident is right from its first request. Inline, for it
 * is most of what the hot path does.
 */
#ifndef RAIDTRACE_CLASSIFY_BPF_H
#define RAIDTRACE_CLASSIFY_BPF_H

#include "geometry.bpf.h"

/* The array sector that a sector of a member's data stands for; ~0: none. */
__u64 rt_member_to_array(__u32 member, __u64 sector);

static __always_inline __u64 rt_answer(__u32 origin, __u64 run)
{
	return run << 8 | origin;
}

static __always_inline __u32 rt_answer_origin(__u64 answer)
{
	return answer & 0xff;
}

static __always_inline __u64 rt_answer_run(__u64 answer)
{
	return answer >> 8;
}

/* Key of rt_learned: the block's first sector on its array. */
static __always_inline __u64 rt_learned_key(__u32 array, __u64 sector)
{
	return (__u64)array << 48 | sector;
}

static __always_inline __u32 rt_region(__u32 array, __u64 sector)
{
	__u32 region = sector >> RT_REGION_SHIFT;

	return (region + array * 0x9e37) & (RT_REGIONS - 1);
}

static __always_inline __u64 rt_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* A block without a fixed place: learned, or file data. */
static __always_inline __u64 rt_dynamic_origin(__u32 index, const struct rt_array *array,
						      __u64 sector, __u64 run)
{
	__u32 region = rt_region(index, sector);
	__u64 key, *learned, into;

	run = rt_min(run, (1ULL << RT_REGION_SHIFT) -
			   (sector & ((1ULL << RT_REGION_SHIFT) - 1)));
	learned = bpf_map_lookup_elem(&rt_regions, &region);
	if (!learned || !*learned)
		return rt_answer(RT_ORIGIN_FILE_DATA, run);

	into = (sector - array->block_phase) & (array->block_sectors - 1);
	run = rt_min(run, array->block_sectors - into);
	key = rt_learned_key(index, sector - into);
	learned = bpf_map_lookup_elem(&rt_learned, &key);
	return rt_answer(learned ? *learned & 0xff : RT_ORIGIN_FILE_DATA, run ? run : 1);
}

/* Of a sector of an array; answers as rt_member_origin() does. */
static __always_inline __u64 rt_array_origin(__u32 index, const struct rt_array *array,
						    __u64 sector)
{
	__u32 low, high, mid, origin;
	__u64 *boundary, run;
	int i;

	if (!array->nr_boundaries)
		return rt_answer(RT_ORIGIN_UNKNOWN, 1);

	/* The last boundary at or before sector; the first one is at 0. */
	low = array->first_boundary;
	high = low + array->nr_boundaries;
	for (i = 0; i < RT_RANGE_STEPS; i++) {
		if (high - low <= 1)
			break;
		mid = low + (high - low) / 2;
		boundary = bpf_map_lookup_elem(&rt_boundaries, &mid);
		if (!boundary)
			break;
		if (*boundary >> RT_BOUNDARY_SHIFT <= sector)
			low = mid;
		else
			high = mid;
	}
	boundary = bpf_map_lookup_elem(&rt_boundaries, &low);
	if (!boundary)
		return rt_answer(RT_ORIGIN_UNKNOWN, 1);
	origin = *boundary & 0xff;

	run = 1ULL << 48;
	if (low + 1 < array->first_boundary + array->nr_boundaries) {
		mid = low + 1;
		boundary = bpf_map_lookup_elem(&rt_boundaries, &mid);
		if (boundary)
			run = (*boundary >> RT_BOUNDARY_SHIFT) - sector;
	}
	if (origin == RT_DYNAMIC)
		return rt_dynamic_origin(index, array, sector, run);
	return rt_answer(origin, run ? run : 1);
}

static __always_inline bool rt_inside(const struct rt_extent *e, __u64 sector)
{
	return sector - e->start < e->sectors;
}

/* Outside the member's data: md's own places. */
static __always_inline __u64 rt_md_origin(const struct rt_member *m, __u64 sector)
{
	if (rt_inside(&m->superblock, sector))
		return rt_answer(RT_ORIGIN_MD_SUPERBLOCK,
			      m->superblock.start + m->superblock.sectors - sector);
	if (rt_inside(&m->bitmap, sector))
		return rt_answer(RT_ORIGIN_MD_BITMAP,
			      m->bitmap.start + m->bitmap.sectors - sector);
	if (rt_inside(&m->journal, sector))
		return rt_answer(RT_ORIGIN_MD_JOURNAL,
			      m->journal.start + m->journal.sectors - sector);
	/* 4 KiB at a time: md's places are aligned to that */
	return rt_answer(RT_ORIGIN_RAW, 8 - (sector & 7));
}

/*
 * Of a sector of a member: the origin in the low 8 bits and, above them, for
 * how many sectors (1 or more) it holds.
 */
static __always_inline __u64 rt_member_origin(__u32 index, __u64 sector)
{
	struct rt_member *m = bpf_map_lookup_elem(&rt_members, &index);
	struct rt_array *array;
	struct rt_place place = {};
	__u64 at, found;
	__u32 a;

	if (!m)
		return rt_answer(RT_ORIGIN_UNKNOWN, 1);
	at = sector - m->data_offset;
	if (at >= m->data_sectors)
		return rt_md_origin(m, sector);

	a = m->array;
	array = bpf_map_lookup_elem(&rt_arrays, &a);
	if (!array)
		return rt_answer(RT_ORIGIN_UNKNOWN, 1);
	rt_locate(&array->geometry, &m->slot, at, &place);
	if (!place.run)
		return rt_answer(RT_ORIGIN_UNKNOWN, 1);
	if (place.kind == RT_PLACE_UNUSED)
		return rt_answer(RT_ORIGIN_RAW, place.run);
	if (place.kind != RT_PLACE_DATA)
		return rt_answer(RT_ORIGIN_PARITY, place.run);
	found = rt_array_origin(a, array, place.sector);
	return rt_answer(rt_answer_origin(found), rt_min(rt_answer_run(found), place.run));
}

#endif
