use std::collections::BTreeMap;
use std::time::Duration;

use super::{Amplification, OriginAmplification, expected, split};
use crate::analysis::counters::CostCounters;
use crate::analysis::fixture;
use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot, Cell};
use crate::origin::{Op, Origin};
use proptest::prelude::*;

const KIB: u64 = 1024;

/// An array whose first member completed these (origin, op, bytes).
fn array(
    moved: &[(Origin, Op, u64)],
    submitted: &[(Origin, Op, u64)],
    costs: &[(Origin, u64, u64)],
) -> ArraySnapshot {
    let cells = moved.iter().map(|&(origin, op, bytes)| fixture::cell(origin, op, 1, bytes, 100));
    let mut array =
        fixture::array(vec![fixture::member(0, cells.collect()), fixture::member(1, Vec::new())]);
    array.submitted = submitted.iter().map(|&(o, op, b)| ((o, op), b)).collect();
    array.costs =
        costs.iter().map(|&(o, parity, rmw_read)| (o, CostCounters { parity, rmw_read })).collect();
    array
}

fn amplification(array: &ArraySnapshot) -> BTreeMap<(Origin, Op), OriginAmplification> {
    let amplification = Amplification::new(array, Duration::from_secs(1));
    amplification.rows.iter().map(|r| ((r.origin, r.op), *r)).collect()
}

#[test]
fn a_small_write_on_raid5_moves_four_bytes_per_byte() {
    use Origin::{FileData, Parity, RmwRead};
    let rows = amplification(&array(
        &[
            (FileData, Op::Write, 400 * KIB),
            (FileData, Op::Read, 64 * KIB),
            (Parity, Op::Write, 400 * KIB),
            (RmwRead, Op::Read, 800 * KIB),
        ],
        &[(FileData, Op::Write, 400 * KIB), (FileData, Op::Read, 64 * KIB)],
        &[(FileData, 400 * KIB, 800 * KIB)],
    ));
    assert_eq!(rows.len(), 2);
    let write = rows[&(FileData, Op::Write)];
    assert_eq!((write.data, write.parity, write.rmw_read), (400 * KIB, 400 * KIB, 800 * KIB));
    assert_eq!(write.factor(), Some(4.0));
    assert_eq!(rows[&(FileData, Op::Read)].factor(), Some(1.0));
}

/// BPF programs count costs at submission, cells count at completion: only the proportions of the
/// costs are used.
#[test]
fn completed_bytes_are_split_in_proportion_to_costs() {
    use Origin::{FileData, Journal, Parity, RmwRead};
    let rows = amplification(&array(
        &[(Parity, Op::Write, 100 * KIB), (RmwRead, Op::Read, 40 * KIB)],
        &[(FileData, Op::Write, 500 * KIB), (Journal, Op::Write, 500 * KIB)],
        &[(FileData, 30, 0), (Journal, 10, 7)],
    ));
    let (data, journal) = (rows[&(FileData, Op::Write)], rows[&(Journal, Op::Write)]);
    assert_eq!((data.parity, data.rmw_read), (75 * KIB, 0));
    assert_eq!((journal.parity, journal.rmw_read), (25 * KIB, 40 * KIB));
}

#[test]
fn without_costs_written_bytes_are_the_weights() {
    use Origin::{FileData, Journal, MdBitmap, MdJournal, Parity, RmwRead};
    let moved = [
        (Parity, Op::Write, 90 * KIB),
        (RmwRead, Op::Read, 30 * KIB),
        (MdBitmap, Op::Write, 9 * KIB),
        (MdJournal, Op::Write, 12 * KIB),
        (Journal, Op::Write, 20 * KIB),
    ];
    let submitted = [
        (FileData, Op::Write, 20 * KIB),
        (FileData, Op::Read, 900 * KIB),
        (Journal, Op::Write, 10 * KIB),
    ];
    let rows = amplification(&array(&moved, &submitted, &[]));
    let (data, journal) = (rows[&(FileData, Op::Write)], rows[&(Journal, Op::Write)]);
    assert_eq!(
        (data.parity, data.rmw_read, data.md_bitmap, data.md_journal),
        (60 * KIB, 20 * KIB, 6 * KIB, 8 * KIB)
    );
    assert_eq!(journal.below(), (20 + 30 + 10 + 3 + 4) * KIB);
    // Everything was submitted in the previous interval: the weights are the bytes completed in
    // this one.
    let rows = amplification(&array(&moved, &[], &[]));
    let journal = rows[&(Journal, Op::Write)];
    assert_eq!((journal.below(), journal.factor()), (161 * KIB, None), "no division by 0");
}

