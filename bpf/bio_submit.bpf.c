// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bios submitted to the arrays: counts them by task and by file, and learns the origins of blocks
 * that do not belong to a fixed structure. Above md, the submitter is still the current task, and
 * the pages are still those of the filesystem.
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
#include "page.bpf.h"
#include "record.bpf.h"
#include "tasks.bpf.h"
#include "files.bpf.h"
#include "shadow.bpf.h"
#include "xfs.bpf.h"

/*
 * Origin of a flush, which has no address. Without a known filesystem: raw. Else journal if jbd2's
 * thread submits it, or a kworker of blk-throttle does so for that thread; else file_data, because
 * a task makes its file data durable (fsync, sync).
 */
static __always_inline __u32 flush_origin(const struct rt_array *array, unsigned long long *arg)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 flags = BPF_CORE_READ(task, flags);
	char comm[RT_COMM] = {};

	if (!(array->flags & (RT_ARRAY_EXT | RT_ARRAY_XFS)))
		return RT_ORIGIN_RAW;
	if (!(flags & RT_PF_KTHREAD))
		return RT_ORIGIN_FILE_DATA;
	if (flags & RT_PF_WQ_WORKER)
		return rt_worker_flush_origin(rt_peek((__u64)arg));
	bpf_get_current_comm(comm, sizeof(comm));
	return rt_is_journal_thread(comm) ? RT_ORIGIN_JOURNAL : RT_ORIGIN_FILE_DATA;
}

/* Emits the event of a bio that rt_count_task() counts. Returns its time; 0: no event. */
static __always_inline __u64 emit(__u32 pid, __u32 array, __u64 sector, __u64 inode, __u32 size,
				  __u32 what)
{
	if (!rt_recording)
		return 0;
	return rt_emit_submission(rt_learned_key(array, sector), inode, (__u64)pid << 32 | size,
				  what, 0);
}

/* Notes how a bio with REQ_NOWAIT was counted. bytes 0: not counted. */
static __always_inline void note_nowait(const struct rt_nowait *bio)
{
	struct rt_nowait *n = rt_nowait(bio->bio);

	if (n)
		*n = *bio;
}

static __always_inline void set_flush_origin(__u32 array, __u32 origin)
{
	__u64 *last = bpf_map_lookup_elem(&rt_flush_origins, &array);

	if (last)
		*last = origin;
}

/* Result of learn_bio(): the bio is counted at completion, when its content is available. */
enum { RT_LATER = 253 };

/*
 * Learns the origin of a block that does not belong to a fixed structure. inode: its file; 0:
 * unknown. lookup: result of rt_array_origin(). The content of a write is available. The content of
 * a read is available only at completion: until then, rt_learned records that a metadata read by
 * this task is in flight.
 */
static __always_inline __u32 learn_bio(__u64 bio, __u64 inode, __u64 key, __u32 pid,
				       const struct rt_array *array, __u64 lookup,
				       __u32 op, __u32 size)
{
	__u32 block = rt_found_block(lookup) << 9;
	__u64 found = RT_NOT_METADATA;

	if (!inode)
		found = rt_bio_metadata(bio, size < block ? size : block,
					array->geometry.array_sectors / rt_found_block(lookup),
					op == RT_OP_WRITE);

	if (found == RT_NOT_METADATA) {
		/*
		 * Delete a stale entry, for example of a metadata read that never completed: the block now
		 * belongs to a file.
		 */
		if (rt_found_origin(lookup) == RT_ORIGIN_UNKNOWN)
			bpf_map_delete_elem(&rt_learned, &key);
		return RT_ORIGIN_FILE_DATA;
	}
	if (op == RT_OP_READ && found == RT_ORIGIN_UNKNOWN) {
		rt_note_task(pid, key >> RT_LEARNED_ARRAY_SHIFT);
		rt_learn(key, rt_read_in_flight(pid, size));
		return RT_LATER;
	}
	if (found == RT_ZEROES)
		found = RT_ORIGIN_UNKNOWN;
	if (size == block)
		rt_learn(key, found);
	return found;
}

/*
 * Maximum number of blocks that rt_forget() deletes per bio: 256 pages of 4 KiB in blocks of 1 KiB.
 * The rest of a larger bio stays learned.
 */
enum { RT_FORGET_MAX = 1024 };

