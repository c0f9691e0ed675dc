/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps addresses to origins. Stateless except for learned blocks, so that a tracer started during
 * an incident is correct from its first request. Inline, because most of the time of the hot path
 * is spent here.
 */
#ifndef RAIDTRACE_LOOKUP_BPF_H
#define RAIDTRACE_LOOKUP_BPF_H

#include "geometry.bpf.h"

/*
 * Maps a data sector of a member to a sector of the array that holds the filesystem. Returns a key
 * of rt_learned, or ~0 if the sector does not hold array data.
 */
__u64 rt_member_to_array(__u32 member, __u64 sector);

/*
 * Result of a lookup: an origin, the number of sectors that have it (1 or more), and the block
 * size.
 */
enum {
	RT_ORIGIN_MASK = 31,	/* bits of an origin, also in rt_what() and other packed words */
	RT_FOUND_BLOCK = 5,	/* log2 of a block's sectors, in 3 bits, then RT_DYNAMIC_XFS */
	RT_FOUND_RUN = 9,
};

static __always_inline __u64 rt_found(__u32 origin, __u64 run)
{
	return run << RT_FOUND_RUN | origin;
}

static __always_inline __u32 rt_found_origin(__u64 found)
{
	return found & RT_ORIGIN_MASK;
}

static __always_inline __u64 rt_found_run(__u64 found)
{
	return found >> RT_FOUND_RUN;
}

/* Sectors per block, if the sector is in RT_DYNAMIC blocks; else 1. */
static __always_inline __u32 rt_found_block(__u64 found)
{
	return 1U << (found >> RT_FOUND_BLOCK & 7);
}

/* True if the sector is in RT_DYNAMIC blocks of an XFS. */
static __always_inline bool rt_found_xfs(__u64 found)
{
	return found & (RT_DYNAMIC_XFS << RT_FOUND_BLOCK);
}

/* Limits a result to at most `run` sectors. */
static __always_inline __u64 rt_found_within(__u64 found, __u64 run)
{
	if (found >> RT_FOUND_RUN <= run)
		return found;
	return run << RT_FOUND_RUN | (found & ((1 << RT_FOUND_RUN) - 1));
}

/* Key of rt_learned: the block's first sector on its array. */
enum { RT_LEARNED_ARRAY_SHIFT = 48 };

static __always_inline __u64 rt_learned_key(__u32 array, __u64 sector)
{
	return (__u64)array << RT_LEARNED_ARRAY_SHIFT | sector;
}

static __always_inline __u64 rt_learned_sector(__u64 key)
{
	return key << (64 - RT_LEARNED_ARRAY_SHIFT) >> (64 - RT_LEARNED_ARRAY_SHIFT);
}

/* One of the RT_FILTER_HASHES words of rt_filter for a key of rt_learned. */
static __always_inline __u64 *rt_filter_word(__u64 key, __u32 which, __u32 copy)
{
	/* multiplicative hashing with 2^64 / golden ratio */
	__u64 hash = (key >> RT_FILTER_LINE) * 0x9e3779b97f4a7c15;
	/* the lower half, which the array does not change, by the upper half */
	__u64 both = hash ^ hash >> 32;
	__u32 line = both >> (64 - RT_FILTER_LINES * (1 + which)) & ((1 << RT_FILTER_LINES) - 1);
	__u32 i = (copy & 1) * RT_FILTER_WORDS + line * 8 + (key >> RT_FILTER_WORD & 7);

	return bpf_map_lookup_elem(&rt_filter, &i);
}

static __always_inline __u32 rt_filter_shift(__u64 key)
{
	return (key >> RT_FILTER_LANE & 31) * 2;
}

/* Sets an entry of rt_learned, and its lanes in rt_filter. */
int rt_learn(__u64 key, __u64 value);

/*
 * Lanes from that of the key to the end of its word: bit 2 * n is 0 if no block in lane n is
 * learned.
 */
__u64 rt_filter_lanes(__u64 key);

