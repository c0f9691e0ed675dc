//! The binary on real arrays, in guests with Debian kernels (`tools/vm`), compared with an account
//! of the run that shares no code with it (`tools/oracle`). The guests run `tests/lab/*.sh`, and
//! the core group of `tools/truth`.
//!
//! `RAIDTRACE_LAB=0` skips these tests. If QEMU, a tool or a kernel is missing, they print
//! "skipped" and the reason; with `RAIDTRACE_LAB=1` they fail instead. Ignored tests are those that
//! only `tools/test --full` runs. The files of a guest stay in `target/tmp/lab`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

#[path = "lab/alloc.rs"]
mod alloc;
use alloc::{
    allocator_is_healthy_after_the_fix, allocator_is_named, cold_bitmaps_are_named,
    groups_considered_match_mb_stats, healthy_allocator_raises_nothing,
    hooks_count_the_groups_of_a_search, mb_stats_replaces_missing_hooks, stripe_livelock_is_named,
};

#[path = "lab/doctor.rs"]
mod doctor;
use doctor::{
    arrays_that_do_not_run, doctor_commands_fix, doctor_commands_keep_data,
    doctor_ignores_a_covered_mount, doctor_reports_a_small_journal, journal_waits_match_jbd2,
};

#[path = "lab/guests.rs"]
mod guests;
use guests::{CORE, HOME, lab, status_and_output};

#[path = "lab/amplification.rs"]
mod amplification;
use amplification::{
    amplification_adds_up, amplification_of_an_array_of_arrays, amplification_of_full_stripes,
    amplification_of_single_blocks, amplification_of_small_files,
};

#[path = "lab/containers.rs"]
mod containers;
use containers::{
    logs_of_an_imsm_container, metadata_of_a_ddf_container, one_traced_volume_of_two,
    volumes_of_a_ddf_container, volumes_of_an_imsm_container,
};

#[path = "lab/mapped.rs"]
mod mapped;
use mapped::members_on_device_mapper;

#[path = "lab/module.rs"]
mod module;
use module::programs_load_where_ext4_is_a_module;

#[path = "lab/scenarios.rs"]
mod scenarios;

#[path = "lab/thin.rs"]
mod thin;
use thin::a_full_thin_pool_is_named;
#[path = "lab/dm_raid.rs"]
mod dm_raid;
use dm_raid::volumes_of_dm_raid_are_arrays;
#[path = "lab/layout_arrays.rs"]
mod layout_arrays;
use layout_arrays::several_arrays_add_up;

#[path = "lab/layout_load.rs"]
mod layout_load;
use layout_load::{
    load_on_raid0_is_predicted, load_on_raid5_is_predicted, load_on_xfs_on_raid0_is_predicted,
    load_on_xfs_on_raid5_is_predicted,
};

#[path = "lab/placement.rs"]
mod placement;
use placement::{
    first_files_use_the_goal, metadata_matches_the_plan, recommended_options_are_even,
};

#[path = "lab/privileges.rs"]
mod privileges;
use privileges::{capabilities_are_given_up, each_capability_has_its_use, volumes_need_sys_admin};

#[path = "lab/record.rs"]
mod record;
use record::{a_recording_matches_top, a_reload_loses_nothing, the_end_of_a_recording_under_load};

#[path = "lab/serve.rs"]
mod serve;
use serve::metrics_of_arrays_that_fail_and_return;

#[path = "lab/xfs.rs"]
mod xfs_origins;
use xfs_origins::{
    alloc_refuses_an_xfs, blocks_of_xfs_have_their_origins, devices_of_xfs_belong_to_it,
    xfs_is_frozen_and_shut_down, xfs_is_grown_and_made_anew,
};

#[path = "lab/agsize.rs"]
mod agsize;
use agsize::the_suggested_agsize_is_even;

#[path = "lab/slow.rs"]
mod slow;
use slow::slow_operations_have_their_causes;

#[path = "lab/slow_md.rs"]
mod slow_md;
use slow_md::slow_arrays_have_their_causes;

#[path = "lab/slow_files.rs"]
mod slow_files;
use slow_files::slow_readers_have_their_writer;

#[path = "lab/slow_async.rs"]
mod slow_async;
use slow_async::asynchronous_io_ends_when_it_completes;

#[path = "lab/slow_databases.rs"]
mod slow_databases;
use slow_databases::slow_statements_have_their_io;

#[path = "lab/slow_unended.rs"]
mod slow_unended;
use slow_unended::unended_operations_are_listed;

#[path = "lab/slow_waits.rs"]
mod slow_waits;
use slow_waits::waits_have_their_names;

#[path = "lab/slow_parts.rs"]
mod slow_parts;
use slow_parts::{slow_members_are_partitions, slow_writes_have_their_limit};

#[path = "lab/slow_xfs.rs"]
mod slow_xfs;
use slow_xfs::slow_operations_on_xfs_have_their_causes;

#[path = "lab/dirtied.rs"]
mod dirtied;
use dirtied::dirtied_blocks_have_their_task;

#[path = "lab/nvme.rs"]
mod nvme;
use nvme::{nvme_multipath_agrees, nvme_paths_come_and_go};

