/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Helpers for all hooks: watched devices, rows of counters, and losses. */
#ifndef RAIDTRACE_COUNTERS_BPF_H
#define RAIDTRACE_COUNTERS_BPF_H

#include "shared/hist.h"
#include "dev_index.bpf.h"
#include "generation.bpf.h"

/*
 * The program that runs. Selects its entry in per-CPU maps that several programs write to
 * (shadow.bpf.h, dirty.bpf.c). Two programs that are loaded together have different entries: one
 * may run while the other is interrupted or, if programs can be preempted, switched out.
 */
enum {
	RT_FIRST = 0,
	RT_SHADOW = 1,
	RT_DIRTY_METADATA = 2,	/* rt_dirty_handle or rt_dirty_block */
	RT_DIRTY_DATA = 3,	/* rt_dirty_folio or rt_dirty_page */
};

/*
 * Adds to a counter of this CPU. If the kernel lets a program interrupt itself (before commit
 * 05b24ff9b2cf, for example in 5.10, __bpf_trace_run() has no recursion guard), an interrupt may
 * come between a load and a store, so the addition is atomic.
 */
#define rt_bump(counter, n) do {					\
	typeof(counter) add_ = (n);					\
									\
	if (rt_nesting) {						\
		/* clang would turn a constant 0 into an atomic OR, which 5.10 lacks */	\
		barrier_var(add_);					\
		__sync_fetch_and_add(&(counter), add_);			\
	} else {							\
		(counter) += add_;					\
	}								\
} while (0)

enum {
	RT_REQ_OP_MASK = 0xff,		/* REQ_OP_MASK */
	RT_REQ_FUA = 1 << 17,
	RT_REQ_META = 1 << 12,
	RT_REQ_PREFLUSH = 1 << 18,
	RT_REQ_OP_PASSTHROUGH = 32,	/* this and above: passthrough of SCSI (up to 5.13) and of drivers */
};

/*
 * Operations, four bits each, by the numbers of enum req_op. The numbers of the operations that are
 * not `other` are the same in 5.10 to 7.2. A switch would become branches, which are repeated at
 * each use of the result.
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
	__u32 hash = rt_dev_hash(dev, rt_dev_mult);
	struct rt_dev_bucket *b = bpf_map_lookup_elem(&rt_dev_index, &hash);

	return b ? rt_dev_in(b, dev) : NULL;
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
		if (sector >= d->parts[i].first && sector < d->parts[i].end)
			return &d->parts[i];
	}
	return NULL;
}

/* Origin of the last flush request on the member's array. */
static __always_inline __u32 rt_member_flush_origin(__u32 member)
{
	struct rt_array *array;
	struct rt_member *m;
	__u32 index, depth;
	__u64 *origin;

	/* with nested arrays, the flush was requested from the outermost one */
	for (depth = 0; depth < RT_NESTING_MAX; depth++) {
		m = bpf_map_lookup_elem(&rt_members, &member);
		if (!m)
			break;
		index = m->array;
		array = bpf_map_lookup_elem(&rt_arrays, &index);
		if (!array)
			break;
		if (!array->outer_member) {
			origin = bpf_map_lookup_elem(&rt_flush_origins, &index);
			return origin ? *origin & 0xff : RT_ORIGIN_UNKNOWN;
		}
		member = array->outer_member - 1;
	}
	return RT_ORIGIN_UNKNOWN;
}

/* Increments a field of this CPU's struct rt_loss. */
#define rt_bump_loss(field) do {					\
	__u32 zero_ = 0;						\
	struct rt_loss *loss_ = bpf_map_lookup_elem(&rt_losses, &zero_);	\
	if (loss_)							\
		rt_bump(loss_->field, 1);				\
} while (0)

/* reason: enum rt_loss_reasons */
#define count_loss(reason) rt_bump_loss(lost[reason])

enum { RT_NEW_ROW_TRIES = 4 };

