/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps and helpers for the programs of `raidtrace slow`. */
#ifndef RAIDTRACE_SLOW_BPF_H
#define RAIDTRACE_SLOW_BPF_H

#include <bpf/bpf_core_read.h>
#include "shared/slow.h"

extern const volatile __u64 rt_slow_threshold;	/* ns */
/*
 * Minimum duration of a member's IO that is sent; RT_SHORT_NS applies to flushes, FUA writes and
 * pre-reads.
 */
extern const volatile __u64 rt_slow_io_ns;
extern const volatile __u64 rt_slow_page_shift;
extern const volatile __u32 rt_slow_flush_seq;	/* RQF_FLUSH_SEQ */
extern const volatile bool rt_slow_async_ends;	/* the programs at iomap_dio_complete are attached */
/* flag in bi_flags of bios that passed a limit (io.max) */
extern const volatile __u32 rt_slow_throttled;

/* Device number of one of the filesystems, most often the only one, to look up none; 0: none. */
extern __u64 rt_slow_first_fs;

/* Not 0 if a traced member takes bios, not requests. */
extern __u64 rt_slow_bio_based;

/* Address of raid5_end_read_request(), and 1 << STRIPE_SYNCING; 0: unknown. */
extern __u64 rt_slow_raid5_end_read;
extern __u64 rt_slow_stripe_syncing;

/*
 * Address in schedule_rtlock(), in which tasks wait for spinlocks of PREEMPT_RT; 0: spinlocks spin.
 */
extern __u64 rt_slow_rtlock;

/* Number of IOs sent since userspace last reset it to 0. */
extern __u64 rt_slow_sent;

/*
 * The operation or commit in progress, by task. An array, whose lookup takes neither a hash nor a
 * call, because each context switch looks up two tasks. Two tasks whose ids have the same low bits
 * share a slot: the second one is not traced while the first one occupies it, and is counted as
 * lost.
 */
struct rt_slow_tasks_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RT_SLOW_TASKS);
	__type(key, __u32);
	__type(value, struct rt_slow_task);
};
extern struct rt_slow_tasks_map rt_slow_tasks SEC(".maps");

/* Operations that have slept, by thread id. The value is the event that will be sent. */
struct rt_slow_operations_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_OPERATIONS);
	__type(key, __u32);
	__type(value, struct rt_slow_operation);
};
extern struct rt_slow_operations_map rt_slow_operations SEC(".maps");

/*
 * Asynchronous operations in progress, in the slot of their kiocb's address: an array, because a
 * hash costs 40 to 150 ns for each of the five accesses of an operation.
 */
struct rt_slow_async_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RT_SLOW_ASYNC);
	__type(key, __u32);
	__type(value, struct rt_slow_async);
};
extern struct rt_slow_async_map rt_slow_async SEC(".maps");

/*
 * Those whose slot was occupied, by the address of the kiocb, and their number: while it is 0, none
 * is looked up.
 */
struct rt_slow_displaced_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_DISPLACED);
	__type(key, __u64);
	__type(value, struct rt_slow_async);
};
extern struct rt_slow_displaced_map rt_slow_displaced SEC(".maps");
extern __u64 rt_slow_displaced_count;

/*
 * Operations that two CPUs want to end, by kiocb and start: the first one that inserts it ends it.
 */
struct rt_slow_ended_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u8);
};
extern struct rt_slow_ended_map rt_slow_ended SEC(".maps");

/*
 * The member's IO of rt_slow_io_ns or more that a CPU completed last, for the bios that it
 * completes then. While rt_slow_noted is 0, no CPU has completed one since userspace last reset it.
 */
struct rt_slow_own_ios_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rt_slow_own_io);
};
extern struct rt_slow_own_ios_map rt_slow_own_ios SEC(".maps");
extern __u64 rt_slow_noted;

/* Up to 6.1: the kiocb of each struct iomap_dio that is being completed, and freed. */
struct rt_slow_dios_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
};
extern struct rt_slow_dios_map rt_slow_dios SEC(".maps");

/* Sleeps of their submission. The value is the event that will be sent. */
struct rt_slow_submissions_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_SUBMISSIONS);
	__type(key, __u64);
	__type(value, struct rt_slow_operation);
};
extern struct rt_slow_submissions_map rt_slow_submissions SEC(".maps");

/*
 * Commits in progress, by the id of the journal's thread. The value is the event that will be sent.
 */
struct rt_slow_commits_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_COMMITS);
	__type(key, __u32);
	__type(value, struct rt_slow_commit);
};
extern struct rt_slow_commits_map rt_slow_commits SEC(".maps");

/* Initial value of new entries, all zeroes: the events are larger than the stack. */
union rt_slow_zeroes {
	struct rt_slow_operation operation;
	struct rt_slow_commit commit;
};

struct rt_slow_zero_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, union rt_slow_zeroes);
};
extern struct rt_slow_zero_map rt_slow_zero SEC(".maps");

/* Kernel stacks, innermost function first, by a hash of their addresses. */
struct rt_slow_stack {
	__u64 frames[RT_SLOW_FRAMES];
};

struct rt_slow_stacks_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_STACKS);
	__type(key, __u64);
	__type(value, struct rt_slow_stack);
};
extern struct rt_slow_stacks_map rt_slow_stacks SEC(".maps");

/* Filesystems, members and their disks, by device number: enum rt_slow_devices. */
struct rt_slow_devices_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_DEVICES);
	__type(key, __u32);
	__type(value, __u32);
};
extern struct rt_slow_devices_map rt_slow_devices SEC(".maps");

