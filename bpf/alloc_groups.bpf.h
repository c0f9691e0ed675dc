/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Handlers of group searches and of ext4_wait_block_bitmap(), shared by fentry programs and
 * kprobes.
 */
#ifndef RAIDTRACE_ALLOC_GROUPS_BPF_H
#define RAIDTRACE_ALLOC_GROUPS_BPF_H

#include <bpf/bpf_core_read.h>
#include "alloc.bpf.h"

enum {
	/* fs/ext4/ext4.h */
	RT_EXT4_GROUP_INFO_NEED_INIT_BIT = 0,
	RT_EXT4_GROUP_INFO_BBITMAP_CORRUPT_BIT = 2,
	RT_EXT4_MB_HINT_DATA = 0x20,
	RT_EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME = 4,
	/* fs/ext4/mballoc.h */
	RT_AC_STATUS_FOUND = 2,
	/* include/linux/buffer_head.h, enum bh_state_bits */
	RT_BH_NEW = 5,
};

/* Shorter waits for a bitmap are not counted. */
enum { RT_WAIT_MIN_NS = 1000 };

/*
 * Switches this CPU to another allocation. The count of the previous allocation is added to its
 * task.
 */
static __noinline void rt_alloc_change(struct rt_alloc_cpu *c, __u64 ac, __u32 dev)
{
	struct rt_alloc_task *t;
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 count;

	if (c->ac) {
		t = bpf_map_lookup_elem(&rt_alloc_tasks, &c->key);
		if (t && t->ac == c->ac)
			__sync_fetch_and_add(&t->looked_current, c->count);
	}
	c->ac = ac;
	c->count = 0;
	c->task = 0;
	c->state = RT_GROUP_NONE;
	c->from_list = 0;
	c->key.dev = dev;
	c->key.pid = bpf_get_current_pid_tgid();
	c->fs = rt_alloc_fs(dev);
	if (c->fs >= RT_ALLOC_FS)
		return;
	t = rt_alloc_task(&c->key);
	if (!t)
		return;
	c->from_list = t->from_list;
	if (t->ac != ac) {
		/* looked_current belongs to an allocation whose end was not seen */
		t->share.looked += t->looked_current;
		t->looked_current = 0;
	} else if (t->cpu != cpu) {
		/* the task has moved: it no longer counts on its previous CPU */
		count = rt_alloc_take(rt_alloc_cpu(t->cpu), ac);
		__sync_fetch_and_add(&t->looked_current, count);
	}
	t->ac = ac;
	t->cpu = cpu;
}

/* State of the current task for a filesystem, if the task is in a search there; else NULL. */
static __always_inline struct rt_alloc_task *rt_alloc_searching(__u32 dev)
{
	struct rt_alloc_task_key key = { .dev = dev, .pid = bpf_get_current_pid_tgid() };
	struct rt_alloc_task *t = bpf_map_lookup_elem(&rt_alloc_tasks, &key);

	return t && t->search_ns ? t : NULL;
}

/*
 * Slow path of rt_alloc_is_counting(): the task has moved to this CPU, or another task ran here
 * meanwhile. True if the current task is in a search in the filesystem `dev`, and not in an
 * excluded function (rt_alloc_exclude()).
 */
static __noinline bool rt_alloc_resume(struct rt_alloc_cpu *c, __u32 dev)
{
	struct rt_alloc_task *t = rt_alloc_searching(dev);

	if (!t || t->excluded)
		return false;
	if (c->ac != t->ac)
		rt_alloc_change(c, t->ac, dev);
	c->task = bpf_get_current_pid_tgid();
	return true;
}

/* True if the current task is in a search whose groups are to be counted. */
static __always_inline bool rt_alloc_is_counting(struct rt_alloc_cpu *c, struct super_block *sb)
{
	return c->task == bpf_get_current_pid_tgid() || rt_alloc_resume(c, sb->s_dev);
}

static __always_inline int rt_alloc_search_begins(__u64 ac, __u32 dev)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());
	struct rt_alloc_task_key key = { .dev = dev, .pid = bpf_get_current_pid_tgid() };
	struct rt_alloc_task *t;

	if (!c || rt_alloc_fs(dev) >= RT_ALLOC_FS)
		return 0;
	t = rt_alloc_task(&key);
	if (!t)
		return 0;
	t->search_ns = bpf_ktime_get_ns();
	t->excluded = 0;
	t->from_list = 0;
	if (c->ac != ac)
		rt_alloc_change(c, ac, dev);
	c->state = RT_GROUP_NONE;
	c->task = bpf_get_current_pid_tgid();
	return 0;
}

