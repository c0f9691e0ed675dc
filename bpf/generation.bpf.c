// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "shared/wire.h"
#include "generation.bpf.h"

const volatile __u32 rt_generation;
__u32 rt_counting SEC(".data.generation");

/* Completions passed on to the next generation. All generations use the same map. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_SEEN_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} rt_passed SEC(".maps");

/* No atomic operations: the programs of an interrupt in between leave the number as it was. */
__noinline int rt_hand_over(__u32 kind)
{
	__u64 *passed = bpf_map_lookup_elem(&rt_passed, &kind);
	__u32 ahead = *(volatile __u32 *)&rt_counting - rt_generation;

	if (!passed || !ahead)
		return !ahead;
	*passed += ahead == 1;
	if (ahead != -1U || !*passed)
		return 0;
	--*passed;
	return 1;
}