#[test]
fn without_writes_md_bytes_are_not_charged() {
    use Origin::{FileData, MdBitmap, MdSuperblock, Parity, Resync};
    let array = array(
        &[
            (FileData, Op::Read, 8 * KIB),
            (MdBitmap, Op::Write, 4 * KIB),
            (MdSuperblock, Op::Write, 512),
            (Parity, Op::Write, 64 * KIB),
            (Resync, Op::Read, 300 * KIB),
            (Resync, Op::Write, 100 * KIB),
        ],
        &[(FileData, Op::Read, 8 * KIB)],
        &[],
    );
    let rows = amplification(&array);
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[&(Parity, Op::Write)].parity, 64 * KIB);
    assert_eq!(rows[&(MdBitmap, Op::Write)].md_bitmap, 4 * KIB);
    assert_eq!(rows[&(Resync, Op::Write)].data, 100 * KIB);
    let own: Vec<_> = rows.values().filter(|r| r.is_md_overhead()).collect();
    assert_eq!(own.len(), 5);
    assert!(own.iter().all(|r| r.factor().is_none()));
    let amplification = Amplification::new(&array, Duration::ZERO);
    assert_eq!(amplification.md_background_bytes(), 400 * KIB + 512);
    assert_eq!(amplification.total(Op::Write).below(), 68 * KIB);
    assert_eq!(amplification.total(Op::Read).factor(), Some(1.0));
}

#[test]
fn parity_of_discards_is_charged_to_discards() {
    use Origin::{FileData, Parity};
    let rows = amplification(&array(
        &[
            (FileData, Op::Discard, 96 * KIB),
            (Parity, Op::Discard, 32 * KIB),
            (FileData, Op::Write, KIB),
        ],
        &[(FileData, Op::Discard, 96 * KIB), (FileData, Op::Write, KIB)],
        &[(FileData, 512, 512)],
    ));
    assert_eq!(rows[&(FileData, Op::Discard)].parity, 32 * KIB);
    assert_eq!(rows[&(FileData, Op::Write)].factor(), Some(1.0));
}

/// Requests that complete in a window may have been submitted before it.
#[test]
fn more_data_than_was_submitted_has_no_factor() {
    use Origin::{FileData, MdBitmap};
    let row = |level: &str, bytes, bitmap| {
        let moved = [(FileData, Op::Write, bytes), (MdBitmap, Op::Write, bitmap)];
        let mut array = array(&moved, &[(FileData, Op::Write, 10 * KIB)], &[]);
        (array.info.level, array.info.disks) = (level.to_owned(), 2);
        amplification(&array)[&(FileData, Op::Write)]
    };
    assert_eq!(row("raid0", 10 * KIB, 0).factor(), Some(1.0));
    assert_eq!(row("raid0", 20 * KIB, 0).factor(), None);
    let (copied, with_bitmap) = (row("raid1", 20 * KIB, 0), row("raid1", 20 * KIB, KIB));
    assert_eq!((copied.factor(), copied.costs_more()), (Some(2.0), false));
    assert!(with_bitmap.costs_more());
    // A degraded RAID 5 reads from the others.
    assert!(row("raid5", 20 * KIB, 0).costs_more());
}

/// RAID 5 on RAID 1: the outer array's parity is data on the nested one.
#[test]
fn submitted_parity_stays_parity() {
    use Origin::{FileData, Parity};
    let mut array = array(
        &[(FileData, Op::Write, 20 * KIB), (Parity, Op::Write, 20 * KIB)],
        &[(FileData, Op::Write, 10 * KIB), (Parity, Op::Write, 10 * KIB)],
        &[],
    );
    array.info.level = "raid1".to_owned();
    let rows = amplification(&array);
    assert_eq!(rows[&(FileData, Op::Write)].factor(), Some(2.0));
    let parity = rows[&(Parity, Op::Write)];
    assert_eq!((parity.data, parity.factor()), (20 * KIB, Some(2.0)));
    assert!(!parity.is_md_overhead());
}

