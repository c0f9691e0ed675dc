/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of asynchronous operations. */
#ifndef RAIDTRACE_SLOW_ASYNC_BPF_H
#define RAIDTRACE_SLOW_ASYNC_BPF_H

#include "peek.bpf.h"
#include "slow.bpf.h"

/*
 * An address as a number: the verifier permits no arithmetic with a typed pointer, but an addition
 * to one in memory makes it a number. Cheaper than a copy by a helper.
 */
static __always_inline __u64 rt_number(const void *address)
{
	__u64 number = (__u64)address, zero = 0;

	/* clang makes the addition of a known 0 another operation, which 5.10 lacks */
	asm volatile("" : "+r"(zero));
	__sync_fetch_and_add(&number, zero);
	return number;
}

static __always_inline struct rt_slow_async *rt_slow_async_slot(__u64 iocb)
{
	__u32 slot = (iocb * 0x9e3779b97f4a7c15ULL >> 32) & (RT_SLOW_ASYNC - 1);

	return bpf_map_lookup_elem(&rt_slow_async, &slot);
}

/* The operation of a kiocb; NULL if there is none. iocb: not 0 */
static __always_inline struct rt_slow_async *rt_slow_async_of(__u64 iocb)
{
	struct rt_slow_async *a = rt_slow_async_slot(iocb);

	if (a && a->iocb == iocb)
		return a;
	return rt_slow_displaced_count ? bpf_map_lookup_elem(&rt_slow_displaced, &iocb) : (void *)0;
}

/*
 * Returns an entry for a kiocb that has none; NULL if there is no room. No compare-and-swap, which
 * 5.10 lacks: of CPUs that add to `claims` at the same time, at most one reads 1. Its value is that
 * of an earlier operation, except `displaced`.
 */
static __always_inline struct rt_slow_async *rt_slow_claim(__u64 iocb)
{
	struct rt_slow_async *a = rt_slow_async_slot(iocb), none = {};

	if (a && !a->claims) {
		__sync_fetch_and_add(&a->claims, 1);
		if (*(volatile __u64 *)&a->claims == 1)
			return a;
		__sync_fetch_and_add(&a->claims, -1);
	}
	none.displaced = 1;
	if (bpf_map_update_elem(&rt_slow_displaced, &iocb, &none, BPF_ANY)) {
		rt_slow_lost(operations);
		return (void *)0;
	}
	__sync_fetch_and_add(&rt_slow_displaced_count, 1);
	return bpf_map_lookup_elem(&rt_slow_displaced, &iocb);
}

static __always_inline void rt_slow_release(struct rt_slow_async *a, __u64 iocb)
{
	a->iocb = 0;
	barrier();
	if (!a->displaced)
		__sync_fetch_and_add(&a->claims, -1);
	else if (!bpf_map_delete_elem(&rt_slow_displaced, &iocb))
		__sync_fetch_and_add(&rt_slow_displaced_count, -1);
}

/* 7.3: a direct read of a single block has a structure of its own, with its bio. */
struct iomap_dio_simple {
	struct kiocb *iocb;
	struct bio bio;
} __attribute__((preserve_access_index));

/*
 * The operation that submitted a bio, or the bio of which it was split (bio_chain()); NULL if it is
 * none. Other bios have other things in bi_private: what is read there is no kiocb of the table.
 */
static __always_inline struct rt_slow_async *rt_slow_async_of_bio(__u64 bio)
{
	struct rt_slow_async *a;
	__u64 iocb;
	int i;

	if (!bpf_core_type_exists(struct iomap_dio))
		return (void *)0;
#pragma unroll
	for (i = 0; i < 2; i++) {
		if (bpf_core_type_exists(struct iomap_dio_simple)) {
			iocb = rt_peek(bio - bpf_core_field_offset(struct iomap_dio_simple, bio) +
				       bpf_core_field_offset(struct iomap_dio_simple, iocb));
			a = iocb ? rt_slow_async_of(iocb) : (void *)0;
			if (a)
				return a;
		}
		bio = rt_peek(bio + bpf_core_field_offset(struct bio, bi_private));
		iocb = rt_peek(bio + bpf_core_field_offset(struct iomap_dio, iocb));
		a = iocb ? rt_slow_async_of(iocb) : (void *)0;
		if (a)
			return a;
	}
	return (void *)0;
}

#endif
