use super::{Measure, RowFilter, caused, heat, latencies, legend, members, sort_by_causes, tasks};
use crate::analysis::fixture;
use crate::origin::{Op, Origin};

#[test]
fn a_filter_leaves_the_rest_out_and_parts_add_up() {
    let snapshot = fixture::raid0(12);
    let array = &snapshot.arrays[0];
    let filter = RowFilter { op: Some(Op::Write), origin: Some(Origin::BlockBitmap) };
    let rows = members(array, 2.0, filter, Measure::Requests);
    assert_eq!((rows[0].reads, rows[0].writes), (0.0, 121.0 / 2.0));
    assert_eq!(rows[0].bytes, 121.0 * 4096.0 / 2.0);
    assert_eq!(rows[2].parts, []);
    for row in members(array, 1.0, RowFilter::default(), Measure::Bytes) {
        let sum: f64 = row.parts.iter().map(|p| p.1).sum();
        assert!((sum - row.bytes).abs() < 1e-6);
    }
    assert_eq!(latencies(array, 1.0, filter).len(), 6);
    assert_eq!(tasks(array, 1.0, filter, Measure::Requests).len(), 1);
}

#[test]
fn heat_map() {
    let snapshot = fixture::raid0(12);
    let (rows, total) = heat(&snapshot.arrays[0], 1.0, RowFilter::default(), Measure::Requests);
    let bitmap = rows.iter().find(|r| r.origin == Some(Origin::BlockBitmap)).unwrap();
    assert_eq!(bitmap.each[..4], [121.0, 4.0, 0.0, 0.0]);
    assert!((bitmap.skew - 3.88).abs() < 0.1, "{}", bitmap.skew);
    assert_eq!(total.total, rows.iter().map(|r| r.total).sum::<f64>());
    let all = legend(
        members(&snapshot.arrays[0], 1.0, RowFilter::default(), Measure::Requests)
            .iter()
            .flat_map(|r| &r.parts),
    );
    assert_eq!(all[0].0, Origin::FileData);
}

#[test]
fn tasks_are_sorted_by_caused_bytes() {
    let order = |snapshot: &crate::analysis::snapshot::Snapshot| {
        let mut rows = tasks(&snapshot.arrays[0], 1.0, RowFilter::default(), Measure::Requests);
        sort_by_causes(&mut rows);
        let row = |r: &super::TaskRow<'_>| (r.comm.clone(), (r.causes / f64::from(1 << 20)) as u64);
        rows.iter().map(row).collect::<Vec<_>>()
    };
    // Without counts of dirtied bytes, tasks are sorted by submitted bytes.
    assert_eq!(order(&fixture::raid0(12))[0].0, "jbd2/md127-8");
    let causes = order(&fixture::dirtied());
    assert_eq!(causes[0], ("touch".to_owned(), 28));
    let jbd2 = causes.iter().find(|(comm, _)| comm == "jbd2/md127-8");
    assert_eq!(jbd2.unwrap().1, 0);
    // Data that fsync() submits was dirtied by the same task and counts once. Other tasks dirtied
    // the metadata that sync submits.
    let mut snapshot = fixture::dirtied();
    let tasks = &mut snapshot.arrays[0].tasks;
    let postgres = tasks.iter_mut().find(|t| t.comm == b"postgres").unwrap();
    let read: u64 = postgres.io.iter().filter(|i| i.op == Op::Read).map(|i| i.bytes).sum();
    let mut data = postgres.dirtied[1];
    data.bytes = 10 << 20;
    postgres.io.retain(|i| i.op == Op::Read);
    postgres.io.push(data);
    data.origin = Origin::InodeTable;
    postgres.io.push(data);
    assert_eq!(caused(postgres, RowFilter::default()), read + (11 << 20));
}
