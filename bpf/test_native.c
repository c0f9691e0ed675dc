// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The kernel-side arithmetic as ordinary functions, so that Rust tests can compare it with the Rust
 * code. Linked into tests only.
 */
#include <linux/types.h>

#include <stddef.h>

#include "geometry.bpf.h"
#define barrier_var(v) ((void)(v))
#include "dev_index.bpf.h"
#include "shared/wire.h"
#include "shared/hist.h"

void rt_native_locate(const struct rt_geometry *g, const struct rt_slot *m, __u64 sector,
		      struct rt_place *out);

void rt_native_locate(const struct rt_geometry *g, const struct rt_slot *m, __u64 sector,
		      struct rt_place *out)
{
	rt_locate(g, m, sector, out);
}

/* The entry's `index`; ~0: none. */
__u32 rt_native_dev(struct rt_dev_bucket *buckets, __u64 mult, __u32 dev);

__u32 rt_native_dev(struct rt_dev_bucket *buckets, __u64 mult, __u32 dev)
{
	struct rt_dev_entry *e = rt_dev_in(&buckets[rt_dev_hash(dev, mult)], dev);

	return e ? e->index : ~0U;
}

__u32 rt_native_bucket(__u64 us);

__u32 rt_native_bucket(__u64 us)
{
	return rt_bucket(us);
}

__u32 rt_native_loss(long err, __u32 full);

__u32 rt_native_loss(long err, __u32 full)
{
	return rt_loss_reason(err, full);
}
