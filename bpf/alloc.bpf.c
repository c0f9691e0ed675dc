// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs at the tracepoints of ext4's block allocator. A request is a call of
 * ext4_mb_new_blocks(), from the event ext4_request_blocks to the event ext4_allocate_blocks. There
 * is one ext4_mballoc_alloc or ext4_mballoc_prealloc in between. If the filesystem has no free
 * block, ext4_request_blocks is the only event.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "alloc.bpf.h"
#include "compat.bpf.h"

const volatile __u32 rt_alloc_devs[RT_ALLOC_FS];
const volatile __u32 rt_alloc_best_avail = 1;
const volatile __u32 rt_alloc_by_scan = 1;
__u64 rt_alloc_groups_hooked;

struct rt_allocs_map rt_allocs SEC(".maps");
struct rt_alloc_cpus_map rt_alloc_cpus SEC(".maps");
struct rt_alloc_tasks_map rt_alloc_tasks SEC(".maps");
struct rt_alloc_files_map rt_alloc_files SEC(".maps");
struct rt_alloc_waits_map rt_alloc_waits SEC(".maps");
struct rt_alloc_losses_map rt_alloc_losses SEC(".maps");

/* fs/ext4/ext4.h: the search is for a locality group's preallocation (mb_group_prealloc) */
#define RT_EXT4_MB_HINT_GROUP_ALLOC 0x80

/* Key of the current task in a filesystem. */
static __always_inline struct rt_alloc_task_key key_of(struct super_block *sb)
{
	return (struct rt_alloc_task_key){
		.dev = sb->s_dev,
		.pid = bpf_get_current_pid_tgid(),
	};
}

/* clang turns an atomic addition of 0 into an atomic OR, which 5.10 does not have. */
static __always_inline void add_to(__u64 *sum, __u64 more)
{
	if (more)
		__sync_fetch_and_add(sum, more);
}

/* Adds atomically, because another task may request blocks of the same file. */
static __always_inline void add_file(struct inode *inode, const struct rt_alloc_share *add)
{
	struct rt_file_id id = {
		.inode = inode->i_ino,
		.dev = inode->i_sb->s_dev,
		.generation = inode->i_generation,
	};
	struct rt_alloc_share *share = bpf_map_lookup_elem(&rt_alloc_files, &id);

	if (share) {
		add_to(&share->requests, add->requests);
		add_to(&share->blocks, add->blocks);
		add_to(&share->nanoseconds, add->nanoseconds);
		add_to(&share->looked, add->looked);
	} else if (bpf_map_update_elem(&rt_alloc_files, &id, add, BPF_NOEXIST)) {
		rt_alloc_lost(files);
	}
}

SEC("?tp_btf/ext4_request_blocks")
int BPF_PROG(rt_al_request, struct ext4_allocation_request *ar)
{
	struct rt_alloc_share add = { .requests = 1 };
	struct rt_alloc_task_key key;
	struct rt_alloc_task *t;
	struct rt_alloc *a;

	if (rt_is_null(ar))
		return 0;
	key = key_of(ar->inode->i_sb);
	a = rt_alloc_of(key.dev);
	if (!a)
		return 0;
	a->requests++;
	a->asked += ar->len;
	add_file(ar->inode, &add);
	t = rt_alloc_task(&key);
	if (!t)
		return 0;
	t->share.requests++;
	t->looked_last = 0;
	bpf_get_current_comm(t->comm, sizeof(t->comm));
	t->ar = (__u64)ar;
	t->begun_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/ext4_allocate_blocks")
int BPF_PROG(rt_al_allocate, struct ext4_allocation_request *ar)
{
	struct rt_alloc_share add = {};
	struct rt_alloc_task_key key;
	struct rt_alloc_task *t;
	struct rt_alloc *a;

	if (rt_is_null(ar))
		return 0;
	add.blocks = ar->len;
	key = key_of(ar->inode->i_sb);
	a = rt_alloc_of(key.dev);
	if (!a)
		return 0;
	t = bpf_map_lookup_elem(&rt_alloc_tasks, &key);
	/* t->ar differs from ar if a quota file allocated blocks during the task's request */
	if (t && t->ar == (__u64)ar) {
		add.nanoseconds = bpf_ktime_get_ns() - t->begun_ns;
		add.looked = t->looked_last;
		t->ar = 0;
	}
	if (t) {
		t->share.blocks += add.blocks;
		t->share.nanoseconds += add.nanoseconds;
	}
	/* 0 if the request failed */
	if (add.blocks) {
		a->given++;
		a->got += add.blocks;
		if (add.nanoseconds) {
			a->nanoseconds += add.nanoseconds;
			rt_alloc_time(a->latency, add.nanoseconds);
		}
	}
	if (add.blocks || add.nanoseconds)
		add_file(ar->inode, &add);
	return 0;
}

/*
 * Ends a task's search; returns the number of groups considered. Sets *whole if the hooks counted
 * every group of the search.
 */
static __always_inline __u64 end_search(struct rt_alloc_task *t, __u64 ac, bool *whole)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 looked = rt_alloc_take(rt_alloc_cpu(cpu), ac);

	*whole = false;
	if (!t)
		return looked;
	if (t->ac == ac) {
		looked += t->looked_current;
		if (t->cpu != cpu)
			looked += rt_alloc_take(rt_alloc_cpu(t->cpu), ac);
	}
	t->ac = 0;
	t->looked_current = 0;
	t->looked_last = looked;
	t->share.looked += looked;
	*whole = t->ar && rt_alloc_groups_hooked;
	return looked;
}

