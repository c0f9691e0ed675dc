/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Differences between kernels, one block per kernel commit. They are detected by BTF, never by
 * version, because distributions backport commits. The hooks do not have to deal with them.
 */
#ifndef RAIDTRACE_COMPAT_BPF_H
#define RAIDTRACE_COMPAT_BPF_H

#include <bpf/bpf_core_read.h>
#include "peek.bpf.h"

/*
 * Commit "bpf: Augment raw_tp arguments with PTR_MAYBE_NULL", also in Debian's 6.12: the verifier
 * requires a NULL check of tracepoint arguments before use if the tracepoint is in a module. ext4
 * and jbd2 are modules in most distributions. The arguments are never NULL.
 */
#define rt_is_null(argument) (!(argument))

static __always_inline __u32 rt_disk_number(struct gendisk *disk)
{
	return (__u32)disk->major << 20 | (__u32)disk->first_minor;
}

/* The same for a disk given as an integer, not as a BTF pointer. */
static __always_inline __u32 rt_read_disk_number(struct gendisk *disk)
{
	return BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
}

/*
 * commit f3fa33acca9f ("block: remove the ->rq_disk field in struct request"): the disk of a
 * request is found through its queue.
 */
struct request___rq_disk {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

static __always_inline struct gendisk *rt_rq_disk(struct request *rq)
{
	if (bpf_core_field_exists(struct request___rq_disk, rq_disk))
		return ((struct request___rq_disk *)rq)->rq_disk;
	return rq->q->disk;
}

/*
 * commit 309dca309fc3 ("block: store a block_device pointer in struct bio"): before it, a bio had
 * bi_disk and bi_partno.
 */
struct bio___bi_disk {
	struct gendisk *bi_disk;
} __attribute__((preserve_access_index));

static __always_inline struct gendisk *rt_bio_disk(struct bio *bio)
{
	if (bpf_core_field_exists(struct bio___bi_disk, bi_disk))
		return ((struct bio___bi_disk *)bio)->bi_disk;
	return bio->bi_bdev->bd_disk;
}

/* The disk of a bio given as an integer, not as a BTF pointer. */
static __always_inline struct gendisk *rt_number_disk(__u64 bio)
{
	if (bpf_core_field_exists(struct bio___bi_disk, bi_disk))
		return BPF_CORE_READ((struct bio___bi_disk *)bio, bi_disk);
	return BPF_CORE_READ((struct bio *)bio, bi_bdev, bd_disk);
}

/*
 * First sector of the partition that a bio was submitted to; 0 for a whole disk, and if bios do not
 * record their partition.
 */
static __always_inline __u64 rt_bio_part_start(struct bio *bio)
{
	if (bpf_core_field_exists(struct bio___bi_disk, bi_disk))
		return 0;
	return BPF_CORE_READ(bio, bi_bdev, bd_start_sect);
}

/* True if a bio records its partition. */
static __always_inline bool rt_bio_has_part(void)
{
	return !bpf_core_field_exists(struct bio___bi_disk, bi_disk);
}

/*
 * commit 81ada09cc25e ("blk-flush: reuse rq queuelist in flush state machine"): before it, requests
 * that waited for a flush were on a separate list.
 */
struct request___flush_list {
	struct {
		struct list_head list;
	} flush;
} __attribute__((preserve_access_index));

static __always_inline __u32 rt_flush_list_offset(void)
{
	if (bpf_core_field_exists(struct request___flush_list, flush.list))
		return bpf_core_field_offset(struct request___flush_list, flush.list);
	return bpf_core_field_offset(struct request, queuelist);
}

/*
 * 7.2 renamed page.compound_head to compound_info. With optimised hugetlb vmemmap, it holds a mask
 * instead of a pointer (include/linux/page-flags.h, _compound_head()).
 */
struct page___compound_info {
	unsigned long compound_info;
} __attribute__((preserve_access_index));

/* Offset of the word whose lowest bit is set in all pages of a folio except the first. */
static __always_inline __u32 rt_page_head_offset(void)
{
	if (!bpf_core_field_exists(struct page___compound_info, compound_info))
		return bpf_core_field_offset(struct page, compound_head);
	return bpf_core_field_offset(struct page___compound_info, compound_info);
}

static __always_inline __u64 rt_page_head(__u64 page)
{
	/* a single read for both layouts, because each read costs stack before 6.2 */
	__u64 info = rt_peek(page + rt_page_head_offset()), mask;

	if (!(info & 1))
		return page;
	if (!bpf_core_field_exists(struct page___compound_info, compound_info))
		return info - 1;
	mask = info & ~1ULL;
	return (~mask & (~mask + 1)) == 0 ? page & mask : info - 1;
}

/*
 * 7.3 renamed bvec_iter.bi_bvec_done to bi_offset (include/linux/bvec.h). The functions that
 * advance the iterator, and so the meaning, are unchanged.
 */
struct bvec_iter___bi_offset {
	unsigned int bi_offset;
} __attribute__((preserve_access_index));

/* Bytes of the segment at bi_idx that are before the rest of a bio. */
static __always_inline __u32 rt_bio_segment_offset(struct bio *bio)
{
	__u32 offset = bpf_core_field_exists(struct bvec_iter___bi_offset, bi_offset) ?
		bpf_core_field_offset(struct bvec_iter___bi_offset, bi_offset) :
		bpf_core_field_offset(struct bvec_iter, bi_bvec_done);

	/* a single read for both names, because each read costs stack before 6.2 */
	return rt_peek((__u64)&bio->bi_iter + offset);
}

/* True if the kernel has the fields that lead from a bio to the owner and content of its pages. */
static __always_inline bool rt_has_pages(void)
{
	return bpf_core_field_exists(struct page, mapping) &&
	       (bpf_core_field_exists(struct page, compound_head) ||
		bpf_core_field_exists(struct page___compound_info, compound_info)) &&
	       (bpf_core_field_exists(struct bvec_iter, bi_bvec_done) ||
		bpf_core_field_exists(struct bvec_iter___bi_offset, bi_offset));
}

/*
 * commit e32cf5dfbe22 ("kthread: Generalize pf_io_worker so it can point to
 * struct kthread"): before it, set_child_tid pointed to a kthread's struct kthread.
 */
struct task_struct___set_child_tid {
	int *set_child_tid;
} __attribute__((preserve_access_index));

static __always_inline struct kthread *rt_kthread(struct task_struct *task)
{
	if (bpf_core_field_exists(struct task_struct, worker_private))
		return (struct kthread *)BPF_CORE_READ(task, worker_private);
	return (struct kthread *)BPF_CORE_READ((struct task_struct___set_child_tid *)task,
					       set_child_tid);
}

/*
 * commit 2f064a59a11f ("sched: Change task_struct::state"): before it, the state was a long with
 * another name.
 */
struct task_struct___state {
	volatile long state;
} __attribute__((preserve_access_index));

static __always_inline unsigned int rt_task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(struct task_struct___state, state))
		return ((struct task_struct___state *)task)->state;
	return task->__state;
}