#[test]
fn expected_factor_of_every_level() {
    let factors = |level: &str, disks| {
        expected(&ArrayInfo { level: level.to_owned(), disks, ..ArrayInfo::default() })
    };
    for (level, disks, wanted) in [
        ("single", 1, Some((1.0, 1.0))),
        ("raid0", 12, Some((1.0, 1.0))),
        ("raid1", 2, Some((2.0, 2.0))),
        ("raid10", 4, None), // the number of copies depends on the layout
        ("raid5", 2, Some((2.0, 2.0))),
        ("raid5", 3, Some((1.5, 3.0))),
        ("raid5", 4, Some((4.0 / 3.0, 4.0))),
        ("raid4", 5, Some((1.25, 4.0))),
        ("raid6", 4, Some((2.0, 4.0))),
        ("raid6", 5, Some((5.0 / 3.0, 5.0))),
        ("raid6", 8, Some((8.0 / 6.0, 6.0))),
        ("raid6", 2, None),
        ("raid5", 0, None),
        ("faulty\x1b", 1, None),
    ] {
        assert_eq!(factors(level, disks), wanted, "{level} of {disks}");
    }
}

fn any_origin() -> impl Strategy<Value = Origin> {
    (0..Origin::ALL.len()).prop_map(|i| Origin::ALL[i])
}

fn any_kind() -> impl Strategy<Value = (Origin, Op)> {
    (any_origin(), (0..Op::ALL.len()).prop_map(|i| Op::ALL[i]))
}

/// Small values, which collide often, and values up to 128 PiB.
fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..10, 0u64..1 << 40, (1u64 << 56)..(1 << 57)]
}

proptest! {
    #[test]
    fn parts_add_up_and_are_within_a_byte_of_their_share(
        bytes in any::<u64>(), weights in prop::collection::vec(1u64.., 1..20),
    ) {
        let weights: Vec<_> = weights.into_iter().map(|w| (Origin::FileData, w)).collect();
        let parts = split(bytes, &weights);
        prop_assert_eq!(parts.iter().map(|p| u128::from(p.1)).sum::<u128>(), u128::from(bytes));
        let sum: u128 = weights.iter().map(|w| u128::from(w.1)).sum();
        for (part, weight) in parts.iter().zip(&weights) {
            let floor = u128::from(bytes) * u128::from(weight.1) / sum;
            prop_assert!((floor..=floor + 1).contains(&u128::from(part.1)));
        }
    }

    #[test]
    fn rows_add_up_to_cells_and_submitted_bytes(
        moved in prop::collection::vec((any_kind(), any_bytes()), 0..40),
        submitted in prop::collection::btree_map(any_kind(), any_bytes(), 0..12),
        costs in prop::collection::btree_map(any_origin(), (any_bytes(), any_bytes()), 0..6),
    ) {
        let cells = moved
            .iter()
            .map(|&((origin, op), bytes)| Cell { bytes, ..fixture::cell(origin, op, 0, 0, 1) });
        let mut array = fixture::array(vec![fixture::member(0, cells.collect())]);
        array.submitted = submitted.into_iter().collect();
        array.costs = costs
            .into_iter()
            .map(|(o, (parity, rmw_read))| (o, CostCounters { parity, rmw_read }))
            .collect();
        let amplification = Amplification::new(&array, Duration::from_secs(1));
        let sum = |f: &dyn Fn(&OriginAmplification) -> u64| amplification.rows
            .iter()
            .map(f)
            .map(u128::from)
            .sum::<u128>();
        let all: u128 = moved.iter().map(|m| u128::from(m.1)).sum();
        prop_assert_eq!(sum(&OriginAmplification::below), all);
        prop_assert_eq!(
            sum(&|r| r.submitted),
            array.submitted.values().copied().map(u128::from).sum::<u128>()
        );
        for row in &amplification.rows {
            prop_assert!(row.submitted > 0 || row.below() > 0);
            prop_assert!(row.factor().is_none() || row.submitted > 0);
            prop_assert!(row.factor().is_none_or(f64::is_finite));
        }
        // Totals equal the sum of the rows.
        let totals: u128 =
            Op::ALL.iter().map(|&op| u128::from(amplification.total(op).below())).sum();
        prop_assert_eq!(totals + u128::from(amplification.md_background_bytes()), all);
    }
}