#[path = "lab/rt.rs"]
mod rt;
use rt::{
    a_ring_buffer_that_sleeps_is_refused, holders_are_named_with_preempt_rt,
    origins_agree_with_preempt_rt, requests_are_counted_with_preempt_rt,
};

#[path = "lab/output.rs"]
mod output;

#[path = "lab/kernel_figures.rs"]
mod kernel_figures;
use kernel_figures::{
    direct_reads_of_a_block_have_their_file, directory_read_after_a_sequential_read,
    directory_read_in_large_requests, directory_read_in_split_requests,
    directory_read_through_the_device, ext4_is_a_module, ext4_is_loaded_later,
    external_journal_is_a_journal, flushes_of_a_neighbour_partition, flushes_through_device_mapper,
    nested_completions_are_counted, new_quota_blocks_are_metadata, refused_bios_are_not_counted,
    requests_that_a_driver_gives_back, tasks_without_ext4s_btf, throttled_by_blkio,
    throttled_by_io_max, throttled_flush_of_the_journal, writeback_names_its_own_array,
};

/// Tests on a kernel. Those after `full` are left to `tools/test --full`; CONTRIBUTING has the
/// reasons, by scenario.
macro_rules! on_kernel {
    ($module:ident $kernel:literal: $($test:ident)*; full: $($full:ident)*) => {
        mod $module {
            $(#[test] fn $test() { super::$test($kernel); })*
            $(#[test] #[ignore = "in tools/test --full"] fn $full() { super::$full($kernel); })*
        }
    };
}

// The most used kernel: Debian 13.
on_kernel! {
    linux_6_12 "6.12":
    skew_by_default
    skew_gone_with_g_32744
    skew_agrees
    layout_of_mounted_arrays
    every_level_agrees
    nvme_multipath_agrees
    nvme_paths_come_and_go
    skew_ends_cleanly
    member_removed
    member_added
    array_stopped
    xfs
    corrupt_superblock
    not_mounted
    without_tracefs
    wrong_targets
    output_cut_off
    dirtied_blocks_have_their_task
    blocks_of_xfs_have_their_origins
    capabilities_are_given_up
    each_capability_has_its_use
    volumes_need_sys_admin
    metrics_of_arrays_that_fail_and_return
    cold_bitmaps_are_named
    amplification_of_single_blocks
    amplification_of_full_stripes
    amplification_of_an_array_of_arrays
    amplification_of_small_files
    amplification_adds_up
    members_change_within_an_interval
    md_metadata_is_found
    journal_device_and_ppl
    member_replaced
    swap_is_an_origin
    a_recording_matches_top
    doctor_finds_the_skew
    doctor_accepts_its_own_advice
    doctor_commands_disable_the_stripe
    doctor_reports_a_failed_disk
    doctor_measures_the_skew
    inventory_has_every_array
    arrays_that_do_not_run
    writeback_names_its_own_array
    throttled_by_io_max
    external_journal_is_a_journal
    new_quota_blocks_are_metadata
    refused_bios_are_not_counted
    several_arrays_add_up
    volumes_of_dm_raid_are_arrays
    a_full_thin_pool_is_named
    slow_members_are_partitions
    unended_operations_are_listed
    slow_writes_have_their_limit
    members_on_device_mapper
    ;
    full:
    slow_operations_have_their_causes
    journal_waits_match_jbd2
    doctor_reports_a_small_journal
    filesystem_changes
    members_change
    array_is_reshaped
    arrays_come_and_go
    waits_have_their_names
    allocator_is_named
    allocator_is_healthy_after_the_fix
    healthy_allocator_raises_nothing
    raid0_agrees
    raid1_agrees
    raid10_agrees
    raid5_agrees
    agree_ends_cleanly
    a_falsified_geometry_is_detected
    doctor_commands_keep_data
    doctor_commands_fix
    doctor_ignores_a_covered_mount
    slow_operations_on_xfs_have_their_causes
    slow_readers_have_their_writer
    asynchronous_io_ends_when_it_completes
    slow_statements_have_their_io
    groups_considered_match_mb_stats
    mb_stats_replaces_missing_hooks
    a_reload_loses_nothing
    the_end_of_a_recording_under_load
    the_suggested_agsize_is_even
    volumes_of_a_ddf_container
    one_traced_volume_of_two
    metadata_of_a_ddf_container
    volumes_of_an_imsm_container
    logs_of_an_imsm_container
    xfs_is_grown_and_made_anew
    xfs_is_frozen_and_shut_down
    devices_of_xfs_belong_to_it
    alloc_refuses_an_xfs
    metadata_matches_the_plan
    recommended_options_are_even
    first_files_use_the_goal
    load_on_raid0_is_predicted
    load_on_raid5_is_predicted
    load_on_xfs_on_raid0_is_predicted
    load_on_xfs_on_raid5_is_predicted
}

on_kernel! {
    linux_6_1 "6.1":
    flushes_through_device_mapper
    flushes_of_a_neighbour_partition
    nested_completions_are_counted
    requests_that_a_driver_gives_back
    throttled_by_blkio
    throttled_flush_of_the_journal
    ;
    full:
    slow_arrays_have_their_causes
    volumes_of_dm_raid_are_arrays
    asynchronous_io_ends_when_it_completes
    slow_statements_have_their_io
    unended_operations_are_listed
    nvme_multipath_agrees
    nvme_paths_come_and_go
    skew_by_default
    skew_gone_with_g_32744
    skew_agrees
    layout_of_mounted_arrays
    raid0_agrees
    raid1_agrees
    raid10_agrees
    raid5_agrees
    a_falsified_geometry_is_detected
    every_level_agrees
    skew_ends_cleanly
    agree_ends_cleanly
    member_removed
    member_added
    array_stopped
    xfs
    corrupt_superblock
    not_mounted
    without_tracefs
    wrong_targets
    output_cut_off
    allocator_is_named
    allocator_is_healthy_after_the_fix
    healthy_allocator_raises_nothing
    dirtied_blocks_have_their_task
    groups_considered_match_mb_stats
    mb_stats_replaces_missing_hooks
    slow_operations_have_their_causes
    blocks_of_xfs_have_their_origins
    directory_read_through_the_device
    directory_read_in_split_requests
    directory_read_in_large_requests
    direct_reads_of_a_block_have_their_file
    stripe_livelock_is_named
}

// Large folios in a block device's page cache, since 6.15; the allocator of 6.17; another function
// that ends a bio that a task waits for, since 7.2.
on_kernel! {
    linux_7_3 "7.3":
    every_level_agrees
    directory_read_through_the_device
    directory_read_after_a_sequential_read
    directory_read_in_split_requests
    directory_read_in_large_requests
    direct_reads_of_a_block_have_their_file
    ;
    full:
    hooks_count_the_groups_of_a_search
    throttled_flush_of_the_journal
    volumes_of_dm_raid_are_arrays
    slow_statements_have_their_io
    asynchronous_io_ends_when_it_completes
    unended_operations_are_listed
    nvme_multipath_agrees
    nvme_paths_come_and_go
    a_reload_loses_nothing
    the_end_of_a_recording_under_load
}

on_kernel! {
    linux_6_18 "6.18":
    ;
    full:
    every_level_agrees
    hooks_count_the_groups_of_a_search
    directory_read_through_the_device
    directory_read_after_a_sequential_read
    directory_read_in_split_requests
    directory_read_in_large_requests
    direct_reads_of_a_block_have_their_file
}

on_kernel! {
    linux_7_2 "7.2":
    ;
    full:
    a_reload_loses_nothing
    the_end_of_a_recording_under_load
    every_level_agrees
    hooks_count_the_groups_of_a_search
    directory_read_through_the_device
    directory_read_after_a_sequential_read
    directory_read_in_split_requests
    directory_read_in_large_requests
    direct_reads_of_a_block_have_their_file
}

// The oldest kernel, and the oldest allocator for which raidtrace counts groups.
on_kernel! {
    linux_5_10 "5.10":
    every_level_agrees
    hooks_count_the_groups_of_a_search
    ;
    full:
    asynchronous_io_ends_when_it_completes
    unended_operations_are_listed
}

// Debian's plain (not cloud) flavour, where ext4 is a module: with and without the module's BTF.
on_kernel! {
    linux_5_10_plain "5.10-plain":
    ;
    full:
    tasks_without_ext4s_btf
    ext4_is_loaded_later
    ext4_is_a_module

}

on_kernel! {
    linux_6_1_plain "6.1-plain":
    ;
    full:
    tasks_without_ext4s_btf
    ext4_is_loaded_later
    ext4_is_a_module
}

on_kernel! {
    linux_6_12_plain "6.12-plain":
    programs_load_where_ext4_is_a_module
    ;
    full:
}

on_kernel! {
    linux_6_12_rt "6.12-rt":
    requests_are_counted_with_preempt_rt
    origins_agree_with_preempt_rt
    holders_are_named_with_preempt_rt
    ;
    full:
    every_level_agrees
}

on_kernel! {
    linux_5_10_rt "5.10-rt":
    ;
    full:
    a_ring_buffer_that_sleeps_is_refused
}

on_kernel! {
    linux_7_3_rt "7.3-rt":
    ;
    full:
    requests_are_counted_with_preempt_rt
    holders_are_named_with_preempt_rt
}

/// Tests the arithmetic of the oracle, and that it finds differences in falsified accounts. Needs
/// no guest.
#[test]
fn oracle_selftest() {
    let output = Command::new(Path::new(HOME).join("tools/oracle/selftest"))
        .output()
        .expect("tools/oracle/selftest");
    assert!(output.status.success(), "{}", status_and_output(&output));
}

/// Tests that `tools/check-btf` names the programs that read a field which a kernel has renamed.
#[test]
fn check_btf_selftest() {
    let output = Command::new(Path::new(HOME).join("tools/btf/selftest"))
        .arg(env!("OUT_DIR"))
        .output()
        .expect("tools/btf/selftest");
    assert!(output.status.success(), "{}", status_and_output(&output));
}

fn text(path: PathBuf) -> String {
    match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn compare(dir: &Path, options: &[&str], array: &str) -> Output {
    Command::new(Path::new(HOME).join("tools/oracle/compare"))
        .args(options)
        .arg(dir)
        .arg(array)
        .output()
        .expect("tools/oracle/compare")
}

fn agrees(dir: &Path, array: &str) {
    let output = compare(dir, &[], array);
    println!("{}", status_and_output(&output));
    assert!(output.status.success(), "{array} does not agree, see above");
}

/// Lines of a `--json` file.
fn intervals(path: PathBuf) -> Vec<Value> {
    text(path)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}")))
        .collect()
}

/// Bytes of an origin and operation on each slot of an array, over a run.
fn by_slot(lines: &[Value], array: &str, origin: &str, op: &str) -> BTreeMap<u64, u64> {
    let mut slots = BTreeMap::new();
    let each = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    for found in lines.iter().flat_map(|l| each(l, "arrays")).filter(|a| a["name"] == array) {
        for member in each(&found, "members") {
            let bytes: u64 = each(&member, "io")
                .iter()
                .filter(|row| row["origin"] == origin && row["op"] == op)
                .filter_map(|row| row["bytes"].as_u64())
                .sum();
            if let Some(slot) = member["slot"].as_u64() {
                *slots.entry(slot).or_default() += bytes;
            }
        }
    }
    slots
}

const METADATA: [&str; 3] = ["block_bitmap", "inode_bitmap", "inode_table"];

fn skew_by_default(kernel: &str) {
    let Some(dir) = lab(kernel, "skew") else {
        return;
    };
    let lines = intervals(dir.join("top.json"));
    for origin in METADATA {
        let slots = by_slot(&lines, "md120", origin, "write");
        let all: u64 = slots.values().sum();
        let three: u64 = [0, 4, 8].iter().map(|s| slots[s]).sum();
        println!("{origin}: {slots:?}");
        assert!(all >= 400 * 4096, "{origin}: {all} bytes are too few");
        assert!(
            three * 100 >= all * 95,
            "{origin}: {three} of {all} bytes on slots 0, 4 and 8: {slots:?}"
        );
    }
}

/// `layout` on a mount point names the members and has the figures of the skew scenario.
fn layout_of_mounted_arrays(kernel: &str) {
    let Some(dir) = lab(kernel, "skew") else {
        return;
    };
    for (array, bitmaps) in [
        ("md120", [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]),
        ("md121", [1570, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1632, 1600, 1600]),
    ] {
        let found = &intervals(dir.join(format!("layout.{array}.json")))[0];
        assert_eq!(found["array"], array);
        assert_eq!(found["level"], "raid0");
        let members = found["members"].as_array().expect("members");
        let on = |m: &Value| m["block_bitmap"].as_u64().zip(m["inode_bitmap"].as_u64());
        let got: Vec<u64> = members.iter().filter_map(on).map(|(b, i)| b + i).collect();
        assert_eq!(got, bitmaps, "{array}");
        assert!(members.iter().all(|m| m["name"].as_str().is_some_and(|n| n.starts_with("loop"))));
    }
}

fn skew_gone_with_g_32744(kernel: &str) {
    let Some(dir) = lab(kernel, "skew") else {
        return;
    };
    let lines = intervals(dir.join("top.json"));
    let mut slots = BTreeMap::<u64, u64>::new();
    for origin in METADATA {
        for (slot, bytes) in by_slot(&lines, "md121", origin, "write") {
            *slots.entry(slot).or_default() += bytes;
        }
    }
    println!("{slots:?}");
    assert_eq!(slots.len(), 12);
    let all: u64 = slots.values().sum();
    let most = slots.values().max().copied().unwrap_or(0);
    assert!(all >= 3 * 400 * 4096, "{all} bytes are too few");
    assert!(most * 12 * 10 <= all * 16, "{most} is above 1.6x the mean: {slots:?}");
}

fn skew_agrees(kernel: &str) {
    let Some(dir) = lab(kernel, "skew") else {
        return;
    };
    agrees(&dir, "md120");
    agrees(&dir, "md121");
}

/// Exit status and findings by id of a doctor run.
fn diagnosis(dir: &Path, name: &str) -> (i32, BTreeMap<String, Value>) {
    let status = text(dir.join(format!("{name}.status")));
    (status.trim().parse().unwrap_or(-1), findings(dir, name))
}

/// Findings of a doctor run by id.
fn findings(dir: &Path, name: &str) -> BTreeMap<String, Value> {
    let object = intervals(dir.join(format!("{name}.json"))).remove(0);
    assert_eq!(object["schema"], "raidtrace.doctor/1");
    let found = object["findings"].as_array().cloned().unwrap_or_default();
    let by_id = |f: Value| Some((f["id"].as_str()?.to_owned(), f));
    println!("{name}: {object:#}");
    found.into_iter().filter_map(by_id).collect()
}

fn doctor_finds_the_skew(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor") else {
        return;
    };
    let (status, found) = diagnosis(&dir, "first");
    let skew = &found["layout-skew"];
    // Without --live the cost is not measured.
    assert_eq!((status, &skew["severity"]), (0, &"info".into()));
    let bitmaps = skew["figures"]["bitmaps"].as_f64();
    assert!(bitmaps.is_some_and(|s| (3.9..4.1).contains(&s)), "{skew}");
    assert_eq!(skew["commands"][0], "mkfs.ext4 -g 32744 /dev/NEW_ARRAY");
    // Even for an empty filesystem the command does not name the array.
    let (_, empty) = diagnosis(&dir, "empty");
    let skew = &empty["layout-skew"];
    assert_eq!(skew["commands"][0], "mkfs.ext4 -g 32744 /dev/NEW_ARRAY");
    assert!(skew["seen"].to_string().contains("no inodes in use besides the reserved ones"));
}

fn doctor_accepts_its_own_advice(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor") else {
        return;
    };
    let (status, found) = diagnosis(&dir, "advised");
    assert!(status == 0 && found.is_empty(), "{status} {found:?}");
}

