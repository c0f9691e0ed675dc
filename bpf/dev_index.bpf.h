/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The index of the traced devices: a hash table whose buckets have two entries. Pure arithmetic,
 * also compiled natively (test_native.c), to compare it with the Rust side
 * (src/probe/dev_index.rs).
 */
#ifndef RAIDTRACE_DEV_INDEX_BPF_H
#define RAIDTRACE_DEV_INDEX_BPF_H

#include "shared/wire.h"

static __always_inline __u32 rt_dev_hash(__u32 dev, __u64 mult)
{
	return ((__u64)dev * mult) >> (64 - RT_DEV_HASH_BITS);
}

/*
 * Entry of a device in its bucket; NULL: not traced. Number 0 is that of unused entries, and of
 * requests without a disk: those of an NVMe controller's admin queue, of a tape, of an enclosure.
 */
static __always_inline struct rt_dev_entry *rt_dev_in(struct rt_dev_bucket *b, __u32 dev)
{
	/* 1 if the first entry is another device. A branch would double the verifier's states. */
	__u64 second = ((__u64)(b->way[0].dev ^ dev) + 0xffffffff) >> 32;
	struct rt_dev_entry *e;

	barrier_var(second);
	e = &b->way[second & 1];
	return dev && e->dev == dev ? e : NULL;
}

#endif
