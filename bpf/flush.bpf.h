/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flushes: requests without a sector. The bio that asked for one decides on its member. */
#ifndef RAIDTRACE_FLUSH_BPF_H
#define RAIDTRACE_FLUSH_BPF_H

/*
 * Member that a bio without a sector was submitted to. Up to 5.11, a bio does not keep its
 * partition (rt_bio_has_part()): the first member of the disk stands for all of them.
 */
static __always_inline struct rt_part *part_of(struct rt_dev *d, struct bio *bio)
{
	__u64 start = rt_bio_part_start(bio);
	__u32 i;

	for (i = 0; i < RT_DISK_PARTS; i++) {
		if (i >= d->nr_parts)
			break;
		if (d->parts[i].start == start)
			return &d->parts[i];
	}
	return rt_bio_has_part() ? NULL : &d->parts[0];
}

enum { OTHER_ARRAY = ~0U };

/*
 * 1 + index of the array for which md sent a flush, OTHER_ARRAY if it is not traced; 0: unknown. The pool
 * of the bio is a part of the array's structure (md_flush_request(), ppl_do_flush()); bi_private differs
 * between kernels.
 */
static __always_inline __u32 flushing_array(struct bio *bio)
{
	__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io), pool = (__u64)BPF_CORE_READ(bio, bi_pool);
	struct mddev___rt *mddev = NULL;
	struct rt_dev_entry *e;
	struct gendisk *disk;

	if (bpf_core_field_exists(struct mddev___rt, bio_set) && end == rt_md_flush_end) {
		pool -= bpf_core_field_offset(struct mddev___rt, bio_set);
		mddev = (struct mddev___rt *)pool;
	} else if (bpf_core_field_exists(struct ppl_conf___rt, flush_bs) && end == rt_ppl_flush_end) {
		pool -= bpf_core_field_offset(struct ppl_conf___rt, flush_bs);
		mddev = BPF_CORE_READ((struct ppl_conf___rt *)pool, mddev);
	}
	if (!mddev)
		return 0;
	disk = BPF_CORE_READ(mddev, gendisk);
	e = rt_dev_entry(BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor));
	return e && e->array ? e->array : OTHER_ARRAY;
}

/* Member that a flush without a sector is counted for. bio: the bio that asked for it; NULL: none. */
static __always_inline struct rt_part *flushed_part(struct rt_dev *d, struct bio *bio, __u32 *origin)
{
	struct rt_part *part = &d->parts[0];
	__u32 array = 0, i;

	*origin = RT_ORIGIN_UNKNOWN;
	if (d->flags & RT_DEV_VOLUMES) {
		array = flushing_array(bio);
		if (!array)
			return part_of(d, bio);
		part = NULL;
		for (i = 0; i < RT_DISK_PARTS; i++) {
			if (i >= d->nr_parts)
				break;
			if (d->parts[i].array + 1U == array) {
				part = &d->parts[i];
				break;
			}
		}
	} else if (bio && (d->nr_parts > 1 || part->start)) {
		part = part_of(d, bio);
	}
	if (part)
		*origin = rt_member_flush_origin(part->member);
	return part;
}

/* Request for which blk-flush.c sent its own flush request; NULL: none. */
static __always_inline struct request *flushed_request(struct request *rq)
{
	struct blk_flush_queue *fq = BPF_CORE_READ(rq, mq_hctx, fq);
	__u64 head, next = 0;
	__u32 running;

	if (!bpf_core_field_exists(fq->flush_queue) ||
	    !bpf_core_field_exists(fq->flush_running_idx))
		return NULL;
	running = BPF_CORE_READ_BITFIELD_PROBED(fq, flush_running_idx);
	head = (__u64)fq + bpf_core_field_offset(struct blk_flush_queue, flush_queue) +
	       (running & 1) * sizeof(struct list_head);
	bpf_probe_read_kernel(&next, sizeof(next), (void *)head);
	if (!next || next == head)
		return NULL;
	return (struct request *)(next - rt_flush_list_offset());
}

#endif
