// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Completed bios of bio-based devices: an array that is a member of another one; dm-crypt, whose
 * plain text has just been decrypted; a RAID 4/5/6 with a missing member, whose blocks have just
 * been reconstructed. Attached only if there is such a device.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "content.bpf.h"
#include "stripe.bpf.h"
#include "record.bpf.h"
#include "request_walk.bpf.h"
#include "shadow.bpf.h"
#include "xfs.bpf.h"
#include "page.bpf.h"

/* Maximum number of blocks of a bio that are examined. */
enum { RT_READ_BLOCKS = 64 };

/*
 * Examines a block that was read, in the form in which the filesystem gets it. Returns its size, or
 * 0 if the rest of the bio need not be examined.
 */
__noinline __u32 rt_read_block(__u64 bio, __u32 index, __u64 sector, __u64 offset, __u32 left)
{
	struct rt_array *array = bpf_map_lookup_elem(&rt_arrays, &index);
	__u64 by_address, found, key = rt_learned_key(index, sector);
	__u32 block, origin;

	if (!array)
		return 0;
	by_address = rt_array_origin(index, array, sector, RT_OP_READ, 1);
	origin = rt_found_origin(by_address);
	block = rt_found_block(by_address) << 9;
	if (!needs_content(RT_OP_READ, origin))
		return block;
	if (rt_has_xfs && rt_found_xfs(by_address)) {
		if (origin == RT_ORIGIN_UNKNOWN)
			rt_read_done(key, rt_xfs_content(rt_bio_address(bio, offset), block), 1);
		return block;
	}
	if (block > left)
		block = left;
	found = rt_bio_metadata(bio, offset << 32 | block,
				array->geometry.array_sectors / rt_found_block(by_address), 1);
	if (found == RT_NOT_METADATA)
		return 0;	/* the page belongs to a file, so the bio's other pages do, too */
	if (found == RT_ZEROES)
		found = RT_ORIGIN_UNKNOWN;
	/*
	 * In a read of more than one block, content that matches no known structure (other_metadata) may
	 * belong to a file: do not learn it.
	 */
	rt_read_done(key, found, found != RT_ORIGIN_UNKNOWN &&
			    ((left == block && !offset) || found != RT_ORIGIN_OTHER_METADATA));
	return block;
}

/* Handles a completed bio of a filesystem. start: first sector of the device on the array. */
static __always_inline void on_filesystem(struct bio *bio, __u64 address, __u32 index, __u64 start)
{
	__u64 sector = bio->bi_iter.bi_sector + start, offset = 0;
	__u32 size = bio->bi_iter.bi_size, block, i;

	if (rt_op_of(bio->bi_opf) != RT_OP_READ || bio->bi_status)
		return;
	for (i = 0; i < RT_READ_BLOCKS && offset < size; i++) {
		block = rt_read_block(address, index, sector, offset, size - offset);
		if (!block)
			break;
		offset += block;
		sector += block >> 9;
	}
}

/*
 * Origin of a bio for which the kernel has skipped the first program. address: that of the bio, or
 * of its kept copy; sector: relative to the member.
 */
static __always_inline __u32 shadow_origin(struct bio *bio, __u64 address,
					   const struct rt_part *part,
					   __u64 sector, __u32 size)
{
	__u32 op = rt_op_of(bio->bi_opf);
	__u32 reason = rt_md_reason(address, (__u64)RT_PEEK((struct bio *)address, bi_end_io), op,
				    part->array, part->flags);

	if (reason != RT_BY_ADDRESS)
		return reason;
	/*
	 * the content of a read through the device's page cache decides, which shadow programs do not
	 * examine
	 */
	if (op == RT_OP_READ && (bio->bi_status || !rt_is_file_page(bio)))
		return rt_no_origin();
	return rt_one_origin(part->member, sector, op, size);
}

/*
 * Counts a completed bio of a nested array or a device mapper device that is a member, like a
 * request on a disk. Of a bio that device mapper has split, the one kept at its submission.
 */