/*
 * rt_dynamic_origin() if the filter does not answer at once. key: of the block's start. into:
 * sectors from there, of which the result is at most `run` sectors. log: log2 of the sectors of a
 * block.
 */
__u64 rt_learned_origin(__u64 key, __u32 into, __u32 log, __u64 run, __u64 wanted);

static __always_inline __u64 rt_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/*
 * Origin of a block that does not belong to a fixed structure: the learned origin, or file data.
 * code: low byte of the boundary; into: sectors from the boundary to `sector`; wanted: see
 * rt_array_origin().
 */
static __always_inline __u64 rt_dynamic_origin(__u32 index, __u32 code, __u32 op, __u64 sector,
					       __u64 into, __u64 run, __u64 wanted)
{
	__u32 log = code & 7, block = 1U << log;
	__u64 size = (__u64)(code & (RT_DYNAMIC_XFS | 7)) << RT_FOUND_BLOCK, *word;
	__u64 key = rt_learned_key(index, sector), last;

	/* a discarded block is no longer metadata */
	if (op > RT_OP_WRITE)
		return rt_found(RT_ORIGIN_FILE_DATA, run) | size;
	wanted = rt_min(run, wanted);
	last = key + wanted - 1;
	into &= block - 1;
	key -= into;
	/* the common small request: its lanes are in one word, and 0 */
	word = rt_filter_word(key, 0, rt_filter_copy);
	if (word && !((key ^ last) >> RT_FILTER_WORD) &&
	    !(*word >> rt_filter_shift(key) << (62 - rt_filter_shift(last) + rt_filter_shift(key))))
		return rt_found(RT_ORIGIN_FILE_DATA, wanted) | size;
	return rt_learned_origin(key, into, log, run, wanted) | size;
}

static __always_inline __u64 rt_boundary_sector(__u64 boundary)
{
	return boundary >> RT_BOUNDARY_SHIFT;
}

/*
 * Index of the last boundary at or before a sector of a tile. list: index of the first of `count`
 * boundaries. Not inline, because it is rarely called and its callers have no stack left.
 */
__u32 rt_search(__u32 list, __u32 count, __u64 at);

/*
 * Origin of a sector of an array. wanted: the result need not be valid for more than this number of
 * sectors, 1 or more.
 */
static __always_inline __u64 rt_array_origin(__u32 index, const struct rt_array *array,
					     __u64 sector, __u32 op, __u64 wanted)
{
	__u64 *first, *begin, *end, *count, at, tile, run;
	struct rt_tiles *two;
	__u32 list, i, half, slot, code;

	at = sector + array->tile_lead;
	/* usually a power of two, which saves a division */
	if (array->tile_shift < RT_NO_SHIFT)
		tile = at >> array->tile_shift;
	else
		tile = at / array->tile_sectors;
	at -= tile * array->tile_sectors;
	if (tile >= array->nr_tiles)
		return rt_found(RT_ORIGIN_UNKNOWN, 1);
	i = array->first_tile + (__u32)tile;
	half = i / 2;
	two = bpf_map_lookup_elem(&rt_tiles, &half);
	if (!two)
		return rt_found(RT_ORIGIN_UNKNOWN, 1);
	list = two->list[i % 2];
	slot = (at >> (array->slot_shift & 63)) & (RT_LIST_SLOTS - 1);
	at += RT_TILE_SECTOR_BIAS;
	i = list + RT_LIST_FIRST + slot / 8;
	first = bpf_map_lookup_elem(&rt_boundaries, &i);
	if (!first)
		return rt_found(RT_ORIGIN_UNKNOWN, 1);
	i = list + RT_LIST_HEAD + (*first >> slot % 8 * 8 & 0xff);
	begin = bpf_map_lookup_elem(&rt_boundaries, &i);
	i++;
	end = bpf_map_lookup_elem(&rt_boundaries, &i);
	/*
	 * rare: the boundary tried first is usually right, because most sectors of a group come
	 * after its metadata
	 */
	if (begin && end &&
	    (at < rt_boundary_sector(*begin) || at >= rt_boundary_sector(*end))) {
		count = bpf_map_lookup_elem(&rt_boundaries, &list);
		if (!count)
			return rt_found(RT_ORIGIN_UNKNOWN, 1);
		i = rt_search(list + RT_LIST_HEAD, *count, at);
		begin = bpf_map_lookup_elem(&rt_boundaries, &i);
		i++;
		end = bpf_map_lookup_elem(&rt_boundaries, &i);
	}
	if (!begin || !end)
		return rt_found(RT_ORIGIN_UNKNOWN, 1);
	code = *begin & 0xff;
	run = rt_boundary_sector(*end) - at;
	if (code >= RT_DYNAMIC)
		return rt_dynamic_origin(index, code, op, sector,
					 at - rt_boundary_sector(*begin), run, wanted);
	return rt_found(code, run);
}