fn doctor_commands_disable_the_stripe(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor") else {
        return;
    };
    let (status, found) = diagnosis(&dir, "stripe");
    assert!(status == 0 && found.contains_key("alloc-stripe-ssd"), "{status}");
    let (_, found) = diagnosis(&dir, "unstriped");
    assert!(found.is_empty(), "{found:?}");
}

fn doctor_measures_the_skew(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor") else {
        return;
    };
    for name in ["live", "load"] {
        let (_, found) = diagnosis(&dir, name);
        assert!(found.contains_key("live-skew"), "{:?}", found.keys());
        assert!(!found.contains_key("live-disagrees"));
        let live = &intervals(dir.join(format!("{name}.json")))[0]["live"];
        assert_eq!(live["recording"].is_string(), name == "load");
        let rows = live["rows"].as_array().cloned().unwrap_or_default();
        assert!(rows.iter().any(|r| r["origin"] == "inode_table"), "{live}");
        for row in rows {
            let [observed, predicted] =
                ["observed", "predicted"].map(|f| row[f].as_f64().unwrap_or(0.0));
            assert!((3.0..=6.0).contains(&observed) && (3.9..=4.3).contains(&predicted), "{row}");
        }
    }
}

fn doctor_reports_a_failed_disk(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor") else {
        return;
    };
    let (status, found) = diagnosis(&dir, "whole");
    assert!(status == 0 && !found.contains_key("array-degraded"));
    for name in ["degraded", "removed"] {
        let (status, found) = diagnosis(&dir, name);
        assert_eq!((status, &found["array-degraded"]["severity"]), (4, &"critical".into()));
    }
}

