/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps member addresses to array addresses: the kernel side of src/raid/. Pure arithmetic on the
 * structures of the wire contract, without maps and helpers. Userspace has turned md's layouts into
 * tables. Also compiled natively (test_native.c), to compare it with the Rust side.
 *
 * Sectors are relative to the member's data area: the caller subtracts data_offset and the start of
 * the partition.
 */
#ifndef RAIDTRACE_GEOMETRY_BPF_H
#define RAIDTRACE_GEOMETRY_BPF_H

#include "shared/geometry.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* RAID 0: the chunk of the array in this row of this member. */
static __always_inline int rt_chunk_striped(const struct rt_geometry *g, const struct rt_slot *m,
					    __u64 row, __u64 *chunk)
{
	__u32 i;

	/* nearly every array has one zone and returns in the first iteration */
	for (i = 0; i < RT_GEOMETRY_ZONES; i++) {
		const struct rt_zone *z = &g->zone[i];

		if (row < z->end_row) {
			*chunk = row * z->width + z->bias + m->table[i];
			return RT_PLACE_DATA;
		}
	}
	return RT_PLACE_UNUSED;
}

/* RAID 4, 5, 6: the chunk of the array in this row of this member, or the kind of parity. */
static __always_inline int rt_chunk_parity(const struct rt_geometry *g, const struct rt_slot *m,
					   __u64 row, __u64 *chunk)
{
	/* the mask is for the verifier; period never exceeds the size of the table */
	__u32 position = m->table[(row % g->period) & (RT_GEOMETRY_TABLE - 1)];

	if (position == RT_TABLE_P)
		return RT_PLACE_P;
	if (position == RT_TABLE_Q)
		return RT_PLACE_Q;
	*chunk = row * g->width + position;
	return RT_PLACE_DATA;
}

/* RAID 10: the chunk of the array that has a copy in this row of this member. */
static __always_inline int rt_chunk_mirrored(const struct rt_geometry *g, const struct rt_slot *m,
					     __u64 row, __u64 *chunk)
{
	__u64 copy = 0, at;

	if (g->offset_copies > 1) {
		__u64 stripe = row / g->offset_copies;

		copy = row - stripe * g->offset_copies;
		row = stripe;
	} else if (row >= g->far_rows) {
		copy = row / g->far_rows;
		row -= copy * g->far_rows;
	}
	at = row * g->width + m->table[copy & (RT_GEOMETRY_TABLE - 1)];
	if (g->near_shift < RT_NO_SHIFT)
		at >>= g->near_shift;
	else
		at /= g->near_copies;
	*chunk = at;
	return RT_PLACE_DATA;
}

/* Content of @sector in the data area of member @m of the array @g. */
static __always_inline void rt_locate(const struct rt_geometry *g, const struct rt_slot *m,
				      __u64 sector, struct rt_place *out)
{
	__u32 level = g->level;
	__u64 row, rest, chunk = 0;
	int kind;

	out->sector = 0;
	out->kind = RT_PLACE_UNUSED;
	out->pad = 0;
	if (sector >= m->sectors) {
		out->run = ~0ULL - sector;
		return;
	}
	if (level == RT_LEVEL_SINGLE || level == RT_LEVEL_RAID1 || level == RT_LEVEL_LINEAR) {
		out->sector = m->first + sector;
		out->run = m->sectors - sector;
		out->kind = RT_PLACE_DATA;
		return;
	}

	if (g->chunk_shift < RT_NO_SHIFT)
		row = sector >> g->chunk_shift;
	else
		row = sector / g->chunk_sectors;
	rest = sector - row * g->chunk_sectors;
	out->run = g->chunk_sectors - rest;

	if (level == RT_LEVEL_RAID0)
		kind = rt_chunk_striped(g, m, row, &chunk);
	else if (level == RT_LEVEL_RAID10)
		kind = rt_chunk_mirrored(g, m, row, &chunk);
	else
		kind = rt_chunk_parity(g, m, row, &chunk);
	if (kind == RT_PLACE_DATA) {
		__u64 at = chunk * g->chunk_sectors + rest;

		/* the last row of a RAID 10 may have unused chunks */
		if (at >= g->array_sectors)
			return;
		out->sector = at;
	}
	out->kind = kind;
}

#endif
