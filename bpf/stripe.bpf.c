// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reasons of bios of the stripe cache of RAID 4/5/6 (drivers/md/raid5.c). The reason of a bio is
 * its origin, or RT_BY_ADDRESS if its address determines the origin. A stripe cache bio refers to
 * nothing but its stripe_head. Therefore the reason is taken from the state of the stripe when
 * ops_run_io() submits the bio.
 */
#define RT_FIELD_EXISTS(type, field) 1	/* instead of a wrong origin, no rt_md_submit */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "stripe.bpf.h"
#include "peek.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "shadow.bpf.h"

enum {
	RT_STRIPE_DISKS = 256,
	RT_STRIPE_BIOS = 16,	/* maximum number of bios that are scanned per block of a stripe */
	RT_STRIPE_SECTORS = 8,	/* STRIPE_SECTORS with 4 KiB pages */
};

/* instance: RT_FIRST, or RT_SHADOW in a shadow program */
static __always_inline struct rt_stripe *scratch(__u32 instance)
{
	return bpf_map_lookup_elem(&rt_stripes, &instance);
}

/*
 * Adds up, by origin, the bytes that a list of bios (bi_next) changes in a block of the
 * stripe. These bios were submitted to the array and have array addresses.
 */
__noinline int rt_add_dirty(__u64 first, __u64 sector, __u32 instance)
{
	struct rt_stripe *s = scratch(instance);
	__u64 from, to, found, origin;
	struct bio *bio = (struct bio *)first;
	__u32 i;

	if (!s)
		return 0;
	for (i = 0; i < RT_STRIPE_BIOS && bio; i++) {
		from = RT_PEEK(bio, bi_iter.bi_sector);
		to = from + (RT_PEEK(bio, bi_iter.bi_size) >> 9);
		if (from < sector)
			from = sector;
		if (to > sector + RT_STRIPE_SECTORS)
			to = sector + RT_STRIPE_SECTORS;
		if (from < to) {
			found = rt_outermost_origin(s->array, from, RT_OP_WRITE, 1);
			origin = rt_found_origin(found) & 31;
			barrier_var(origin);
			s->bytes[origin & 31] += (to - from) << 9;
			s->total += (to - from) << 9;
			s->origins |= 1U << origin;
		}
		bio = RT_PEEK(bio, bi_next);
	}
	return 0;
}

/*
 * Records the read of a block whose member is missing, so that md has to reconstruct it. first:
 * first bio that reads the block; sector: start of the block.
 */
__noinline int rt_note_wanted(__u64 first, __u64 sector, __u32 instance)
{
	__u64 asked = RT_PEEK((struct bio *)first, bi_iter.bi_sector);
	struct rt_stripe *s = scratch(instance);

	if (sector < asked)
		sector = asked;
	if (s)
		s->wanted = 1 + rt_found_origin(rt_outermost_origin(s->array, sector, RT_OP_READ, 1));
	return 0;
}

/* Scans one block of a stripe: bytes to be written to it, and whether md has to reconstruct it. */
__noinline int rt_examine_block(__u64 dev, __u32 op, __u32 instance)
{
	struct rt_stripe *s = scratch(instance);
	struct r5dev *d = (struct r5dev *)dev;
	__u64 bio;

	if (!bpf_core_type_exists(struct r5dev) || !s)
		return 0;
	bio = op == RT_OP_READ ? (__u64)RT_PEEK(d, towrite) : (__u64)RT_PEEK(d, written);
	if (bio)
		rt_add_dirty(bio, RT_PEEK(d, sector), instance);
	if (op != RT_OP_READ || s->wanted)
		return 0;
	bio = (__u64)RT_PEEK(d, toread);
	if (bio && !(RT_PEEK(d, flags) & 1UL << bpf_core_enum_value(enum r5dev_flags, R5_Insync)))
		rt_note_wanted(bio, RT_PEEK(d, sector), instance);
	return 0;
}

/*
 * True if the scan for the previous bio is valid for this one, too: ops_run_io() submits the bios
 * of a stripe one after the other, from the last disk to the first (for each disk, the stripes of a
 * batch in turn). The bios are embedded in dev[], so their addresses decrease; a bio whose address
 * does not decrease begins a new pass. If the previous scan was made in an earlier call of
 * ops_run_io(), shares of the cost are slightly wrong. In a degraded array, where more depends on
 * the scan, each bio gets a scan of its own.
 */