/// Arrays, members and filesystems as mdadm made them, the skew and the findings of doctor.
fn inventory_has_every_array(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor") else {
        return;
    };
    let rows = intervals(dir.join("inventory.jsonl"));
    let of = |kind: &str, array: &str| {
        let is = |row: &&Value| row["kind"] == kind && (array.is_empty() || row["array"] == array);
        rows.iter().filter(is).collect::<Vec<&Value>>()
    };
    assert_eq!(of("host", "").len(), 1);
    for (array, level, chunk, members, health) in [
        ("md120", "raid0", 512, 12, Value::Null),
        ("md121", "raid0", 512, 12, Value::Null),
        ("md122", "raid5", 64, 4, "degraded".into()),
    ] {
        let [row] = of("array", array)[..] else { panic!("{array}: {rows:#?}") };
        assert_eq!((&row["level"], &row["chunk_bytes"]), (&level.into(), &(chunk * 1024).into()));
        assert_eq!((&row["raid_disks"], &row["health"]), (&members.into(), &health));
        assert_eq!(of("member", array).len(), members);
        let [fs] = of("filesystem", array)[..] else { panic!("{array}: {rows:#?}") };
        assert_eq!(fs["mounted_on"], format!("/mnt/{array}"));
        let skew = fs["skew"].as_f64().expect("a skew");
        // md122 has two groups, whose bitmaps are always on few members.
        assert_eq!((3.9..4.1).contains(&skew), array != "md121", "{fs}");
    }
    let failed = of("member", "md122").into_iter().filter(|row| row["health"] == "faulty");
    assert_eq!(failed.count(), 1);
    let found = |array, id: &str| of("finding", array).iter().any(|row| row["finding"] == id);
    assert!(found("md122", "array-degraded") && found("md120", "layout-skew"));
    assert!(!found("md121", "layout-skew") && !found("md122", "layout-skew"));
}

