// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Moves tasks' counts to rt_task_ios, and stores the names of tasks and the current work of
 * kworkers. This slow path runs when a CPU switches to another task, and once per interval.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "optional.bpf.h"
#include "tasks.bpf.h"

__u64 rt_interval;

/* Description of a kworker's current work; NULL if the kernel does not describe its type. */
static __always_inline const void *work_of(struct task_struct *task)
{
	struct worker *worker = BPF_CORE_READ(rt_kthread(task), data);

	return bpf_core_field_exists(worker->desc) ? &worker->desc : NULL;
}

/* Updates the entry of a task in rt_tasks if it has changed. */
static __always_inline void put_name(__u32 pid, __u32 array, const struct rt_task *task)
{
	struct rt_task_id id = { .pid = pid, .array = array };
	struct rt_task *old = bpf_map_lookup_elem(&rt_tasks, &id);
	const __u64 *now = (const __u64 *)task, *was = (const __u64 *)old;
	__u64 differ = 0;
	__u32 i;

	if (old) {
		for (i = 0; i < sizeof(*task) / sizeof(*now); i++)
			differ |= now[i] ^ was[i];
		if (!differ)
			return;
	}
	/* the table is never full: it drops the least recently used entry */
	if (bpf_map_update_elem(&rt_tasks, &id, task, BPF_ANY))
		count_loss(RT_LOST_BUSY);
}

/*
 * A kworker's name includes its current work: the work queue, or flush-MAJOR:MINOR in writeback
 * (set_worker_desc()). The work is read at submission, because the next work may be for another
 * device.
 */
__noinline int rt_note_task(__u32 pid, __u32 array)
{
	struct task_struct *current = (struct task_struct *)bpf_get_current_task();
	__u64 id = bpf_get_current_pid_tgid();
	struct rt_task task = {};

	if ((__u32)id != pid)
		return 0;	/* stored by rt_worker_submits() */
	task.tgid = id >> 32;
	task.cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(task.comm, sizeof(task.comm));
	if (BPF_CORE_READ(current, flags) & RT_PF_WQ_WORKER)
		bpf_probe_read_kernel(task.work, sizeof(task.work), work_of(current));
	put_name(pid, array, &task);
	return 0;
}

/*
 * True for a kworker that has written back. What it dirties in other work does not replace the name
 * of that: ext4-rsv-conversion, for example, runs in the worker that has just written the data.
 */
static __always_inline bool has_written_back(const struct rt_task_key *key)
{
	struct rt_task_id id = { .pid = key->pid, .array = key->array };
	struct rt_task *task = bpf_map_lookup_elem(&rt_tasks, &id);

	return task && task->work[0] == 'f';	/* flush-MAJOR:MINOR */
}

__noinline int rt_replace_task_slot(__u64 at, __u64 wanted, __u64 bytes, __u32 instance)
{
	struct rt_task_key *key = (struct rt_task_key *)&wanted;
	volatile struct rt_task_slot *s;
	struct rt_task_pending *p;
	struct rt_io old;
	__u64 version, was;

	p = bpf_map_lookup_elem(&rt_tasks_pending, &instance);
	if (!p)
		return 0;
	s = &p->slot[at & (RT_TASK_SLOTS - 1)];
	if ((key->origin_op & 7) != RT_OP_DIRTY || !has_written_back(key))
		rt_note_task(key->pid, key->array);
	if (s->key == wanted && s->io.bios) {
		rt_bump(s->io.bios, 1);
		rt_bump(s->io.bytes, bytes);
		s->interval = rt_interval;
		return 0;
	}
	was = s->key;
	old.bios = s->io.bios;
	old.bytes = s->io.bytes;
	version = s->version_first + 1;
	s->version_last = version;
	barrier();
	s->key = wanted;
	s->interval = rt_interval;
	s->io.bytes = bytes;
	s->io.bios = 1;
	barrier();
	s->version_first = version;
	if (old.bios)
		rt_add_task((struct rt_task_key *)&was, &old);
	return 0;
}

