// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Groups that a search considers, up to millions per second, and waits for a bitmap that is read
 * from disk. A hook on ext4_mb_good_group() alone would miss groups that are full or too small:
 * ext4_mb_good_group_nolock(), which is inlined everywhere, refuses these first. They are counted
 * at ext4_mb_scan_group(), which calls ext4_mb_good_group_nolock() since 6.17, or, before that, at
 * ext4_get_group_info(), which ext4_mb_good_group_nolock() calls.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "alloc_groups.bpf.h"

SEC("?fentry/ext4_mb_regular_allocator")
int BPF_PROG(rt_al_search_in, struct ext4_allocation_context *ac)
{
	return rt_alloc_search_begins((__u64)ac, ac->ac_sb->s_dev);
}

SEC("?fexit/ext4_mb_regular_allocator")
int BPF_PROG(rt_al_search_out, struct ext4_allocation_context *ac)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());
	struct rt_alloc_task *t = rt_alloc_searching(ac->ac_sb->s_dev);

	if (!c || !t)
		return 0;
	if (c->task == bpf_get_current_pid_tgid()) {
		rt_alloc_settle(c);
		c->task = 0;
	}
	t->search_ns = 0;
	return 0;
}

SEC("?fexit/ext4_mb_good_group")
int BPF_PROG(rt_al_group, struct ext4_allocation_context *ac, __u32 group, __u32 criterion,
	     __u64 good)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());

	if (!c || !rt_alloc_is_counting(c, ac->ac_sb))
		return 0;
	/* a bool: the rest of the register may be anything */
	good &= 0xff;
	if (rt_alloc_by_scan) {
		c->group = group;
		c->state = good ? RT_GROUP_ACCEPTED : RT_GROUP_REFUSED;
	} else {
		rt_alloc_answer(c, group, good);
	}
	return 0;
}

SEC("?fexit/ext4_mb_scan_group")
int BPF_PROG(rt_al_scan, struct ext4_allocation_context *ac, __u32 group)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());
	__u32 criterion = ac->ac_criteria, times;
	bool moved;

	if (!c)
		return 0;
	/* if true, the task has slept, for the bitmap of a group that was accepted */
	moved = c->task != bpf_get_current_pid_tgid();
	if (!rt_alloc_is_counting(c, ac->ac_sb))
		return 0;
	times = c->from_list ? 2 : 1;
	rt_alloc_look(c, criterion, times);
	if (!moved && !(c->state == RT_GROUP_ACCEPTED && c->group == group))
		rt_alloc_refuse(c, ac, group, criterion, times);
	c->state = RT_GROUP_NONE;
	return 0;
}

/* Records that ext4 starts (1) or stops (0) taking groups from a list. */
static __always_inline int set_from_list(struct ext4_allocation_context *ac, __u32 on)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());
	struct rt_alloc_task *t = rt_alloc_searching(ac->ac_sb->s_dev);

	if (!c || !t)
		return 0;
	t->from_list = on;
	if (c->task == bpf_get_current_pid_tgid())
		c->from_list = on;
	return 0;
}

SEC("?fentry/ext4_mb_scan_groups_xa_range")
int BPF_PROG(rt_al_list_in, struct ext4_allocation_context *ac)
{
	return set_from_list(ac, 1);
}

SEC("?fexit/ext4_mb_scan_groups_xa_range")
int BPF_PROG(rt_al_list_out, struct ext4_allocation_context *ac)
{
	return set_from_list(ac, 0);
}

SEC("?fentry/ext4_get_group_info")
int BPF_PROG(rt_al_info, struct super_block *sb, __u32 group)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());

	if (c && rt_alloc_is_counting(c, sb))
		rt_alloc_ask(c, group);
	return 0;
}

/* Functions of a search that call ext4_get_group_info() for groups that they do not consider. */
#define EXCLUDED(name, function)						\
SEC("?fentry/" #function)						\
int BPF_PROG(rt_al_##name##_in, struct super_block *sb)			\
{									\
	return rt_alloc_exclude(sb->s_dev, true);				\
}									\
									\
SEC("?fexit/" #function)						\
int BPF_PROG(rt_al_##name##_out, struct super_block *sb)		\
{									\
	return rt_alloc_exclude(sb->s_dev, false);			\
}

EXCLUDED(prefetch, ext4_mb_prefetch)
EXCLUDED(fini, ext4_mb_prefetch_fini)
EXCLUDED(load, ext4_mb_load_buddy_gfp)
EXCLUDED(init, ext4_mb_init_group)

SEC("?fentry/ext4_mb_find_by_goal")
int BPF_PROG(rt_al_goal_in, struct ext4_allocation_context *ac)
{
	return rt_alloc_exclude(ac->ac_sb->s_dev, true);
}

SEC("?fexit/ext4_mb_find_by_goal")
int BPF_PROG(rt_al_goal_out, struct ext4_allocation_context *ac)
{
	return rt_alloc_exclude(ac->ac_sb->s_dev, false);
}

SEC("?fentry/ext4_wait_block_bitmap")
int BPF_PROG(rt_al_wait_in, struct super_block *sb, __u32 group, struct buffer_head *bh)
{
	return rt_alloc_wait_begins(sb->s_dev, bh->b_state);
}

SEC("?fexit/ext4_wait_block_bitmap")
int BPF_PROG(rt_al_wait_out)
{
	return rt_alloc_wait_ends();
}
