//! A filesystem whose allocator searches group by group, the same filesystem after each fix, and a
//! healthy one (`tests/lab/alloc.sh`); full groups, compared with ext4's own count
//! (`tests/lab/alloc_full.sh`, `tests/lab/alloc_hooks.sh`); the stripe livelock
//! (`tests/lab/alloc_livelock.sh`); bitmaps that are not in memory (`tests/lab/alloc_cold.sh`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{intervals, lab, text};

/// Groups of the fragmented filesystem.
const GROUPS: u64 = 4096;
/// Blocks of all files that are written.
const BLOCKS: u64 = 80 * 1024;

/// One of the four traced phases.
struct Watched {
    intervals: Vec<Value>,
    folded: String,
    page: String,
    /// Groups considered according to ext4's mb_stats, in phases that enable them.
    considered: u64,
}

fn traced(dir: &Path, name: &str) -> Watched {
    let file = |end: &str| text(dir.join(format!("{name}.{end}")));
    assert_eq!(file("status").trim(), "0", "{name}: {}", file("err"));
    assert_eq!(file("switch").trim(), "0", "mb_stats is as it was before");
    let considered = |text: &str| -> u64 {
        let lines = text.lines().filter_map(|l| l.trim().strip_prefix("groups_considered:"));
        lines.map(|n| n.trim().parse::<u64>().expect("a number")).sum()
    };
    Watched {
        intervals: intervals(dir.join(format!("{name}.out"))),
        folded: file("folded"),
        page: file("html"),
        considered: considered(&file("stats.after")) - considered(&file("stats.before")),
    }
}

impl Watched {
    fn filesystems(&self) -> impl Iterator<Item = &Value> {
        let each = |i: &'_ Value| i["filesystems"].as_array().expect("filesystems").len();
        self.intervals.iter().filter(move |i| each(i) == 1).map(|i| &i["filesystems"][0])
    }

    fn sum(&self, pointer: &str) -> u64 {
        let numbers = self.filesystems().filter_map(|fs| fs.pointer(pointer)?.as_u64());
        numbers.sum()
    }

    /// Number of groups considered.
    fn looked(&self) -> u64 {
        let criteria = self.filesystems().filter_map(|fs| fs["looked"]["criteria"].as_array());
        criteria.flatten().filter_map(|c| c["looked"].as_u64()).sum()
    }

    fn reasons(&self) -> BTreeMap<String, &Value> {
        let found = self.filesystems().map(|fs| &fs["reason"]).filter(|r| r.is_object());
        found.map(|r| (r["id"].as_str().expect("an id").to_owned(), r)).collect()
    }

    /// Asserts that there is no reason but `expected`. One interval may have time that no figure
    /// explains: a virtual CPU may have stopped in the allocator.
    fn has_no_reason_but(&self, expected: &str) {
        let reasons = self.filesystems().filter_map(|fs| fs["reason"]["id"].as_str());
        let (unexplained, others): (Vec<&str>, Vec<&str>) =
            reasons.filter(|id| *id != expected).partition(|id| *id == "slow_unexplained");
        assert!(others.is_empty() && unexplained.len() <= 1, "{:?}", self.reasons());
    }
}

pub(super) fn allocator_is_named(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc") else {
        return;
    };
    let before = traced(&dir, "before");
    let reasons = before.reasons();
    let reason = reasons.get("linear_scan").unwrap_or_else(|| panic!("{reasons:?}"));
    let sentence = reason["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("mb_optimize_scan"), "{sentence}");
    let commands = reason["commands"].to_string();
    assert!(commands.contains("mb_optimize_scan=1") && !commands.contains("remount"), "{commands}");

    // The number of groups must match ext4's own statistics.
    let looked = before.looked();
    assert!(looked > 20 * GROUPS, "{looked}");
    let ratio = looked as f64 / before.considered as f64;
    assert!((0.98..1.02).contains(&ratio), "{looked} looked at, {} considered", before.considered);
    assert!(before.folded.lines().any(|l| l.contains("ext4_mb_good_group")), "{}", before.folded);
    assert!(before.page.contains("ext4_mb_good_group"));
    assert!(before.sum("/got_blocks") >= BLOCKS);
}

