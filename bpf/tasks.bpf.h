/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts bios by the task that submitted them, see tasks.bpf.c. */
#ifndef RAIDTRACE_TASKS_BPF_H
#define RAIDTRACE_TASKS_BPF_H

#include "compat.bpf.h"
#include "peek.bpf.h"

enum {
	/* include/linux/sched.h */
	RT_PF_WQ_WORKER = 0x00000020,
	RT_PF_KTHREAD = 0x00200000,
};

/* Adds to the bios of a task. Sets key->interval. */
static __always_inline void rt_add_task(struct rt_task_key *key, const struct rt_io *add)
{
	key->interval = rt_interval;
	rt_add_or_lose(&rt_task_ios, key, add, RT_LOST_TASKS);
}

static __always_inline __u64 rt_task_number(__u32 pid, __u32 array, __u32 origin, __u32 op)
{
	union {
		struct rt_task_key key;
		__u64 number;
	} u = { .key = { .pid = pid, .array = array, .origin_op = origin << 3 | op } };

	return u.number;
}

/*
 * Stores the name of the current task, which submits to an array. Does nothing if `pid` is not its
 * pid: rt_worker_submits() has stored that name.
 */
int rt_note_task(__u32 pid, __u32 array);

/* Pid of the task for which a kworker submits a bio, see rt_submitter(). */
__u32 rt_worker_submits(__u64 bio, __u32 array);

/* Origin of an empty flush that a kworker submits. */
__u32 rt_worker_flush_origin(__u64 bio);

/* jbd2/DEVICE-INODE (fs/jbd2/journal.c) */
static __always_inline bool rt_is_journal_thread(const char *comm)
{
	return comm[0] == 'j' && comm[1] == 'b' && comm[2] == 'd' && comm[3] == '2' &&
	       comm[4] == '/';
}

/*
 * Pid to which a bio submitted by the current task is charged: the task's own pid, unless the task
 * is blk-throttle's kworker (rt_worker_submits()). arg: address of the tracepoint argument that
 * holds the bio.
 */
static __always_inline __u32 rt_submitter(unsigned long long *arg, __u32 array)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (RT_PEEK(task, flags) & RT_PF_WQ_WORKER)
		return rt_worker_submits(rt_peek((__u64)arg), array);
	return RT_PEEK(task, pid);
}

/* Slow path of rt_count_task(): the slot has another key, or belongs to an earlier interval. */
int rt_replace_task_slot(__u64 slot, __u64 wanted, __u64 bytes, __u32 instance);

/* The entry of a bio in rt_nowaits. */
static __always_inline struct rt_nowait *rt_nowait(__u64 bio)
{
	/* the multiplier is 2^64 divided by the golden ratio */
	__u32 slot = bio * 0x9e3779b97f4a7c15ULL >> (64 - RT_NOWAIT_BITS);

	return bpf_map_lookup_elem(&rt_nowaits, &slot);
}

/* Counts a bio for `pid`, as returned by rt_submitter(). */
static __always_inline void rt_count_task(__u32 pid, __u32 array, __u32 origin, __u32 op,
					  __u64 bytes, __u32 instance)
{
	__u64 slot = pid ^ origin << 2 ^ op;
	__u64 wanted = rt_task_number(pid, array, origin, op);
	struct rt_task_pending *p;
	struct rt_task_slot *s;

	p = bpf_map_lookup_elem(&rt_tasks_pending, &instance);
	if (!p || !rt_counts())
		return;
	/* 64 bits and opaque, as in rt_row() */
	barrier_var(slot);
	slot &= RT_TASK_SLOTS - 1;
	s = &p->slot[slot];
	if (s->key == wanted && s->io.bios && s->interval == rt_interval) {
		rt_bump(s->io.bios, 1);
		rt_bump(s->io.bytes, bytes);
		return;
	}
	rt_replace_task_slot(slot, wanted, bytes, instance);
}

#endif
