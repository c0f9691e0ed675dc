// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Operations on files: fsync and fdatasync at tracepoints, all others at functions. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow_operation.bpf.h"

/*
 * Completes the event of an operation of a thread and sends it. now: 0 if the operation has not
 * ended
 */
static __always_inline void send(struct rt_slow_operation *o, const struct rt_slow_task *t,
				 __u32 pid, __u64 now)
{
	struct inode *inode = (struct inode *)t->inode;

	o->event = RT_SLOW_EVENT_OPERATION;
	o->pid = pid;
	o->kind = t->kind;
	o->flags = t->flags;
	o->start_ns = t->start_ns;
	o->end_ns = now;
	o->since_ns = t->since_ns;
	o->position = t->position;
	o->bytes = t->bytes;
	o->dev = t->dev;
	if (inode) {
		o->inode = BPF_CORE_READ(inode, i_ino);
		o->generation = BPF_CORE_READ(inode, i_generation);
		o->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	}
	if (bpf_ringbuf_output(&rt_slow_events, o, sizeof(*o), 0))
		rt_slow_lost(events);
}

__noinline int rt_slow_end(__u32 kind)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	struct rt_slow_operation *o;
	struct rt_slow_sum *sum;
	__u64 now, ns;

	if (!t || t->kind == RT_SLOW_JBD2)
		return 0;
	if (t->depth && rt_slow_is_sync(kind)) {
		t->depth--;
		return 0;
	}
	if (t->kind != kind)
		return 0;
	now = bpf_ktime_get_ns();
	ns = now - t->start_ns;
	sum = bpf_map_lookup_elem(&rt_slow_sums, &kind);
	if (sum) {
		sum->count++;
		sum->ns += ns;
		sum->slow += ns >= rt_slow_threshold;
	}
	if (ns >= rt_slow_threshold) {
		o = rt_slow_details(t, pid);
		if (o) {
			o->off_cpu.missed_ns += t->no_entry_ns;
			o->tgid = bpf_get_current_pid_tgid() >> 32;
			bpf_get_current_comm(o->comm, sizeof(o->comm));
			send(o, t, pid, now);
		}
	}
	if (t->sleeps)
		bpf_map_delete_elem(&rt_slow_operations, &pid);
	t->pid = 0;
	return 0;
}

/* Called by fsync, fdatasync, msync(MS_SYNC) and synchronous writes. */
SEC("?tp_btf/ext4_sync_file_enter")
int BPF_PROG(rt_slow_sync_in, struct file *file, int datasync)
{
	if (rt_is_null(file))
		return 0;
	rt_slow_begin(file->f_inode, datasync ? RT_SLOW_FDATASYNC : RT_SLOW_FSYNC);
	return 0;
}

SEC("?tp_btf/ext4_sync_file_exit")
int BPF_PROG(rt_slow_sync_out, struct inode *inode)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);

	if (t)
		rt_slow_end(t->kind == RT_SLOW_FDATASYNC ? RT_SLOW_FDATASYNC : RT_SLOW_FSYNC);
	return 0;
}

SEC("?fentry/ext4_file_read_iter")
int BPF_PROG(rt_slow_read_in, struct kiocb *iocb, struct iov_iter *to)
{
	struct rt_slow_task *t = rt_slow_begin(iocb->ki_filp->f_inode, RT_SLOW_READ);

	if (t)
		rt_slow_set_read(t, iocb, to);
	return 0;
}

SEC("?fexit/ext4_file_read_iter")
int BPF_PROG(rt_slow_read_out, struct kiocb *iocb, struct iov_iter *to, __s64 result)
{
	rt_slow_end_async(RT_SLOW_READ, result);
	return 0;
}

/* Stores the task of a buffered write. */
static __always_inline void note_write(__u64 host, __u32 pid)
{
	struct rt_slow_last_write *w = rt_slow_last_write(host);

	if (!w || (w->host == host && w->pid == pid))
		return;
	/* a commit on another CPU must not combine the pid of one task with the name of another */
	w->host = 0;
	barrier();
	w->pid = pid;
	bpf_get_current_comm(w->comm, sizeof(w->comm));
	barrier();
	w->host = host;
}