/* The first task that requested the commit of a transaction, by the address of the journal. */
struct rt_slow_request {
	__u64 ns;
	__u32 tid;		/* of the transaction (tid_t) */
	__u32 pid;		/* thread that requested the commit */
	__u64 stack;
	__u8 comm[RT_COMM];
};

struct rt_slow_requests_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RT_SLOW_COMMITS);
	__type(key, __u64);
	__type(value, struct rt_slow_request);
};
extern struct rt_slow_requests_map rt_slow_requests SEC(".maps");

/* Threads of journals whose transaction is locked, by the filesystem's device number. */
struct rt_slow_locked_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_COMMITS);
	__type(key, __u32);
	__type(value, __u32);
};
extern struct rt_slow_locked_map rt_slow_locked SEC(".maps");

/* Number of entries of rt_slow_locked: while it is 0, handles are not looked up. */
extern __u64 rt_slow_locks;

/*
 * A task that waits for exclusive access to a lock, by the lock's address: the one that began to
 * wait when no other was recorded.
 */
struct rt_slow_writer {
	__u64 since_ns;
	__u32 pid;
	__u32 pad;
	__u8 comm[RT_COMM];
};

struct rt_slow_writers_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct rt_slow_writer);
};
extern struct rt_slow_writers_map rt_slow_writers SEC(".maps");

/*
 * The task of the last buffered write to an inode, by bits of the inode's address, so that a write
 * costs only a lookup in an array. Two inodes may displace each other.
 */
struct rt_slow_last_write {
	__u64 host;		/* address of the inode */
	__u32 pid;
	__u32 pad;
	__u8 comm[RT_COMM];
};

struct rt_slow_last_writes_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RT_SLOW_LAST_WRITES);
	__type(key, __u32);
	__type(value, struct rt_slow_last_write);
};
extern struct rt_slow_last_writes_map rt_slow_last_writes SEC(".maps");

static __always_inline struct rt_slow_last_write *rt_slow_last_write(__u64 host)
{
	/* struct ext4_inode_info has about 1100 bytes */
	__u32 key = (host >> 6 ^ host >> 16) & (RT_SLOW_LAST_WRITES - 1);

	return bpf_map_lookup_elem(&rt_slow_last_writes, &key);
}

/* A bio in flight, by its address. */
struct rt_slow_bios_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_SLOW_BIOS);
	__type(key, __u64);
	__type(value, struct rt_slow_io);
};
extern struct rt_slow_bios_map rt_slow_bios SEC(".maps");

/* Number of entries of rt_slow_bios: while it is 0, completions are not looked up. */
extern __u64 rt_slow_in_flight;

struct rt_slow_events_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
};
extern struct rt_slow_events_map rt_slow_events SEC(".maps");

struct rt_slow_sums_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * RT_SLOW_KINDS);
	__type(key, __u32);
	__type(value, struct rt_slow_sum);
};
extern struct rt_slow_sums_map rt_slow_sums SEC(".maps");

struct rt_slow_losses_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rt_slow_loss);
};
extern struct rt_slow_losses_map rt_slow_losses SEC(".maps");

#define rt_slow_lost(reason) do {						\
	__u32 __zero = 0;							\
	struct rt_slow_loss *__loss =						\
		bpf_map_lookup_elem(&rt_slow_losses, &__zero);			\
	if (__loss)								\
		__loss->reason++;						\
} while (0)

static __always_inline struct rt_slow_task *rt_slow_task(__u32 pid)
{
	__u32 slot = pid & (RT_SLOW_TASKS - 1);

	return bpf_map_lookup_elem(&rt_slow_tasks, &slot);
}

/* Stores a stack in rt_slow_stacks. Returns its key, or 0 if there is no room. */
static __always_inline __u64 rt_slow_keep(struct rt_slow_stack *stack)
{
	__u64 key = 0xcbf29ce484222325ULL;
	__u32 i;

	for (i = 0; i < RT_SLOW_FRAMES; i++)
		key = (key ^ stack->frames[i]) * 0x9e3779b97f4a7c15ULL;
	key |= 2;	/* neither 0 nor RT_SLOW_PREEMPTED */
	if (!bpf_map_lookup_elem(&rt_slow_stacks, &key) &&
	    bpf_map_update_elem(&rt_slow_stacks, &key, stack, BPF_ANY))
		return 0;
	return key;
}

/* The current task's slot, if the task is in an operation or a commit. */
static __always_inline struct rt_slow_task *rt_slow_current(__u32 pid)
{
	struct rt_slow_task *t = rt_slow_task(pid);

	return t && t->pid == pid ? t : (void *)0;
}

/* Flags (enum rt_slow_devices) of a device number; 0: not traced. */
static __always_inline __u32 rt_slow_device(__u32 dev)
{
	__u32 *found = bpf_map_lookup_elem(&rt_slow_devices, &dev);

	return found ? *found : 0;
}

static __always_inline bool rt_slow_is_fs(__u32 dev)
{
	return dev == rt_slow_first_fs || rt_slow_device(dev) & RT_SLOW_FS;
}

/* Returns the entry of an operation, which it creates if needed; NULL if there is no room. */
static __always_inline struct rt_slow_operation *rt_slow_details(struct rt_slow_task *t, __u32 pid)
{
	__u32 zero = 0;
	void *none;

	if (!t->sleeps) {
		none = bpf_map_lookup_elem(&rt_slow_zero, &zero);
		if (!none || bpf_map_update_elem(&rt_slow_operations, &pid, none, BPF_ANY)) {
			rt_slow_lost(operations);
			return (void *)0;
		}
		t->sleeps = 1;
	}
	return bpf_map_lookup_elem(&rt_slow_operations, &pid);
}

#endif
