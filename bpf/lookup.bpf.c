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

__u64 rt_origin_at(__u32 member, __u64 sector, __u32 op)
{
	return rt_member_origin(member, sector, op);
}

/* The outer array's member that is this nested array. Makes `sector` relative to that member. */
static __always_inline struct rt_member *outer_member(const struct rt_array *array, __u64 *sector)
{
	__u32 index = array->outer_member - 1;

	*sector -= array->outer_start;
	return bpf_map_lookup_elem(&rt_members, &index);
}

__u64 rt_outermost_origin(__u32 a, __u64 sector, __u32 op)
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
			return rt_found_within(rt_array_origin(a, array, sector, op), run);
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
