// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ext4_mb_good_group(), which is called for every group that a search looks at,
 * up to millions of times a second; and the wait for a bitmap that comes from
 * disk.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "alloc_groups.bpf.h"

SEC("?fexit/ext4_mb_good_group")
int BPF_PROG(rt_al_group, struct ext4_allocation_context *ac, __u32 group, __u32 criterion,
	     __u64 good)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());

	if (!c)
		return 0;
	if (c->ac != (__u64)ac)
		rt_alloc_change(c, (__u64)ac, ac->ac_sb->s_dev);
	rt_alloc_look(c, criterion);
	/* a bool: the rest of the register may be anything */
	if (!(good & 0xff))
		rt_alloc_refuse(c, ac, group, criterion);
	return 0;
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
