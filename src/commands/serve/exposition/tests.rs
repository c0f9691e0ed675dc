use std::time::Duration;

use super::{FlightNow, MetricValues, Totals, open_metrics};
use crate::analysis::around::{Around, HungTask};
use crate::analysis::fail_slow::FailSlow;
use crate::analysis::fixture::{array, cell, member, raid0, snapshot};
use crate::analysis::verdict::{CauseKind, Severity, Verdict};
use crate::analysis::window::Window;
use crate::machine::ArrayState;
use crate::origin::{Op, Origin};

/// The metrics of one second of an array of four members, with every family. The simulated
/// hosts of tests/fleet_prometheus.rs answer with copies of this page.
#[test]
fn page_of_an_array() {
    let cells = |i: usize| {
        let mut io = vec![
            cell(Origin::FileData, Op::Read, 40, 40 * 16384, 900),
            cell(Origin::FileData, Op::Write, 24, 24 * 8192, 900),
        ];
        if i == 0 {
            io.push(cell(Origin::BlockBitmap, Op::Write, 16, 16 * 4096, 900));
        }
        io
    };
    let mut array = array((0..4).map(|i| member(i, cells(i))).collect());
    for cell in array.members.iter().flat_map(|m| &m.io) {
        *array.submitted.entry((cell.origin, cell.op)).or_default() += cell.bytes;
    }
    let mut snapshot = snapshot(array);
    Window::new(Duration::from_secs(10)).evaluate(&mut snapshot);
    let hung = vec![HungTask { ms: 250, ..HungTask::default() }];
    snapshot.arrays[0].around = Some(Around { hung, ..Around::default() });
    let mut verdict = Verdict::default();
    verdict.severity = Severity::Slow;
    verdict.waiting.us = 40_000;
    verdict.cause.kind = CauseKind::Member;
    snapshot.arrays[0].verdict = Some(verdict);
    let mut totals = Totals::default();
    totals.add(&snapshot, &snapshot, false);
    let name = snapshot.arrays[0].info.name.clone();
    totals.set_state(
        &name,
        Some(ArrayState {
            sync_action: Some("check".to_owned()),
            sync_completed: Some((1, 4)),
            ..ArrayState::default()
        }),
    );
    let slow = FailSlow { member: "loop3".to_owned(), op: Op::Read, ratio: 2.5, us: 9000.0 };
    totals.fail_slow.insert(name, slow);
    let mut flight = FlightNow::default();
    flight.bytes = Some(1 << 20);
    let values = MetricValues { totals, flight, ..MetricValues::default() };
    let text = open_metrics(values).unwrap();
    let build = |version, commit| format!("{{version=\"{version}\",commit=\"{commit}\"}}");
    let own = build(env!("CARGO_PKG_VERSION"), env!("RAIDTRACE_COMMIT"));
    insta::assert_snapshot!("page", text.replace(&own, &build("0", "")));
}

#[test]
fn label_values_are_escaped_once() {
    let mut snapshot = raid0(2);
    snapshot.arrays[0].tasks[0].comm = "a\"b\\c\x1b]0;x\x07\u{9b}31m\u{202e}\r".into();
    let mut totals = Totals::default();
    totals.add(&snapshot, &snapshot, true);
    let figures = MetricValues { totals, ..MetricValues::default() };
    let text = open_metrics(figures).unwrap();
    assert!(text.contains(r#"task="a\"b\\c\\x1b]0;x\\x07\\x9b31m"#), "{text}");
    let raw = |c: char| c != '\n' && (c.is_control() || crate::ui::text::is_hidden(c));
    assert!(!text.contains(raw), "{text}");
}