pub(super) fn allocator_is_healthy_after_the_fix(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc") else {
        return;
    };
    let [before, lists, freed] = ["before", "lists", "freed"].map(|name| traced(&dir, name));
    // Free space is still fragmented, and that is the reason reported.
    lists.has_no_reason_but("fragmented");
    assert!(lists.looked() * 3 < before.looked(), "{} of {}", lists.looked(), before.looked());
    // Each group takes long in a guest on a busy machine.
    freed.has_no_reason_but("fragmented");
    assert!(freed.looked() * 30 < before.looked(), "{}", freed.looked());
    for after in [lists, freed] {
        assert!(after.sum("/got_blocks") >= BLOCKS);
    }
}

pub(super) fn healthy_allocator_raises_nothing(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc") else {
        return;
    };
    let healthy = traced(&dir, "healthy");
    healthy.has_no_reason_but("");
    assert!(healthy.sum("/got_blocks") >= BLOCKS);
}

/// `raidtrace alloc --json` output of scenarios with one filesystem.
struct Figures(Vec<Value>);

impl Figures {
    fn new(dir: &Path, name: &str) -> Self {
        let status = text(dir.join(format!("{name}.status")));
        assert_eq!(status.trim(), "0", "{name}");
        Self(intervals(dir.join(format!("{name}.out"))))
    }

    fn filesystems(&self) -> impl Iterator<Item = &Value> {
        let each = |i: &Value| i["filesystems"][0].clone();
        assert!(self.0.iter().all(|i| each(i).is_object()));
        self.0.iter().map(|i| &i["filesystems"][0])
    }

    fn sum(&self, pointer: &str) -> u64 {
        let numbers = self.filesystems().filter_map(|fs| fs.pointer(pointer)?.as_u64());
        numbers.sum()
    }

    /// Groups at most that skipped program runs left out: all of a search's 512 groups if the run
    /// at its start was skipped.
    fn left_out(&self) -> u64 {
        512 * self.0.iter().filter_map(|i| i["lost"]["events"].as_u64()).sum::<u64>()
    }

    /// Groups by criterion: `looked` or `refused`.
    fn groups(&self, of: &str) -> [u64; 5] {
        let mut sum = [0; 5];
        let criteria = self.filesystems().filter_map(|fs| fs["looked"]["criteria"].as_array());
        for c in criteria.flatten() {
            let number = c["criterion"].as_u64().expect("a number") as usize;
            sum[number] += c[of].as_u64().unwrap_or(0);
        }
        sum
    }

    /// Share of the refused groups that have this reason.
    fn share(&self, reason: &str) -> f64 {
        let reasons = self.filesystems().filter_map(|fs| fs["looked"]["reasons"].as_object());
        let (mut all, mut these) = (0, 0);
        for (name, n) in reasons.flatten() {
            let n = n.as_u64().expect("a number");
            all += n;
            these += if name == reason { n } else { 0 };
        }
        these as f64 / all as f64
    }

    fn reasons(&self) -> BTreeMap<&str, &Value> {
        let found = self.filesystems().map(|fs| &fs["reason"]);
        found.filter_map(|r| Some((r["id"].as_str()?, r))).collect()
    }
}

/// A figure of ext4's mb_stats, by criterion.
fn by_criterion(path: PathBuf, figure: &str) -> [u64; 5] {
    let (mut sum, mut next) = ([0; 5], 0);
    for line in text(path).lines() {
        if let Some(n) = line.trim().strip_prefix(figure) {
            sum[next] = n.trim().parse().expect("a number");
            next += 1;
        }
    }
    sum
}

fn considered(path: PathBuf) -> [u64; 5] {
    by_criterion(path, "groups_considered:")
}

/// Asserts that raidtrace's groups considered by criterion are within 2 % of mb_stats. Fewer are
/// accepted if raidtrace says that program runs were skipped: the kernel does not run a program on
/// a CPU where it interrupted the same program of another task.
fn counted_as_by_ext4(dir: &Path, name: &str, figures: &Figures) -> [u64; 5] {
    assert!(figures.0.iter().all(|i| i["sources"]["groups"] == "fentry"));
    let [before, after] =
        ["before", "after"].map(|at| considered(dir.join(format!("{name}.stats.{at}"))));
    let looked = figures.groups("looked");
    for (criterion, looked) in looked.into_iter().enumerate() {
        let truth = after[criterion] - before[criterion];
        // The journal or a directory may have allocated in another group after mb_stats was read.
        let most = (truth as f64 * 0.02).max(2.0);
        let within = looked as f64 <= truth as f64 + most
            && (looked + figures.left_out()) as f64 >= truth as f64 - most;
        assert!(
            within,
            "{name}, criterion {criterion}: {looked}, ext4 says {truth}; {} may be left out",
            figures.left_out()
        );
    }
    assert!(figures.groups("refused").iter().sum::<u64>() <= looked.iter().sum());
    looked
}

