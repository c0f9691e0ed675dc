/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Flushes: requests without a sector. The bio that asked for one decides on its member. */
#ifndef RAIDTRACE_FLUSH_BPF_H
#define RAIDTRACE_FLUSH_BPF_H

enum { OTHER_ARRAY = ~0U };

/*
 * 1 + index of the array for which md sent a flush, OTHER_ARRAY if it is not traced; 0: unknown.
 * The pool of the bio is a part of the array's structure (md_flush_request(), ppl_do_flush());
 * bi_private differs between kernels.
 */
static __always_inline __u32 flushing_array(struct bio *bio)
{
	__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io), pool = (__u64)BPF_CORE_READ(bio, bi_pool);
	struct mddev___rt *mddev = NULL;
	struct rt_dev_entry *e;

	if (bpf_core_field_exists(struct mddev___rt, bio_set) && end == rt_md_flush_end) {
		pool -= bpf_core_field_offset(struct mddev___rt, bio_set);
		mddev = (struct mddev___rt *)pool;
	} else if (bpf_core_field_exists(struct ppl_conf___rt, flush_bs) && end == rt_ppl_flush_end) {
		pool -= bpf_core_field_offset(struct ppl_conf___rt, flush_bs);
		mddev = BPF_CORE_READ((struct ppl_conf___rt *)pool, mddev);
	}
	if (!mddev)
		return 0;
	e = rt_dev_entry(rt_read_disk_number(BPF_CORE_READ(mddev, gendisk)));
	return e && e->array ? e->array : OTHER_ARRAY;
}

/*
 * Device that md submitted a flush to: the disk, or a member on device mapper. Only the latter
 * shows the
 * member: the flush on the disk has the bio's sector or that of a target, or 0
 * (__send_empty_flush()). *bio: the bio that asked for the flush; becomes the one that md
 * submitted.
 */
static __always_inline struct rt_dev *flushed_dev(struct rt_dev *d, struct bio **bio)
{
	__u64 source = rt_dm_origin((__u64)*bio);
	struct rt_dev *own = rt_dev_of(rt_read_disk_number(rt_number_disk(source)));

	/* also if device mapper is above a disk without md */
	if (source == (__u64)*bio || !own || !own->nr_parts)
		return d;
	*bio = (struct bio *)source;
	return own;
}

/*
 * Member that a flush without a sector is counted for: by the volume or the partition of the bio
 * that asked for it. Without a bio, or up to 5.11, which does not keep its partition
 * (rt_bio_has_part()), the first member of the disk stands for all of them.
 */
static __always_inline struct rt_part *flushed_part(struct rt_dev *d, struct bio *bio,
						    __u32 *origin)
{
	__u32 volumes = d->flags & RT_DEV_VOLUMES, array = volumes ? flushing_array(bio) : 0, i;
	bool several = d->nr_parts > 1 || d->parts[0].first;
	struct rt_part *part = array || (rt_bio_has_part() && bio && several) ? NULL : &d->parts[0];
	__u64 start = rt_bio_part_start(bio);

	*origin = RT_ORIGIN_UNKNOWN;
	for (i = 0; i < RT_DISK_PARTS; i++) {
		if (i >= d->nr_parts)
			break;
		if (array ? d->parts[i].array + 1U == array : d->parts[i].first == start) {
			part = &d->parts[i];
			break;
		}
	}
	if (part && (array || !volumes))
		*origin = rt_member_flush_origin(part->member);
	return part;
}

/* Member and origin of a write that asked for a flush. */
static __always_inline struct rt_part *flushed_write(struct rt_dev *d, __u64 sector, __u32 *origin)
{
	struct rt_part *part = rt_part_at(d, sector);

	if (part)
		*origin = rt_found_origin(
			rt_origin_at(part->member, sector - part->start, RT_OP_FLUSH, 1));
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
