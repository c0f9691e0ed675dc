use super::{Cells, MemberIds, Switchover};
use crate::analysis::counters::{CellCounters, CellKey};
use crate::origin::{Op, Origin};

fn cells(counts: &[(u32, u64)]) -> Cells {
    let cell = |&(member, requests)| {
        let key = CellKey { member, origin: Origin::Journal, op: Op::Write };
        let counters = CellCounters { requests, ..CellCounters::default() };
        (key, counters)
    };
    counts.iter().map(cell).collect()
}

#[test]
fn ids_after_loading_are_positions() {
    let ids = MemberIds::loaded(3);
    assert_eq!(ids.all().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((ids.position(2), ids.position(3)), (Some(2), None));
    let counted = cells(&[(0, 5), (2, 7), (9, 1)]);
    assert_eq!(ids.count(counted), cells(&[(0, 5), (2, 7)]));
}

/// Member 0 got id 3, member 1 has left, member 2 is unchanged and now first, and the member with
/// id 4 is new. Other members had the ids 3 and 4 before.
#[test]
fn a_switchover_counts_each_request_once() {
    let switchover = Switchover {
        was: MemberIds::new(vec![vec![0, 3], vec![1], vec![2]]),
        next: MemberIds::new(vec![vec![2], vec![3, 0], vec![4]]),
        fresh: vec![3, 4],
        before: cells(&[(3, 500), (4, 1000)]),
    };
    assert_eq!(switchover.all().collect::<Vec<_>>(), [0, 3, 1, 2, 4]);
    let counted = cells(&[(0, 10), (1, 20), (2, 30), (3, 504), (4, 1005)]);
    // The counters of the previous topology's members ...
    assert_eq!(switchover.until(&counted), cells(&[(0, 14), (1, 20), (2, 30)]));
    // ... are the base of the next topology. The base of the new member excludes its five requests.
    assert_eq!(switchover.base(&counted), cells(&[(0, 30), (1, 514), (2, 1000)]));
    let later = cells(&[(0, 11), (1, 20), (2, 30), (3, 506), (4, 1007)]);
    assert_eq!(switchover.next.count(later), cells(&[(0, 30), (1, 517), (2, 1007)]));
}
