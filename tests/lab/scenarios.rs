//! The guests: a scenario (`tests/lab/SCENARIO.sh`) on a kernel. CONTRIBUTING lists the guests of
//! `tools/test --full` with the reason why the default run does without them.

use std::{env, fs, path::Path};

use super::guests::{CORE, HOME};

pub type Guest = (&'static str, &'static str);

/// Guests of every run, longest first, so that the last ones end at the same time.
const DEFAULT: &[Guest] = &[
    ("6.12", "privileges"),
    ("6.12", "places"),
    ("6.12", "doctor"),
    ("7.3", "device_read"),
    ("6.12", "skew"),
    ("5.10", CORE),
    ("6.12-rt", "rt"),
    ("6.12", "record"),
    ("6.1", "requests"),
    ("7.3", CORE),
    ("6.12", CORE),
    ("6.12", "dm_raid"),
    ("6.12", "mapped"),
    ("6.12", "serve"),
    ("6.12", "amplification"),
    ("6.12-plain", "module"),
    ("6.12", "slow_unended"),
    ("6.12", "thin"),
    ("6.12", "bad"),
    ("6.12", "nvme"),
    ("6.12", "xfs"),
    ("6.12", "ext4"),
    ("5.10", "alloc_hooks"),
    ("6.12", "slow_parts"),
    ("6.12", "tasks"),
    ("6.12", "alloc_cold"),
    ("6.12", "dirtied"),
    ("6.12", "nowait"),
    ("6.1", "tasks_v1"),
    ("6.12", "turnover"),
    ("6.12", "layout_arrays"),
];

/// Guests of `tools/test --full` only, longest first.
const FULL: &[Guest] = &[
    ("6.12", "slow"),
    ("6.12", "doctor_journal"),
    ("7.3", "alloc_hooks"),
    ("6.12", "changes"),
    ("6.1", "slow_md"),
    ("6.12", "slow_waits"),
    ("6.12", "alloc"),
    ("6.12", "agree"),
    ("6.12", "doctor_paste"),
    ("6.12", "slow_xfs"),
    ("6.12", "slow_files"),
    ("6.12", "slow_async"),
    ("6.12", "slow_databases"),
    ("6.12", "alloc_full"),
    ("5.10-plain", "types"),
    ("6.12", "record_reload"),
    ("7.3", "tasks_v1"),
    ("6.1", "alloc_livelock"),
    ("6.1", "alloc_full"),
    ("6.12", "layout_load"),
    ("6.1", "slow"),
    ("6.1", CORE),
    ("6.18", CORE),
    ("7.2", CORE),
    ("6.12", "placement"),
    ("6.12-rt", CORE),
    ("7.3-rt", "rt"),
    ("5.10-rt", "rt_ring"),
    ("6.1", "alloc"),
    ("6.1-plain", "types"),
    ("6.12", "xfs_changes"),
    ("6.12", "containers"),
    ("6.1", "bad"),
    ("6.18", "device_read"),
    ("7.2", "device_read"),
    ("6.1", "device_read"),
    ("6.18", "alloc_hooks"),
    ("7.2", "alloc_hooks"),
    ("7.2", "record_reload"),
    ("7.3", "record_reload"),
    ("6.1", "dirtied"),
    ("6.1", "skew"),
    ("6.1", "xfs"),
    ("6.12", "agsize"),
    ("6.1", "nvme"),
    ("5.10", "slow_async"),
    ("5.10", "slow_unended"),
    ("6.1", "slow_databases"),
    ("7.3", "slow_databases"),
    ("6.1", "slow_async"),
    ("6.1", "slow_unended"),
    ("7.3", "slow_async"),
    ("7.3", "slow_unended"),
    ("7.3", "nvme"),
    ("6.1", "dm_raid"),
    ("7.3", "dm_raid"),
    ("6.1", "agree"),
];

/// The guests of this run, by the harness's options for ignored tests.
pub fn scenarios() -> impl Iterator<Item = Guest> {
    let has = |option: &str| env::args().any(|a| a == option);
    let lists: &[&[Guest]] = if has("--ignored") {
        &[FULL]
    } else if has("--include-ignored") {
        &[FULL, DEFAULT]
    } else {
        &[DEFAULT]
    };
    lists.iter().flat_map(|guests| guests.iter().copied())
}

/// A row of the table in CONTRIBUTING is "| SCENARIO | KERNEL, KERNEL | REASON |".
#[test]
fn each_guest_of_the_full_run_has_a_reason() {
    let text = fs::read_to_string(Path::new(HOME).join("CONTRIBUTING.md")).expect("CONTRIBUTING");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let scenario = cells.next()?.trim_end_matches('`').to_owned();
        let kernels: Vec<String> = cells.next()?.split(", ").map(str::to_owned).collect();
        let reason = cells.next()?.trim_end_matches('|').trim();
        Some((scenario, kernels, reason.len()))
    });
    let mut listed: Vec<(String, String)> = rows
        .filter(|row| row.2 > 20)
        .flat_map(|(scenario, kernels, _)| kernels.into_iter().map(move |k| (k, scenario.clone())))
        .collect();
    let mut full: Vec<_> = FULL.iter().map(|g| (g.0.to_owned(), g.1.to_owned())).collect();
    listed.sort();
    full.sort();
    assert_eq!(listed, full);
}
