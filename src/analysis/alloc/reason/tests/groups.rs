//! Reasons based on the groups that a search considers.

use super::{is_unexplained, reason, sentence_for};
use crate::analysis::alloc::fixture;
use crate::analysis::alloc::fixture::{Machine, machine, with_reasons};
use crate::analysis::alloc::{AllocSnapshot, FigureSource, GroupRefusal, GroupsConsidered};

#[test]
fn a_kernel_without_lists_scans_linearly() {
    let r = reason(&fixture::linear());
    assert_eq!(
        r.sentence,
        "each allocation looks at all 221,184 groups 2.0 times because 99.2 % of groups have no \
         free extent of 2^9 blocks; linear scan, kernel 5.10.0-34-amd64 has no lists of groups by \
         free space"
    );
    assert_eq!((r.id.as_str(), r.rule.as_deref()), ("linear_scan", Some("alloc-linear")));
    assert_eq!(r.commands, ["echo 64 > /sys/fs/ext4/md3/mb_group_prealloc"]);
    assert!(r.risk.unwrap().contains("removing files helps at once"));
}

#[test]
fn lists_are_turned_on_by_a_new_mount_only() {
    let s = with_reasons(fixture::linear(), machine("6.12.0", Some(false)));
    let r = reason(&s);
    assert!(
        r.sentence.ends_with("; linear scan, mb_optimize_scan is off for this mount"),
        "{}",
        r.sentence
    );
    assert_eq!(
        r.commands,
        [
            "umount /srv",
            "mount -o mb_optimize_scan=1 /dev/md3 /srv",
            "echo 64 > /sys/fs/ext4/md3/mb_group_prealloc"
        ]
    );
    assert!(r.risk.unwrap().contains("Never turn mb_optimize_scan on by remount"));
    // This kernel has lists but does not use them: no command turns them on.
    let r = reason(&with_reasons(fixture::linear(), machine("5.15.0", Some(true))));
    assert!(r.sentence.contains("5.15.0, according to its version"), "{}", r.sentence);
    assert_eq!(r.commands.len(), 1);
    for release in ["5.10", "5.15", "6.1", "6.12"] {
        for lists in [None, Some(false), Some(true)] {
            let s = with_reasons(fixture::linear(), machine(release, lists));
            let commands = s.filesystems[0].reason.iter().flat_map(|r| r.commands.clone());
            assert!(commands.into_iter().all(|c| !c.contains("remount")), "{release}");
        }
    }
}

#[test]
fn sentences_have_available_figures_only() {
    let five_ten = || machine("5.10.0", None);
    let mut s = fixture::linear();
    s.filesystems[0].fragmentation = None;
    let sentence = sentence_for(s.clone(), five_ten()).unwrap();
    assert!(
        sentence.contains("because 51.1 % of the groups refused have no free extent of the order"),
        "{sentence}"
    );
    s.filesystems[0].counts.reasons[GroupRefusal::Average as usize] = 99_000;
    let sentence = sentence_for(s.clone(), five_ten()).unwrap();
    assert!(
        sentence.contains("the average free extent is shorter than the goal, 512 blocks"),
        "{sentence}"
    );
    s.filesystems[0].counts.reasons = [0; 8];
    let sentence = sentence_for(s.clone(), five_ten()).unwrap();
    assert!(sentence.contains("2.0 times, of which 99.9 % are refused; linear scan"), "{sentence}");
    // No search has ended: there is no mean.
    s.filesystems[0].counts.groups = GroupsConsidered::default();
    let sentence = sentence_for(s.clone(), five_ten()).unwrap();
    assert!(
        sentence.starts_with("9,163,644 groups were looked at in 1 s and no search has ended"),
        "{sentence}"
    );
    // Groups in memory only.
    let mut s = fixture::linear();
    s.filesystems[0].fragmentation.as_mut().unwrap().groups = 0;
    s.filesystems[0].fragmentation.as_mut().unwrap().largest = vec![10, 20, 70];
    let sentence = sentence_for(s, five_ten()).unwrap();
    assert!(
        sentence.contains("100 % of the 100 groups in memory have no free extent of 2^9 blocks"),
        "{sentence}"
    );
}

#[test]
fn a_scan_of_part_of_the_groups() {
    let mut s = fixture::linear();
    let c = &mut s.filesystems[0].counts;
    c.looked = [21 * 41_000, 0, 0, 0, 0];
    c.refused = c.looked;
    c.groups = fixture::groups(&[(41_000, 21)]);
    let sentence = sentence_for(s.clone(), machine("5.10.0", None)).unwrap();
    assert!(sentence.starts_with("each allocation looks at 41,000 groups because"), "{sentence}");
    s.filesystems[0].counts.requests = 4000;
    let sentence = sentence_for(s.clone(), machine("5.10.0", None)).unwrap();
    assert!(
        sentence.starts_with("each search for free blocks looks at 41,000 groups because"),
        "{sentence}"
    );
    s.filesystems[0].counts.groups = fixture::groups(&[(150_000, 21)]);
    s.filesystems[0].counts.looked = [21 * 150_000, 0, 0, 0, 0];
    s.filesystems[0].counts.refused = [21 * 149_999, 0, 0, 0, 0];
    let sentence = sentence_for(s, machine("5.10.0", None)).unwrap();
    assert!(sentence.contains("looks at 150,000 of 221,184 groups because"), "{sentence}");
}