fn raid0_agrees(kernel: &str) {
    let Some(dir) = lab(kernel, "agree") else {
        return;
    };
    agrees(&dir, "md120");
}

fn raid1_agrees(kernel: &str) {
    let Some(dir) = lab(kernel, "agree") else {
        return;
    };
    agrees(&dir, "md121");
}

fn raid10_agrees(kernel: &str) {
    let Some(dir) = lab(kernel, "agree") else {
        return;
    };
    agrees(&dir, "md122");
}

fn raid5_agrees(kernel: &str) {
    let Some(dir) = lab(kernel, "agree") else {
        return;
    };
    agrees(&dir, "md123");
}

/// With a falsified geometry, the oracle must not agree with the same run.
fn a_falsified_geometry_is_detected(kernel: &str) {
    let Some(dir) = lab(kernel, "agree") else {
        return;
    };
    for array in ["md120", "md121", "md122", "md123"] {
        for how in ["slots", "offset"] {
            // On RAID 1 only slot numbers and the data offset can differ.
            let output = compare(&dir, &["--break-geometry", how], array);
            assert_eq!(
                output.status.code(),
                Some(1),
                "{array} {how}: {}",
                status_and_output(&output)
            );
        }
    }
}

/// The core group of tools/truth: each level under a mixed load.
fn every_level_agrees(kernel: &str) {
    lab(kernel, CORE);
}