SEC("?fentry/ext4_file_write_iter")
int BPF_PROG(rt_slow_write_in, struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = iocb->ki_filp->f_inode;
	struct rt_slow_task *t = rt_slow_begin(inode, RT_SLOW_WRITE);

	if (!t)
		return 0;
	rt_slow_set_write(t, iocb, from, inode);
	if (t->position + t->bytes > (__u64)inode->i_size)
		t->flags |= RT_SLOW_EXTENDS;
	rt_slow_set_iocb(t, iocb);
	if (!(t->flags & RT_SLOW_DIRECT))
		note_write((__u64)inode, t->pid);
	return 0;
}

SEC("?fexit/ext4_file_write_iter")
int BPF_PROG(rt_slow_write_out, struct kiocb *iocb, struct iov_iter *from, __s64 result)
{
	rt_slow_end_async(RT_SLOW_WRITE, result);
	return 0;
}

SEC("?fentry/ext4_fallocate")
int BPF_PROG(rt_slow_fallocate_in, struct file *file, int mode, __s64 offset, __s64 len)
{
	struct rt_slow_task *t = rt_slow_begin(file->f_inode, RT_SLOW_FALLOCATE);

	if (t) {
		t->position = offset;
		t->bytes = len;
	}
	return 0;
}

RT_SLOW_END(rt_slow_fallocate_out, "ext4_fallocate", RT_SLOW_FALLOCATE)

SEC("?fentry/sync_file_range")
int BPF_PROG(rt_slow_range_in, struct file *file, __s64 position, __s64 bytes)
{
	struct rt_slow_task *t = rt_slow_begin(file->f_inode, RT_SLOW_RANGE);

	if (t) {
		t->position = position;
		t->bytes = bytes;
	}
	return 0;
}

RT_SLOW_END(rt_slow_range_out, "sync_file_range", RT_SLOW_RANGE)

/*
 * truncate(2), ftruncate(2) and open(2) with O_TRUNC call it with i_rwsem held. The eviction of a
 * deleted inode (ext4_evict_inode()), usually in the last unlink(2) or close(2), calls it without
 * the lock.
 */
SEC("?fentry/ext4_truncate")
int BPF_PROG(rt_slow_truncate_in, struct inode *inode)
{
	rt_slow_begin(inode, RT_SLOW_TRUNCATE);
	return 0;
}

RT_SLOW_END(rt_slow_truncate_out, "ext4_truncate", RT_SLOW_TRUNCATE)

/*
 * Sends the operation or the commit of a slot of rt_slow_tasks that has not ended. The task may end
 * it meanwhile. Global, so that it is verified once and not for each slot.
 */
__noinline int rt_slow_send_slot(__u32 slot)
{
	struct rt_slow_task *t = bpf_map_lookup_elem(&rt_slow_tasks, &slot);
	struct rt_slow_operation *o = (void *)0;
	struct rt_slow_commit *c;
	__u64 key = slot;	/* not the address of a kiocb */
	__u32 pid, zero = 0;
	void *none;

	if (!t)
		return 0;
	pid = t->pid;
	if (!pid)
		return 0;
	if (t->kind == RT_SLOW_JBD2) {
		c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
		if (c && bpf_ringbuf_output(&rt_slow_events, c, sizeof(*c), 0))
			rt_slow_lost(events);
		return 0;
	}
	if (bpf_ktime_get_ns() - t->start_ns < rt_slow_threshold)
		return 0;
	if (t->sleeps)
		o = bpf_map_lookup_elem(&rt_slow_operations, &pid);
	if (!o) {
		none = bpf_map_lookup_elem(&rt_slow_zero, &zero);
		if (!none || bpf_map_update_elem(&rt_slow_submissions, &key, none, BPF_ANY))
			return 0;
		o = bpf_map_lookup_elem(&rt_slow_submissions, &key);
	}
	if (o)
		send(o, t, pid, 0);
	bpf_map_delete_elem(&rt_slow_submissions, &key);
	return 0;
}

/*
 * Not attached: userspace runs it for each RT_SLOW_PART slots of rt_slow_tasks, of which the first
 * argument is the first, and for kiocbs of rt_slow_async that have been submitted (the second
 * argument).
 */
SEC("?raw_tp")
int rt_slow_unended(__u64 *ctx)
{
	__u32 i, first = ctx[0];
	__u64 iocb = ctx[1];

	if (iocb)
		return rt_slow_send_async(iocb);
	for (i = 0; i < RT_SLOW_PART; i++)
		rt_slow_send_slot(first + i);
	return 0;
}
