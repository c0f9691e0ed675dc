//! `doctor` on arrays with data: running its commands keeps the data.

use std::collections::BTreeSet;

use crate::output::{count, each, lines};
use crate::{findings, intervals, lab, text};

/// Findings that each run must have, so that their commands were run.
const FOUND: [(&str, &[&str]); 7] = [
    ("covered", &["layout-skew"]),
    ("skew", &["layout-skew"]),
    (
        "raid6",
        &[
            "array-mismatch",
            "array-read-ahead",
            "array-syncing",
            "bitmap-chunk",
            "dio-nolock-inert",
            "fs-async-commit",
            "fs-errors",
            "fs-errors-continue",
            "fs-nobarrier",
            "member-bad-blocks",
            "member-read-errors",
            "members-iostats",
            "members-limits",
            "members-rotational",
            "monitor-none",
            "parity-write-hole",
            "stripe-wrong",
        ],
    ),
    ("degraded", &["alloc-stripe-ssd", "array-degraded", "fs-nobarrier", "parity-stripe-cache"]),
    ("mirror", &["bitmap-none", "members-rotational", "members-size"]),
    ("pending", &["array-resync-pending"]),
    ("all", &["array-stopped"]),
];

pub fn doctor_commands_keep_data(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor_paste") else {
        return;
    };
    for (name, expected) in FOUND {
        // The exit status depends on the findings; the script of the guest ignores it.
        let found: BTreeSet<String> = findings(&dir, name).into_keys().collect();
        for id in expected {
            assert!(found.contains(*id), "{name}: no {id} in {found:?}");
        }
    }
    let kept = text(dir.join("kept"));
    assert_eq!(kept.lines().count(), 12, "{kept}");
    assert!(kept.lines().all(|l| l.ends_with(" kept")), "{kept}");
}

/// Arrays that wait, lack a member, or have superblocks of a newer kernel.
pub fn arrays_that_do_not_run(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor") else {
        return;
    };
    let title = |run: &str, id: &str| findings(&dir, run)[id]["title"].to_string();
    assert!(title("waiting", "array-syncing").contains("resync waits for another array"));
    let top = &intervals(dir.join("waiting.top"))[0]["arrays"][0];
    assert_eq!(top["health"], "resync waiting", "{top:#}");
    assert!(title("inactive", "array-stopped").contains("1 of 2 members are here"));
    let refused = &findings(&dir, "refused")["array-refused"];
    assert_eq!(refused["figures"]["members"], 2, "{refused:#}");
    assert_eq!(refused["figures"]["logical_block_bytes"], 512, "{refused:#}");
}

/// The commands fix everything that can be fixed on a mounted filesystem.
pub fn doctor_commands_fix(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor_paste") else {
        return;
    };
    let (before, after) = (findings(&dir, "degraded"), findings(&dir, "fixed"));
    for id in ["alloc-stripe-ssd", "fs-nobarrier", "parity-stripe-cache"] {
        assert!(before.contains_key(id) && !after.contains_key(id), "{id}");
    }
    assert!(after.contains_key("array-degraded"));
}

/// A finding on a filesystem whose mount is covered has no mount point, and its command names
/// neither the path nor the array.
pub fn doctor_ignores_a_covered_mount(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor_paste") else {
        return;
    };
    let skew = &findings(&dir, "covered")["layout-skew"];
    assert_eq!(skew["mounted_on"], serde_json::Value::Null);
    assert_eq!(skew["commands"][0], "mkfs.ext4 -g 32744 /dev/NEW_ARRAY");
    assert!(skew["seen"].to_string().contains("may hold files"), "{skew}");
    let skew = &findings(&dir, "skew")["layout-skew"];
    assert!(skew["seen"].to_string().contains("inodes in use"), "{skew}");
}

/// `jbd2_checkpoint_stats: dev 9,120 tid 7 chp_time 8 forced_to_close 0 written 40 dropped 0` of
/// comm, with chp_time in milliseconds. Excludes checkpoints that found everything written already.
fn checkpoints(dir: &std::path::Path) -> Vec<(String, u64)> {
    let trace = text(dir.join("checkpoints.trace"));
    assert!(!trace.contains("LOST"), "events were lost");
    let events = trace.lines().filter_map(|line| {
        let (head, event) = line.split_once(" jbd2_checkpoint_stats: ")?;
        let (comm, _) = head.split_once('[')?.0.trim().rsplit_once('-')?;
        let words: Vec<&str> = event.split_whitespace().collect();
        assert_eq!(words[..2], ["dev", "9,120"]);
        let figure = |name: &str| -> u64 {
            let at = words.iter().position(|w| *w == name);
            at.and_then(|at| words.get(at + 1)?.parse().ok())
                .unwrap_or_else(|| panic!("no {name}: {line}"))
        };
        let figures = ["chp_time", "forced_to_close", "written"].map(figure);
        figures.iter().any(|f| *f > 0).then(|| (comm.to_owned(), figures[0]))
    });
    events.collect()
}

/// Waits for room in a journal, compared with the kernel's events.
pub fn journal_waits_match_jbd2(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor_journal") else {
        return;
    };
    let kernels = checkpoints(&dir);
    println!("{kernels:?}");
    let (emptied, waited): (Vec<_>, Vec<_>) =
        kernels.into_iter().partition(|(comm, _)| ["chattr", "umount"].contains(&comm.as_str()));
    assert!(!emptied.is_empty() && waited.len() >= 10, "{waited:?}");
    let lines = lines(&dir, "checkpoints");
    let stalls: Vec<_> = lines
        .iter()
        .flat_map(|l| each(l, "arrays"))
        .flat_map(|a| each(a, "journal_stalls"))
        .collect();
    println!("{stalls:?}");
    assert!(stalls.iter().all(|s| s["filesystem"] == "md120"));
    let sum = |figure: &str| stalls.iter().map(|s| count(s, figure)).sum::<u64>();
    assert_eq!(sum("checkpoints"), waited.len() as u64);
    // The kernel's times are differences of jiffies, which lag behind on a busy machine, and
    // exclude the write of the journal superblock at the end.
    let ms = waited.iter().map(|(_, ms)| ms).sum::<u64>();
    let slack = 10 * waited.len() as u64 + ms / 10;
    assert!(sum("wait_us") / 1000 + slack >= ms, "{} us, jbd2: {ms} ms", sum("wait_us"));
    let watched: f64 = lines.iter().filter_map(|l| l["interval_s"].as_f64()).sum();
    assert!(sum("wait_us") as f64 / 1e6 < watched);
}

/// A finding that needs load; its commands fix it.
pub fn doctor_reports_a_small_journal(kernel: &str) {
    let Some(dir) = lab(kernel, "doctor_journal") else {
        return;
    };
    assert!(!findings(&dir, "idle").contains_key("journal-small"));
    let loaded = &findings(&dir, "loaded")["journal-small"];
    assert_eq!(
        (&loaded["severity"], &loaded["mounted_on"]),
        (&"warning".into(), &"/mnt/md120".into())
    );
    assert_eq!(loaded["figures"]["journal_bytes"], 1 << 20);
    assert!(!findings(&dir, "fixed").contains_key("journal-small"));
    let e2fsck = text(dir.join("e2fsck"));
    assert!(e2fsck.contains("md120: ") && !e2fsck.contains("WARNING"), "{e2fsck}");
}