/*
 * Forgets learned blocks that file data overwrites. The hook on ext4_free_blocks() does so earlier,
 * but not for a filesystem that is not one contiguous range of the array (LVM with several
 * segments), and for at most RT_FREE_MAX blocks per call.
 */
__noinline int rt_forget(__u64 key, __u32 block, __u32 size)
{
	__u32 i;

	for (i = 0; i < RT_FORGET_MAX && i < size / block; i++) {
		bpf_map_delete_elem(&rt_learned, &key);
		key += block >> 9;
	}
	return 0;
}

/*
 * Origin of a bio outside fixed structures if the bio is XFS's metadata, and RT_NOT_METADATA if
 * not. Learns the origin for all blocks of the bio. RT_LATER: a read whose content decides at
 * completion. lookup: result of rt_array_origin(). op_size: op << 32 | size in bytes.
 * pid: the submitter's.
 */
__noinline __u32 rt_xfs_bio(__u64 bio, __u64 lookup, __u64 key, __u64 op_size, __u32 pid)
{
	__u32 block = rt_found_block(lookup) << 9, size = op_size, array = key >> RT_LEARNED_ARRAY_SHIFT;
	__u32 origin = rt_xfs_origin(bio, op_size, block);
	struct rt_array *a;

	if (origin == RT_NOT_METADATA)
		return origin;
	if (origin == RT_ORIGIN_UNKNOWN) {
		/* the content decides, unless the lookup has returned a learned origin */
		origin = rt_found_origin(lookup);
		a = bpf_map_lookup_elem(&rt_arrays, &array);
		if (origin != RT_ORIGIN_FILE_DATA && origin != RT_ORIGIN_UNKNOWN)
			return origin;
		/* not on dm-crypt: rt_read_origin() would examine cipher text */
		if (size == block && a && !(a->flags & RT_ARRAY_CRYPT)) {
			rt_note_task(pid, array);
			rt_learn(key, rt_read_in_flight(pid, size));
			return RT_LATER;
		}
		origin = RT_ORIGIN_OTHER_METADATA;
	}
	rt_xfs_learn(key, origin, size, block);
	return origin;
}

/*
 * Handles a bio that was submitted to an array. arg: address of the tracepoint argument that holds
 * the bio. Inline, because a call costs 10 ns if the kernel mitigates SRSO.
 */
