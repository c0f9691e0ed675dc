// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that count a group considered by a search and can be run without being attached, and an empty program. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "alloc_groups.bpf.h"

const volatile __u32 rt_alloc_devs[RT_ALLOC_FS];
const volatile __u32 rt_alloc_best_avail = 1;
const volatile __u32 rt_alloc_by_scan = 1;

struct rt_allocs_map rt_allocs SEC(".maps");
struct rt_alloc_cpus_map rt_alloc_cpus SEC(".maps");
struct rt_alloc_tasks_map rt_alloc_tasks SEC(".maps");
struct rt_alloc_waits_map rt_alloc_waits SEC(".maps");
struct rt_alloc_losses_map rt_alloc_losses SEC(".maps");

struct __sk_buff {
	__u32 len;
};

/* Same as in rt_al_group and rt_al_scan. */
static __always_inline int group(struct __sk_buff *skb, bool good)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());
	__u64 ac = skb->len;

	if (!c)
		return 0;
	if (c->ac != ac)
		rt_alloc_change(c, ac, 1);
	rt_alloc_look(c, skb->len, 1);
	if (!good)
		rt_alloc_refuse(c, (struct ext4_allocation_context *)ac, skb->len, skb->len, 1);
	return 1;
}

SEC("tc")
int nothing(struct __sk_buff *skb)
{
	return 1;
}

SEC("tc")
int accepted(struct __sk_buff *skb)
{
	return group(skb, skb->len);
}

SEC("tc")
int refused(struct __sk_buff *skb)
{
	return group(skb, !skb->len);
}

/* Same as in rt_al_info (before Linux 6.17), with a new group each time. */
SEC("tc")
int asked(struct __sk_buff *skb)
{
	struct rt_alloc_cpu *c = rt_alloc_cpu(bpf_get_smp_processor_id());
	static __u32 number;

	if (!c)
		return 0;
	if (c->ac != skb->len)
		rt_alloc_change(c, skb->len, 1);
	c->task = bpf_get_current_pid_tgid();
	rt_alloc_ask(c, ++number);
	return 1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
