/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Geometry tables: userspace computes them once per array (struct rt_geometry) and per member
 * (struct rt_slot) in src/raid/wire.rs, so that the kernel side only divides, looks up and adds.
 *
 * Include vmlinux.h or <linux/types.h> first. Units are 512-byte sectors unless a comment says
 * chunks. A row consists of the chunks with the same number on all members: row = member sector /
 * chunk_sectors.
 */
#ifndef RAIDTRACE_GEOMETRY_H
#define RAIDTRACE_GEOMETRY_H

enum rt_level {
	RT_LEVEL_SINGLE = 0,
	RT_LEVEL_RAID0 = 1,
	RT_LEVEL_RAID1 = 2,
	RT_LEVEL_RAID4 = 3,
	RT_LEVEL_RAID5 = 4,
	RT_LEVEL_RAID6 = 5,
	RT_LEVEL_RAID10 = 6,
	RT_LEVEL_LINEAR = 7,
};

enum rt_place_kind {
	RT_PLACE_UNUSED = 0,	/* after the end of the array, or left over by rounding */
	RT_PLACE_DATA = 1,
	RT_PLACE_P = 2,
	RT_PLACE_Q = 3,
};

enum rt_geometry_limits {
	RT_GEOMETRY_SLOTS = 255,	/* members of an array */
	RT_GEOMETRY_ZONES = 16,		/* strip zones of a RAID 0 */
	RT_GEOMETRY_TABLE = 256,	/* entries of rt_slot.table; a power of two */
	RT_TABLE_P = 254,		/* table entry for P instead of a position */
	RT_TABLE_Q = 255,		/* table entry for Q instead of a position */
	RT_NO_SHIFT = 64,		/* the divisor is not a power of two */
};

/* One strip zone of a RAID 0. Unused entries: end_row = ~0, the rest 0. */
struct rt_zone {
	__u64 end_row;		/* first row after the zone */
	__u64 bias;		/* array chunk = row * width + bias + position */
	__u32 width;		/* members in the zone */
	__u32 pad;
};

struct rt_geometry {
	__u64 array_sectors;
	__u64 far_rows;		/* RAID 10: rows to the next far copy; ~0: none */
	__u32 level;		/* enum rt_level */
	__u32 chunk_sectors;	/* 0 for single, RAID 1 and linear, which have no chunks */
	__u32 chunk_shift;	/* log2 of chunk_sectors, or RT_NO_SHIFT (RAID 0 only) */
	__u32 width;		/* array chunks (RAID 10: copies) in a row */
	__u32 period;		/* RAID 4/5/6: rows after which the parity layout repeats */
	__u32 offset_copies;	/* RAID 10 with offset layout: rows per stripe; else 1 */
	__u32 near_copies;	/* RAID 10: number of near copies; else 1 */
	__u32 near_shift;	/* log2 of near_copies, or RT_NO_SHIFT */
	struct rt_zone zone[RT_GEOMETRY_ZONES];
};

/*
 * One member. Contents of table[i]:
 *   RAID 0      i = zone: the position of this member's chunk in a row
 *   RAID 4/5/6  i = row % period: position, RT_TABLE_P or RT_TABLE_Q
 *   RAID 10     i = far copy: slot that holds the first copy of this chunk
 */
struct rt_slot {
	__u64 sectors;		/* size of the part of the data area that the level uses */
	__u64 first;		/* linear: array sector of the first one; else 0 */
	__u32 slot;		/* raid_disk */
	__u32 pad;
	__u8 table[RT_GEOMETRY_TABLE];
};

/*
 * Content of a member sector, and the number of sectors, starting with this one, that have the same
 * kind of content.
 */
struct rt_place {
	__u64 sector;		/* array sector; 0 unless kind is RT_PLACE_DATA */
	/* number of sectors, up to the end of the chunk; without chunks, to the end of the data */
	__u64 run;
	__u32 kind;		/* enum rt_place_kind */
	__u32 pad;
};

#endif