static __always_inline void on_nested(struct bio *bio, __u64 address, struct rt_dev *d,
				      __u32 instance)
{
	__u32 op = rt_op_of(bio->bi_opf), size = bio->bi_iter.bi_size, origin;
	__u64 sector = bio->bi_iter.bi_sector, trimmed;
	struct rt_kept_bio *k = rt_kept_bio(address);
	struct rt_part *part;
	struct rt_row *row;

	if (k && k->bio == address) {
		k->bio = 0;
		trimmed = sector - RT_PEEK((struct bio *)k->copy, bi_iter.bi_sector);
		/* otherwise another bio has taken the entry meanwhile */
		if (RT_PEEK((struct bio *)k->copy, bi_iter.bi_size) == size + (trimmed << 9)) {
			address = k->copy;
			sector -= trimmed;
			size += trimmed << 9;
		}
	}
	part = rt_part_at(d, sector);
	if (!part)
		return;
	if (size && instance == RT_SHADOW) {
		origin = shadow_origin(bio, address, part, sector - part->start, size);
		row = rt_row(part->member, origin, op, instance);
		if (row)
			rt_bump(row->bytes, size);
	} else if (size) {
		origin = rt_walk(address, part->member, part->start,
				 op | (part->flags | RT_WALK_NESTED_ARRAY |
				       (bio->bi_status ? RT_WALK_FAILED : 0)) << RT_WALK_FLAGS_SHIFT,
				 size);
	} else if (bio->bi_opf & RT_REQ_PREFLUSH) {
		op = RT_OP_FLUSH;
		origin = rt_member_flush_origin(part->member);
	} else {
		return;
	}
	row = rt_row(part->member, origin & RT_ORIGIN_MASK, op, instance);
	if (row)
		rt_bump(row->requests, 1);
	else
		count_loss(RT_LOST_ROWS);
	if (rt_recording)
		rt_emit_request(bpf_ktime_get_ns(), 0, 0,
				(size ? sector : 0) |
				rt_event_flags(bio->bi_opf) << RT_EVENT_SECTOR_BITS,
				rt_what(part->member, origin, op, size) |
				1ULL << RT_WHAT_NESTED_ARRAY |
				(bio->bi_status ? 1ULL << RT_WHAT_ERROR : 0));
}

/* arg: address of the tracepoint argument that holds the bio */
static __always_inline int on_bio_complete(struct bio *bio, unsigned long long *arg, __u32 instance)
{
	struct rt_dev_entry *e;
	struct rt_dev *d;
	__u64 address;
	__u32 index;

	if (rt_already_seen(instance, RT_SEEN_BIO_COMPLETE, rt_peek((__u64)arg)))
		return 0;
	e = rt_dev_entry(rt_disk_number(rt_bio_disk(bio)));
	if (!e || !(e->flags & (RT_DEV_STACKED | RT_DEV_NESTED | RT_DEV_REBUILDS)))
		return 0;
	index = e->index;
	d = bpf_map_lookup_elem(&rt_devs, &index);
	if (!d || !rt_counts_completion(RT_SEEN_BIO_COMPLETE))
		return 0;
	/* read as a number, because global functions take no pointers on 5.10 */
	address = rt_peek((__u64)arg);
	if (e->flags & RT_DEV_NESTED)
		on_nested(bio, address, d, instance);
	else if (e->flags & RT_DEV_STACKED)
		on_filesystem(bio, address, d->fs_array - 1, d->fs_start);
	else
		on_filesystem(bio, address, e->array - 1, 0);
	return 0;
}

SEC("?tp_btf/block_bio_complete")
int BPF_PROG(rt_bio_complete, struct request_queue *q, struct bio *bio)
{
	return on_bio_complete(bio, &ctx[1], RT_FIRST);
}

SEC("?tp_btf/block_bio_complete")
int BPF_PROG(rt_bio_complete_2, struct request_queue *q, struct bio *bio)
{
	return rt_shadow(RT_SEEN_BIO_COMPLETE, on_bio_complete(bio, &ctx[1], RT_SHADOW));
}
