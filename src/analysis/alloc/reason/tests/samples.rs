//! Reasons based on CPU samples, which include all filesystems.

use super::{is_unexplained, reason, sentence_for};
use crate::analysis::alloc::fixture;
use crate::analysis::alloc::fixture::{Machine, machine, with_reasons};

#[test]
fn a_reason_from_samples_alone() {
    let r = reason(&fixture::degraded());
    assert_eq!(
        r.sentence,
        "89 % of a CPU in ext4_mb_good_group; how many groups it looks at is not known here: \
         fentry and kprobes are refused; linear scan, kernel 5.10.0-34-amd64 has no lists of \
         groups by free space"
    );
    assert_eq!(r.id, "linear_scan");
    // No scan: the same CPU time for many requests, or another hottest function.
    let mut s = fixture::degraded();
    s.filesystems[0].counts.requests = 100_000;
    assert!(is_unexplained(s, machine("5.10.0", None)));
    let mut s = fixture::degraded();
    s.cpu.as_mut().unwrap().hottest = Some(("mb_find_extent".to_owned(), 80));
    assert!(is_unexplained(s, machine("5.10.0", None)));
    // Two filesystems: the samples may belong to either.
    let mut s = fixture::degraded();
    let mut other = s.filesystems[0].clone();
    other.dev += 1;
    s.filesystems.push(other);
    assert!(is_unexplained(s, machine("5.10.0", None)));
    let mut alone = Machine::default();
    alone.known.alone = true;
    let s = with_reasons(fixture::degraded(), alone);
    assert_eq!(reason(&s).id, "hot");
    assert!(reason(&s).commands.is_empty());
}

fn one_of_several(release: &str, lists: Option<bool>) -> Machine {
    let mut machine = machine(release, lists);
    machine.known.alone = false;
    machine
}

#[test]
fn samples_may_belong_to_an_unwatched_filesystem() {
    // `alloc /srv` while only / is busy: /srv has no requests.
    let mut idle = fixture::degraded();
    idle.filesystems[0].counts = Default::default();
    assert_eq!(sentence_for(idle.clone(), one_of_several("5.10.0", None)), None);
    assert_eq!(sentence_for(idle.clone(), machine("5.10.0", None)), None);
    // A completed request was in progress before.
    idle.filesystems[0].counts.given = 1;
    assert!(sentence_for(idle, machine("5.10.0", None)).is_some());
    // A few requests are not enough if another ext4 is mounted.
    let s = fixture::degraded();
    assert!(is_unexplained(s, one_of_several("5.10.0", None)));
    // Contention cannot be attributed either.
    let mut s = fixture::healthy();
    s.cpu.as_mut().unwrap().allocator = 180;
    s.cpu.as_mut().unwrap().hottest = Some(("native_queued_spin_lock_slowpath".to_owned(), 150));
    assert!(sentence_for(s.clone(), machine("6.12.0", Some(true))).is_some());
    assert_eq!(sentence_for(s, one_of_several("6.12.0", Some(true))), None);
    // Few groups considered are a reason only with the filesystem's own time in the allocator.
    let mut s = fixture::linear();
    let c = &mut s.filesystems[0].counts;
    c.groups = fixture::groups(&[(70, 21)]);
    (c.looked, c.refused) = ([70 * 21, 0, 0, 0, 0], [70 * 21, 0, 0, 0, 0]);
    assert!(sentence_for(s.clone(), one_of_several("5.10.0", None)).is_some());
    s.filesystems[0].counts.nanoseconds = 1_000_000;
    assert!(sentence_for(s.clone(), machine("5.10.0", None)).is_some());
    assert_eq!(sentence_for(s, one_of_several("5.10.0", None)), None);
}