static __always_inline bool is_examined(struct rt_stripe *s, __u64 sh, __u64 bio, __u32 op,
				     __u32 array, __u64 state)
{
	struct rt_array *a;

	if (s->sh != sh || s->op != op || bio >= s->bio || s->array != array || s->state != state)
		return false;
	a = bpf_map_lookup_elem(&rt_arrays, &array);
	if (!a || !(a->flags & RT_ARRAY_IN_SYNC))
		return false;
	s->bio = bio;
	return true;
}

/* Scans all blocks of a stripe. */
static __always_inline void examine(struct rt_stripe *s, __u64 sh, __u64 bio, __u32 op,
				   __u32 array, __u64 state, __u32 instance)
{
	__u64 dev = sh + bpf_core_field_offset(struct stripe_head, dev);
	__u32 disks, i;

	__builtin_memset(s, 0, sizeof(*s));
	s->sh = sh;
	s->bio = bio;
	s->op = op;
	s->array = array;
	s->state = state;
	disks = RT_PEEK((struct stripe_head *)sh, disks);
	for (i = 0; i < RT_STRIPE_DISKS && i < disks; i++) {
		rt_examine_block(dev, op, instance);
		dev += bpf_core_type_size(struct r5dev);
	}
}

/* Divides bytes of parity or of a pre-read among the origins that dirtied the stripe. */
static __always_inline void charge_stripe(const struct rt_stripe *s, __u32 parity, __u64 bytes)
{
	__u32 base = s->array << RT_COST_SHIFT, origins = s->origins, origin, key;
	struct rt_cost *cost;

	for (origin = 0; origin < RT_ORIGIN_NR && origins >> origin; origin++) {
		if (!(origins >> origin & 1))
			continue;
		key = base + origin;
		cost = bpf_map_lookup_elem(&rt_costs, &key);
		if (!cost || !s->total || !rt_counts())
			continue;
		*(parity ? &cost->parity : &cost->rmw_read) += bytes * s->bytes[origin] / s->total;
	}
}

/*
 * Origin by address. During a reshape, the array sector is taken from the stripe, because no
 * formula gives it.
 */
static __always_inline __u32 by_address(const struct r5dev *dev, __u32 index, __u32 op)
{
	struct rt_array *array = bpf_map_lookup_elem(&rt_arrays, &index);

	if (!array || !(array->flags & RT_ARRAY_RESHAPING))
		return RT_BY_ADDRESS;
	return rt_found_origin(rt_outermost_origin(index, RT_PEEK(dev, sector), op, 1));
}

/*
 * Reason of a bio that was submitted before the programs were attached, or on a kernel without BTF
 * of modules (5.10). In an array that is in sync, reads by tasks bypass the stripe cache
 * (chunk_aligned_read()): the stripe cache reads only for parity, and the address determines the
 * origin of its writes.
 */
__u32 rt_unseen_reason(__u32 op, __u32 index)
{
	struct rt_array *array = bpf_map_lookup_elem(&rt_arrays, &index);

	if (!array || !(array->flags & RT_ARRAY_IN_SYNC))
		return RT_ORIGIN_UNKNOWN;
	return op == RT_OP_READ ? RT_ORIGIN_RMW_READ : RT_BY_ADDRESS;
}

/*
 * State of a stripe. In a batch, it is that of the first stripe: the others have no state of their
 * own.
 */
static __always_inline __u64 stripe_state(struct stripe_head *sh)
{
	struct stripe_head *head = RT_PEEK(sh, batch_head);

	return head ? RT_PEEK(head, state) : RT_PEEK(sh, state);
}

/*
 * Reason of a stripe cache bio, from the state of its stripe. The cheapest tests come first: most
 * bios are for blocks that tasks read or write.
 */
