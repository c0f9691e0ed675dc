// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reads and writes whose submitter does not wait (AIO, io_uring, loop devices): kiocbs with
 * ki_complete. Such a kiocb is direct IO that returns -EIOCBQUEUED and ends in
 * iomap_dio_complete(), in any context, possibly before its submitter has returned; or it is tried
 * again, by io_uring, which uses the same kiocb (-EAGAIN; -EIOCBQUEUED of a buffered read, which
 * waits for a page); or it has ended when the call returns.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow_async.bpf.h"
#include "slow_operation.bpf.h"

enum {
	RT_EAGAIN = 11,
	RT_EIOCBQUEUED = 529,		/* include/linux/errno.h */
	RT_IOCB_WRITE = 1 << 18,	/* include/linux/fs.h, the same in 5.10 to 7.3 */
};

/* Orders the stores before it and the loads after it (x86-64). */
static __always_inline void rt_barrier(void)
{
	__u64 any = 0;

	__sync_fetch_and_add(&any, 1);
	asm volatile("" : : "r"(&any) : "memory");
}

/*
 * Sends an operation that was slow. The details of its submission, if there are any, are in
 * rt_slow_submissions.
 */
static __noinline int send(__u64 iocb, const struct rt_slow_async *a)
{
	/*
	 * while one that has not ended is sent, its completion may send it too; not the address of a kiocb
	 */
	__u64 key = a->slept || a->end_ns ? iocb : RT_SLOW_TASKS;
	/* without sleeps a quarter suffices, of which userspace knows the rest to be 0 */
	__u64 size = a->slept ? sizeof(struct rt_slow_operation) :
				__builtin_offsetof(struct rt_slow_operation, off_cpu.sleeps);
	struct rt_slow_operation *o;
	struct inode *inode = (struct inode *)a->inode;
	__u32 zero = 0;
	void *none;

	if (!a->slept) {
		none = bpf_map_lookup_elem(&rt_slow_zero, &zero);
		if (none)
			bpf_map_update_elem(&rt_slow_submissions, &key, none, BPF_ANY);
	}
	o = bpf_map_lookup_elem(&rt_slow_submissions, &key);
	if (!o) {
		rt_slow_lost(operations);
		return 0;
	}
	o->event = RT_SLOW_EVENT_OPERATION;
	o->pid = a->pid;
	o->tgid = a->tgid;
	o->kind = a->kind;
	o->flags = a->flags;
	o->start_ns = a->start_ns;
	o->attempt_ns = a->attempt_ns;
	o->queued_ns = a->queued_ns;
	o->released_ns = a->released_ns;
	o->io = a->io;
	o->depth = a->depth;
	o->end_ns = a->end_ns;
	o->position = a->position;
	o->bytes = a->bytes;
	__builtin_memcpy(o->comm, a->comm, RT_COMM);
	o->inode = BPF_CORE_READ(inode, i_ino);
	o->generation = BPF_CORE_READ(inode, i_generation);
	o->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	if (bpf_ringbuf_output(&rt_slow_events, o, size, 0))
		rt_slow_lost(events);
	if (!a->slept)
		bpf_map_delete_elem(&rt_slow_submissions, &key);
	return 0;
}

/*
 * Counts an operation that has ended. contended: its submitter, its completion, or the next
 * operation of the kiocb may be here at the same time.
 */
static __noinline int finish(struct rt_slow_async *a, __u64 iocb, bool contended)
{
	__u64 key = iocb ^ a->start_ns, ns;
	struct rt_slow_sum *sum;
	__u8 value = 0;
	__u32 kind;

	if (contended && bpf_map_update_elem(&rt_slow_ended, &key, &value, BPF_NOEXIST))
		return 0;
	ns = a->end_ns - a->start_ns;
	kind = RT_SLOW_KINDS + a->kind;
	sum = bpf_map_lookup_elem(&rt_slow_sums, &kind);
	if (sum) {
		/* an interrupt may come here, too */
		__sync_fetch_and_add(&sum->count, 1);
		__sync_fetch_and_add(&sum->ns, ns);
	}
	if (ns >= rt_slow_threshold) {
		if (sum)
			__sync_fetch_and_add(&sum->slow, 1);
		send(iocb, a);
	}
	if (a->slept)
		bpf_map_delete_elem(&rt_slow_submissions, &iocb);
	rt_slow_release(a, iocb);
	return 0;
}

