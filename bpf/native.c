// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel-side arithmetic as ordinary functions, so that Rust tests can compare it with the Rust
 * code. Linked into tests only.
 */
#include <linux/types.h>

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