#[test]
fn a_remedy_is_given_only_if_it_helps() {
    let prealloc = |s: &AllocSnapshot| {
        let r = reason(s);
        let command = r.commands.iter().any(|c| c.contains("mb_group_prealloc"));
        (command, r.risk.unwrap_or_default())
    };
    let five = || machine("5.10.0", None);
    let mut s = fixture::linear();
    s.filesystems[0].group_prealloc = Some(768);
    let (command, risk) = prealloc(&with_reasons(s.clone(), five()));
    assert!(command && risk.contains("undone: echo 768"), "{risk}");
    // The remedy would set the same value.
    s.filesystems[0].group_prealloc = Some(64);
    let (command, risk) = prealloc(&with_reasons(s.clone(), five()));
    assert!(!command && risk.contains("it is already 64"), "{risk}");
    // Large files.
    s.filesystems[0].group_prealloc = Some(512);
    s.filesystems[0].stream_req = Some(16);
    s.filesystems[0].counts.locality = 2;
    let (command, risk) = prealloc(&with_reasons(s.clone(), five()));
    assert!(!command && risk.contains("larger than 16 blocks (mb_stream_req)"), "{risk}");
    // Full groups have no shorter runs either.
    s.filesystems[0].counts.locality = 21;
    s.filesystems[0].counts.reasons = [9000, 0, 0, 500, 0, 0, 0, 0];
    let s = with_reasons(s, five());
    let (command, risk) = prealloc(&s);
    assert!(!command && risk.contains("most groups refused are full"), "{risk}");
    assert!(reason(&s).sentence.contains("because 94.7 % of the groups refused are full"));
    // With the lists on, full groups leave no command.
    let off = with_reasons(s, machine("6.1.0", Some(true)));
    assert_eq!(reason(&off).id, "fragmented");
    assert!(reason(&off).commands.is_empty());
}

#[test]
fn stripe_livelock_on_6_1() {
    let r = reason(&fixture::livelock());
    assert_eq!(
        r.sentence,
        "each search for free blocks looks at groups 131,092 times, and there are 65,536: with \
         stripe=640 this kernel (6.1.0-41-amd64; 6.0 to 6.7 are affected) tries aligned runs \
         only, and is given the same group again and again"
    );
    assert_eq!(
        (r.id.as_str(), r.rule.as_deref()),
        ("stripe_livelock", Some("alloc-stripe-livelock"))
    );
    assert_eq!(r.commands[0], "mount -o remount,stripe=0 /srv");
    // The same figures if the livelock is impossible.
    for (release, stripe, new) in
        [("6.8.0", 640, false), ("5.10.0", 640, false), ("6.1.0", 0, false), ("6.1.0", 640, true)]
    {
        let mut s = fixture::livelock();
        s.filesystems[0].stripe = stripe;
        let mut on = machine(release, Some(true));
        on.known.new_allocator = new;
        assert!(is_unexplained(s, on), "{release} {stripe} {new}");
    }
}

#[test]
fn stripe_livelock_without_group_counts() {
    let mut s = fixture::livelock();
    s.sources.insert("groups", FigureSource::None);
    let c = &mut s.filesystems[0].counts;
    (c.looked, c.refused, c.groups) = ([0; 5], [0; 5], GroupsConsidered::default());
    let sentence = sentence_for(s.clone(), machine("6.1.0", Some(true))).unwrap();
    assert!(
        sentence.starts_with(
            "each search for free blocks goes through groups 65,530 times or more, and there"
        ),
        "{sentence}"
    );
    s.filesystems[0].counts.scanned = 900;
    s.cpu = None;
    assert!(is_unexplained(s, machine("6.1.0", Some(true))));
}

#[test]
fn fragmented_free_space_with_lists_on() {
    let r = reason(&fixture::fragmented());
    assert_eq!(
        r.sentence,
        "each allocation looks at 41,019 groups because 99.2 % of groups have no free extent of \
         2^9 blocks; mb_optimize_scan is on, but 61.9 % of searches reach CR_GOAL_LEN_SLOW or a \
         later criterion, where groups are scanned one by one"
    );
    assert_eq!((r.id.as_str(), r.rule), ("fragmented", None));
    // If it is unknown whether the kernel has lists, the criteria decide.
    let mut s = fixture::fragmented();
    s.filesystems[0].fragmentation = fixture::linear().filesystems.remove(0).fragmentation;
    let s = with_reasons(s, Machine::default());
    assert_eq!(reason(&s).id, "fragmented");
    let s = with_reasons(fixture::linear(), Machine::default());
    assert_eq!(reason(&s).id, "linear_scan");
    assert!(reason(&s).sentence.ends_with("; groups are scanned one by one"));
}

#[test]
fn failed_and_running_searches_do_not_distort_the_mean() {
    let mut s = fixture::linear();
    s.filesystems[0].counts.looked[2] = 900_000_000;
    s.filesystems[0].counts.refused[2] = 900_000_000;
    let sentence = sentence_for(s, machine("5.10.0", None)).unwrap();
    assert!(sentence.contains("221,184 groups 2.3 times because"), "{sentence}");
}

#[test]
fn group_counts_from_mb_stats() {
    let mut s = fixture::linear();
    s.sources.insert("groups", FigureSource::MbStats);
    let c = &mut s.filesystems[0].counts;
    (c.refused, c.reasons, c.groups) = ([0; 5], [0; 8], GroupsConsidered::default());
    s.filesystems[0].counts.hits = s.filesystems[0].counts.searches;
    let sentence = sentence_for(s.clone(), machine("5.10.0", None)).unwrap();
    assert!(
        sentence
            .starts_with("each allocation looks at all 221,184 groups 2.0 times because 99.2 %"),
        "{sentence}"
    );
    s.filesystems[0].fragmentation = None;
    let sentence = sentence_for(s, machine("5.10.0", None)).unwrap();
    assert!(sentence.contains("2.0 times; linear scan, kernel 5.10.0"), "{sentence}");
    let mut s = fixture::healthy();
    s.sources.insert("groups", FigureSource::MbStats);
    assert_eq!(sentence_for(s, machine("6.12.0", Some(true))), None);
}
