use super::{Known, find};
use crate::alloc::fixture::{self, judged, known};
use crate::model::alloc::{AllocSnapshot, Groups, Reason, Refused, Source};
use proptest::prelude::*;

fn reason(snapshot: &AllocSnapshot) -> Reason {
    snapshot.filesystems[0]
        .reason
        .clone()
        .expect("nothing stood out")
}

fn said(snapshot: AllocSnapshot, known: Known) -> Option<String> {
    judged(snapshot, known).filesystems[0]
        .reason
        .as_ref()
        .map(|r| r.sentence.clone())
}

#[test]
fn a_healthy_filesystem_raises_nothing() {
    assert_eq!(fixture::healthy().filesystems[0].reason, None);
    assert_eq!(fixture::empty().filesystems[0].reason, None);
    // Nor would it on any kernel.
    for release in ["5.10.0", "5.15.0", "6.1.0", "6.18", "7.2", "", "garbage"] {
        for lists in [None, Some(false), Some(true)] {
            let known = known(release, lists);
            assert_eq!(said(fixture::healthy(), known), None, "{release}");
        }
        assert_eq!(said(fixture::healthy(), Known::default()), None);
    }
}

#[test]
fn many_cheap_searches_are_healthy_too() {
    // A million requests a second in 0.9 CPUs: busy, not sick.
    let mut s = fixture::healthy();
    s.cpu.as_mut().unwrap().allocator = 90;
    s.cpus.get_mut(&5).unwrap().allocator = 90;
    let c = &mut s.filesystems[0].counts;
    c.requests = 1_000_000;
    c.nanoseconds = 900_000_000;
    c.groups.0[2] = 100_000;
    c.looked = [200_000, 0, 0, 0, 0];
    assert_eq!(said(s, known("6.12.0", Some(true))), None);
}

#[test]
fn the_third_case() {
    let r = reason(&fixture::linear());
    assert_eq!(
        r.sentence,
        "each allocation looks at all 221,184 groups 2.0 times because 99.2 % of groups have no free extent of 2^9 \
         blocks; linear scan, kernel 5.10.0-34-amd64 has no lists of groups by free space"
    );
    assert_eq!(
        (r.id.as_str(), r.rule.as_deref()),
        ("linear_scan", Some("alloc-linear"))
    );
    assert_eq!(r.commands, ["echo 64 > /sys/fs/ext4/md3/mb_group_prealloc"]);
    assert!(r.risk.unwrap().contains("removing files helps at once"));
}