static __always_inline int on_array(struct bio *bio, unsigned long long *arg, __u32 index,
				    __u64 sector, __u32 instance)
{
	struct rt_array *array = bpf_map_lookup_elem(&rt_arrays, &index);
	__u32 opf = bio->bi_opf, op = rt_op_of(opf), size = bio->bi_iter.bi_size, origin, block, pid;
	__u64 found, inode = 0, address = 0, now = 0;
	bool anonymous;

	if (!array)
		return 0;
	if (array->flags & RT_ARRAY_CRYPT && (__u64)bio->bi_end_io == rt_crypt_end)
		return 0;	/* already handled above dm-crypt */
	pid = rt_submitter(arg, index);
	if (!size) {
		if (opf & RT_REQ_PREFLUSH) {
			origin = flush_origin(array, arg);
			set_flush_origin(index, origin);
			rt_count_task(pid, index, origin, RT_OP_FLUSH, 0, instance);
			emit(pid, index, sector, 0, 0, rt_submitted(origin, RT_OP_FLUSH, opf));
		}
		return 0;
	}
	found = rt_array_origin(index, array, sector, op, size >> 9);
	origin = rt_found_origin(found);
	/* block size in bytes; 512 means a fixed structure */
	block = rt_found_block(found) << 9;
	if (rt_has_xfs && op <= RT_OP_WRITE && rt_found_xfs(found) &&
	    rt_may_be_xfs((__u64)bio->bi_end_io, opf)) {
		__u32 metadata = rt_xfs_bio(rt_peek((__u64)arg), found, rt_learned_key(index, sector),
					    (__u64)op << 32 | size, pid);

		if (metadata != RT_NOT_METADATA) {
			origin = metadata;
			goto counted;
		}
	}
	if (op <= RT_OP_WRITE && array->flags & (RT_ARRAY_EXT | RT_ARRAY_XFS) &&
	    (origin == RT_ORIGIN_FILE_DATA || origin == RT_ORIGIN_UNKNOWN)) {
		inode = rt_bio_file(bio, arg);
		anonymous = inode == RT_ANONYMOUS_PAGE;
		if (anonymous)
			inode = 0;
		if (rt_found_xfs(found) || !(array->flags & RT_ARRAY_EXT)) {
			/* XFS's metadata has been handled above: this bio is file data, or IO of the device itself */
			if (origin == RT_ORIGIN_UNKNOWN && op == RT_OP_WRITE)
				rt_forget(rt_learned_key(index, sector), block, size);
			origin = RT_ORIGIN_FILE_DATA;
		} else if (origin == RT_ORIGIN_UNKNOWN || (!inode && !anonymous && !rt_is_file_page(bio))) {
			/* read as a number, because global functions take no pointers on 5.10 */
			address = rt_peek((__u64)arg);
			origin = learn_bio(address, inode, rt_learned_key(index, sector), pid,
					   array, found, op, size);
		}
		if (origin == RT_ORIGIN_FILE_DATA) {
			rt_count_file(inode, index, op, size, 0, instance);
			/*
			 * only if the bio extends beyond the sectors that the lookup is valid for: they contain no
			 * learned block
			 */
			if (op == RT_OP_WRITE && rt_found_run(found) << 9 < size)
				rt_forget(rt_learned_key(index, sector), block, size);
		}
	} else if (op == RT_OP_WRITE && block > 512 &&
		   (inode = rt_bio_file(bio, arg)) > RT_ANONYMOUS_PAGE) {
		/* file data overwrites a block that was learned as metadata: forget it */
		origin = RT_ORIGIN_FILE_DATA;
		rt_count_file(inode, index, op, size, 0, instance);
		rt_forget(rt_learned_key(index, sector), block, size);
	}
counted:
	if (origin == RT_LATER) {
		size = 0;	/* not counted if it is refused: it has no content then */
	} else {
		if (opf & (RT_REQ_PREFLUSH | RT_REQ_FUA))
			set_flush_origin(index, origin);
		rt_count_task(pid, index, origin, op, size, instance);
		now = emit(pid, index, sector, origin == RT_ORIGIN_FILE_DATA ? inode : 0, size,
			   rt_submitted(origin, op, opf));
	}
	if (opf & rt_req_nowait())
		note_nowait(&(struct rt_nowait){
			.bio = rt_peek((__u64)arg),
			.task = rt_task_number(pid, index, origin, op),
			.inode = inode,
			.key = rt_learned_key(index, sector),
			.now_ns = now,
			.bytes = rt_counts() ? size : 0,
			.has_file = origin == RT_ORIGIN_FILE_DATA && op <= RT_OP_WRITE,
		});
	return 0;
}

static __always_inline int on_bio_queue(struct bio *bio, unsigned long long *arg, __u32 instance)
{
	struct rt_dev_entry *e;
	/* For a partition, the sector is already that of the whole device. */
	__u64 sector = bio->bi_iter.bi_sector;
	struct rt_dev *d;
	__u32 index;

	if (rt_already_seen(instance, RT_SEEN_BIO_SUBMIT, rt_peek((__u64)arg)))
		return 0;
	e = rt_dev_entry(rt_disk_number(rt_bio_disk(bio)));
	if (!e)
		return 0;
	if (e->flags & RT_DEV_STACKED) {	/* a filesystem's device on dm-crypt */
		index = e->index;
		d = bpf_map_lookup_elem(&rt_devs, &index);
		if (!d)
			return 0;
		index = d->fs_array - 1;	/* fs_array: index + 1; 0: none */
		sector += d->fs_start;
	} else {
		/* array: index + 1; 0: none. A nested array gets its bios from the array above it. */
		if (!e->array || e->flags & RT_DEV_NESTED)
			return 0;
		index = e->array - 1;
	}
	return on_array(bio, arg, index, sector, instance);
}

/*
 * Arguments since commit e8a676d61c07 ("block: simplify and extend the block_bio_merge tracepoint
 * class").
 */
SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_bio_queue, struct bio *bio)
{
	return on_bio_queue(bio, &ctx[0], RT_FIRST);
}

SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_bio_queue_2, struct bio *bio)
{
	return rt_shadow(RT_SEEN_BIO_SUBMIT, on_bio_queue(bio, &ctx[0], RT_SHADOW));
}

/* Before that commit, the queue is the first argument. */
SEC("?tp_btf/block_bio_queue")
int BPF_PROG(rt_bio_queue_q, struct request_queue *q, struct bio *bio)
{
	return on_bio_queue(bio, &ctx[1], RT_FIRST);
}
