// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Waits of operations for their inode's i_rwsem, and the tasks that held it. contention_begin is
 * called after optimistic spinning: a wait that ends during the spinning is not seen.
 *
 * PREEMPT_RT (kernel/locking/rwbase_rt.c): readers wait for the lock and, inside of that wait, for
 * its rt_mutex. Writers wait for the rt_mutex, and then for the lock if there are readers.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow.bpf.h"

enum {
	RT_LCB_F_WRITE = 4,		/* include/trace/events/lock.h */
	/* kernel/locking/rwsem.c: the low bits of the owner; bit 0 of an rt_mutex: it has waiters */
	RT_RWSEM_READER_OWNED = 1,
	RT_RWSEM_OWNER_FLAGS = 7,
	RT_WRITER_BIAS = 1 << 30,	/* include/linux/rwbase_rt.h: readers, while a writer has the lock */
};

/*
 * Address of the i_rwsem of a task's operation if `address` is that lock or its rt_mutex, else 0.
 */
static __always_inline __u64 inode_lock(struct rt_slow_task *t, __u64 address)
{
	__u64 lock;

	if (!t || !t->inode || t->kind == RT_SLOW_JBD2)
		return 0;
	lock = t->inode + bpf_core_field_offset(struct inode, i_rwsem);
	if (address == lock)
		return lock;
	if (rt_rwsem_has_mutex() &&
	    address == lock + bpf_core_field_offset(struct rw_semaphore___rt, rwbase.rtmutex))
		return lock;
	return 0;
}

/* Records a task and its operation as the holder. */
static __always_inline void note_holder(struct rt_slow_lock *lock, __u32 pid)
{
	struct rt_slow_task *t = rt_slow_current(pid);

	lock->current_pid = pid;
	if (!t)
		return;
	lock->current_kind = t->kind;
	lock->current_flags |= t->flags;
}

/* Records the task that owns the lock exclusively, or that waits for its readers. */
static __always_inline void note_owner(struct rt_slow_lock *lock, struct task_struct *owner)
{
	note_holder(lock, BPF_CORE_READ(owner, pid));
	bpf_probe_read_kernel(lock->current_comm, RT_COMM, &owner->comm);
}

static __always_inline void find_mutex_owner(struct rt_slow_lock *lock, __u64 address)
{
	struct rw_semaphore___rt *rwsem = (struct rw_semaphore___rt *)address;
	int readers = BPF_CORE_READ(rwsem, rwbase.readers.counter);
	__u64 word = (__u64)BPF_CORE_READ(rwsem, rwbase.rtmutex.owner) & ~(__u64)RT_RWSEM_OWNER_FLAGS;

	/* below 0 without a writer; 0 between two states of a writer */
	if (readers > 0 && readers != RT_WRITER_BIAS)
		lock->current_flags = RT_SLOW_READERS;
	/* a writer that waits for readers owns the rt_mutex: the readers are unknown */
	if (word && word != bpf_get_current_task())
		note_owner(lock, (struct task_struct *)word);
}

SEC("?tp_btf/contention_begin")
int BPF_PROG(rt_slow_lock_begin, void *address, __u32 flags)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	struct rt_slow_operation *o;
	struct task_struct *owner;
	struct rt_slow_lock *lock;
	struct rt_slow_writer *first, w;
	__u64 key = inode_lock(t, (__u64)address), word;
	bool in_mutex = key != (__u64)address;

	if (!key)
		return 0;
	o = rt_slow_details(t, pid);
	if (!o)
		return 0;
	lock = &o->lock;
	if (in_mutex && lock->since_ns && !lock->in_mutex)
		return 0;	/* a reader, whose wait has begun */
	lock->in_mutex = in_mutex;
	lock->since_ns = bpf_ktime_get_ns();
	lock->current_pid = 0;
	lock->current_kind = 0;
	lock->current_flags = 0;
	__builtin_memset(lock->current_comm, 0, RT_COMM);
	if (rt_rwsem_has_mutex()) {
		if (in_mutex || flags & RT_LCB_F_WRITE)
			lock->flags |= RT_SLOW_EXCLUSIVE;
		find_mutex_owner(lock, key);
		return 0;
	}
	word = BPF_CORE_READ((struct rw_semaphore *)address, owner.counter);
	owner = (struct task_struct *)(word & ~(__u64)RT_RWSEM_OWNER_FLAGS);
	/*
	 * the task released the lock as a reader, to get it exclusively: the word of readers is not
	 * cleared
	 */
	if (owner == (struct task_struct *)bpf_get_current_task())
		owner = (void *)0;
	first = bpf_map_lookup_elem(&rt_slow_writers, &key);
	if (word & RT_RWSEM_READER_OWNED) {
		/* a reader waits for readers only because a writer is queued before it */
		lock->current_flags = RT_SLOW_READERS;
		if (first && first->pid != pid) {
			note_holder(lock, first->pid);
			__builtin_memcpy(lock->current_comm, first->comm, RT_COMM);
			owner = (void *)0;
		} else if (!(flags & RT_LCB_F_WRITE)) {
			/*
			 * the writer is unknown; the owner is the last reader, which may have
			 * released the lock
			 */
			owner = (void *)0;
		}
	}
	if (owner)
		note_owner(lock, owner);
	if (flags & RT_LCB_F_WRITE) {
		lock->flags |= RT_SLOW_EXCLUSIVE;
		if (!first) {
			w.since_ns = lock->since_ns;
			w.pid = pid;
			w.pad = 0;
			bpf_get_current_comm(w.comm, sizeof(w.comm));
			bpf_map_update_elem(&rt_slow_writers, &key, &w, BPF_NOEXIST);
		}
	}
	return 0;
}

SEC("?tp_btf/contention_end")
int BPF_PROG(rt_slow_lock_end, void *address)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	__u64 key = inode_lock(t, (__u64)address), ns;
	struct rt_slow_operation *o;
	struct rt_slow_lock *lock;
	struct rt_slow_writer *first;

	if (!key || !t->sleeps)
		return 0;
	o = bpf_map_lookup_elem(&rt_slow_operations, &pid);
	if (!o || !o->lock.since_ns || o->lock.in_mutex != (key != (__u64)address))
		return 0;
	lock = &o->lock;
	ns = bpf_ktime_get_ns() - lock->since_ns;
	lock->since_ns = 0;
	lock->ns += ns;
	lock->waits++;
	if (ns > lock->longest_ns) {
		lock->longest_ns = ns;
		lock->pid = lock->current_pid;
		lock->kind = lock->current_kind;
		lock->flags = (lock->flags & RT_SLOW_EXCLUSIVE) | lock->current_flags;
		__builtin_memcpy(lock->comm, lock->current_comm, RT_COMM);
	}
	first = bpf_map_lookup_elem(&rt_slow_writers, &key);
	if (first && first->pid == pid)
		bpf_map_delete_elem(&rt_slow_writers, &key);
	return 0;
}