static __always_inline bool rt_inside(const struct rt_extent *e, __u64 sector)
{
	return sector - e->start < e->sectors;
}

/* Origin outside the member's data: md's own metadata. */
static __always_inline __u64 rt_md_origin(const struct rt_member *m, __u64 sector)
{
	if (rt_inside(&m->superblock, sector))
		return rt_found(RT_ORIGIN_MD_SUPERBLOCK,
			      m->superblock.start + m->superblock.sectors - sector);
	if (rt_inside(&m->bad_blocks, sector))
		return rt_found(RT_ORIGIN_MD_SUPERBLOCK,
			      m->bad_blocks.start + m->bad_blocks.sectors - sector);
	if (rt_inside(&m->bitmap, sector))
		return rt_found(RT_ORIGIN_MD_BITMAP,
			      m->bitmap.start + m->bitmap.sectors - sector);
	if (rt_inside(&m->journal, sector))
		return rt_found(RT_ORIGIN_MD_JOURNAL,
			      m->journal.start + m->journal.sectors - sector);
	/* 4 KiB at a time, because md's areas are aligned to that */
	return rt_found(RT_ORIGIN_RAW, 8 - sector % 8);
}

/* rt_member_origin() for rare callers. Not inline: saves stack in the caller. */
__u64 rt_origin_at(__u32 member, __u64 sector, __u32 op, __u64 wanted);

/* Origin of a sector of an array. For a nested array, the lookup is in the outermost array. */
__u64 rt_outermost_origin(__u32 array, __u64 sector, __u32 op, __u64 wanted);

/* Origin of a sector of a member. wanted: see rt_array_origin(). */
static __always_inline __u64 rt_member_origin(__u32 index, __u64 sector, __u32 op, __u64 wanted)
{
	struct rt_member *m = bpf_map_lookup_elem(&rt_members, &index);
	struct rt_array *array;
	struct rt_place place = {};
	__u64 at, found;
	__u32 a;

	if (!m)
		return rt_found(RT_ORIGIN_UNKNOWN, 1);
	at = sector - m->data_offset;
	if (at >= m->data_sectors)
		return rt_md_origin(m, sector);
	a = m->array;
	array = bpf_map_lookup_elem(&rt_arrays, &a);
	if (!array || array->flags & RT_ARRAY_RESHAPING)
		return rt_found(RT_ORIGIN_UNKNOWN, 8);
	rt_locate(&array->geometry, &m->slot, at, &place);
	if (!place.run)
		return rt_found(RT_ORIGIN_UNKNOWN, 1);
	/* a spare has 0 sectors: IO on it means that md has added it to the array meanwhile */
	if (place.kind == RT_PLACE_UNUSED)
		return rt_found(m->slot.sectors ? RT_ORIGIN_RAW : RT_ORIGIN_UNKNOWN, place.run);
	if (place.kind != RT_PLACE_DATA)
		return rt_found(RT_ORIGIN_PARITY, place.run);
	if (array->outer_member)
		found = rt_outermost_origin(a, place.sector, op, wanted);
	else
		found = rt_array_origin(a, array, place.sector, op, wanted);
	return rt_found_within(found, place.run);
}

#endif
