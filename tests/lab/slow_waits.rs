//! Waits in md, the block layer and ext4 (`tests/lab/slow_waits.sh`), compared with ftrace's
//! function graph or the injected time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lab;
use super::output::{count, each, figures, lines, word};
use super::slow::{Times, agree, awake, longest_wait, us};
use super::slow_md::Case;

/// The waiting functions of all kernels.
const WAITS: &[(&str, &str, &[&str])] = &[
    ("write", "md_bitmap", &["__bitmap_unplug", "bitmap_unplug", "md_bitmap_unplug"]),
    ("write", "write_behind", &["wait_for_serialization"]),
    ("write", "blocked_member", &["md_wait_for_blocked_rdev"]),
    ("read", "read_repair", &["wait_read_barrier", "raid1_read_request"]),
    ("create", "quota", &["dquot_acquire", "dqget"]),
    ("write", "overlap", &["raid5_make_request"]),
    ("fallocate", "direct_drain", &["inode_dio_wait"]),
    ("read", "mixed_io", &["kiocb_write_and_wait", "filemap_write_and_wait_range"]),
    ("sync", "writeback", &["sync_inodes_sb"]),
    ("create", "journal_buffer", &["do_get_write_access"]),
    ("read", "queue_full", &["blk_mq_get_tag"]),
    ("write", "io_cost", &["ioc_rqos_throttle"]),
];

/// Each wait has its phase, as long as the kernel's time in its functions.
pub(super) fn waits_have_their_names(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_waits") else {
        return;
    };
    let case = Case::new(&dir, "waits");
    let of = |op: &'static str, phase: &'static str| {
        case.operations.iter().filter(move |o| o["op"] == op && us(o, phase) > 20e3)
    };
    for (op, phase, functions) in WAITS {
        let mut tasks = BTreeMap::<u64, Times>::new();
        for o in of(op, phase) {
            let none = Times { ours: 0.0, rest: 0.0, theirs: 0.0 };
            let times = tasks.entry(count(o, "pid")).or_insert(none);
            times.theirs = functions.iter().map(|f| case.called_by(o, f)).sum();
            times.ours += us(o, phase);
            // The task that has got the quota record may read its block.
            times.rest += awake(o) + if *phase == "quota" { us(o, "metadata_read") } else { 0.0 };
        }
        assert!(!tasks.is_empty(), "{phase}: {:#?}", case.operations);
        agree(phase, &tasks.into_values().collect::<Vec<_>>());
    }
    for (phase, ms) in figures(&dir, "injected") {
        let o = case.operations.iter().find(|o| word(o, "path").ends_with(&phase));
        let o = o.unwrap_or_else(|| panic!("{phase}: {:#?}", case.operations));
        let range = ms[0] as f64 * 1e3..=ms[1] as f64 * 1e3;
        assert_eq!(longest_wait(o)["phase"], phase, "{o:#}");
        assert!(range.contains(&us(o, &phase)), "{range:?}: {o:#}");
    }
    let journal = |o: &&Value| word(o, "path").ends_with("/journal_device");
    for o in case.operations.iter().filter(journal) {
        assert_eq!(longest_wait(o)["phase"], "direct_io", "{o:#}");
        assert_eq!(longest_wait(o)["member"], "dm-8", "{o:#}");
    }
    let intervals = lines(&dir, "waits");
    let frozen = intervals.iter().flat_map(|i| each(i, "unended"));
    let frozen: Vec<_> = frozen.filter(|o| word(o, "path").ends_with("/frozen")).collect();
    assert!(!frozen.is_empty(), "{:#?}", intervals.iter().map(|i| &i["unended"]));
    assert!(frozen.iter().all(|o| longest_wait(o)["phase"] == "frozen"), "{frozen:#?}");
}