/*
 * 7.2 removed the name of the union in struct dentry that holds d_alias
 * (include/linux/dcache.h).
 */
struct dentry___d_alias {
	struct hlist_node d_alias;
} __attribute__((preserve_access_index));

/* 0: unknown */
static __always_inline __u32 rt_alias_offset(void)
{
	if (bpf_core_field_exists(struct dentry___d_alias, d_alias))
		return bpf_core_field_offset(struct dentry___d_alias, d_alias);
	return bpf_core_field_exists(struct dentry, d_u.d_alias) ?
		bpf_core_field_offset(struct dentry, d_u.d_alias) : 0;
}

/*
 * PREEMPT_RT (include/linux/rwbase_rt.h): a struct rw_semaphore is a count of readers and an
 * rt_mutex, which a writer owns from before it waits for the readers until it releases the lock.
 */
struct rw_semaphore___rt {
	struct {
		struct {
			int counter;
		} readers;
		struct {
			struct task_struct *owner;
		} rtmutex;
	} rwbase;
} __attribute__((preserve_access_index));

static __always_inline bool rt_rwsem_has_mutex(void)
{
	return bpf_core_field_exists(struct rw_semaphore___rt, rwbase.rtmutex);
}

/*
 * Types private to ext4 (fs/ext4/ext4.h). If ext4 is a module, they are in the BTF of the module,
 * and missing on a kernel without module BTF.
 */