fn skew_ends_cleanly(kernel: &str) {
    ends_cleanly(kernel, "skew");
}

fn agree_ends_cleanly(kernel: &str) {
    ends_cleanly(kernel, "agree");
}

fn ends_cleanly(kernel: &str, scenario: &str) {
    let Some(dir) = lab(kernel, scenario) else {
        return;
    };
    assert_eq!(text(dir.join("top.status")).trim(), "0");
    // The unmount at the end of the scenario causes a note.
    let said = text(dir.join("top.err"));
    let complaints: Vec<&str> = (said.lines())
        .filter(|line| !(line.starts_with("raidtrace: note:") && line.contains(" unmounted from ")))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// A traced case of a script in tests/lab: JSON lines, stderr, exit status.
struct Case {
    lines: Vec<Value>,
    said: String,
    status: i32,
}

/// A case of bad.sh (errors during tracing).
fn error_case(kernel: &str, name: &str) -> Option<Case> {
    let dir = lab(kernel, "bad")?;
    let said = text(dir.join(format!("{name}.err")));
    let status = text(dir.join(format!("{name}.status")));
    println!("{name}: status {}: {said}", status.trim());
    assert!(!said.contains("panicked at"), "{name}: {said}");
    let did = dir.join(format!("{name}.did"));
    assert!(!did.exists() || !text(did.clone()).contains("failed:"), "{name}: {}", text(did));
    Some(Case {
        lines: intervals(dir.join(format!("{name}.out"))),
        said,
        status: status.trim().parse().expect("a status"),
    })
}

/// Bytes of the origins for which `keep` is true, over all members.
fn bytes(lines: &[Value], array: &str, op: &str, keep: impl Fn(&str) -> bool) -> u64 {
    let mut origins: Vec<&str> = raidtrace::origin::Origin::ALL.iter().map(|o| o.name()).collect();
    origins.retain(|o| keep(o));
    origins.iter().flat_map(|o| by_slot(lines, array, o, op).into_values()).sum()
}

fn member_removed(kernel: &str) {
    let Some(case) = error_case(kernel, "removed") else {
        return;
    };
    assert_eq!(case.status, 0);
    let last = case.lines.last().expect("a line").to_string();
    assert!(last.contains("degraded"), "the last line reports a degraded array: {last}");
    assert!(by_slot(&case.lines, "md120", "journal", "write")[&0] > 0);

    let degraded = error_case(kernel, "degraded").expect("the same run");
    assert_eq!((degraded.status, degraded.lines.len()), (0, 2));
}

/// The recovery writes to a member that joins during tracing: it must be counted or reported.
fn member_added(kernel: &str) {
    let Some(case) = error_case(kernel, "added") else {
        return;
    };
    assert_eq!(case.status, 0);
    let last = case.lines.last().expect("a line").to_string();
    assert!(
        last.contains("\"loop1\"") || case.said.contains("loop1"),
        "loop1 is named: {last} {}",
        case.said
    );
}

fn array_stopped(kernel: &str) {
    let Some(case) = error_case(kernel, "stopped") else {
        return;
    };
    let last = case.lines.last().expect("a line").to_string();
    assert!(case.status == 0 || (case.status == 1 && case.said.lines().count() == 1));
    assert!(
        last.contains("stopped") || case.said.contains("md120"),
        "raidtrace reports that md120 is gone: {last} {}",
        case.said
    );

    let gone = error_case(kernel, "gone").expect("the same run");
    assert_eq!((gone.status, gone.said.lines().count()), (1, 1));
    assert!(gone.said.contains("md120"));
}

fn xfs(kernel: &str) {
    let Some(case) = error_case(kernel, "xfs") else {
        return;
    };
    assert_eq!(case.status, 0);
    assert!(!case.said.contains("show as raw"), "{}", case.said);
    assert_eq!(bytes(&case.lines, "md121", "write", |o| o == "file_data"), 8 << 20);
    assert!(bytes(&case.lines, "md121", "write", |o| o == "journal") > 0);
    assert_eq!(bytes(&case.lines, "md121", "write", |o| o == "raw"), 0);
}

fn corrupt_superblock(kernel: &str) {
    let Some(case) = error_case(kernel, "corrupt") else {
        return;
    };
    assert_eq!(case.status, 0);
    assert!(bytes(&case.lines, "md121", "write", |o| o == "raw") >= 8 << 20);
    assert!(case.said.contains("md121"), "a note about the superblock");
}

/// raidtrace also reads the layout of an unmounted filesystem. e2fsck reads all its bitmaps.
fn not_mounted(kernel: &str) {
    let Some(case) = error_case(kernel, "unmounted") else {
        return;
    };
    assert_eq!(case.status, 0);
    for origin in ["superblock", "group_descriptors", "block_bitmap", "inode_table"] {
        let read: u64 = by_slot(&case.lines, "md121", origin, "read").values().sum();
        assert!(read > 0, "e2fsck has read {origin}");
    }
}

fn without_tracefs(kernel: &str) {
    let Some(case) = error_case(kernel, "tracefs") else {
        return;
    };
    if case.status == 1 {
        assert!(case.said.contains("tracefs") && case.said.lines().count() == 1);
        return;
    }
    assert_eq!(case.status, 0);
    assert!(bytes(&case.lines, "md121", "write", |_| true) >= 8 << 20);
}

fn wrong_targets(kernel: &str) {
    for name in ["absent", "null", "file", "proc", "escape"] {
        let Some(case) = error_case(kernel, name) else {
            return;
        };
        assert_eq!((case.status, case.said.lines().count()), (1, 1), "{name}");
        assert!(!case.said.contains('\x1b'), "{name}");
    }
    let usage = error_case(kernel, "usage").expect("the same run");
    assert_eq!(usage.status, 2);
}

fn output_cut_off(kernel: &str) {
    let Some(dir) = lab(kernel, "bad") else {
        return;
    };
    assert_eq!(text(dir.join("pipe.status")).trim(), "0");
    assert_eq!(text(dir.join("pipe.err")), "");
    assert!(text(dir.join("pipe.out")).contains("md121"));
}

/// A case of `changes.sh`.
fn change(kernel: &str, name: &str) -> Option<Case> {
    traced_case(kernel, "changes", name)
}

fn traced_case(kernel: &str, script: &str, name: &str) -> Option<Case> {
    let dir = lab(kernel, script)?;
    let said = text(dir.join(format!("{name}.err")));
    let did = text(dir.join(format!("{name}.did")));
    println!("{name}: {said}{did}");
    assert!(!did.contains("failed:"), "{name}: {did}");
    assert!(!said.contains("could not be reloaded"), "{name}: {said}");
    assert_eq!(text(dir.join(format!("{name}.status"))).trim(), "0");
    Some(Case { lines: intervals(dir.join(format!("{name}.out"))), said, status: 0 })
}

/// After mkfs with another layout, writes have the origins of the new layout.
fn filesystem_changes(kernel: &str) {
    let Some(case) = change(kernel, "filesystem") else {
        return;
    };
    let mounted =
        case.lines.iter().rposition(|l| !l.to_string().contains("38 groups")).map_or(0, |i| i + 1);
    let after = &case.lines[mounted..];
    assert!(!after.is_empty(), "the header shows the new filesystem");
    for origin in ["inode_table", "directory", "journal"] {
        let bytes: u64 = by_slot(after, "md120", origin, "write").values().sum();
        assert!(bytes > 0, "{origin}");
    }
    assert_eq!(bytes(after, "md120", "write", |o| o == "raw" || o == "unknown"), 0);
    // Mounts are noted and reload nothing.
    for line in case.said.lines().filter(|l| l.contains("mounted")) {
        assert!(!line.contains("tracing reloaded"), "{line}");
    }
}

fn members_change(kernel: &str) {
    let Some(case) = change(kernel, "members") else {
        return;
    };
    let last = case.lines.last().expect("a line");
    let members = last["arrays"][0]["members"].as_array().expect("members");
    let good = |m: &&Value| m["health"].is_null() && !m["disk"].is_null();
    assert_eq!(members.iter().filter(good).count(), 3, "{last}");
    assert!(by_slot(&case.lines, "md120", "inode_table", "write").len() == 3);
    // The running programs are updated in place.
    let updated = |line: &&str| line.contains("loop2 joined") && line.contains("tracing updated");
    assert_eq!(case.said.lines().filter(updated).count(), 1);
    assert!(!case.said.contains("tracing reloaded"), "{}", case.said);
}

/// A failed member and its replacement are reported in the same line, and no program is reloaded.
fn members_change_within_an_interval(kernel: &str) {
    let Some(case) = traced_case(kernel, "turnover", "at_once") else {
        return;
    };
    assert_eq!(case.lines.len(), 2, "a first interval of 50 ms, and one that lasts to the end");
    assert!(!case.said.contains("tracing reloaded"), "{}", case.said);
    let dir = lab(kernel, "turnover").expect("the same run");
    let failed = text(dir.join("at_once.first")).trim().to_owned();
    let sums = by_member(&case.lines);
    println!("{sums:?}");
    let wrote = |member: &str, origin: &str| {
        let key = (member.to_owned(), origin.to_owned(), "write".to_owned());
        sums.get(&key).copied().unwrap_or(0)
    };
    assert!(wrote(&failed, "parity") > 0, "before it failed");
    assert!(wrote("loop20", "resync") > 32 << 20, "loop20 received most of the rebuild");
    assert!(wrote("loop20", "parity") > 0 && wrote("loop20", "raw") == 0);
}

fn array_is_reshaped(kernel: &str) {
    let Some(case) = change(kernel, "reshape") else {
        return;
    };
    let last = case.lines.last().expect("a line");
    assert_eq!(last["arrays"][0]["disks"], 4);
    assert!(case.said.contains("3 -> 4 disks"));
    // Reads between the end of the reshape and the reload bypass the stripe cache.
    let read = |origin| bytes(&case.lines, "md121", "read", |o| o == origin);
    let (data, unknown) = (read("file_data"), read("unknown"));
    assert!(data >= 8 << 20 && unknown < 1 << 20, "{data} {unknown}");
}

/// A stopped array keeps its row and does not prevent tracing of a new one.
fn arrays_come_and_go(kernel: &str) {
    let Some(case) = change(kernel, "arrays") else {
        return;
    };
    let last = case.lines.last().expect("a line");
    let health: BTreeMap<&str, &Value> = last["arrays"]
        .as_array()
        .expect("arrays")
        .iter()
        .map(|a| (a["name"].as_str().unwrap_or_default(), &a["health"]))
        .collect();
    assert_eq!(health["md121"], "stopped");
    for name in ["md120", "md122", "md123"] {
        assert!(health.contains_key(name), "{health:?}");
    }
    for name in ["md120", "md122"] {
        assert!(bytes(&case.lines, name, "write", |o| o == "inode_table") > 0, "{name}");
    }
}

/// Bytes by member, origin and operation.
fn by_member(lines: &[Value]) -> BTreeMap<(String, String, String), u64> {
    let each = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let word = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut sums = BTreeMap::new();
    for member in lines.iter().flat_map(|l| each(l, "arrays")).flat_map(|a| each(&a, "members")) {
        for row in each(&member, "io") {
            let key = (word(&member, "name"), word(&row, "origin"), word(&row, "op"));
            *sums.entry(key).or_default() += row["bytes"].as_u64().unwrap_or(0);
        }
    }
    sums
}

fn places_case(kernel: &str, name: &str) -> Option<BTreeMap<(String, String, String), u64>> {
    let dir = lab(kernel, "places")?;
    println!("{}", text(dir.join(format!("{name}.err"))));
    assert_eq!(text(dir.join(format!("{name}.status"))).trim(), "0");
    Some(by_member(&intervals(dir.join(format!("{name}.out")))))
}

/// Superblock, bitmap and bad-block log of every metadata version, read at the addresses that mdadm
/// prints.
fn md_metadata_is_found(kernel: &str) {
    let Some(mut found) = places_case(kernel, "examine") else {
        return;
    };
    let dir = lab(kernel, "places").expect("the same run");
    let mut wanted = BTreeMap::<_, u64>::new();
    for line in text(dir.join("examine.places")).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let key = (words[0].to_owned(), words[1].to_owned(), "read".to_owned());
        *wanted.entry(key).or_default() += words[2].parse::<u64>().expect("bytes");
    }
    assert_eq!(wanted.len(), 8 * 3);
    found.retain(|(_, _, op), _| op == "read");
    assert_eq!(found, wanted);
}

