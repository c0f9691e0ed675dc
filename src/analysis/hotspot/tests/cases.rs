//! Symptoms found from the figures of each member.

use std::time::Duration;

use crate::analysis::hotspot::symptom::{MemberFigures, Symptom, SymptomCause, find_symptom};
use crate::analysis::recent::Stall;

const SECOND: Duration = Duration::from_secs(1);

/// A member with this utilisation and a hundred requests of 5 ms.
fn busy(utilisation: f64) -> MemberFigures {
    MemberFigures {
        utilisation: Some(utilisation),
        requests: 100.0,
        bytes: 400e3,
        mean_us: Some(5_000.0),
        times_us: Some((100.0, 4_900.0)),
        ..MemberFigures::default()
    }
}

/// A member with `times` the work of [`busy`].
fn with_work(utilisation: f64, times: f64) -> MemberFigures {
    let one = busy(utilisation);
    MemberFigures { requests: one.requests * times, bytes: one.bytes * times, ..one }
}

/// A member whose requests take `times` as long as those of [`busy`].
fn slower(utilisation: f64, times: f64) -> MemberFigures {
    let one = busy(utilisation);
    MemberFigures { mean_us: one.mean_us.map(|us| us * times), ..one }
}

/// `count` copies of `one`, except for `other` at index `at`.
fn all_but(
    count: usize,
    one: MemberFigures,
    at: usize,
    other: MemberFigures,
) -> Vec<MemberFigures> {
    let mut all = vec![one; count];
    all[at] = other;
    all
}

fn stall(seconds: u32, in_flight: u32, is_over: bool) -> Stall {
    Stall { lasted: seconds * SECOND, in_flight, is_over }
}