__noinline int rt_slow_send_async(__u64 iocb)
{
	struct rt_slow_async *a = rt_slow_async_of(iocb);

	if (a && !a->end_ns)
		send(iocb, a);
	return 0;
}

/*
 * Returns the entry for an operation of the current task that starts, without its inode and the
 * like; NULL if there is no room.
 */
static __noinline struct rt_slow_async *open_entry(__u64 iocb, __u64 now)
{
	struct rt_slow_async *a = rt_slow_async_of(iocb);
	__u64 id = bpf_get_current_pid_tgid();
	struct task_struct *task;

	/*
	 * its submitter and its completion missed each other, or this one's address was free before the
	 * submitter returned
	 */
	if (a && a->end_ns) {
		finish(a, iocb, true);
		a = rt_slow_async_of(iocb);
		if (a) {
			rt_slow_lost(operations);
			return (void *)0;
		}
	}
	/* otherwise the end of an earlier one was missed */
	if (!a)
		a = rt_slow_claim(iocb);
	if (!a)
		return (void *)0;
	a->start_ns = now;
	a->attempt_ns = now;
	a->queued_ns = 0;
	a->alone_ns = 0;
	a->end_ns = 0;
	a->released_ns = 0;
	a->io.end_ns = 0;
	a->again = 0;
	a->slept = 0;
	a->pid = id;
	a->tgid = id >> 32;
	bpf_get_current_comm(a->comm, sizeof(a->comm));
	/* threads of io_uring, iou-sqp-PID and iou-wrk-PID, have the name of their process */
	if (!__builtin_memcmp(a->comm, "iou-", 4)) {
		task = (void *)bpf_get_current_task();
		BPF_CORE_READ_INTO(&a->comm, task, group_leader, comm);
	}
	return a;
}

__noinline int rt_slow_begin_async(__u32 depth)
{
	struct rt_slow_task *t = rt_slow_current(bpf_get_current_pid_tgid());
	struct rt_slow_async *a;
	__u64 iocb;

	if (!t)
		return 0;
	iocb = t->iocb;
	a = rt_slow_async_of(iocb);
	if (a && !a->end_ns && a->again && a->inode == t->inode && a->position == t->position &&
	    a->kind == t->kind) {
		a->attempt_ns = t->start_ns;
		a->queued_ns = 0;
		a->again = 0;
		return 0;
	}
	a = open_entry(iocb, t->start_ns);
	if (!a)
		return 0;
	a->inode = t->inode;
	a->position = t->position;
	a->bytes = t->bytes;
	a->kind = t->kind;
	a->flags = t->flags;
	a->depth = depth;
	barrier();
	a->iocb = iocb;
	return 0;
}

/* Moves the sleeps of the attempt that ends to the kiocb. */
static __always_inline void keep_sleeps(__u64 iocb, struct rt_slow_async *a,
					const struct rt_slow_task *t)
{
	__u32 pid = t->pid;
	struct rt_slow_operation *o;

	if (!t->sleeps)
		return;
	o = bpf_map_lookup_elem(&rt_slow_operations, &pid);
	if (!o)
		return;
	o->off_cpu.missed_ns += t->no_entry_ns;
	if (bpf_map_update_elem(&rt_slow_submissions, &iocb, o, BPF_ANY))
		rt_slow_lost(operations);
	else
		a->slept = 1;
}

__noinline int rt_slow_end_async(__u32 kind, __s64 result)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	struct rt_slow_async *a;
	__u64 iocb;

	if (!t || t->kind != kind || (!t->iocb && result != -RT_EIOCBQUEUED))
		return rt_slow_end(kind);
	iocb = t->iocb;
	a = rt_slow_async_of(iocb);
	/* the address may belong to another operation already: this one has been counted then */
	if (a && a->attempt_ns == t->start_ns) {
		if (result == -RT_EAGAIN || (result == -RT_EIOCBQUEUED && !(t->flags & RT_SLOW_DIRECT))) {
			a->again = 1;
		} else if (result == -RT_EIOCBQUEUED) {
			keep_sleeps(iocb, a, t);
			/*
			 * The completion, which may run now, stores its time and then looks for this one, and
			 * so one of the two sees the other.
			 */
			a->queued_ns = bpf_ktime_get_ns();
			rt_barrier();
			if (*(volatile __u64 *)&a->end_ns)
				finish(a, iocb, true);
			else
				a->alone_ns = t->start_ns;
		} else {
			keep_sleeps(iocb, a, t);
			a->end_ns = bpf_ktime_get_ns();
			finish(a, iocb, false);
		}
	}
	if (t->sleeps)
		bpf_map_delete_elem(&rt_slow_operations, &pid);
	t->pid = 0;
	return 0;
}

