// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What of classify.bpf.h is needed too rarely to be inline. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "maps.bpf.h"
#include "classify.bpf.h"

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
