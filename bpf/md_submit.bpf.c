// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bios that md submits to members. Why md submits one (resync, reshape, parity, ...) can be found
 * only at its submission. Attached only if an array needs it. Not part of the program in
 * bio_submit.bpf.c, although both use the same tracepoint: since commit a46023d5616e
 * (shadow.bpf.h), tracepoints run with preemption on, so md's thread may preempt a task in the
 * middle of that program. For md's bio, the kernel would skip that program, but it runs this one.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "stripe.bpf.h"
#include "peek.bpf.h"
#include "shadow.bpf.h"

/* Keeps a bio that device mapper may split, for on_nested(). */
static __always_inline void keep_bio(__u64 bio)
{
	struct rt_kept_bio *k = rt_kept_bio(bio);

	if (!k)
		return;
	k->bio = 0;
	k->copy = (__u64)k->bytes;
	bpf_probe_read_kernel(k->bytes, sizeof(k->bytes), (void *)bio);
	k->bio = bio;
}

/* arg: address of the tracepoint argument that holds the bio */
static __always_inline int on_member(struct bio *bio, unsigned long long *arg, __u32 instance)
{
	struct rt_dev_entry *e;
	__u64 end, address;
	struct rt_part *part;
	__u32 index, array_and_flags;
	struct rt_dev *d;

	if (rt_already_seen(instance, RT_SEEN_MD_SUBMIT, rt_peek((__u64)arg)))
		return 0;
	e = rt_dev_entry(rt_disk_number(rt_bio_disk(bio)));
	if (!e || !(e->flags & RT_DEV_CLASSIFIED))
		return 0;
	index = e->index;
	d = bpf_map_lookup_elem(&rt_devs, &index);
	if (!d)
		return 0;
	/* For a partition, the sector is already that of the whole disk. */
	part = rt_part_at(d, bio->bi_iter.bi_sector);
	if (!part)
		return 0;
	/* read as a number, because global functions take no pointers on 5.10 */
	address = rt_peek((__u64)arg);
	array_and_flags = part->array;
	/* the reason of a bio during a reshape is kept by the bio's own address */
	if (e->flags & RT_DEV_NESTED && !e->array && rt_dm_trims() && !(part->flags & RT_PART_RESHAPE) &&
	    rt_op_of(bio->bi_opf) <= RT_OP_WRITE && bio->bi_iter.bi_size > 1U << rt_page_shift)
		keep_bio(address);
	end = (__u64)bio->bi_end_io;
	if (!(part->flags & RT_PART_STRIPES && rt_is_stripe_bio(end))) {
		if (!(part->flags & RT_PART_RESHAPE &&
		      (rt_is_raid10_bio(end) || end == rt_raid5_end_aligned)))
			return 0;
		array_and_flags |= RT_CLASSIFY_RESHAPING;
	}
	if (instance == RT_SHADOW)
		array_and_flags |= RT_CLASSIFY_SHADOW;
	rt_classify(address, bio->bi_iter.bi_size, rt_op_of(bio->bi_opf), array_and_flags);
	return 0;
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_md_submit, struct bio *bio)
{
	return on_member(bio, &ctx[0], RT_FIRST);
}

/* Shadow program: runs where the kernel skipped rt_md_submit, see shadow.bpf.h. */
SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_md_submit_2, struct bio *bio)
{
	return rt_shadow(RT_SEEN_MD_SUBMIT, on_member(bio, &ctx[0], RT_SHADOW));
}

/* Before Linux 5.11 (commit e8a676d61c07), the queue is the first argument. */
SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_md_submit_q, struct request_queue *q, struct bio *bio)
{
	return on_member(bio, &ctx[1], RT_FIRST);
}