static __noinline int completed(__u64 iocb, __s64 result)
{
	struct rt_slow_async *a = rt_slow_async_of(iocb);

	if (!a || a->end_ns)
		return 0;
	if (result == -RT_EAGAIN) {	/* io_uring tries it again */
		a->again = 1;
		return 0;
	}
	a->end_ns = bpf_ktime_get_ns();
	rt_barrier();
	if (*(volatile __u64 *)&a->alone_ns == a->attempt_ns)
		finish(a, iocb, false);
	else if (*(volatile __u64 *)&a->queued_ns)
		finish(a, iocb, true);
	return 0;
}

/*
 * Where the functions of the filesystem cannot be hooked (6.12 and later): the operation starts
 * here, with the inode's lock held, and the end of its submission is not seen.
 */
SEC("?tp_btf/iomap_dio_rw_begin")
int BPF_PROG(rt_slow_dio_begin, struct kiocb *iocb, struct iov_iter *iter)
{
	struct rt_slow_task *t = rt_slow_current(bpf_get_current_pid_tgid());
	struct rt_slow_async *a;
	struct inode *inode;
	__u64 now, key;

	if (rt_is_null(iocb) || !iocb->ki_complete || (t && t->iocb == (__u64)iocb))
		return 0;
	inode = iocb->ki_filp->f_inode;
	if (!rt_slow_is_fs(inode->i_sb->s_dev))
		return 0;
	now = bpf_ktime_get_ns();
	key = rt_number(iocb);
	a = open_entry(key, now);
	if (!a)
		return 0;
	a->queued_ns = now;
	a->alone_ns = now;
	a->inode = (__u64)inode;
	a->position = iocb->ki_pos;
	a->bytes = rt_is_null(iter) ? 0 : iter->count;
	a->kind = iocb->ki_flags & RT_IOCB_WRITE ? RT_SLOW_WRITE : RT_SLOW_READ;
	a->flags = RT_SLOW_DIRECT;
	a->depth = inode->i_dio_count.counter + 1;
	barrier();
	a->iocb = key;
	return 0;
}

/*
 * 6.12 and later; after unwritten extents are converted and O_DSYNC's flush. Two programs, because
 * the kernel skips a program in an interrupt of itself: a disk's interrupt during the completion by
 * a thread. It does not skip the other one.
 */
SEC("?tp_btf/iomap_dio_complete")
int BPF_PROG(rt_slow_dio_done, struct kiocb *iocb, int error, __s64 result)
{
	return rt_is_null(iocb) || !iocb->ki_complete ? 0 : completed(rt_number(iocb), error ?: result);
}

SEC("?tp_btf/iomap_dio_complete")
int BPF_PROG(rt_slow_dio_done_too, struct kiocb *iocb, int error, __s64 result)
{
	return rt_is_null(iocb) || !iocb->ki_complete ? 0 : completed(rt_number(iocb), error ?: result);
}

static __always_inline int dio_in(struct iomap_dio *dio)
{
	__u64 key = (__u64)dio, iocb = (__u64)dio->iocb;

	if (dio->iocb->ki_complete)
		bpf_map_update_elem(&rt_slow_dios, &key, &iocb, BPF_ANY);
	return 0;
}

static __always_inline int dio_out(struct iomap_dio *dio, __s64 result)
{
	__u64 key = (__u64)dio, *iocb = bpf_map_lookup_elem(&rt_slow_dios, &key);

	if (!iocb)
		return 0;
	completed(*iocb, result);
	bpf_map_delete_elem(&rt_slow_dios, &key);
	return 0;
}

#define RT_SLOW_DIO(in, out)						\
	SEC("?fentry/iomap_dio_complete")				\
	int BPF_PROG(in, struct iomap_dio *dio)				\
	{								\
		return dio_in(dio);					\
	}								\
	SEC("?fexit/iomap_dio_complete")				\
	int BPF_PROG(out, struct iomap_dio *dio, __s64 result)		\
	{								\
		return dio_out(dio, result);				\
	}

RT_SLOW_DIO(rt_slow_dio_in, rt_slow_dio_out)
RT_SLOW_DIO(rt_slow_dio_in_too, rt_slow_dio_out_too)