#[test]
fn lists_that_are_off_are_turned_on_by_a_new_mount_only() {
    let s = judged(fixture::linear(), known("6.12.0", Some(false)));
    let r = reason(&s);
    assert!(
        r.sentence
            .ends_with("; linear scan, mb_optimize_scan is off for this mount"),
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
    assert!(
        r.risk
            .unwrap()
            .contains("Never turn mb_optimize_scan on by remount")
    );
    // Lists that this kernel has and does not use: no command turns them on.
    let r = reason(&judged(fixture::linear(), known("5.15.0", Some(true))));
    assert!(
        r.sentence.contains("5.15.0 by its version does not use"),
        "{}",
        r.sentence
    );
    assert_eq!(r.commands.len(), 1);
    for release in ["5.10", "5.15", "6.1", "6.12"] {
        for lists in [None, Some(false), Some(true)] {
            let s = judged(fixture::linear(), known(release, lists));
            let commands = s.filesystems[0]
                .reason
                .iter()
                .flat_map(|r| r.commands.clone());
            assert!(
                commands.into_iter().all(|c| !c.contains("remount")),
                "{release}"
            );
        }
    }
}

#[test]
fn only_numbers_that_are_there() {
    let five_ten = || known("5.10.0", None);
    let mut s = fixture::linear();
    s.filesystems[0].fragmentation = None;
    let sentence = said(s.clone(), five_ten()).unwrap();
    assert!(
        sentence.contains("because 51.1 % of the groups refused have no free extent of the order"),
        "{sentence}"
    );
    s.filesystems[0].counts.reasons[Refused::Average as usize] = 99_000;
    let sentence = said(s.clone(), five_ten()).unwrap();
    assert!(
        sentence.contains("the average free extent is shorter than the goal, 512 blocks"),
        "{sentence}"
    );
    s.filesystems[0].counts.reasons = [0; 7];
    let sentence = said(s.clone(), five_ten()).unwrap();
    assert!(
        sentence.contains("2.0 times, of which 99.9 % are refused; linear scan"),
        "{sentence}"
    );
    // No search came to its end: there is no mean.
    s.filesystems[0].counts.groups = Groups::default();
    let sentence = said(s.clone(), five_ten()).unwrap();
    assert!(
        sentence.starts_with(
            "9,163,644 groups were looked at in 1 s and no search has come to its end"
        ),
        "{sentence}"
    );
    // Groups in memory only.
    let mut s = fixture::linear();
    s.filesystems[0].fragmentation.as_mut().unwrap().groups = 0;
    s.filesystems[0].fragmentation.as_mut().unwrap().largest = vec![10, 20, 70];
    let sentence = said(s, five_ten()).unwrap();
    assert!(
        sentence.contains("100 % of the 100 groups in memory have no free extent of 2^9 blocks"),
        "{sentence}"
    );
}

#[test]
fn a_part_of_the_groups() {
    let mut s = fixture::linear();
    let c = &mut s.filesystems[0].counts;
    c.looked = [21 * 41_000, 0, 0, 0, 0];
    c.refused = c.looked;
    c.groups = fixture::groups(&[(41_000, 21)]);
    let sentence = said(s.clone(), known("5.10.0", None)).unwrap();
    assert!(
        sentence.starts_with("each allocation looks at 41,000 groups because"),
        "{sentence}"
    );
    s.filesystems[0].counts.requests = 4000;
    let sentence = said(s.clone(), known("5.10.0", None)).unwrap();
    assert!(
        sentence.starts_with("each search for free blocks looks at 41,000 groups because"),
        "{sentence}"
    );
    s.filesystems[0].counts.groups = fixture::groups(&[(150_000, 21)]);
    s.filesystems[0].counts.looked = [21 * 150_000, 0, 0, 0, 0];
    s.filesystems[0].counts.refused = [21 * 149_999, 0, 0, 0, 0];
    let sentence = said(s, known("5.10.0", None)).unwrap();
    assert!(
        sentence.contains("looks at 150,000 of 221,184 groups because"),
        "{sentence}"
    );
}

#[test]
fn what_nobody_feels_is_not_said() {
    let mut s = fixture::linear();
    for cpu in s.cpus.values_mut().chain(s.cpu.as_mut()) {
        cpu.allocator = 5;
    }
    assert_eq!(said(s.clone(), known("5.10.0", None)), None);
    // Without samples the time in it says it, and the looks.
    s.cpu = None;
    assert!(said(s.clone(), known("5.10.0", None)).is_some());
    s.filesystems[0].counts.nanoseconds = 0;
    assert!(said(s.clone(), known("5.10.0", None)).is_some());
    s.filesystems[0].counts.groups = fixture::groups(&[(70, 21)]);
    s.filesystems[0].counts.looked = [70 * 21, 0, 0, 0, 0];
    s.filesystems[0].counts.refused = [70 * 21, 0, 0, 0, 0];
    assert_eq!(said(s, known("5.10.0", None)), None);
}

#[test]
fn stripes_on_6_1() {
    let r = reason(&fixture::livelock());
    assert_eq!(
        r.sentence,
        "each search for free blocks looks at groups 131,092 times, there are 65,536: with stripe=640 this kernel \
         (6.1.0-41-amd64, by its version 6.0 to 6.7) tries aligned runs only, and is given the same group again and again"
    );
    assert_eq!(
        (r.id.as_str(), r.rule.as_deref()),
        ("stripe_livelock", Some("alloc-stripe-livelock"))
    );
    assert_eq!(r.commands[0], "mount -o remount,stripe=0 /srv");
    // The same figures where it cannot be.
    for (release, stripe, new) in [
        ("6.8.0", 640, false),
        ("5.10.0", 640, false),
        ("6.1.0", 0, false),
        ("6.1.0", 640, true),
    ] {
        let mut s = fixture::livelock();
        s.filesystems[0].stripe = stripe;
        let mut known = known(release, Some(true));
        known.kernel.new_allocator = new;
        assert_eq!(said(s, known), None, "{release} {stripe} {new}");
    }
}

#[test]
fn stripes_where_groups_are_not_counted() {
    let mut s = fixture::livelock();
    s.sources.insert("groups", Source::None);
    let c = &mut s.filesystems[0].counts;
    (c.looked, c.refused, c.groups) = ([0; 5], [0; 5], Groups::default());
    let sentence = said(s.clone(), known("6.1.0", Some(true))).unwrap();
    assert!(
        sentence.starts_with(
            "each search for free blocks goes through groups 65,530 times or more, there"
        ),
        "{sentence}"
    );
    s.filesystems[0].counts.scanned = 900;
    s.cpu = None;
    assert_eq!(said(s, known("6.1.0", Some(true))), None);
}

#[test]
fn bitmaps_that_are_not_in_memory() {
    let r = reason(&fixture::cold());
    assert_eq!(
        r.sentence,
        "the allocator waits for block bitmaps: 96 read from disk in 1 s, waits add up to 719ms or more (p99 14ms); \
         loop5 has 96.9 % of what the members read, p99 14ms"
    );
    assert_eq!((r.id.as_str(), r.rule), ("cold_bitmaps", None));
    let mut s = fixture::cold();
    s.filesystems[0].members.truncate(1);
    let sentence = said(s, known("6.12.0", Some(true))).unwrap();
    assert!(sentence.ends_with("; all on loop5, p99 14ms"), "{sentence}");
    // Evenly on all of them: none is named.
    let mut s = fixture::cold();
    s.filesystems[0].members = (0..4)
        .map(|i| {
            (
                format!("loop{i}"),
                24,
                24 * 4096,
                fixture::hist(&[(7000, 24)]),
            )
        })
        .collect();
    let sentence = said(s, known("6.12.0", Some(true))).unwrap();
    assert!(!sentence.contains("loop"), "{sentence}");
    // A few reads in a busy second are nothing.
    let mut s = fixture::cold();
    s.filesystems[0].counts.waits = fixture::hist(&[(900, 96)]);
    assert_eq!(said(s, known("6.12.0", Some(true))), None);
}

#[test]
fn lists_without_what_is_asked_for() {
    let r = reason(&fixture::fragmented());
    assert_eq!(
        r.sentence,
        "each allocation looks at 41,019 groups because 99.2 % of groups have no free extent of 2^9 blocks; \
         mb_optimize_scan is on, but 61.9 % of searches come down to CR_GOAL_LEN_SLOW or further, where groups are \
         asked one after the other"
    );
    assert_eq!((r.id.as_str(), r.rule), ("fragmented", None));
    // Who does not know whether there are lists goes by the criteria.
    let s = judged(fixture::fragmented(), Known::default());
    assert_eq!(reason(&s).id, "fragmented");
    let s = judged(fixture::linear(), Known::default());
    assert_eq!(reason(&s).id, "linear_scan");
    assert!(
        reason(&s)
            .sentence
            .ends_with("; groups are asked one after the other")
    );
}

#[test]
fn samples_alone() {
    let r = reason(&fixture::degraded());
    assert_eq!(
        r.sentence,
        "89 % of a CPU in ext4_mb_good_group; how many groups it looks at is not known here: fentry and kprobes are \
         refused; linear scan, kernel 5.10.0-34-amd64 has no lists of groups by free space"
    );
    assert_eq!(r.id, "linear_scan");
    // The same CPU time for many requests is work; and another function is another matter.
    let mut s = fixture::degraded();
    s.filesystems[0].counts.requests = 100_000;
    assert_eq!(said(s, known("5.10.0", None)), None);
    let mut s = fixture::degraded();
    s.cpu.as_mut().unwrap().hottest = Some(("mb_find_extent".to_owned(), 80));
    assert_eq!(said(s, known("5.10.0", None)), None);
    // Two filesystems: nobody knows whose it is.
    let mut s = fixture::degraded();
    let mut other = s.filesystems[0].clone();
    other.dev += 1;
    s.filesystems.push(other);
    assert_eq!(said(s, known("5.10.0", None)), None);
    let alone = Known {
        alone: true,
        ..Known::default()
    };
    let s = judged(fixture::degraded(), alone);
    assert_eq!(reason(&s).id, "hot");
    assert!(reason(&s).commands.is_empty());
}

fn one_of_several(release: &str, lists: Option<bool>) -> Known {
    Known {
        alone: false,
        ..known(release, lists)
    }
}

#[test]
fn samples_may_be_of_a_filesystem_that_is_not_watched() {
    // `alloc /srv` while / burns: nothing was asked of /srv.
    let mut idle = fixture::degraded();
    idle.filesystems[0].counts = Default::default();
    assert_eq!(said(idle.clone(), one_of_several("5.10.0", None)), None);
    assert_eq!(said(idle.clone(), known("5.10.0", None)), None);
    // A request that has ended went on before.
    idle.filesystems[0].counts.given = 1;
    assert!(said(idle, known("5.10.0", None)).is_some());
    // A few requests tell no more.
    let s = fixture::degraded();
    assert_eq!(said(s, one_of_several("5.10.0", None)), None);
    // Nor who waits for whom ...
    let mut s = fixture::healthy();
    s.cpu.as_mut().unwrap().allocator = 180;
    s.cpu.as_mut().unwrap().hottest = Some(("native_queued_spin_lock_slowpath".to_owned(), 150));
    assert!(said(s.clone(), known("6.12.0", Some(true))).is_some());
    assert_eq!(said(s, one_of_several("6.12.0", Some(true))), None);
    // ... nor that 1,540 looks a second are felt; its own time in the allocator says that.
    let mut s = fixture::linear();
    let c = &mut s.filesystems[0].counts;
    c.groups = fixture::groups(&[(70, 21)]);
    (c.looked, c.refused) = ([70 * 21, 0, 0, 0, 0], [70 * 21, 0, 0, 0, 0]);
    assert!(said(s.clone(), one_of_several("5.10.0", None)).is_some());
    s.filesystems[0].counts.nanoseconds = 1_000_000;
    assert!(said(s.clone(), known("5.10.0", None)).is_some());
    assert_eq!(said(s, one_of_several("5.10.0", None)), None);
}

#[test]
fn searches_that_failed_or_go_on_do_not_count_for_those_that_ended() {
    let mut s = fixture::linear();
    s.filesystems[0].counts.looked[2] = 900_000_000;
    s.filesystems[0].counts.refused[2] = 900_000_000;
    let sentence = said(s, known("5.10.0", None)).unwrap();
    assert!(
        sentence.contains("221,184 groups 2.3 times because"),
        "{sentence}"
    );
}

#[test]
fn groups_by_mb_stats() {
    let mut s = fixture::linear();
    s.sources.insert("groups", Source::MbStats);
    let c = &mut s.filesystems[0].counts;
    (c.refused, c.reasons, c.groups) = ([0; 5], [0; 7], Groups::default());
    let sentence = said(s.clone(), known("5.10.0", None)).unwrap();
    assert!(
        sentence
            .starts_with("each allocation looks at all 221,184 groups 2.0 times because 99.2 %"),
        "{sentence}"
    );
    s.filesystems[0].fragmentation = None;
    let sentence = said(s, known("5.10.0", None)).unwrap();
    assert!(
        sentence.contains("2.0 times; linear scan, kernel 5.10.0"),
        "{sentence}"
    );
    let mut s = fixture::healthy();
    s.sources.insert("groups", Source::MbStats);
    assert_eq!(said(s, known("6.12.0", Some(true))), None);
}

#[test]
fn tasks_in_each_others_way() {
    let mut s = fixture::healthy();
    s.cpu.as_mut().unwrap().allocator = 180;
    s.cpu.as_mut().unwrap().hottest = Some(("native_queued_spin_lock_slowpath".to_owned(), 150));
    s.filesystems[0].counts.nanoseconds = 3_900_000_000;
    let sentence = said(s, known("6.12.0", Some(true))).unwrap();
    assert_eq!(
        sentence,
        "tasks wait for each other in the allocator: 83.3 % of its CPU time is in native_queued_spin_lock_slowpath, \
         3.9 tasks in it at a time"
    );
}

#[test]
fn names_are_quoted() {
    let mut s = fixture::livelock();
    s.filesystems[0].mount = Some("/a b; rm -rf /".to_owned());
    let r = reason(&judged(s, known("6.1.0", Some(true))));
    assert_eq!(r.commands[0], "mount -o remount,stripe=0 '/a b; rm -rf /'");
    let mut s = fixture::livelock();
    s.filesystems[0].mount = None;
    let r = reason(&judged(s, known("6.1.0", Some(true))));
    assert_eq!(r.commands[0], "mount -o remount,stripe=0 MOUNTPOINT");
}

proptest! {
    #[test]
    fn nothing_panics(n in prop::collection::vec(any::<u64>(), 64), shift in 0u32..64, which in 0usize..6, release in "([0-9]{1,3}\\.){0,3}[a-z]{0,3}") {
        let mut s = [
            fixture::linear(),
            fixture::livelock(),
            fixture::cold(),
            fixture::degraded(),
            fixture::huge(),
            fixture::empty(),
        ][which].clone();
        let n: Vec<u64> = n.iter().map(|v| v >> (shift % 3 * 20)).collect();
        for fs in &mut s.filesystems {
            let c = &mut fs.counts;
            (c.requests, c.searches, c.goal, c.nanoseconds, c.reads, c.scanned) = (n[0], n[1], n[2], n[3], n[4], n[5]);
            c.looked = std::array::from_fn(|i| n[6 + i]);
            c.refused = std::array::from_fn(|i| n[11 + i]);
            c.groups = Groups(std::array::from_fn(|i| n[16 + i]));
            c.reasons = std::array::from_fn(|i| n[40 + i]);
            c.criteria = std::array::from_fn(|i| n[47 + i]);
            fs.groups = n[52] as u32;
            if let Some(f) = &mut fs.fragmentation {
                f.largest = n[53..].to_vec();
                f.groups = n[52];
            }
        }
        s.criteria.truncate((n[0] % 6) as usize);
        for lists in [None, Some(false), Some(true)] {
            for fs in &s.filesystems {
                if let Some(reason) = find(&s, fs, &known(&release, lists)) {
                    prop_assert!(!reason.sentence.is_empty());
                }
            }
        }
    }
}
