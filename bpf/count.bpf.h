/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Devices, rows and losses: the small change of the hooks. */
#ifndef RAIDTRACE_COUNT_BPF_H
#define RAIDTRACE_COUNT_BPF_H

#include "hist.h"

enum {
	RT_REQ_OP_MASK = 0xff,		/* REQ_OP_MASK */
	RT_REQ_FUA = 1 << 17,
	RT_REQ_PREFLUSH = 1 << 18,
	RT_REQ_OP_PASSTHROUGH = 32,	/* and above: SCSI's own up to 5.13, drivers' */
};

/*
 * Operations by the numbers of enum req_op, which are the same in 5.10 to 7.2: four bits
 * each. A switch would become branches, which each use of the answer repeats.
 */
#define RT_OP_BITS(req_op, op) ((__u64)(op) << (req_op) * 4)

static __always_inline __u32 rt_op_of(__u32 flags)
{
	const __u64 ops = RT_OP_BITS(0, RT_OP_READ) | RT_OP_BITS(1, RT_OP_WRITE) |
			  RT_OP_BITS(2, RT_OP_FLUSH) | RT_OP_BITS(3, RT_OP_DISCARD) |
			  RT_OP_BITS(4, RT_OP_OTHER) |
			  RT_OP_BITS(5, RT_OP_DISCARD) |	/* secure erase */
			  RT_OP_BITS(6, RT_OP_OTHER) | RT_OP_BITS(7, RT_OP_OTHER) |
			  RT_OP_BITS(8, RT_OP_OTHER) | RT_OP_BITS(9, RT_OP_WRITE_ZEROES);
	__u32 op = flags & RT_REQ_OP_MASK;

	return op < 10 ? ops >> op * 4 & 15 : RT_OP_OTHER;
}

static __always_inline struct rt_dev_entry *rt_dev_entry(__u32 dev)
{
	__u32 slot = ((__u64)dev * rt_dev_mult) >> (64 - RT_DEV_HASH_BITS);
	struct rt_dev_entry *e = bpf_map_lookup_elem(&rt_dev_index, &slot);

	return e && e->dev == dev ? e : NULL;
}

static __always_inline struct rt_dev *rt_dev_of(__u32 dev)
{
	struct rt_dev_entry *e = rt_dev_entry(dev);
	__u32 index;

	if (!e)
		return NULL;
	index = e->index;
	return bpf_map_lookup_elem(&rt_devs, &index);
}

/* The member that a sector of the disk belongs to. */
static __always_inline struct rt_part *rt_part_at(struct rt_dev *d, __u64 sector)
{
	__u32 i;

	for (i = 0; i < RT_DISK_PARTS; i++) {
		if (i >= d->nr_parts)
			break;
		if (sector >= d->parts[i].start && sector < d->parts[i].end)
			return &d->parts[i];
	}
	return NULL;
}

/* Of the array above: the origin whose durability was last asked for. */
static __always_inline __u32 rt_member_flush_origin(__u32 member)
{
	struct rt_array *array;
	struct rt_member *m;
	__u32 index, depth;
	__u64 *origin;

	/* of arrays on top of each other, the outermost is what was asked */
	for (depth = 0; depth < RT_ARRAYS_DEEP; depth++) {
		m = bpf_map_lookup_elem(&rt_members, &member);
		if (!m)
			break;
		index = m->array;
		array = bpf_map_lookup_elem(&rt_arrays, &index);
		if (!array)
			break;
		if (!array->upper) {
			origin = bpf_map_lookup_elem(&rt_flush_origins, &index);
			return origin ? *origin & 0xff : RT_ORIGIN_UNKNOWN;
		}
		member = array->upper - 1;
	}
	return RT_ORIGIN_UNKNOWN;
}

static __always_inline __u32 rt_disk_number(struct gendisk *disk)
{
	return (__u32)disk->major << 20 | (__u32)disk->first_minor;
}

/* count_loss(reason): one field of this CPU's struct rt_loss. */
#define count_loss(reason) do {						\
	__u32 zero_ = 0;						\
	struct rt_loss *loss_ = bpf_map_lookup_elem(&rt_losses, &zero_);	\
	if (loss_)							\
		loss_->reason++;					\
} while (0)

/* This CPU's counters of a cell; hands out a row when it is the first time. */
static __always_inline struct rt_row *rt_row(__u32 member, __u32 origin, __u32 op)
{
	struct rt_member_rows *rows = bpf_map_lookup_elem(&rt_member_rows, &member);
	__u64 cell = (__u64)origin << 3 | (op & 7);
	__u32 zero = 0, row;
	__u64 *used;

	/* 64 bits and opaque: 6.1's verifier loses the bounds of a 32-bit OR */
	barrier_var(cell);
	if (!rows || cell >= RT_CELLS)
		return NULL;
	row = rows->row[cell];
	if (!row) {
		used = bpf_map_lookup_elem(&rt_rows_used, &zero);
		if (!used)
			return NULL;
		row = *used + 1;
		if (row >= rt_rows_max)
			return NULL;
		*used = row;
		rows->row[cell] = row;
	}
	return bpf_map_lookup_elem(&rt_rows, &row);
}

static __always_inline void rt_count_us(__u32 *hist, __u64 ns)
{
	/* 2^40 / 1000, rounded up: a division would cost more than all the rest */
	__u64 us = ns < 1ULL << 33 ? (ns * 1099511628) >> 40 : ns / 1000;

	hist[rt_bucket(us) & (RT_HIST_BUCKETS - 1)]++;
}

#endif
