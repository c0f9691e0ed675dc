/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps and helpers of the programs that trace ext4's block allocator. */
#ifndef RAIDTRACE_ALLOC_BPF_H
#define RAIDTRACE_ALLOC_BPF_H

#include "shared/alloc.h"
#include "shared/hist.h"

/* Set before load. */
extern const volatile __u32 rt_alloc_devs[RT_ALLOC_FS];	/* 0: none */
extern const volatile __u32 rt_alloc_best_avail;	/* criterion 2 is CR_BEST_AVAIL_LEN */

/* 1: groups are counted at ext4_mb_scan_group() (since 6.17); 0: at ext4_get_group_info(). */
extern const volatile __u32 rt_alloc_by_scan;

/* Not 0 if the hooks that count groups were attached before the first request was counted. */
extern __u64 rt_alloc_groups_hooked;

struct rt_allocs_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_ALLOC_FS);
	__type(key, __u32);
	__type(value, struct rt_alloc);
};
extern struct rt_allocs_map rt_allocs SEC(".maps");

/*
 * Indexed by CPU. A per-CPU array does not fit: before 6.10 its lookup is a helper call, and a task
 * that has migrated must access the entry of its previous CPU. BPF_F_MMAPABLE is set only to
 * page-align the array, so that no two CPUs share a cache line.
 */
struct rt_alloc_cpus_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct rt_alloc_cpu);
};
extern struct rt_alloc_cpus_map rt_alloc_cpus SEC(".maps");

/* Userspace removes idle tasks before the map is full. */
struct rt_alloc_tasks_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct rt_alloc_task_key);
	__type(value, struct rt_alloc_task);
};
extern struct rt_alloc_tasks_map rt_alloc_tasks SEC(".maps");

/* LRU, because a host may write thousands of new files per second, and only the busiest matter. */
struct rt_alloc_files_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct rt_file_id);
	__type(value, struct rt_alloc_share);
};
extern struct rt_alloc_files_map rt_alloc_files SEC(".maps");

/* By thread id, because a waiting thread sleeps and may wake up on another CPU. */
struct rt_alloc_waits_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct rt_alloc_wait);
};
extern struct rt_alloc_waits_map rt_alloc_waits SEC(".maps");

struct rt_alloc_losses_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rt_alloc_loss);
};
extern struct rt_alloc_losses_map rt_alloc_losses SEC(".maps");

#define rt_alloc_lost(what) do {						\
	__u32 zero = 0;								\
	struct rt_alloc_loss *loss = bpf_map_lookup_elem(&rt_alloc_losses, &zero);	\
	if (loss)								\
		loss->what++;							\
} while (0)

/* Index of a traced filesystem; RT_ALLOC_FS: not traced. */
static __always_inline __u32 rt_alloc_fs(__u32 dev)
{
	__u32 i;

	for (i = 0; i < RT_ALLOC_FS; i++)
		if (rt_alloc_devs[i] == dev)
			break;
	return i;
}

/* Counters of a filesystem on this CPU. */
static __always_inline struct rt_alloc *rt_alloc_of(__u32 dev)
{
	__u32 fs = rt_alloc_fs(dev);

	return bpf_map_lookup_elem(&rt_allocs, &fs);
}

static __always_inline struct rt_alloc_cpu *rt_alloc_cpu(__u32 cpu)
{
	return bpf_map_lookup_elem(&rt_alloc_cpus, &cpu);
}

static __always_inline struct rt_alloc_task *rt_alloc_task(const struct rt_alloc_task_key *key)
{
	struct rt_alloc_task *t = bpf_map_lookup_elem(&rt_alloc_tasks, key), new = {};

	if (t)
		return t;
	bpf_get_current_comm(new.comm, sizeof(new.comm));
	if (bpf_map_update_elem(&rt_alloc_tasks, key, &new, BPF_NOEXIST)) {
		rt_alloc_lost(tasks);
		return NULL;
	}
	return bpf_map_lookup_elem(&rt_alloc_tasks, key);
}

/*
 * Counts a time in a histogram. Masks the bucket again in 64 bits, because the 5.10 verifier loses
 * the bounds from a 32-bit mask when it checks the address.
 */
static __always_inline void rt_alloc_time(__u32 *hist, __u64 ns)
{
	__u64 bucket = rt_bucket(ns / 1000);

	barrier_var(bucket);
	hist[bucket & (RT_HIST_BUCKETS - 1)]++;
}

/* Returns the groups that a CPU has counted for an allocation, and resets them. */
static __always_inline __u64 rt_alloc_take(struct rt_alloc_cpu *c, __u64 ac)
{
	__u64 count;

	if (!c || c->ac != ac)
		return 0;
	count = c->count;
	c->ac = 0;
	c->count = 0;
	c->task = 0;
	return count;
}

#endif
