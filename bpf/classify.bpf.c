// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Address -> origin. Stateless but for the learned blocks: a tracer started
 * in the middle of an incident is right from its first request.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "maps.bpf.h"
#include "geometry.bpf.h"
#include "classify.bpf.h"

static __always_inline bool inside(const struct rt_extent *e, __u64 sector)
{
	return sector - e->start < e->sectors;
}

/* Outside the member's data: md's own places. */
static __always_inline __u64 md_origin(const struct rt_member *m, __u64 sector)
{
	if (inside(&m->superblock, sector))
		return rt_answer(RT_ORIGIN_MD_SUPERBLOCK,
			      m->superblock.start + m->superblock.sectors - sector);
	if (inside(&m->bitmap, sector))
		return rt_answer(RT_ORIGIN_MD_BITMAP,
			      m->bitmap.start + m->bitmap.sectors - sector);
	if (inside(&m->journal, sector))
		return rt_answer(RT_ORIGIN_MD_JOURNAL,
			      m->journal.start + m->journal.sectors - sector);
	/* 4 KiB at a time: md's places are aligned to that */
	return rt_answer(RT_ORIGIN_RAW, 8 - (sector & 7));
}

__u64 rt_member_origin(__u32 index, __u64 sector)
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
		return md_origin(m, sector);

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

__u64 rt_member_to_array(__u32 index, __u64 sector)
{
	struct rt_member *m = bpf_map_lookup_elem(&rt_members, &index);
	struct rt_array *array;
	struct rt_place place = {};
	__u32 a;

	if (!m)
		return ~0ULL;
	a = m->array;
	array = bpf_map_lookup_elem(&rt_arrays, &a);
	if (!array)
		return ~0ULL;
	rt_locate(&array->geometry, &m->slot, sector - m->data_offset, &place);
	return place.kind == RT_PLACE_DATA ? place.sector : ~0ULL;
}