#[test]
fn cases() {
    let quick = |utilisation| MemberFigures { mean_us: Some(120.0), ..busy(utilisation) };
    let unknown = MemberFigures { utilisation: None, ..busy(0.0) };
    let saturated = |members: &[usize], cause, least, others| Symptom::Saturated {
        members: members.to_vec(),
        cause,
        least,
        others,
    };
    let full = |count: usize, least| Symptom::Full { members: (0..count).collect(), least };
    for (what, figures, expected) in [
        ("nothing there", vec![], Symptom::None),
        (
            "one of twelve holds the inode tables: four times the requests",
            all_but(12, busy(0.2), 4, with_work(0.97, 4.0)),
            saturated(&[4], SymptomCause::MoreWork(4.0), 0.97, 0.2),
        ),
        (
            "three of twelve hold every bitmap",
            (0..12).map(|i| if i % 4 == 0 { with_work(1.0, 4.0) } else { busy(0.25) }).collect(),
            saturated(&[0, 4, 8], SymptomCause::MoreWork(4.0), 1.0, 0.25),
        ),
        ("all members are saturated", vec![busy(0.98); 12], full(12, 0.98)),
        (
            "all members count as saturated if one is slightly less busy",
            all_but(12, busy(0.98), 3, busy(0.86)),
            full(12, 0.86),
        ),
        (
            "a skew at 11 % utilisation is no symptom",
            all_but(12, busy(0.02), 4, with_work(0.11, 4.5)),
            Symptom::None,
        ),
        (
            "one disk takes ten times as long for the same work",
            all_but(8, busy(0.3), 6, slower(0.99, 10.0)),
            saturated(&[6], SymptomCause::Longer(10.0), 0.99, 0.3),
        ),
        (
            "one disk is busy with load of another partition",
            all_but(4, busy(0.3), 2, busy(0.99)),
            saturated(&[2], SymptomCause::Elsewhere, 0.99, 0.3),
        ),
        (
            "requests of a writeback burst that wait for each other are not held back",
            vec![
                MemberFigures {
                    times_us: Some((400_000.0, 5_000.0)),
                    queue_p50_us: Some(400_000),
                    device_us: Some(1_100_000.0),
                    busy_us: Some(1_000_000.0),
                    ..busy(0.1)
                };
                4
            ],
            Symptom::None,
        ),
        (
            "requests are held back above the disks",
            vec![
                MemberFigures {
                    times_us: Some((80_000.0, 2_000.0)),
                    queue_p50_us: Some(80_000),
                    device_us: Some(200_000.0),
                    busy_us: Some(30_000.0),
                    ..busy(0.003)
                };
                2
            ],
            Symptom::Waiting { members: vec![0, 1], wait_us: 80_000.0, device_us: 2_000.0 },
        ),
        (
            "io_ticks start at allocation: a disk whose scheduler holds requests back is not \
             saturated",
            all_but(
                4,
                busy(0.1),
                2,
                MemberFigures {
                    times_us: Some((39_000.0, 1_000.0)),
                    queue_p50_us: Some(40_000),
                    device_us: Some(900_000.0),
                    busy_us: Some(9_900_000.0),
                    mean_us: Some(40_000.0),
                    ..busy(0.99)
                },
            ),
            Symptom::Waiting { members: vec![2], wait_us: 39_000.0, device_us: 1_000.0 },
        ),
        (
            "requests in the long queue of a working disk are not held back",
            all_but(
                4,
                busy(0.1),
                2,
                MemberFigures {
                    times_us: Some((39_000.0, 1_000.0)),
                    queue_p50_us: Some(40_000),
                    device_us: Some(9_800_000.0),
                    busy_us: Some(9_900_000.0),
                    mean_us: Some(40_000.0),
                    ..busy(0.99)
                },
            ),
            saturated(&[2], SymptomCause::Longer(8.0), 0.99, 0.1),
        ),
        (
            "a healthy array under load",
            (0..12).map(|i| busy(0.55 + f64::from(i) / 100.0)).collect(),
            Symptom::None,
        ),
        (
            "NVMe with short requests in flight all the time is not saturated",
            vec![quick(1.0); 4],
            Symptom::None,
        ),
        (
            "NVMe whose requests take four times as long is saturated",
            all_but(
                4,
                quick(0.5),
                1,
                MemberFigures { mean_us: Some(480.0), ..with_work(1.0, 5.0) },
            ),
            saturated(&[1], SymptomCause::MoreWork(5.0), 1.0, 0.5),
        ),
        ("no symptom without utilisation", vec![unknown.clone(); 12], Symptom::None),
        (
            "a member without utilisation is not listed as saturated",
            all_but(4, busy(0.99), 2, unknown.clone()),
            Symptom::Full { members: vec![0, 1, 3], least: 0.99 },
        ),
        (
            "a member without utilisation does not count as idle",
            vec![with_work(0.99, 4.0), busy(0.3), unknown, busy(0.3)],
            saturated(&[0], SymptomCause::MoreWork(4.0), 0.99, 0.3),
        ),
        (
            "a disk hangs, while the others wait for it",
            all_but(
                4,
                busy(0.0),
                3,
                MemberFigures {
                    utilisation: Some(1.0),
                    stalled: Some(stall(6, 12, false)),
                    ..MemberFigures::default()
                },
            ),
            Symptom::Stalled { members: vec![3], stall: stall(6, 12, false) },
        ),
        (
            "a current stall precedes a longer one that is over",
            vec![
                MemberFigures { stalled: Some(stall(60, 1, true)), ..busy(0.2) },
                MemberFigures { stalled: Some(stall(6, 2, false)), ..busy(0.2) },
                MemberFigures { stalled: Some(stall(7, 3, false)), ..busy(0.2) },
            ],
            Symptom::Stalled { members: vec![1, 2], stall: stall(7, 5, false) },
        ),
    ] {
        let mut found = find_symptom(&figures);
        if let Symptom::Saturated { others, .. } = &mut found {
            *others = (*others * 1000.0).round() / 1000.0;
        }
        assert_eq!(found, expected, "{what}");
    }
}
