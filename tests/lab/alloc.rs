//! A filesystem that is searched group by group, the same after each remedy, and a healthy one (`tests/lab/alloc.sh`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{intervals, lab, text};

/// Groups of the fragmented filesystem.
const GROUPS: u64 = 4096;
/// Blocks of all files that are written.
const BLOCKS: u64 = 80 * 1024;

/// One watching of the four.
struct Watched {
    intervals: Vec<Value>,
    folded: String,
    svg: String,
    /// Groups that ext4 itself says it has considered, where it has been asked.
    considered: u64,
}

fn watched(dir: &Path, name: &str) -> Watched {
    let file = |end: &str| text(dir.join(format!("{name}.{end}")));
    assert_eq!(file("status").trim(), "0", "{name}: {}", file("err"));
    assert_eq!(file("switch").trim(), "0", "mb_stats is as it was before");
    let considered = |text: &str| -> u64 {
        let lines = text
            .lines()
            .filter_map(|l| l.trim().strip_prefix("groups_considered:"));
        lines
            .map(|n| n.trim().parse::<u64>().expect("a number"))
            .sum()
    };
    Watched {
        intervals: intervals(dir.join(format!("{name}.out"))),
        folded: file("folded"),
        svg: file("svg"),
        considered: considered(&file("stats.after")) - considered(&file("stats.before")),
    }
}

impl Watched {
    fn filesystems(&self) -> impl Iterator<Item = &Value> {
        let each = |i: &'_ Value| i["filesystems"].as_array().expect("filesystems").len();
        self.intervals
            .iter()
            .filter(move |i| each(i) == 1)
            .map(|i| &i["filesystems"][0])
    }

    fn sum(&self, pointer: &str) -> u64 {
        let numbers = self
            .filesystems()
            .filter_map(|fs| fs.pointer(pointer)?.as_u64());
        numbers.sum()
    }

    /// Groups.
    fn looked(&self) -> u64 {
        let criteria = self
            .filesystems()
            .filter_map(|fs| fs["looked"]["criteria"].as_array());
        criteria
            .flatten()
            .filter_map(|c| c["looked"].as_u64())
            .sum()
    }

    fn reasons(&self) -> BTreeMap<String, &Value> {
        let found = self
            .filesystems()
            .map(|fs| &fs["reason"])
            .filter(|r| r.is_object());
        found
            .map(|r| (r["id"].as_str().expect("an id").to_owned(), r))
            .collect()
    }
}

pub(super) fn allocator_is_named(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc") else {
        return;
    };
    let before = watched(&dir, "before");
    let reasons = before.reasons();
    let reason = reasons
        .get("linear_scan")
        .unwrap_or_else(|| panic!("{reasons:?}"));
    let sentence = reason["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("mb_optimize_scan"), "{sentence}");
    let commands = reason["commands"].to_string();
    assert!(
        commands.contains("mb_optimize_scan=1") && !commands.contains("remount"),
        "{commands}"
    );

    // As many groups as ext4's own statistics have, but for those that it does not count.
    let looked = before.looked();
    assert!(looked > 20 * GROUPS, "{looked}");
    let ratio = looked as f64 / before.considered as f64;
    assert!(
        (0.9..1.2).contains(&ratio),
        "{looked} looked at, {} considered",
        before.considered
    );
    assert!(
        before
            .folded
            .lines()
            .any(|l| l.contains("ext4_mb_good_group")),
        "{}",
        before.folded
    );
    assert!(before.svg.contains("ext4_mb_good_group"));
    assert!(before.sum("/got_blocks") >= BLOCKS);
}

pub(super) fn allocator_is_quiet_after_the_remedy(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc") else {
        return;
    };
    let [before, lists, freed] = ["before", "lists", "freed"].map(|name| watched(&dir, name));
    // It is in small pieces still, and that is what it says.
    let reasons = lists.reasons();
    assert!(reasons.keys().all(|id| id == "fragmented"), "{reasons:?}");
    assert!(
        lists.looked() * 3 < before.looked(),
        "{} of {}",
        lists.looked(),
        before.looked()
    );
    assert!(freed.reasons().is_empty(), "{:?}", freed.reasons());
    assert!(freed.looked() * 30 < before.looked(), "{}", freed.looked());
    for after in [lists, freed] {
        assert!(after.sum("/got_blocks") >= BLOCKS);
    }
}

pub(super) fn healthy_allocator_raises_nothing(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc") else {
        return;
    };
    let healthy = watched(&dir, "healthy");
    assert!(healthy.reasons().is_empty(), "{:?}", healthy.reasons());
    assert!(healthy.sum("/got_blocks") >= BLOCKS);
}
