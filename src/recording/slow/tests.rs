use proptest::prelude::*;

use super::SlowInterval;
use crate::analysis::item::Item;
use crate::analysis::slow::event::{CommitState, OperationKind};
use crate::analysis::slow::fixture;
use crate::analysis::slow::phase::Phase;
use crate::analysis::slow::snapshot::SlowSnapshot;

fn json(snapshot: &SlowSnapshot) -> String {
    match SlowInterval::item(snapshot).unwrap() {
        Item::Slow { json, .. } => json,
        other => panic!("{other:?}"),
    }
}

fn again(snapshot: &SlowSnapshot) -> SlowSnapshot {
    SlowInterval::parse(snapshot.time.as_microsecond(), &json(snapshot)).unwrap()
}

/// An interval with everything that a screen shows.
fn full() -> SlowSnapshot {
    let mut s = fixture::interval();
    s.clock_ns = 5_000 * fixture::MS;
    s.lost.slots = 3;
    s.lost.missed = 2;
    s.lost.ios = 4;
    s.notes.push("a note".to_owned());
    (s.unended, s.unended_count) = (vec![fixture::unended()], 7);
    s
}

#[test]
fn written_intervals_are_read_back() {
    let s = full();
    let read = again(&s);
    assert_eq!(json(&read), json(&s));
    assert_eq!(read.operations[0].waterfall, s.operations[0].waterfall);
    assert_eq!((read.lost, &read.kinds), (s.lost, &s.kinds));
    assert_eq!(read.unended[0].waterfall, s.unended[0].waterfall);
    assert!(read.unended[0].unended && !read.operations[0].unended);
    let (a, b) = (&read.operations[0].operation, &s.operations[0].operation);
    assert_eq!((a.total_ns(), &a.task, a.file), (b.total_ns(), &b.task, b.file));
    assert_eq!(read.wall(a.start_ns), s.wall(b.start_ns));
    let (a, b) = (&read.commits[0], &s.commits[0]);
    let length = |c: &crate::analysis::slow::event::Commit| {
        c.reached(CommitState::Ended).unwrap() - c.reached(CommitState::Locked).unwrap()
    };
    assert_eq!(length(a), length(b));
    assert_eq!(read.wall(a.start_ns().unwrap()), s.wall(b.start_ns().unwrap()));
}

#[test]
fn a_sync_of_all_filesystems_has_no_device() {
    let mut s = full();
    let op = &mut s.operations[0].operation;
    (op.kind, op.file, op.dev) = (OperationKind::Sync, None, 0);
    let read = again(&s);
    assert_eq!((read.operations[0].operation.file, read.operations[0].operation.dev), (None, 0));
    assert_eq!(json(&read), json(&s));
}

#[test]
fn a_device_without_a_name_keeps_its_number() {
    let mut s = full();
    let part = s.operations[0].waterfall.parts.get_mut(&Phase::CommitFlush).unwrap();
    part.culprit.member = Some((253 << 20 | 7, 1000));
    let read = again(&s);
    let part = &read.operations[0].waterfall.parts[&Phase::CommitFlush];
    assert_eq!(part.culprit.member, Some((253 << 20 | 7, 1000)));
}

#[test]
fn the_shortest_operations_of_a_long_interval_are_dropped() {
    let mut s = full();
    let mut long = s.operations[0].clone();
    long.operation.task.comm = vec![b'x'; 4096];
    s.operations = vec![long; 10_000];
    let read = again(&s);
    assert_eq!(read.operations.len() as u64 + read.lost.tables, 10_000);
    assert!(read.operations.len() >= 1250, "{}", read.operations.len());
}

#[test]
fn invalid_intervals_are_rejected_with_a_reason() {
    let good = json(&full());
    for (old, new, why) in [
        ("{", "[", "expected"),
        ("raidtrace.slow/1", "raidtrace.top/1", "raidtrace.top/1"),
        ("\"interval_s\":1.0", "\"interval_s\":-1", "interval_s is -1"),
        ("\"op\":\"fsync\"", "\"op\":\"fsnyc\"", "unknown variant `fsnyc`"),
        ("\"start\":\"", "\"start\":\"x", "is not a time"),
        ("\"md127\":\"9:127\"", "\"md127\":\"9\"", "\"9\" is not a device number"),
        ("\"filesystem\":\"md127\"", "\"filesystem\":\"md1\"", "\"md1\" has no number"),
        ("\"phase\":\"commit_flush\"", "\"phase\":\"tea\"", "tea"),
    ] {
        let bad = good.replacen(old, new, 1);
        assert_ne!(bad, good, "{old}");
        let error = SlowInterval::parse(0, &bad).unwrap_err();
        assert!(error.contains(why), "{new}: {error}");
    }
    let error =
        SlowInterval::parse(0, &" ".repeat(crate::recording::interval::MAX_BYTES + 1)).unwrap_err();
    assert_eq!(error, "more than 32 MiB of JSON");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn damaged_text_does_not_panic(
        at in any::<prop::sample::Index>(),
        with in "[0-9\"{}\\[\\]:,a-z-]{0,6}",
        cut in 0usize..8,
    ) {
        let good = json(&full());
        let at = at.index(good.len());
        let mut bad = good.clone().into_bytes();
        let end = (at + cut).min(bad.len());
        bad.splice(at..end, with.into_bytes());
        if let Ok(text) = String::from_utf8(bad)
            && let Ok(read) = SlowInterval::parse(
                i64::MAX,
                &text,
            ).or_else(|_| SlowInterval::parse(0, &text))
        {
            // Everything that was read can be displayed.
            for slow in &read.operations {
                let _ = crate::analysis::slow::sentence::sentence(slow, &read.names);
            }
            let _ = json(&read);
        }
    }
}

#[test]
fn schema() {
    crate::test_schema::check::<SlowInterval>("raidtrace.slow/1");
}
