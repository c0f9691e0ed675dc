//! Operations that do not end for some seconds (`tests/lab/slow_unended.sh`).

use std::collections::BTreeMap;

use super::output::{count, each, lines, word};
use super::slow::longest_wait;
use super::{lab, text};

/// Each operation is listed in every interval in which it does not end, with its start, its phases
/// and the member; then once among those that have ended.
pub(super) fn unended_operations_are_listed(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_unended") else {
        return;
    };
    let begun = text(dir.join("begun"));
    let begun = begun.lines().filter_map(|line| line.split_once(' '));
    let begun: BTreeMap<&str, f64> =
        begun.map(|(name, time)| (name, time.parse().expect("a time"))).collect();
    let seconds =
        |time: &str| time.parse::<jiff::Timestamp>().expect("a time").as_microsecond() as f64 / 1e6;
    let intervals = lines(&dir, "unended");
    for (name, op, phases) in [
        ("direct", "write", &["direct_io"][..]),
        ("log", "fsync", &["own_data", "commit_flush", "journal_blocks"]),
        ("aio", "write", &["direct_io"]),
    ] {
        println!("{name}:\n{}", text(dir.join(format!("{name}.stack"))));
        let of = |key: &'static str| {
            let all = intervals.iter().flat_map(move |i| each(i, key).iter().map(move |o| (i, o)));
            all.filter(|(_, o)| word(o, "op") == op && word(o, "path").ends_with(name))
        };
        let unended: Vec<_> = of("unended").collect();
        println!("{:#?}", unended.last());
        // The script waits for 6 s or more, and an interval has one.
        assert!(unended.len() >= 5, "{name}: {}", unended.len());
        for (interval, o) in &unended {
            assert!(seconds(word(o, "start")) - begun[name] < 0.5, "{o}");
            let us = (seconds(word(interval, "time")) - seconds(word(o, "start"))) * 1e6;
            assert!((us - count(o, "total_us") as f64).abs() < 50e3, "{us} {o}");
            let sum: u64 = each(o, "phases").iter().map(|p| count(p, "us")).sum();
            assert_eq!(sum, count(o, "total_us"), "{o}");
            let longest = &each(o, "phases")[0];
            assert!(phases.contains(&word(longest, "phase")), "{o}");
            assert_eq!(word(longest, "member"), "dm-1", "{o}");
        }
        let ended: Vec<_> = of("operations").collect();
        assert_eq!(ended.len(), if name == "aio" { 4 } else { 1 }, "{name}");
        let longest = unended.iter().map(|(_, o)| count(o, "total_us")).max();
        assert!(ended.iter().all(|(_, o)| Some(count(o, "total_us")) >= longest), "{name}");
    }
    for (name, comm) in [("path", "chmod"), ("fault", "xfs_io")] {
        println!("{name}:\n{}", text(dir.join(format!("{name}.stack"))));
        let all = intervals.iter().flat_map(|i| each(i, "unended"));
        let waits: Vec<_> =
            all.filter(|o| word(o, "op") == "other" && word(o, "comm") == comm).collect();
        assert!(waits.len() >= 3, "{name}: {}", waits.len());
        for o in waits {
            assert_eq!(word(o, "filesystem"), "md120", "{o}");
            assert_eq!(word(longest_wait(o), "phase"), "journal_buffer", "{o}");
        }
    }
    let late = lines(&dir, "late");
    let late: Vec<_> = late.iter().flat_map(|i| each(i, "unended")).collect();
    assert!(late.len() >= 3, "{late:#?}");
    for o in &late {
        assert_eq!((word(o, "op"), word(o, "path")), ("write", "/mnt/md120/direct"), "{o}");
        // Device mapper's delay target does not count what it holds as in flight: no member.
        assert_eq!(word(&each(o, "phases")[0], "phase"), "direct_io", "{o}");
    }
}
