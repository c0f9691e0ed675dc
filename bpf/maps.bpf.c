// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Definitions of the maps and settings in maps.bpf.h. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "maps.bpf.h"

const volatile __u64 rt_dev_mult = 1;
const volatile __u32 rt_rows_max = 2;
const volatile __u32 rt_page_shift = 12;
const volatile __u64 rt_vmemmap_base = 1;
const volatile __u64 rt_page_offset_base = 1;
const volatile __u32 rt_reason_mask;
const volatile __u64 rt_raid5_end_read = 1;
const volatile __u64 rt_raid5_end_write = 1;
const volatile __u64 rt_raid5_end_aligned = 1;
const volatile __u64 rt_raid10_end_read = 1;
const volatile __u64 rt_raid10_end_write = 1;
const volatile __u64 rt_md_flush_end = 1;
const volatile __u64 rt_ppl_flush_end = 1;
const volatile __u64 rt_crypt_end = 1;
const volatile __u64 rt_sync_ends[RT_SYNC_ENDS];
const volatile __u64 rt_stripe_syncing = 1;
const volatile __u64 rt_stripe_expanding = 1;
const volatile __u64 rt_stripe_expand_source = 1;
const volatile __u64 rt_dio_end_io = 1;
const volatile __u64 rt_dio_simple_pool = 1;
const volatile __u64 rt_dio_simple_iocb;
const volatile __u64 rt_ext4_end_io = 1;
const volatile __u64 rt_dm_end_io = 1;
const volatile __u32 rt_has_xfs = 1;
const volatile __u64 rt_xfs_buf_end = 1;
const volatile __u64 rt_xfs_log_end = 1;
const volatile __u64 rt_chain_end = 1;
const volatile __u32 rt_recording = 1;
const volatile __u32 rt_shadows = 0xff;
const volatile __u32 rt_nesting = 1;
const volatile __u32 rt_members_max = 1;
const volatile __u64 rt_wait_end_io = 1;
__u32 rt_shadows_attached;
__u32 rt_filter_copy;
const volatile __u32 rt_zero;

struct rt_dev_index_map rt_dev_index SEC(".maps");
struct rt_devs_map rt_devs SEC(".maps");
struct rt_arrays_map rt_arrays SEC(".maps");
struct rt_flush_origins_map rt_flush_origins SEC(".maps");
struct rt_members_map rt_members SEC(".maps");
struct rt_boundaries_map rt_boundaries SEC(".maps");
struct rt_learned_map rt_learned SEC(".maps");
struct rt_filter_map rt_filter SEC(".maps");
struct rt_inflights_map rt_inflights SEC(".maps");
struct rt_member_rows_map rt_member_rows SEC(".maps");
struct rt_rows_map rt_rows SEC(".maps");
struct rt_rows_used_map rt_rows_used SEC(".maps");
struct rt_tiles_map rt_tiles SEC(".maps");
struct rt_reasons_map rt_reasons SEC(".maps");
struct rt_seen_map rt_seen SEC(".maps");
struct rt_stripes_map rt_stripes SEC(".maps");
struct rt_costs_map rt_costs SEC(".maps");
struct rt_walks_map rt_walks SEC(".maps");
struct rt_segments_map rt_segments SEC(".maps");
struct rt_losses_map rt_losses SEC(".maps");
struct rt_task_ios_map rt_task_ios SEC(".maps");
struct rt_tasks_pending_map rt_tasks_pending SEC(".maps");
struct rt_tasks_map rt_tasks SEC(".maps");
struct rt_nowaits_map rt_nowaits SEC(".maps");
struct rt_kept_bios_map rt_kept_bios SEC(".maps");
struct rt_task_ios_map rt_task_refusals SEC(".maps");
struct rt_file_ios_map rt_file_refusals SEC(".maps");
struct rt_file_ios_map rt_file_ios SEC(".maps");
struct rt_files_pending_map rt_files_pending SEC(".maps");
struct rt_files_map rt_files SEC(".maps");
struct rt_file_names_map rt_file_names SEC(".maps");
struct rt_journals_map rt_journals SEC(".maps");
struct rt_events_map rt_events SEC(".maps");
struct rt_gathers_map rt_gathers SEC(".maps");

char LICENSE[] SEC("license") = "Dual BSD/GPL";
