/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Start and end of an operation. */
#ifndef RAIDTRACE_SLOW_OPERATION_BPF_H
#define RAIDTRACE_SLOW_OPERATION_BPF_H

#include "slow.bpf.h"

/* include/linux/fs.h, the same in 5.10 to 7.2 */
enum {
	RT_IOCB_DSYNC = 1 << 1,
	RT_IOCB_APPEND = 1 << 4,	/* ki_pos is set later by the kernel */
	RT_IOCB_DIRECT = 1 << 17,
	RT_S_SYNC = 1 << 0,
	RT_S_NOSEC = 1 << 12,
	RT_SB_SYNCHRONOUS = 1 << 4,
};

/* Starts an operation of the current task; NULL if that is not possible. */
static __always_inline struct rt_slow_task *rt_slow_begin_at(__u32 pid, __u16 kind)
{
	struct rt_slow_task *t = rt_slow_task(pid);

	if (!t)
		return (void *)0;
	if (t->pid && t->pid != pid) {
		rt_slow_lost(slots);
		return (void *)0;
	}
	/* the slot may hold an older operation of this task whose end was missed */
	t->pid = 0;
	t->kind = kind;
	t->syncs = 0;
	t->flags = 0;
	t->depth = 0;
	t->sleeps = 0;
	t->since_ns = 0;
	t->no_entry_ns = 0;
	t->dev = 0;
	t->inode = 0;
	t->iocb = 0;
	t->position = 0;
	t->bytes = 0;
	t->start_ns = bpf_ktime_get_ns();
	t->pid = pid;
	return t;
}

static __always_inline bool rt_slow_is_sync(__u32 kind)
{
	return kind == RT_SLOW_FSYNC || kind == RT_SLOW_FDATASYNC;
}

/*
 * Starts an operation on an inode; NULL if the inode is not on a traced filesystem, or if the
 * operation is a part of the one in the slot: ext4_sync_file() or xfs_file_fsync() in a synchronous
 * write, or a truncation, for example after a failed write, or in fallocate. Otherwise the
 * operation in the slot has ended: the kernel skips a program that is switched out, also one at the
 * end of an operation. So a stale synchronous write takes at most the syncs that it had left. Not
 * inline, so that its code exists once per file.
 */
static __noinline __attribute__((unused)) struct rt_slow_task *
rt_slow_begin(struct inode *inode, __u32 kind)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);

	if (!rt_slow_is_fs(inode->i_sb->s_dev))
		return (void *)0;
	if (t && t->syncs && t->inode == (__u64)inode && rt_slow_is_sync(kind)) {
		t->syncs--;
		t->depth++;
		t->flags |= RT_SLOW_SYNCS;
		return (void *)0;
	}
	if (t && kind == RT_SLOW_TRUNCATE && !rt_slow_is_sync(t->kind))
		return (void *)0;
	t = rt_slow_begin_at(pid, kind);
	if (t)
		t->inode = (__u64)inode;
	return t;
}

/*
 * The current task's operation is a read or write of t->iocb, which is asynchronous. Always returns
 * 0.
 */
int rt_slow_begin_async(__u32 depth);

static __always_inline void rt_slow_set_iocb(struct rt_slow_task *t, const struct kiocb *iocb)
{
	if (iocb->ki_complete && rt_slow_async_ends) {
		t->iocb = (__u64)iocb;
		rt_slow_begin_async(t->flags & RT_SLOW_DIRECT ?
				    iocb->ki_filp->f_inode->i_dio_count.counter + 1 : 0);
	}
}

/* Describes the read of the operation that has just started. */
static __always_inline void rt_slow_set_read(struct rt_slow_task *t, const struct kiocb *iocb,
					     const struct iov_iter *to)
{
	t->position = iocb->ki_pos;
	t->bytes = to->count;
	if (iocb->ki_flags & RT_IOCB_DIRECT)
		t->flags |= RT_SLOW_DIRECT;
	rt_slow_set_iocb(t, iocb);
}

/* Describes the write of the operation that has just started, except RT_SLOW_EXTENDS. */
static __always_inline void rt_slow_set_write(struct rt_slow_task *t, const struct kiocb *iocb,
					      const struct iov_iter *from, const struct inode *inode)
{
	t->position = iocb->ki_flags & RT_IOCB_APPEND ? inode->i_size : iocb->ki_pos;
	t->bytes = from->count;
	/* generic_write_sync(): twice if a direct write continues as a buffered one */
	if (iocb->ki_flags & RT_IOCB_DSYNC || inode->i_flags & RT_S_SYNC ||
	    inode->i_sb->s_flags & RT_SB_SYNCHRONOUS)
		t->syncs = 1;
	if (iocb->ki_flags & RT_IOCB_DIRECT) {
		t->flags |= RT_SLOW_DIRECT;
		t->syncs *= 2;
	}
	if ((t->position | t->bytes) & (inode->i_sb->s_blocksize - 1))
		t->flags |= RT_SLOW_UNALIGNED;
	if (!(inode->i_flags & RT_S_NOSEC))
		/* file_remove_privs() looks for setuid bits and file capabilities */
		t->flags |= RT_SLOW_SECURITY;
}

/*
 * Ends the current task's operation if it is of this kind. Always returns 0. Not inline, so that it
 * is verified once.
 */
int rt_slow_end(__u32 kind);

/* A program that does so at the end of a function. */
#define RT_SLOW_END(name, function, kind)		\
	SEC("?fexit/" function)				\
	int name(void *ctx)				\
	{						\
		rt_slow_end(kind);			\
		return 0;				\
	}

/*
 * A program at the start of an operation on the directory that is the last argument. begin:
 * rt_slow_begin() or the like
 */
#define RT_SLOW_DIRECTORY(name, function, begin, kind, args...)	\
	SEC("?fentry/" function)				\
	int BPF_PROG(name, ##args, struct inode *dir)		\
	{							\
		begin(dir, kind);				\
		return 0;					\
	}

/* Like rt_slow_end(), at the end of a read or write, which may be asynchronous and go on. */
int rt_slow_end_async(__u32 kind, __s64 result);

/* Sends an asynchronous operation that has not ended. Always returns 0. */
int rt_slow_send_async(__u64 iocb);

#endif