static __always_inline __u32 classify_stripe(__u64 bio, __u64 private, __u32 size, __u32 op,
					  __u32 array, __u32 instance)
{
	struct rt_stripe *s = scratch(instance);
	struct stripe_head *sh = (struct stripe_head *)private;
	__u64 block, first, step, state;
	struct r5dev *d;

	if (!bpf_core_type_exists(struct stripe_head))
		return rt_unseen_reason(op, array);
	if (!s)
		return RT_ORIGIN_UNKNOWN;
	first = private + bpf_core_field_offset(struct stripe_head, dev);
	step = bpf_core_type_size(struct r5dev);
	block = (bio - first) / step;
	d = (struct r5dev *)(first + block * step);

	if (op == RT_OP_READ) {
		if (RT_PEEK(d, toread))
			return by_address(d, array, op);
		state = stripe_state(sh);
		if (state & (rt_stripe_syncing | rt_stripe_expand_source))
			return RT_ORIGIN_RESYNC;
		if (!is_examined(s, private, bio, op, array, state))
			examine(s, private, bio, op, array, state, instance);
		if (s->wanted)
			return s->wanted - 1;
		charge_stripe(s, 0, size);
		return RT_ORIGIN_RMW_READ;
	}
	if (RT_PEEK(d, written))
		return by_address(d, array, op);
	if (block != (__u64)(__s64)RT_PEEK(sh, pd_idx) &&
	    block != (__u64)(__s64)RT_PEEK(sh, qd_idx)) {
		if (stripe_state(sh) & (rt_stripe_syncing | rt_stripe_expanding))
			return RT_ORIGIN_RESYNC;
		return by_address(d, array, op);
	}
	state = stripe_state(sh);
	if (!is_examined(s, private, bio, op, array, state))
		examine(s, private, bio, op, array, state, instance);
	if (!s->total && state & (rt_stripe_syncing | rt_stripe_expanding))
		return RT_ORIGIN_RESYNC;
	if (op == RT_OP_WRITE)
		charge_stripe(s, 1, size);
	return RT_ORIGIN_PARITY;
}

/*
 * Maximum number of runs of one origin that are looked up per bio. A run has at least one block.
 * Therefore, with 4 KiB blocks, the runs cover at least 512 KiB, mdadm's default chunk.
 */
enum { RT_RESHAPE_RUNS = 128 };

/*
 * Reason of a member bio during a reshape, from its sector on the array: that of a RAID 10 is in
 * its r10bio, that of a read that bypasses the stripe cache in the bio that it was cloned from
 * (raid5_read_one_chunk()). md reads like this again when it has finished a reshape, before the
 * geometry is reloaded. end: the bio's completion function.
 */
static __always_inline __u32 classify_reshaping(__u64 private, __u64 end, __u32 size, __u32 op,
						__u32 index)
{
	__u64 sector, left = size >> 9, found, run;
	__u32 origin = RT_ORIGIN_UNKNOWN, i;

	if (end == rt_raid5_end_aligned && bpf_core_type_exists(struct stripe_head)) {
		if (bpf_core_field_exists(struct md_io_acct___rt, orig_bio))
			private = (__u64)RT_PEEK((struct md_io_acct___rt *)private, orig_bio);
		sector = RT_PEEK((struct bio *)private, bi_iter.bi_sector);
	} else if (bpf_core_type_exists(struct r10bio)) {
		sector = RT_PEEK((struct r10bio *)private, sector);
	} else {
		return RT_ORIGIN_UNKNOWN;
	}
	for (i = 0; i < RT_RESHAPE_RUNS; i++) {
		found = rt_outermost_origin(index, sector, op, left);
		/* several origins: unknown, because the bytes of each would not be known */
		if (i && rt_found_origin(found) != origin)
			return RT_ORIGIN_UNKNOWN;
		origin = rt_found_origin(found);
		run = rt_found_run(found);
		if (run >= left)
			return origin;
		sector += run;
		left -= run;
	}
	return RT_ORIGIN_UNKNOWN;
}

int rt_classify(__u64 bio, __u32 size, __u32 op, __u32 array_and_flags)
{
	__u64 private = (__u64)RT_PEEK((struct bio *)bio, bi_private);
	__u32 array = array_and_flags & 0xffff, i, at = 0;
	struct rt_reasons *reasons;
	__u64 reason;

	if (array_and_flags & RT_CLASSIFY_RESHAPING)
		reason = classify_reshaping(private, (__u64)RT_PEEK((struct bio *)bio, bi_end_io), size,
					    op, array);
	else
		reason = classify_stripe(bio, private, size, op, array,
				       array_and_flags & RT_CLASSIFY_SHADOW ? RT_SHADOW : RT_FIRST);
	reasons = rt_reasons_of(bio);
	if (!reasons)
		return 0;
	for (i = 0; i < RT_REASON_WAYS; i++) {
		if (!reasons->way[i])
			at = i;
		if (!rt_reason_is_for(reasons->way[i], bio))
			continue;
		at = i;
		break;
	}
	reasons->way[at & (RT_REASON_WAYS - 1)] =
		bio << (64 - RT_REASON_SHIFT) >> (64 - RT_REASON_SHIFT) |
		reason << RT_REASON_SHIFT;
	return 0;
}
