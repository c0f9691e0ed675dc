// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Maps and variables of `raidtrace slow`, described in slow.bpf.h. In a separate file, because a
 * file that defines a map cannot refer to a map of another file.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "slow.bpf.h"

const volatile __u64 rt_slow_threshold;
const volatile __u64 rt_slow_io_ns;
const volatile __u64 rt_slow_page_shift;
const volatile __u32 rt_slow_flush_seq;
const volatile bool rt_slow_async_ends;
const volatile __u32 rt_slow_throttled;
__u64 rt_slow_first_fs;
__u64 rt_slow_bio_based;
__u64 rt_slow_raid5_end_read;
__u64 rt_slow_stripe_syncing;
__u64 rt_slow_rtlock;
__u64 rt_slow_sent;
__u64 rt_slow_locks;
__u64 rt_slow_in_flight;
__u64 rt_slow_displaced_count;
__u64 rt_slow_noted;

struct rt_slow_tasks_map rt_slow_tasks SEC(".maps");
struct rt_slow_operations_map rt_slow_operations SEC(".maps");
struct rt_slow_async_map rt_slow_async SEC(".maps");
struct rt_slow_displaced_map rt_slow_displaced SEC(".maps");
struct rt_slow_ended_map rt_slow_ended SEC(".maps");
struct rt_slow_own_ios_map rt_slow_own_ios SEC(".maps");
struct rt_slow_submissions_map rt_slow_submissions SEC(".maps");
struct rt_slow_dios_map rt_slow_dios SEC(".maps");
struct rt_slow_commits_map rt_slow_commits SEC(".maps");
struct rt_slow_zero_map rt_slow_zero SEC(".maps");
struct rt_slow_stacks_map rt_slow_stacks SEC(".maps");
struct rt_slow_devices_map rt_slow_devices SEC(".maps");
struct rt_slow_requests_map rt_slow_requests SEC(".maps");
struct rt_slow_locked_map rt_slow_locked SEC(".maps");
struct rt_slow_writers_map rt_slow_writers SEC(".maps");
struct rt_slow_last_writes_map rt_slow_last_writes SEC(".maps");
struct rt_slow_bios_map rt_slow_bios SEC(".maps");
struct rt_slow_events_map rt_slow_events SEC(".maps");
struct rt_slow_sums_map rt_slow_sums SEC(".maps");
struct rt_slow_losses_map rt_slow_losses SEC(".maps");

char LICENSE[] SEC("license") = "Dual BSD/GPL";