pub(super) fn groups_considered_match_mb_stats(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc_full") else {
        return;
    };
    for name in ["small.0", "large.0", "small.1", "large.1"] {
        let figures = Figures::new(&dir, name);
        counted_as_by_ext4(&dir, name, &figures);
        // 95 % of the groups are full, and a linear search visits all of them.
        if name.ends_with('0') {
            let full = figures.share("full");
            assert!((0.9..0.98).contains(&full), "{name}: {full}");
        }
    }
    // Large files: a smaller preallocation does not help.
    let large = Figures::new(&dir, "large.0");
    let reasons = large.reasons();
    let reason = reasons.get("linear_scan").unwrap_or_else(|| panic!("{reasons:?}"));
    let sentence = reason["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("of the groups refused are full"), "{sentence}");
    assert!(!reason["commands"].to_string().contains("mb_group_prealloc"));
}

/// Mean number of groups that a search considers, on kernels whose allocators differ.
pub(super) fn hooks_count_the_groups_of_a_search(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc_hooks") else {
        return;
    };
    for name in ["hooks.linear", "hooks.lists"] {
        let figures = Figures::new(&dir, name);
        let looked: u64 = counted_as_by_ext4(&dir, name, &figures).iter().sum();
        let sum = |figure: &str, at: &str| -> u64 {
            let path = dir.join(format!("{name}.stats.{at}"));
            by_criterion(path, figure).iter().sum()
        };
        let of_ext4 = |figure: &str| sum(figure, "after") - sum(figure, "before");
        let (groups, hits) = (of_ext4("groups_considered:"), of_ext4("hits:"));
        let reached = figures.filesystems().filter_map(|fs| fs["searches"]["reached"].as_array());
        let searches: u64 = reached.flatten().filter_map(|r| r["searches"].as_u64()).sum();
        let (mean, truth) = (looked as f64 / searches as f64, groups as f64 / hits as f64);
        println!("{kernel}, {name}: {mean:.1} a search ({looked} in {searches}), ext4 {truth:.1}");
        assert!(hits >= 30 && truth > 64.0, "{groups} in {hits}: nothing to compare");
        let left_out = figures.left_out() as f64 / searches as f64;
        let within = mean < truth * 1.02 && mean + left_out > truth * 0.98;
        assert!(within, "{mean}, ext4 says {truth}; {left_out} may be left out");
        // mb_stats is enabled, so it is in every interval, and all figures agree.
        let said = figures.sum("/mb_stats/groups");
        assert!(said >= groups && said <= groups + groups / 50 + 2, "{said}, {groups}");
        for interval in &figures.0 {
            assert!(!interval["notes"].to_string().contains("mb_stats"), "{}", interval["notes"]);
        }
    }
}

pub(super) fn mb_stats_replaces_missing_hooks(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc_full") else {
        return;
    };
    let [hooked, slices] = ["large.0", "slices"].map(|name| Figures::new(&dir, name));
    assert!(slices.0.iter().any(|i| i["sources"]["groups"] == "mb_stats"));
    let mean = |figures: &Figures, searches: &str| {
        let sum: u64 = figures.groups("looked").iter().sum();
        sum as f64 / figures.sum(searches) as f64
    };
    let by_hook = mean(&hooked, "/searches/count");
    let by_ext4 = mean(&slices, "/looked/mb_stats_searches");
    assert!(
        by_ext4 > by_hook / 2.0 && by_ext4 < by_hook * 2.0,
        "{by_ext4} by ext4, {by_hook} by hooks"
    );
    assert!(slices.reasons().contains_key("linear_scan"), "{:?}", slices.reasons());
    let switch = |name: &str| text(dir.join(format!("{name}.switch"))).trim().to_owned();
    // mb_stats is restored after a slice, left enabled by SIGKILL, and disabled by the next run.
    assert_eq!(["slices", "killed", "next"].map(switch), ["0", "1", "0"].map(str::to_owned));
    let said = text(dir.join("next.err"));
    assert!(said.contains("a killed raidtrace left mb_stats on"), "{said}");
}