/*
 * blk-throttle delays bios before block_bio_queue and submits them from a kworker of its work queue
 * kthrotld (blk_throtl_dispatch_work_fn()).
 */
static __always_inline bool is_throttle_worker(struct task_struct *task)
{
	char desc[16] = {};

	bpf_probe_read_kernel(desc, 9, work_of(task));
	return *(__u64 *)desc == 0x646c746f7268746bULL /* "kthrotld" */ && !desc[8];
}

/* The task that waits for a bio, found through a known completion function, or NULL. */
static __always_inline struct task_struct *waiting_task(struct bio *bio)
{
	__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io), head, first;
	void *private = BPF_CORE_READ(bio, bi_private);

	if (end == rt_dio_end_io &&
	    bpf_core_field_exists(struct iomap_dio, submit.waiter) &&
	    BPF_CORE_READ((struct iomap_dio *)private, wait_for_completion))
		return BPF_CORE_READ((struct iomap_dio *)private, submit.waiter);
	if (end == rt_wait_end_io && bpf_core_field_exists(struct completion, wait.task_list) &&
	    bpf_core_field_exists(struct swait_queue, task_list)) {
		head = (__u64)private + bpf_core_field_offset(struct completion, wait.task_list);
		first = (__u64)BPF_CORE_READ((struct list_head *)head, next);
		if (first && first != head)
			return BPF_CORE_READ((struct swait_queue *)(first -
				bpf_core_field_offset(struct swait_queue, task_list)), task);
	}
	return NULL;
}

static __always_inline __u64 cgroup_id(struct cgroup *cgroup)
{
	return cgroup ? BPF_CORE_READ(cgroup, kn, id) : 0;
}

/* Id of the cgroup that a bio is accounted to; 0: unknown. */
static __always_inline __u64 bio_cgroup(struct bio *bio)
{
	struct blkcg_gq *blkg;

	if (!bpf_core_field_exists(struct bio, bi_blkg))
		return 0;
	blkg = BPF_CORE_READ(bio, bi_blkg);
	return blkg ? cgroup_id(BPF_CORE_READ(blkg, blkcg, css.cgroup)) : 0;
}

/*
 * A bio that blk-throttle's kworker submits is charged to the task that waits for it, or to the
 * bio's cgroup if that task is unknown. A bio of any other kworker is charged to that kworker.
 */
__noinline __u32 rt_worker_submits(__u64 number, __u32 array)
{
	struct task_struct *current = (struct task_struct *)bpf_get_current_task(), *waiter;
	struct bio *bio = (struct bio *)number;
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_task task = {};

	if (!is_throttle_worker(current))
		return pid;
	waiter = waiting_task(bio);
	if (waiter) {
		pid = BPF_CORE_READ(waiter, pid);
		task.tgid = BPF_CORE_READ(waiter, tgid);
		task.cgroup = cgroup_id(BPF_CORE_READ(waiter, cgroups, dfl_cgrp));
		bpf_core_read(task.comm, sizeof(task.comm), &waiter->comm);
		/* in place of a kworker's work: shows that these bios were throttled */
		__builtin_memcpy(task.work, "kthrotld", sizeof("kthrotld"));
	} else {
		task.cgroup = bio_cgroup(bio);
		pid = RT_THROTTLED | (__u32)task.cgroup;
	}
	put_name(pid, array, &task);
	return pid;
}

/*
 * Origin of a flush that a kworker submits, see flush_origin(); unknown if its task does not wait
 * yet.
 */
__noinline __u32 rt_worker_flush_origin(__u64 number)
{
	struct task_struct *current = (struct task_struct *)bpf_get_current_task(), *waiter;
	char comm[RT_COMM] = {};

	if (!is_throttle_worker(current))
		return RT_ORIGIN_FILE_DATA;
	waiter = waiting_task((struct bio *)number);
	if (!waiter)
		return RT_ORIGIN_UNKNOWN;
	bpf_core_read(comm, sizeof(comm), &waiter->comm);
	return rt_is_journal_thread(comm) ? RT_ORIGIN_JOURNAL : RT_ORIGIN_FILE_DATA;
}
