//! Reasons for waits.

use super::{is_unexplained, reason, sentence_for};
use crate::analysis::alloc::fixture;
use crate::analysis::alloc::fixture::{machine, with_reasons};
use crate::analysis::alloc::{FigureSource, Searching};

#[test]
fn unexplained_waits_list_the_missing_figures() {
    let mut s = fixture::healthy();
    let c = &mut s.filesystems[0].counts;
    c.latency = fixture::hist(&[(1500, 608)]);
    c.nanoseconds = 620_000_000;
    let r = reason(&with_reasons(s.clone(), machine("6.1.0", Some(true))));
    assert_eq!((r.id.as_str(), r.rule.clone()), ("slow_unexplained", None));
    assert_eq!(
        r.sentence,
        "on average 0.6 tasks are in the allocator (latency p50 1.5ms, p99 1.5ms), and no figure \
         explains it: a search considers 2 groups, 0 % of that time is waiting for bitmaps, 0.02 \
         CPUs are in the allocator, most in ext4_mb_mark_diskspace_used; not known: what tasks \
         sleep on (locks, memory, other disk reads)"
    );
    assert!(r.commands.is_empty() && r.risk.unwrap().contains("--flame FILE.html /srv"));
    // Neither groups nor waits are counted.
    s.sources.insert("groups", FigureSource::None);
    s.sources.insert("waits", FigureSource::None);
    s.cpu = None;
    s.filesystems[0].counts.looked = [0; 5];
    let r = reason(&with_reasons(s.clone(), machine("6.1.0", Some(true))));
    assert!(
        r.sentence
            .ends_with("; not known: groups considered, waits for bitmaps, samples of the CPUs"),
        "{}",
        r.sentence
    );
    // The time of a search in progress is not yet part of a request's time.
    s.filesystems[0].counts = Default::default();
    assert_eq!(sentence_for(s.clone(), machine("6.1.0", Some(true))), None);
    s.filesystems[0].searching = Searching { tasks: 2, longest_us: 4_000_000 };
    let sentence = sentence_for(s, machine("6.1.0", Some(true))).unwrap();
    assert!(
        sentence.starts_with("2 searches for free blocks are in progress, the longest for 4s"),
        "{sentence}"
    );
}

#[test]
fn cold_bitmaps_name_the_member_with_most_reads() {
    let r = reason(&fixture::cold());
    assert_eq!(
        r.sentence,
        "the allocator waits for block bitmaps: 96 read from disk in 1 s, waits add up to 719ms \
         or more (p99 14ms); loop5 serves 96.9 % of these reads, p99 14ms"
    );
    assert_eq!((r.id.as_str(), r.rule), ("cold_bitmaps", None));
    let mut s = fixture::cold();
    s.filesystems[0].members.truncate(1);
    let sentence = sentence_for(s, machine("6.12.0", Some(true))).unwrap();
    assert!(sentence.ends_with("; all on loop5, p99 14ms"), "{sentence}");
    // The reads are even: no member is named.
    let mut s = fixture::cold();
    s.filesystems[0].members =
        (0..4).map(|i| (format!("loop{i}"), 24, 24 * 4096, fixture::hist(&[(7000, 24)]))).collect();
    let sentence = sentence_for(s, machine("6.12.0", Some(true))).unwrap();
    assert!(!sentence.contains("loop"), "{sentence}");
    // Short waits (96 of 0.9 ms) do not explain 790 ms in the allocator.
    let mut s = fixture::cold();
    s.filesystems[0].counts.waits = fixture::hist(&[(900, 96)]);
    assert!(is_unexplained(s.clone(), machine("6.12.0", Some(true))));
    s.filesystems[0].counts.nanoseconds = 9_000_000;
    assert_eq!(sentence_for(s, machine("6.12.0", Some(true))), None);
}

/// The last interval of a cold start, as measured in the lab: few reads, but nearly all of the time
/// is spent waiting for them.
#[test]
fn a_few_slow_reads_are_cold_bitmaps() {
    let mut s = fixture::cold();
    let c = &mut s.filesystems[0].counts;
    (c.requests, c.given, c.reads, c.nanoseconds) = (6, 7, 6, 188_000_000);
    c.latency = fixture::hist(&[(24_000, 7)]);
    c.waits = fixture::hist(&[(24_000, 7), (24, 1)]);
    let sentence = sentence_for(s.clone(), machine("6.12.0", Some(true))).unwrap();
    assert!(sentence.contains("6 read from disk in 1 s"), "{sentence}");
    // Half of the time, and less than a tenth of a second for certain: nothing else explains it.
    let mut half = s.clone();
    let c = &mut half.filesystems[0].counts;
    (c.nanoseconds, c.waits) = (120_000_000, fixture::hist(&[(24_000, 4)]));
    let sentence = sentence_for(half, machine("6.12.0", Some(true))).unwrap();
    assert!(sentence.starts_with("the allocator waits for block bitmaps"), "{sentence}");
    // One that has ended says nothing about searches that have not.
    let mut stuck = s.clone();
    let fs = &mut stuck.filesystems[0];
    (fs.searching.tasks, fs.searching.longest_us) = (2, 4_000_000);
    fs.counts.nanoseconds = 0;
    for waits in [&[(24_000, 1)][..], &[]] {
        stuck.filesystems[0].counts.waits = fixture::hist(waits);
        assert!(is_unexplained(stuck.clone(), machine("6.12.0", Some(true))), "{waits:?}");
    }
    // All reads were submitted in the previous interval.
    s.filesystems[0].counts.reads = 0;
    let sentence = sentence_for(s, machine("6.12.0", Some(true))).unwrap();
    assert!(sentence.starts_with("the allocator waits for block bitmaps"), "{sentence}");
}

#[test]
fn lock_contention() {
    let mut s = fixture::healthy();
    s.cpu.as_mut().unwrap().allocator = 180;
    s.cpu.as_mut().unwrap().hottest = Some(("native_queued_spin_lock_slowpath".to_owned(), 150));
    s.filesystems[0].counts.nanoseconds = 3_900_000_000;
    let sentence = sentence_for(s, machine("6.12.0", Some(true))).unwrap();
    assert_eq!(
        sentence,
        "tasks wait for each other in the allocator: 83.3 % of its CPU time is in \
         native_queued_spin_lock_slowpath, on average 3.9 tasks are in it"
    );
}