pub(super) fn stripe_livelock_is_named(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc_livelock") else {
        return;
    };
    let livelock = Figures::new(&dir, "livelock");
    let reasons = livelock.reasons();
    let reason = reasons.get("stripe_livelock").unwrap_or_else(|| panic!("{reasons:?}"));
    assert!(reason["sentence"].to_string().contains("stripe=640"));
    assert!(reason["commands"].to_string().contains("remount,stripe=0"));
    // After the fix.
    let after = Figures::new(&dir, "no_stripe");
    assert!(!after.reasons().contains_key("stripe_livelock"), "{:?}", after.reasons());
    let looked = |f: &Figures| f.groups("looked").iter().sum::<u64>();
    assert!(looked(&after) * 20 < looked(&livelock), "{}", looked(&after));
}

pub(super) fn cold_bitmaps_are_named(kernel: &str) {
    let Some(dir) = lab(kernel, "alloc_cold") else {
        return;
    };
    let cold = Figures::new(&dir, "cold");
    // Compare with ext4's own events: every file needs the bitmap of another group.
    let trace = text(dir.join("trace"));
    let events = |name: &str| trace.lines().filter(|l| l.contains(name)).count() as u64;
    let overrun = text(dir.join("trace.stats"));
    let lost = overrun.lines().filter(|l| l.starts_with("overrun:"));
    assert!(lost.clone().count() > 0 && lost.clone().all(|l| l.ends_with(" 0")), "{overrun}");
    let reads = cold.sum("/reads/needed");
    assert!(reads >= 160, "{reads} bitmaps read");
    assert_eq!(reads, events("ext4_read_block_bitmap_load"));
    assert_eq!(cold.sum("/reads/prefetched"), 0);
    assert_eq!(cold.sum("/bitmaps/loaded"), events("ext4_mb_bitmap_load"));

    // Reads of the disks during that time: a bitmap is one block of 1 KiB.
    let stat = text(dir.join("stat"));
    let sectors = |member: &str, at: &str| -> u64 {
        let start = format!("{at} {member} ");
        let line = stat.lines().find_map(|l| l.strip_prefix(&start));
        let field = line.and_then(|l| l.split_whitespace().nth(2));
        field.and_then(|f| f.parse().ok()).expect("sectors read")
    };
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    let members = cold.filesystems().filter_map(|fs| fs["members"].as_array());
    for m in members.flatten() {
        let name = m["name"].as_str().expect("a name");
        *bytes.entry(name).or_default() += m["bytes"].as_u64().expect("bytes");
    }
    assert_eq!(bytes.values().sum::<u64>(), reads * 1024, "{bytes:?}");
    for (member, bytes) in &bytes {
        let read = (sectors(member, "after") - sectors(member, "before")) * 512;
        assert!((*bytes..=bytes + 32 * 1024).contains(&read), "{member}: {bytes} of {read}");
    }

    // The reason is shown while it lasts, and names the disk: in the intervals of most reads. (On a
    // busy machine, files may be so slow to make that the waits for bitmaps do not matter.)
    let busiest = bytes.iter().max_by_key(|(_, n)| **n).expect("a member").0;
    let is_named = |fs: &&Value| {
        let sentence = fs["reason"]["sentence"].as_str().unwrap_or_default();
        fs["reason"]["id"] == "cold_bitmaps"
            && sentence.contains("read from disk")
            && sentence.contains(busiest)
    };
    let needed = |fs: &Value| fs["reads"]["needed"].as_u64().expect("reads");
    let named: u64 = cold.filesystems().filter(is_named).map(needed).sum();
    assert!(named * 2 >= reads, "{named} of {reads}: {:?}", cold.reasons());
    let batch = text(dir.join("cold.txt"));
    assert!(batch.contains("! md0 on /mnt/md0: the allocator waits for block bitmaps"), "{batch}");
}