/*
 * Allocates a row for a cell. A program in an interrupt may do the same at any point: the counter
 * is incremented by a single instruction, and a row belongs to the cell in its `owner` field. 5.10
 * has no instruction that adds and returns the sum.
 */
static __always_inline __u32 rt_new_row(__u64 owner)
{
	struct rt_row *row;
	__u32 zero = 0, number, i;
	__u64 *used;

	used = bpf_map_lookup_elem(&rt_rows_used, &zero);
	if (!used)
		return 0;
	for (i = 0; i < RT_NEW_ROW_TRIES; i++) {
		__sync_fetch_and_add(used, 1);
		number = *(volatile __u64 *)used;
		if (number >= rt_rows_max)
			return 0;
		row = bpf_map_lookup_elem(&rt_rows, &number);
		if (!row)
			return 0;
		if (*(volatile __u64 *)&row->owner)
			continue;	/* an interrupt took this row between the addition and the read of the counter */
		*(volatile __u64 *)&row->owner = owner;
		return number;
	}
	return 0;
}

/*
 * This CPU's counters of a cell; assigns a row at first use. instance: a shadow program has its own
 * rows, because it may run in the middle of an addition by the first program.
 */
static __always_inline struct rt_row *rt_row(__u32 member, __u32 origin, __u32 op, __u32 instance)
{
	__u64 cell = (__u64)origin << 3 | (op & 7);
	struct rt_member_rows *rows;
	__u32 row;

	if (instance == RT_SHADOW)
		member += rt_members_max;
	rows = bpf_map_lookup_elem(&rt_member_rows, &member);
	/* 64 bits and opaque to the compiler: 6.1's verifier loses the bounds of a 32-bit OR */
	barrier_var(cell);
	if (!rows || cell >= RT_CELLS)
		return NULL;
	row = rows->row[cell];
	if (!row) {
		row = rt_new_row(1 + ((__u64)member << 8 | cell));
		if (!row)
			return NULL;
		rows->row[cell] = row;
	}
	return bpf_map_lookup_elem(&rt_rows, &row);
}

enum { RT_EEXIST = 17 };

/* Adds to a table of struct rt_io; creates the entry if needed. Error: see rt_loss_reason(). */
static __always_inline long rt_add_io(void *table, const void *key, const struct rt_io *add)
{
	struct rt_io *io = bpf_map_lookup_elem(table, key);
	long err;

	if (!io) {
		err = bpf_map_update_elem(table, key, add, BPF_NOEXIST);
		if (err != -RT_EEXIST)
			return err;
		/* another CPU was first */
		io = bpf_map_lookup_elem(table, key);
		if (!io)
			return -RT_EEXIST;
	}
	__sync_fetch_and_add(&io->bios, add->bios);
	__sync_fetch_and_add(&io->bytes, add->bytes);
	return 0;
}

/*
 * Number of the interval. Userspace increments it before it reads tables of struct rt_io. Entries
 * of an earlier interval no longer grow, and can be removed without losing an addition.
 */
extern __u64 rt_interval;

/* Calls rt_add_io() and counts a failure as a loss: see rt_loss_reason(). */
#define rt_add_or_lose(table, key, add, full) do {			\
	long err_ = rt_add_io(table, key, add);				\
									\
	if (err_ && rt_loss_reason(err_, full) == RT_LOST_BUSY)		\
		count_loss(RT_LOST_BUSY);				\
	else if (err_)							\
		count_loss(full);					\
} while (0)

static __always_inline void rt_count_us(__u32 *hist, __u64 ns)
{
	/*
	 * the factor is 2^40 / 1000, rounded up: a division would cost more than the rest of the function
	 */
	__u64 us = ns < 1ULL << 33 ? (ns * 1099511628) >> 40 : ns / 1000;

	rt_bump(hist[rt_bucket(us) & (RT_HIST_BUCKETS - 1)], 1);
}

#endif
