// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Times the waits for bitmaps, like alloc_groups.bpf.c, on kernels that refuse fentry. The `k` in
 * the names of the programs stands for kprobe; the kernel keeps 15 characters of a name.
 */

/*
 * Makes bpf_tracing.h use the kernel's register names. bpftool's vmlinux.h defines this macro, the
 * vmlinux.h in this directory does not.
 */
#define __VMLINUX_H__
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di, si, dx, ax;
} __attribute__((preserve_access_index));
#define RT_KPROBES
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31];
} __attribute__((preserve_access_index));
#define RT_KPROBES
#endif

#include <bpf/bpf_tracing.h>
#include "alloc_groups.bpf.h"

#ifdef RT_KPROBES

SEC("?kprobe/ext4_wait_block_bitmap")
int BPF_KPROBE(rt_al_kwait_in, struct super_block *sb, __u32 group, struct buffer_head *bh)
{
	return rt_alloc_wait_begins(BPF_CORE_READ(sb, s_dev), BPF_CORE_READ(bh, b_state));
}

SEC("?kretprobe/ext4_wait_block_bitmap")
int BPF_KRETPROBE(rt_al_kwait_out)
{
	return rt_alloc_wait_ends();
}

#endif
