/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel types in use. Partial on purpose: CO-RE relocates every access by name, so that only the
 * fields in use have to be declared. Never generated from the build host, which may have no md.
 * tools/check-btf looks up each field that is read in the BTF of the supported kernels.
 */
#ifndef RAIDTRACE_VMLINUX_H
#define RAIDTRACE_VMLINUX_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;
typedef __s64 s64;
typedef u64 sector_t;

enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_RB_NO_WAKEUP = 1,
};

enum req_flag_bits {
	__REQ_NOWAIT = 21,
};

/* include/uapi/linux/stat.h */
enum {
	RT_S_IFMT = 0170000,
	RT_S_IFREG = 0100000,
	RT_S_IFBLK = 0060000,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next, *prev;
};

/* stands for a word of any structure, see peek.bpf.h */
struct timespec64 {
	__s64 tv_sec;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	struct task_struct *group_leader;
	unsigned int __state;
	unsigned int flags;
	int exit_state;
	int pid;
	int tgid;
	char comm[16];
	struct css_set *cgroups;
	void *worker_private;
};

struct swait_queue_head {
	struct list_head task_list;
};

struct swait_queue {
	struct task_struct *task;
	struct list_head task_list;
};

struct completion {
	struct swait_queue_head wait;
};

/* only with CONFIG_BLK_CGROUP */
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct kthread {
	void *data;
};

struct worker {
	char desc[32];
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

typedef struct {
	s64 counter;
} atomic_long_t;

struct rw_semaphore {
	atomic_long_t owner;
};

typedef struct {
	int counter;
} atomic_t;

struct inode {
	unsigned short i_mode;
	unsigned int i_flags;
	s64 i_size;
	struct rw_semaphore i_rwsem;
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned int i_nlink;
	struct hlist_head i_dentry;
	u32 i_generation;
	atomic_t i_dio_count;
};

struct qstr {
	u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct file {
	struct inode *f_inode;
};

struct iov_iter {
	unsigned long count;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
	void *ki_complete;	/* a function; NULL: the caller waits */
	int ki_flags;
};

struct iomap_dio {
	struct kiocb *iocb;
	bool wait_for_completion;
	union {
		struct {
			struct task_struct *waiter;
		} submit;
	};
};

struct super_block {
	u32 s_dev;
	unsigned long s_blocksize;
	unsigned long s_flags;
	void *s_fs_info;
};

struct address_space {
	struct inode *host;
};

struct page {
	unsigned long compound_head;
	struct address_space *mapping;
	unsigned long private;
};

struct buffer_head {
	unsigned long b_state;
	struct buffer_head *b_this_page;
	struct page *b_page;
	sector_t b_blocknr;
	unsigned long b_size;
	char *b_data;
	struct block_device *b_bdev;
	void *b_private;
};

struct request_queue;

struct gendisk {
	int major;
	int first_minor;
};

struct block_device {
	sector_t bd_start_sect;
	u32 bd_dev;
	struct gendisk *bd_disk;
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bvec_iter {
	sector_t bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	unsigned short bi_flags;
	struct bvec_iter bi_iter;
	u8 bi_status;
	void *bi_end_io;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
	struct bio_vec *bi_io_vec;
	struct bio_set *bi_pool;
};

struct blk_flush_queue {
	unsigned int flush_running_idx : 1;
	struct list_head flush_queue[2];
};

struct blk_mq_hw_ctx {
	unsigned int queue_num;
	struct blk_flush_queue *fq;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	unsigned int cmd_flags;
	unsigned int rq_flags;
	int tag;
	unsigned int __data_len;
	sector_t __sector;
	unsigned short nr_phys_segments;
	struct bio *bio;
	struct bio *biotail;
	struct list_head queuelist;
	u64 start_time_ns;
	unsigned long deadline;
	u64 io_start_time_ns;
};

/* fs/ext4/ext4.h and mballoc.h: in the BTF of the kernel, or of the module ext4 */
struct ext4_group_info {
	unsigned long bb_state;
	int bb_free;
	int bb_fragments;
	int bb_largest_free_order;
};

struct ext4_sb_info {
	int s_desc_per_block_bits;
	struct ext4_group_info ***s_group_info;
	unsigned int s_log_groups_per_flex;
};

struct ext4_allocation_request {
	struct inode *inode;
	unsigned int len;
};

struct ext4_free_extent {
	int fe_len;
};

struct ext4_allocation_context {
	struct super_block *ac_sb;
	struct ext4_free_extent ac_g_ex;
	struct ext4_free_extent ac_b_ex;
	u16 ac_groups_scanned;
	u16 ac_flags;
	u8 ac_criteria;
	u8 ac_status;
	u8 ac_2order;
};

/* drivers/md/raid5.h, in the BTF of the module raid456 */
struct r5dev {
	struct bio req, rreq;
	struct bio *toread, *towrite, *written;
	sector_t sector;
	unsigned long flags;
};

enum r5dev_flags {
	R5_Insync = 4,
};

struct stripe_head {
	short pd_idx;
	short qd_idx;
	unsigned long state;
	int disks;
	struct stripe_head *batch_head;
	struct r5dev dev[1];
};

/* drivers/md/raid10.h, in the BTF of the module raid10 */
struct r10bio {
	sector_t sector;
};

#pragma clang attribute pop

#endif