fn journal_device_and_ppl(kernel: &str) {
    let Some(found) = places_case(kernel, "logs") else {
        return;
    };
    let bytes = |member: &str, origin: &str| {
        let key = (member.to_owned(), origin.to_owned(), "write".to_owned());
        found.get(&key).copied().unwrap_or(0)
    };
    println!("{found:?}");
    // All of the device except its superblock is journal.
    let on_11 = found.iter().filter(|((m, _, _), _)| m == "loop11");
    let other: u64 = on_11
        .filter(|((_, o, _), _)| o != "md_journal" && o != "md_superblock")
        .map(|(_, n)| n)
        .sum();
    assert_eq!(other, 0);
    for member in ["loop11", "loop12", "loop13", "loop14"] {
        assert!(bytes(member, "md_journal") > 0, "{member}");
    }
    for member in ["loop8", "loop9", "loop10"] {
        assert_eq!(bytes(member, "md_journal"), 0, "{member}");
    }
    let raw = found.iter().filter(|((_, o, _), _)| o == "raw");
    assert_eq!(raw.map(|(_, n)| n).sum::<u64>(), 0);
}

/// A replacement counts as a member from its first write.
fn member_replaced(kernel: &str) {
    let Some(found) = places_case(kernel, "replace") else {
        return;
    };
    println!("{found:?}");
    let key = |origin: &str| ("loop15".to_owned(), origin.to_owned(), "write".to_owned());
    assert!(found.contains_key(&key("md_superblock")));
    assert!(found.keys().any(|(m, o, _)| m == "loop15" && o == "parity"));
    assert!(!found.contains_key(&key("raw")), "data is not raw");
}

/// Swap space that is taken into use while top runs: its bytes are those that the kernel counts.
fn swap_is_an_origin(kernel: &str) {
    let Some(found) = places_case(kernel, "swap") else {
        return;
    };
    let dir = lab(kernel, "places").expect("the same run");
    let written: u64 = text(dir.join("swap.written")).trim().parse().expect("bytes");
    assert!(written > 16 << 20, "{written}");
    for member in ["loop16", "loop17"] {
        let key = |origin: &str| (member.to_owned(), origin.to_owned(), "write".to_owned());
        assert_eq!(found.get(&key("swap")), Some(&written), "{found:?}");
        assert_eq!(found.get(&key("raw")), None, "{found:?}");
    }
}