/*
 * Reason for which a group was refused. Repeats the checks of ext4_mb_good_group_nolock() and
 * ext4_mb_good_group(), in the same order. The group may have changed since.
 */
static __noinline __u32 rt_alloc_reason(struct ext4_allocation_context *ac, __u32 group,
					__u32 criterion)
{
	struct ext4_sb_info *sbi = BPF_CORE_READ(ac, ac_sb, s_fs_info);
	struct ext4_group_info ***table = BPF_CORE_READ(sbi, s_group_info), **row = NULL, *info = NULL;
	__u32 bits = BPF_CORE_READ(sbi, s_desc_per_block_bits) & 31, flex;
	/* the first criterion that accepts a group with fewer free blocks than asked for */
	__u32 first_any_free = rt_alloc_best_avail ? 4 : 3;
	int free, fragments, length = BPF_CORE_READ(ac, ac_g_ex.fe_len);
	unsigned long state;

	bpf_probe_read_kernel(&row, sizeof(row), table + (group >> bits));
	bpf_probe_read_kernel(&info, sizeof(info), row + (group & ((1U << bits) - 1)));
	if (!row || !info)
		return RT_REFUSED_OTHER;
	free = BPF_CORE_READ(info, bb_free);
	if (free == 0)
		return RT_REFUSED_FULL;
	if (criterion < first_any_free && free < length)
		return RT_REFUSED_BLOCKS;
	state = BPF_CORE_READ(info, bb_state);
	if (state >> RT_EXT4_GROUP_INFO_BBITMAP_CORRUPT_BIT & 1)
		return RT_REFUSED_CORRUPT;
	if (state >> RT_EXT4_GROUP_INFO_NEED_INIT_BIT & 1)
		return RT_REFUSED_NOT_LOADED;
	fragments = BPF_CORE_READ(info, bb_fragments);
	if (fragments <= 0 || free < 0)
		return RT_REFUSED_OTHER;
	switch (criterion) {
	case 0:
		flex = 1U << (BPF_CORE_READ(sbi, s_log_groups_per_flex) & 31);
		if ((BPF_CORE_READ_BITFIELD_PROBED(ac, ac_flags) & RT_EXT4_MB_HINT_DATA) &&
		    flex >= RT_EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME && (group & (flex - 1)) == 0)
			return RT_REFUSED_FOR_DIRECTORIES;
		if (BPF_CORE_READ(info, bb_largest_free_order) < (int)BPF_CORE_READ(ac, ac_2order))
			return RT_REFUSED_ORDER;
		return RT_REFUSED_OTHER;
	case 2:
		if (!rt_alloc_best_avail)
			break;
		/* fall through */
	case 1:
		if ((__u32)free / (__u32)fragments < (__u32)length)
			return RT_REFUSED_AVERAGE;
		break;
	}
	return RT_REFUSED_OTHER;
}

/*
 * Counts a considered group. times: 2 if the group came from one of mballoc's lists
 * (s_mb_largest_free_orders, s_mb_avg_fragment_size) instead of the linear scan, because ext4's
 * groups_considered counts it twice.
 */
static __always_inline void rt_alloc_look(struct rt_alloc_cpu *c, __u32 criterion, __u32 times)
{
	c->count += times;
	c->rows[c->fs & (RT_ALLOC_ROWS - 1)].looked[criterion & (RT_ALLOC_CRITERIA_ROOM - 1)] += times;
}

static __always_inline void rt_alloc_refuse(struct rt_alloc_cpu *c,
					    struct ext4_allocation_context *ac,
				   __u32 group, __u32 criterion, __u32 times)
{
	__u32 fs = c->fs;
	struct rt_alloc *a;

	c->rows[fs & (RT_ALLOC_ROWS - 1)].refused[criterion & (RT_ALLOC_CRITERIA_ROOM - 1)] += times;
	if (c->until_sample) {
		c->until_sample--;
		return;
	}
	/*
	 * Reasons are sampled. The step is random, because kinds of groups may alternate regularly, and a
	 * fixed step could always hit the same kind.
	 */
	c->until_sample = bpf_get_prandom_u32() & (2 * RT_ALLOC_SAMPLED - 1);
	a = bpf_map_lookup_elem(&rt_allocs, &fs);
	if (a)
		a->reasons[rt_alloc_reason(ac, group, criterion) & (RT_ALLOC_REASONS - 1)] += times;
}

/*
 * Counts the last group as refused if it was considered and not accepted: ext4_mb_good_group()
 * refused it, or was not even called for it.
 */