/* 0, 1, 2..3, 4..7, ... */
static __always_inline __u32 groups_bucket(__u64 looked)
{
	__u32 bucket = 0;

	if (looked)
		bucket = 1 + rt_log2(looked > 0xffffffff ? 0xffffffff : looked);
	return bucket < RT_ALLOC_GROUP_BUCKETS ? bucket : RT_ALLOC_GROUP_BUCKETS - 1;
}

SEC("?tp_btf/ext4_mballoc_alloc")
int BPF_PROG(rt_al_search, struct ext4_allocation_context *ac)
{
	struct rt_alloc_task_key key;
	__u64 looked, bucket;
	struct rt_alloc *a;
	bool whole;

	if (rt_is_null(ac))
		return 0;
	key = key_of(ac->ac_sb);
	a = rt_alloc_of(key.dev);
	if (!a) {
		/*
		 * The filesystem is not traced. Discard the count anyway: a later allocation context can have the
		 * same address.
		 */
		rt_alloc_take(rt_alloc_cpu(bpf_get_smp_processor_id()), (__u64)ac);
		return 0;
	}
	looked = end_search(bpf_map_lookup_elem(&rt_alloc_tasks, &key), (__u64)ac, &whole);
	/* ext4_mb_new_blocks() clears ac_b_ex if it fails */
	if (ac->ac_b_ex.fe_len <= 0)
		return 0;
	a->searches++;
	a->goal += ac->ac_g_ex.fe_len;
	a->scanned += ac->ac_groups_scanned;
	a->locality += (ac->ac_flags & RT_EXT4_MB_HINT_GROUP_ALLOC) != 0;
	/* otherwise the extent at the goal was free: no criterion was tried */
	if (ac->ac_groups_scanned || looked)
		a->criteria[ac->ac_criteria & (RT_ALLOC_CRITERIA_ROOM - 1)]++;
	if (whole) {
		bucket = groups_bucket(looked);
		barrier_var(bucket);
		a->groups[bucket & (RT_ALLOC_GROUP_BUCKETS_ROOM - 1)]++;
	}
	return 0;
}

SEC("?tp_btf/ext4_mballoc_prealloc")
int BPF_PROG(rt_al_prealloc, struct ext4_allocation_context *ac)
{
	struct rt_alloc *a = rt_is_null(ac) ? NULL : rt_alloc_of(ac->ac_sb->s_dev);

	if (a && ac->ac_b_ex.fe_len > 0)
		a->preallocated++;
	return 0;
}

SEC("?tp_btf/ext4_mb_bitmap_load")
int BPF_PROG(rt_al_bitmap, struct super_block *sb)
{
	struct rt_alloc *a = rt_is_null(sb) ? NULL : rt_alloc_of(sb->s_dev);

	if (a)
		a->bitmaps++;
	return 0;
}

SEC("?tp_btf/ext4_mb_buddy_bitmap_load")
int BPF_PROG(rt_al_buddy, struct super_block *sb)
{
	struct rt_alloc *a = rt_is_null(sb) ? NULL : rt_alloc_of(sb->s_dev);

	if (a)
		a->buddies++;
	return 0;
}

SEC("?tp_btf/ext4_read_block_bitmap_load")
int BPF_PROG(rt_al_read, struct super_block *sb, unsigned long group, __u64 prefetch)
{
	struct rt_alloc *a = rt_is_null(sb) ? NULL : rt_alloc_of(sb->s_dev);

	if (!a)
		return 0;
	/* a bool: the rest of the register may be anything */
	if (prefetch & 0xff)
		a->prefetches++;
	else
		a->reads++;
	return 0;
}

/*
 * Called when the last writer closes a file, at truncation and at eviction. active: number of
 * preallocations of the inode.
 */
SEC("?tp_btf/ext4_discard_preallocations")
int BPF_PROG(rt_al_discard, struct inode *inode, unsigned int active)
{
	struct rt_alloc *a = rt_is_null(inode) ? NULL : rt_alloc_of(inode->i_sb->s_dev);

	if (a && active)
		a->discards++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
