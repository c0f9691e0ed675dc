/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the hooks of ext4_mb_good_group() and ext4_wait_block_bitmap() do, whatever they are hooked by. */
#ifndef RAIDTRACE_ALLOC_GROUPS_BPF_H
#define RAIDTRACE_ALLOC_GROUPS_BPF_H

#include <bpf/bpf_core_read.h>
#include "alloc.bpf.h"

enum {
	/* fs/ext4/ext4.h */
	RT_EXT4_GROUP_INFO_BBITMAP_CORRUPT_BIT = 2,
	RT_EXT4_MB_HINT_DATA = 0x20,
	RT_EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME = 4,
	RT_WAIT_MIN_NS = 1000,
	/* include/linux/buffer_head.h, enum bh_state_bits */
	RT_BH_NEW = 5,
};


/* Another allocation than this CPU's last: what that has counted is its task's. */
static __noinline void rt_alloc_change(struct rt_alloc_cpu *c, __u64 ac, __u32 dev)
{
	struct rt_alloc_task *t;
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 count;

	if (c->ac) {
		t = bpf_map_lookup_elem(&rt_alloc_tasks, &c->key);
		if (t && t->ac == c->ac)
			__sync_fetch_and_add(&t->looked_now, c->count);
	}
	c->ac = ac;
	c->count = 0;
	c->key.dev = dev;
	c->key.pid = bpf_get_current_pid_tgid();
	c->fs = rt_alloc_fs(dev);
	if (c->fs >= RT_ALLOC_FS)
		return;
	t = rt_alloc_task(&c->key);
	if (!t)
		return;
	if (t->ac != ac) {
		/* of an allocation whose end was not seen */
		t->share.looked += t->looked_now;
		t->looked_now = 0;
	} else if (t->cpu != cpu) {
		/* the task has moved: it is not counting there any more */
		count = rt_alloc_take(rt_alloc_cpu(t->cpu), ac);
		__sync_fetch_and_add(&t->looked_now, count);
	}
	t->ac = ac;
	t->cpu = cpu;
}

/* By what ext4_mb_good_group() compares, in its order. The group may have changed since. */
static __noinline __u32 rt_alloc_reason(struct ext4_allocation_context *ac, __u32 group, __u32 criterion)
{
	struct ext4_sb_info *sbi = BPF_CORE_READ(ac, ac_sb, s_fs_info);
	struct ext4_group_info ***table = BPF_CORE_READ(sbi, s_group_info), **row = NULL, *info = NULL;
	__u32 bits = BPF_CORE_READ(sbi, s_desc_per_block_bits) & 31, flex;
	int free, fragments, length = BPF_CORE_READ(ac, ac_g_ex.fe_len);

	bpf_probe_read_kernel(&row, sizeof(row), table + (group >> bits));
	bpf_probe_read_kernel(&info, sizeof(info), row + (group & ((1U << bits) - 1)));
	if (!row || !info)
		return RT_REFUSED_OTHER;
	if (BPF_CORE_READ(info, bb_state) >> RT_EXT4_GROUP_INFO_BBITMAP_CORRUPT_BIT & 1)
		return RT_REFUSED_CORRUPT;
	free = BPF_CORE_READ(info, bb_free);
	if (free == 0)
		return RT_REFUSED_FULL;
	fragments = BPF_CORE_READ(info, bb_fragments);
	if (fragments <= 0 || free < 0)
		return RT_REFUSED_OTHER;
	switch (criterion) {
	case 0:
		flex = 1U << (BPF_CORE_READ(sbi, s_log_groups_per_flex) & 31);
		if ((BPF_CORE_READ_BITFIELD_PROBED(ac, ac_flags) & RT_EXT4_MB_HINT_DATA) &&
		    flex >= RT_EXT4_FLEX_SIZE_DIR_ALLOC_SCHEME && (group & (flex - 1)) == 0)
			return RT_REFUSED_FOR_DIRECTORIES;
		if (free < length)
			return RT_REFUSED_BLOCKS;
		if (BPF_CORE_READ(info, bb_largest_free_order) < (int)BPF_CORE_READ(ac, ac_2order))
			return RT_REFUSED_ORDER;
		return RT_REFUSED_OTHER;
	case 2:
		if (!rt_alloc_best_avail)
			break;
		/* fall through */
	case 1:
		return (__u32)free / (__u32)fragments < (__u32)length ? RT_REFUSED_AVERAGE :
									RT_REFUSED_OTHER;
	}
	return free < length ? RT_REFUSED_BLOCKS : RT_REFUSED_OTHER;
}

static __always_inline void rt_alloc_look(struct rt_alloc_cpu *c, __u32 criterion)
{
	c->count++;
	c->rows[c->fs & (RT_ALLOC_ROWS - 1)].looked[criterion & (RT_ALLOC_CRITERIA_ROOM - 1)]++;
}

static __always_inline void rt_alloc_refuse(struct rt_alloc_cpu *c, struct ext4_allocation_context *ac,
				   __u32 group, __u32 criterion)
{
	__u32 fs = c->fs;
	struct rt_alloc *a;

	c->rows[fs & (RT_ALLOC_ROWS - 1)].refused[criterion & (RT_ALLOC_CRITERIA_ROOM - 1)]++;
	if (++c->refusals & (RT_ALLOC_SAMPLED - 1))
		return;
	a = bpf_map_lookup_elem(&rt_allocs, &fs);
	if (a)
		a->reasons[rt_alloc_reason(ac, group, criterion) & (RT_ALLOC_REASONS - 1)]++;
}

/*
 * `state`: of the bitmap's buffer. ext4_read_block_bitmap_nowait() marks those
 * as new that it asks the disk for; for others there is nothing to wait.
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
