//! Snapshots as `top` makes them, on the first case's array.

use super::compare;
use crate::doctor::finding::Severity;
use crate::doctor::tests::Machine;
use crate::model::fixture::{array, cell, member, snapshot};
use crate::model::snapshot::{Cell, Snapshot};
use crate::origin::{Op, Origin};

/// A second on 12 members; `blocks` of block bitmaps by slot.
fn seen(blocks: impl Fn(usize) -> u64, more: impl Fn(usize) -> Vec<Cell>) -> Snapshot {
    let of = |slot| {
        let n = blocks(slot);
        let mut io = vec![cell(Origin::BlockBitmap, Op::Write, n, n * 4096, 500)];
        io.extend(more(slot));
        member(slot, io)
    };
    let mut array = array((0..12).map(of).collect());
    array.info.name = "md0".to_owned();
    snapshot(array)
}

fn none(_: usize) -> Vec<Cell> {
    Vec::new()
}

fn ids(machine: &Machine, snapshot: &Snapshot) -> Vec<&'static str> {
    let (_, found) = compare(&machine.facts(), snapshot);
    found.iter().map(|f| f.id).collect()
}

#[test]
fn the_load_shows_what_the_layout_predicts() {
    let machine = Machine::new("raid0", 12, None);
    let on_three = |slot: usize| if slot.is_multiple_of(4) { 490 } else { 0 };
    let (live, found) = compare(&machine.facts(), &seen(on_three, none));
    assert_eq!(live.rows.len(), 1);
    let row = &live.rows[0];
    assert!(
        (row.observed - 4.0).abs() < 0.01 && (row.predicted - 4.0).abs() < 0.1,
        "{row:?}"
    );
    assert_eq!(row.busiest(), ["loop1", "loop5", "loop9"]);
    assert_eq!(found.len(), 1, "{found:?}");
    // 490 requests in the fixture's second are 98 % busy; the others idle.
    assert_eq!(
        (found[0].id, found[0].severity),
        ("live-skew", Severity::Warning)
    );
    let calm = |slot: usize| if slot.is_multiple_of(4) { 90 } else { 0 };
    let (_, found) = compare(&machine.facts(), &seen(calm, none));
    assert_eq!(
        (found[0].id, found[0].severity),
        ("live-skew", Severity::Info)
    );
}

/// The tables of the first case go round all members; their heads do not.
#[test]
fn of_inode_tables_the_heads_count() {
    let machine = Machine::new("raid0", 12, None);
    let table = |slot: usize| {
        let n = if slot.is_multiple_of(4) { 90 } else { 0 };
        vec![cell(Origin::InodeTable, Op::Write, n, n * 4096, 500)]
    };
    assert_eq!(ids(&machine, &seen(|_| 0, table)), ["live-skew"]);
}

#[test]
fn an_even_load_on_an_even_layout_is_no_news() {
    let machine = Machine::new("raid0", 12, Some(32744));
    assert!(ids(&machine, &seen(|slot| 90 + slot as u64, none)).is_empty());
    // Too few to judge.
    assert!(ids(&machine, &seen(|slot| if slot == 3 { 90 } else { 0 }, none)).is_empty());
}

#[test]
fn a_few_groups_are_not_the_layout() {
    let machine = Machine::new("raid0", 12, Some(32744));
    let (_, found) = compare(
        &machine.facts(),
        &seen(|slot| if slot == 3 { 900 } else { 1 }, none),
    );
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].id, found[0].severity),
        ("live-disagrees", Severity::Info)
    );
}

#[test]
fn writes_where_there_is_nothing() {
    let machine = Machine::new("raid0", 12, None);
    let (_, found) = compare(&machine.facts(), &seen(|_| 100, none));
    assert_eq!(
        (found[0].id, found[0].severity),
        ("live-disagrees", Severity::Warning)
    );
    assert!(
        found[0].title.contains("where the layout has none"),
        "{}",
        found[0].title
    );
}

#[test]
fn a_hot_bitmap() {
    let machine = Machine::raid6();
    let with = |bitmap: u64| {
        seen(
            |_| 0,
            move |_| {
                vec![
                    cell(Origin::MdBitmap, Op::Write, bitmap, bitmap * 4096, 900),
                    cell(Origin::FileData, Op::Write, 500, 500 * 4096, 900),
                ]
            },
        )
    };
    assert_eq!(ids(&machine, &with(500)), ["bitmap-hot"]);
    assert!(ids(&machine, &with(50)).is_empty());
    let busy = Machine::raid6().with("file sys/block/md0/md/sync_action check");
    let (_, found) = compare(&busy.facts(), &with(500));
    assert!(found[0].commands.is_empty());
}
