mod groups;
mod samples;
mod waits;

use crate::analysis::alloc::fixture;
use crate::analysis::alloc::fixture::{Machine, machine, with_reasons};
use crate::analysis::alloc::{AllocSnapshot, GroupsConsidered, Reason};
use proptest::prelude::*;

fn reason(snapshot: &AllocSnapshot) -> Reason {
    snapshot.filesystems[0].reason.clone().expect("nothing stood out")
}

fn sentence_for(snapshot: AllocSnapshot, on: Machine) -> Option<String> {
    with_reasons(snapshot, on).filesystems[0].reason.as_ref().map(|r| r.sentence.clone())
}

/// True if the reason is `slow_unexplained`.
fn is_unexplained(s: AllocSnapshot, on: Machine) -> bool {
    let s = with_reasons(s, on);
    s.filesystems[0].reason.as_ref().is_some_and(|r| r.id == "slow_unexplained")
}

#[test]
fn a_healthy_filesystem_has_no_reason() {
    assert_eq!(fixture::healthy().filesystems[0].reason, None);
    assert_eq!(fixture::empty().filesystems[0].reason, None);
    // The same on every kernel.
    for release in ["5.10.0", "5.15.0", "6.1.0", "6.18", "7.2", "", "garbage"] {
        for lists in [None, Some(false), Some(true)] {
            let on = machine(release, lists);
            assert_eq!(sentence_for(fixture::healthy(), on), None, "{release}");
        }
        assert_eq!(sentence_for(fixture::healthy(), Machine::default()), None);
    }
}

#[test]
fn many_cheap_searches_are_healthy() {
    // A million requests a second with 0.9 CPUs: busy but healthy.
    let mut s = fixture::healthy();
    s.cpu.as_mut().unwrap().allocator = 90;
    s.cpus.get_mut(&5).unwrap().allocator = 90;
    let c = &mut s.filesystems[0].counts;
    c.requests = 1_000_000;
    c.nanoseconds = 900_000_000;
    c.groups.0[2] = 100_000;
    c.looked = [200_000, 0, 0, 0, 0];
    assert_eq!(sentence_for(s, machine("6.12.0", Some(true))), None);
}

#[test]
fn a_negligible_cost_has_no_reason() {
    let mut s = fixture::linear();
    for cpu in s.cpus.values_mut().chain(s.cpu.as_mut()) {
        cpu.allocator = 5;
    }
    // Tasks' time in the allocator is enough for a reason, and so is the rate of groups considered.
    assert!(sentence_for(s.clone(), machine("5.10.0", None)).is_some());
    s.filesystems[0].counts.nanoseconds = 0;
    assert!(sentence_for(s.clone(), machine("5.10.0", None)).is_some());
    s.filesystems[0].counts.groups = fixture::groups(&[(70, 21)]);
    s.filesystems[0].counts.looked = [70 * 21, 0, 0, 0, 0];
    s.filesystems[0].counts.refused = [70 * 21, 0, 0, 0, 0];
    assert_eq!(sentence_for(s, machine("5.10.0", None)), None);
}

#[test]
fn names_are_quoted() {
    let mut s = fixture::livelock();
    s.filesystems[0].mount = Some("/a b; rm -rf /".to_owned());
    let r = reason(&with_reasons(s, machine("6.1.0", Some(true))));
    assert_eq!(r.commands[0], "mount -o remount,stripe=0 '/a b; rm -rf /'");
    let mut s = fixture::livelock();
    s.filesystems[0].mount = None;
    let r = reason(&with_reasons(s, machine("6.1.0", Some(true))));
    assert_eq!(r.commands[0], "mount -o remount,stripe=0 MOUNTPOINT");
}

proptest! {
    #[test]
    fn nothing_panics(
        n in prop::collection::vec(any::<u64>(), 64),
        shift in 0u32..64,
        which in 0usize..6,
        release in "([0-9]{1,3}\\.){0,3}[a-z]{0,3}",
    ) {
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
            (
                c.requests,
                c.searches,
                c.goal,
                c.nanoseconds,
                c.reads,
                c.scanned,
            ) = (n[0], n[1], n[2], n[3], n[4], n[5]);
            c.looked = std::array::from_fn(|i| n[6 + i]);
            c.refused = std::array::from_fn(|i| n[11 + i]);
            c.groups = GroupsConsidered(std::array::from_fn(|i| n[16 + i]));
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
            let annotated = with_reasons(s.clone(), machine(&release, lists));
            for reason in annotated.filesystems.iter().filter_map(|fs| fs.reason.as_ref()) {
                prop_assert!(!reason.sentence.is_empty());
            }
        }
    }
}