struct ext4_io_end___rt {
	struct inode *inode;
} __attribute__((preserve_access_index));

/* Types of drivers/md/dm-core.h and dm-crypt.c, which are usually modules too. */
struct dm_io___rt {
	struct bio *orig_bio;
	unsigned int sectors;
} __attribute__((preserve_access_index));

/*
 * Commit 7dd76d1feec7 ("dm: improve bio splitting and associated IO accounting") added
 * dm_io.sectors: since then, device mapper trims a bio to the part that it has not sent on. Before,
 * it split the bio, and both parts were completed.
 */
static __always_inline bool rt_dm_trims(void)
{
	return bpf_core_field_exists(struct dm_io___rt, sectors);
}

struct dm_target_io___rt {
	struct dm_io___rt *io;
	struct bio clone;
} __attribute__((preserve_access_index));

struct dm_crypt_io___rt {
	struct bio *base_bio;
} __attribute__((preserve_access_index));

/* drivers/md/md.h of 6.1, in the BTF of raid456. 5.10 and 6.12 have no such structure. */
struct md_io_acct___rt {
	struct bio *orig_bio;
} __attribute__((preserve_access_index));

/* drivers/md/md.h, in the BTF of the kernel or of the module md_mod */
struct mddev___rt {
	struct gendisk *gendisk;
	struct {} bio_set;
} __attribute__((preserve_access_index));

/* drivers/md/raid5-ppl.c, in the BTF of the kernel or of the module raid456 */
struct ppl_conf___rt {
	struct mddev___rt *mddev;
	struct {} flush_bs;
} __attribute__((preserve_access_index));

/* include/linux/journal-head.h, in the BTF of the kernel or of the module jbd2 */
struct journal_head___rt {
	unsigned int b_modified;
} __attribute__((preserve_access_index));

/* include/linux/jbd2.h, in the BTF of the kernel or of the module jbd2 */
struct transaction_chp_stats_s___rt {
	unsigned long cs_chp_time;
	__u32 cs_forced_to_close;
	__u32 cs_written;
} __attribute__((preserve_access_index));

struct transaction_s___rt {
	unsigned int t_tid;
	enum { RT_T_RUNNING } t_state;	/* the enum is anonymous in the kernel, too */
	unsigned long t_requested;
} __attribute__((preserve_access_index));

struct transaction_run_stats_s___rt {
	__u32 rs_handle_count;
	__u32 rs_blocks;
	__u32 rs_blocks_logged;
} __attribute__((preserve_access_index));

struct journal_s___rt {
	unsigned long j_flags;
	int j_barrier_count;
	struct block_device *j_dev, *j_fs_dev;
	struct transaction_s___rt *j_checkpoint_transactions;
} __attribute__((preserve_access_index));

/* include/linux/jbd2.h. The range is in bytes up to 7.1 and in pages since 7.2. */
struct jbd2_inode___rt {
	__s64 i_dirty_start, i_dirty_end;
	unsigned long i_dirty_start_page, i_dirty_end_page;
} __attribute__((preserve_access_index));

/*
 * commit 4996fc547f5b ("mm: let _folio_nr_pages overlay memcg_data in first tail page"), in 6.15:
 * another name of the number of pages of a large folio (include/linux/mm_types.h). Before 6.1,
 * struct folio has no such field.
 */
struct folio___folio_nr_pages {
	unsigned int _folio_nr_pages;
} __attribute__((preserve_access_index));

struct folio___nr_pages {
	unsigned int _nr_pages;
} __attribute__((preserve_access_index));

/* REQ_NOWAIT */
static __always_inline __u32 rt_req_nowait(void)
{
	return 1U << bpf_core_enum_value(enum req_flag_bits, __REQ_NOWAIT);
}

#endif
