// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel-side arithmetic as ordinary functions, so that Rust tests can
 * compare it with theirs. Linked into tests only.
 */
#include <linux/types.h>
#include <stddef.h>

#include "geometry.bpf.h"
#include "shared/wire.h"
#include "shared/hist.h"

void rt_native_locate(const struct rt_geometry *g, const struct rt_slot *m, __u64 sector,
		      struct rt_place *out);

void rt_native_locate(const struct rt_geometry *g, const struct rt_slot *m, __u64 sector,
		      struct rt_place *out)
{
	rt_locate(g, m, sector, out);
}

__u32 rt_native_bucket(__u64 us);

__u32 rt_native_bucket(__u64 us)
{
	return rt_bucket(us);
}

#define FIELD(type, field) offsetof(struct type, field), sizeof(((struct type *)0)->field)

/* Sizes, then offset and size of every field, in the order of shared/geometry.h. */
extern const __u64 rt_native_geometry_layout[];
const __u64 rt_native_geometry_layout[] = {
	sizeof(struct rt_zone),
	FIELD(rt_zone, end_row),
	FIELD(rt_zone, bias),
	FIELD(rt_zone, width),
	FIELD(rt_zone, pad),
	sizeof(struct rt_geometry),
	FIELD(rt_geometry, array_sectors),
	FIELD(rt_geometry, far_rows),
	FIELD(rt_geometry, level),
	FIELD(rt_geometry, chunk_sectors),
	FIELD(rt_geometry, chunk_shift),
	FIELD(rt_geometry, width),
	FIELD(rt_geometry, period),
	FIELD(rt_geometry, offset_copies),
	FIELD(rt_geometry, near_copies),
	FIELD(rt_geometry, near_shift),
	FIELD(rt_geometry, zone),
	sizeof(struct rt_slot),
	FIELD(rt_slot, sectors),
	FIELD(rt_slot, slot),
	FIELD(rt_slot, pad),
	FIELD(rt_slot, table),
	sizeof(struct rt_place),
	FIELD(rt_place, sector),
	FIELD(rt_place, run),
	FIELD(rt_place, kind),
	FIELD(rt_place, pad),
	RT_GEOMETRY_SLOTS,
	RT_GEOMETRY_ZONES,
	RT_GEOMETRY_TABLE,
	RT_TABLE_P,
	RT_TABLE_Q,
	RT_NO_SHIFT,
	RT_LEVEL_SINGLE,
	RT_LEVEL_RAID0,
	RT_LEVEL_RAID1,
	RT_LEVEL_RAID4,
	RT_LEVEL_RAID5,
	RT_LEVEL_RAID6,
	RT_LEVEL_RAID10,
	RT_PLACE_UNUSED,
	RT_PLACE_DATA,
	RT_PLACE_P,
	RT_PLACE_Q,
};

extern const __u64 rt_native_geometry_layout_len;
const __u64 rt_native_geometry_layout_len =
	sizeof(rt_native_geometry_layout) / sizeof(rt_native_geometry_layout[0]);