static __always_inline void rt_alloc_settle(struct rt_alloc_cpu *c)
{
	if (c->state == RT_GROUP_CONSIDERED)
		rt_alloc_refuse(c, (struct ext4_allocation_context *)c->ac, c->group, c->criterion, 1);
	c->state = RT_GROUP_NONE;
}

/*
 * Handles a call of ext4_get_group_info() in a search. ext4_mb_good_group_nolock(), which is
 * inlined, calls it for each group that it considers. ext4_mb_good_group() calls it again. For a
 * group from a list, ext4_mb_good_group() is called directly, not through
 * ext4_mb_good_group_nolock(); ext4 counts that group, too. Calls by other functions of a search
 * are left out, see rt_alloc_exclude().
 */
static __always_inline void rt_alloc_ask(struct rt_alloc_cpu *c, __u32 group)
{
	struct ext4_allocation_context *ac = (struct ext4_allocation_context *)c->ac;

	if (c->group == group) {
		/* the criterion is compared, because each criterion begins with the same group */
		if (c->state == RT_GROUP_CONSIDERED && c->criterion == BPF_CORE_READ(ac, ac_criteria)) {
			c->info_calls++;
			return;
		}
		if (c->state == RT_GROUP_ACCEPTED)
			return;
		/* called by ext4_mb_new_inode_pa() */
		if (c->state == RT_GROUP_SCANNED && BPF_CORE_READ(ac, ac_status) == RT_AC_STATUS_FOUND)
			return;
	}
	rt_alloc_settle(c);
	c->group = group;
	c->criterion = BPF_CORE_READ(ac, ac_criteria);
	c->state = RT_GROUP_CONSIDERED;
	c->info_calls = 1;
	rt_alloc_look(c, c->criterion, 1);
}

/*
 * Handles the result of ext4_mb_good_group() on kernels before 6.17, where rt_alloc_ask() counts
 * the groups.
 */
static __always_inline void rt_alloc_answer(struct rt_alloc_cpu *c, __u32 group, bool good)
{
	if (c->group != group)
		return;
	if (c->state == RT_GROUP_ACCEPTED) {
		c->state = RT_GROUP_SCANNED;
	} else if (c->state == RT_GROUP_CONSIDERED && good) {
		/*
		 * info_calls is 1: only ext4_mb_good_group() called ext4_get_group_info(), so the group came from
		 * a list
		 */
		c->state = c->info_calls > 1 ? RT_GROUP_ACCEPTED : RT_GROUP_FROM_LIST;
	} else if (c->state == RT_GROUP_CONSIDERED) {
		rt_alloc_settle(c);
		c->state = RT_GROUP_REFUSED;
	}
}

/*
 * The current task enters or leaves an excluded function: one that calls ext4_get_group_info() for
 * groups that are not considered.
 */
static __always_inline int rt_alloc_exclude(__u32 dev, bool enters)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());
	struct rt_alloc_task *t = rt_alloc_searching(dev);

	if (!c || !t)
		return 0;
	if (enters)
		t->excluded++;
	else if (t->excluded)
		t->excluded--;
	if (c->task == bpf_get_current_pid_tgid())
		c->task = 0;
	return 0;
}

/*
 * state: b_state of the bitmap's buffer. ext4_read_block_bitmap_nowait() marks a buffer as new if
 * it reads the bitmap from disk; there is no wait for other buffers.
 */
static __always_inline int rt_alloc_wait_begins(__u32 dev, unsigned long state)
{
	struct rt_alloc_wait wait = { .fs = rt_alloc_fs(dev) };
	__u32 pid = bpf_get_current_pid_tgid();

	if (!(state >> RT_BH_NEW & 1) || wait.fs >= RT_ALLOC_FS)
		return 0;
	wait.begun_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&rt_alloc_waits, &pid, &wait, BPF_ANY))
		rt_alloc_lost(waits);
	return 0;
}

static __always_inline int rt_alloc_wait_ends(void)
{
	__u32 pid = bpf_get_current_pid_tgid(), fs;
	struct rt_alloc_wait *wait = bpf_map_lookup_elem(&rt_alloc_waits, &pid);
	struct rt_alloc *a;
	__u64 ns;

	if (!wait)
		return 0;
	ns = bpf_ktime_get_ns() - wait->begun_ns;
	fs = wait->fs;
	bpf_map_delete_elem(&rt_alloc_waits, &pid);
	a = bpf_map_lookup_elem(&rt_allocs, &fs);
	if (a && ns >= RT_WAIT_MIN_NS)
		rt_alloc_time(a->waits, ns);
	return 0;
}

#endif
