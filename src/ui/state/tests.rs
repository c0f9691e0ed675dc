use super::{Action, Overlay, State, View};
use crate::analysis::fixture;
use crate::origin::{Op, Origin};
use crate::ui::keys::Key;
use crate::ui::rows::{Column, Measure};
use proptest::prelude::*;
use std::time::Duration;

fn start() -> State {
    let mut state = State::new(Duration::from_secs(1));
    state.observe(&fixture::raid0(12));
    state
}

/// The state after these keys: `<` and `>` are Left and Right, `^` and `v` Up and Down, `\t` Tab, `\n` Enter.
fn after(keys: &str) -> (State, Action) {
    let mut state = start();
    let mut action = Action::Nothing;
    for c in keys.chars() {
        action = state.on_key(match c {
            '<' => Key::Left,
            '>' => Key::Right,
            '^' => Key::Up,
            'v' => Key::Down,
            '\t' => Key::Tab,
            '\n' => Key::Enter,
            '\x1b' => Key::Esc,
            c => Key::Char(c),
        });
        state.observe(&fixture::raid0(12));
    }
    (state, action)
}

#[test]
fn views() {
    for (keys, view) in [
        ("", View::Members),
        ("\t", View::Matrix),
        ("\t\t\t\t\t\t", View::Members),
        ("3", View::Tasks),
        ("31", View::Members),
        ("4", View::Latency),
        ("5", View::Files),
        ("6", View::Amplification),
        ("29", View::Matrix),
    ] {
        assert_eq!(after(keys).0.view, view, "{keys:?}");
    }
    let mut state = start();
    state.on_key(Key::BackTab);
    assert_eq!(state.view, View::Amplification);
}

#[test]
fn rows_stay_inside() {
    assert_eq!(after("vv^").0.row(), 1);
    assert_eq!(after("^").0.row(), 0);
    assert_eq!(after(&"v".repeat(99)).0.row(), 11);
    let mut state = start();
    state.on_key(Key::End);
    assert_eq!(state.row(), 11);
    state.observe(&fixture::raid0(1));
    assert_eq!(state.row(), 0);
    state.observe(&fixture::raid0(0));
    assert_eq!(state.row(), 0);
}

#[test]
fn every_view_keeps_its_place() {
    assert_eq!(after("vvv2v1").0.row(), 3);
    assert_eq!(after("ss2s1").0.sort(), (Column::Reads, false));
}

#[test]
fn sorting() {
    for (keys, sort) in [
        ("", (Column::Slot, false)),
        ("s", (Column::Name, false)),
        (">>>", (Column::Writes, false)),
        ("<", (Column::P99, false)),
        ("<S", (Column::P99, true)),
        ("SSs", (Column::Name, false)),
        ("4", (Column::DeviceP99, false)),
        ("2s", (Column::Skew, false)),
    ] {
        assert_eq!(after(keys).0.sort(), sort, "{keys:?}");
    }
}

#[test]
fn heat_map_moves_sideways() {
    assert_eq!(after("2>>").0.member, 2);
    assert_eq!(after(&format!("2{}", ">".repeat(50))).0.member, 11);
}

#[test]
fn filters() {
    assert_eq!(after("o").0.filter.op, Some(Op::Read));
    assert_eq!(after("oo").0.filter.op, Some(Op::Write));
    assert_eq!(after("ooo").0.filter.op, None);
    assert_eq!(after("fvv\n").0.filter.origin, Some(Origin::BlockBitmap));
    assert_eq!(after("fvv\nf").0.overlay, Overlay::Origins(2));
    assert_eq!(after("fvv\nf^^\n").0.filter.origin, None);
    assert_eq!(after("fvv\x1b").0.filter.origin, None);
    assert_eq!(after("fvv\nox").0.filter, Default::default());
}

#[test]
fn what_the_loop_must_do() {
    let half = Duration::from_millis(500);
    for (keys, action) in [
        ("q", Action::Quit),
        ("\x1b", Action::Quit),
        ("?", Action::Draw),
        ("?\x1b", Action::Draw),
        ("f\x1b", Action::Draw),
        ("fq", Action::Draw),
        ("-", Action::Interval(half)),
        ("+", Action::Interval(Duration::from_secs(2))),
        ("-----", Action::Nothing),
        ("z", Action::Nothing),
    ] {
        assert_eq!(after(keys).1, action, "{keys:?}");
    }
    let mut state = after("f").0;
    assert_eq!(state.on_key(Key::Interrupt), Action::Quit);
}

#[test]
fn switches() {
    assert!(after("p").0.paused);
    assert!(!after("p ").0.paused);
    assert_eq!(after("m").0.measure, Measure::Bytes);
    assert_eq!(after("?").0.overlay, Overlay::Help(0));
    assert_eq!(after("?vv^").0.overlay, Overlay::Help(1));
    assert_eq!(after("?^").0.overlay, Overlay::Help(-1));
    assert_eq!(after("?z").0.overlay, Overlay::None);
}

#[test]
fn arrays() {
    let mut two = fixture::raid0(12);
    two.arrays.push(two.arrays[0].clone());
    let mut state = start();
    state.observe(&two);
    for (key, array) in [('a', 1), ('a', 0), ('[', 1), (']', 0)] {
        state.on_key(Key::Char(key));
        assert_eq!(state.array, array, "{key}");
    }
    state.on_key(Key::Char('a'));
    two.arrays.clear();
    state.observe(&two);
    assert_eq!(state.array, 0);
}

proptest! {
    #[test]
    fn no_keys_panic(keys in prop::collection::vec(prop_oneof![
        Just(Key::Up), Just(Key::Down), Just(Key::Left), Just(Key::Right), Just(Key::PageDown), Just(Key::End),
        Just(Key::Tab), Just(Key::Enter), Just(Key::Esc),
        prop::sample::select("sSofxmp+-a[]?1234q".chars().collect::<Vec<_>>()).prop_map(Key::Char),
    ], 0..40), sizes in prop::collection::vec(0usize..14, 1..4)) {
        let snapshots: Vec<_> = sizes.iter().map(|&n| fixture::raid0(n)).collect();
        let mut state = State::new(Duration::from_secs(1));
        for (i, key) in keys.into_iter().enumerate() {
            state.on_key(key);
            state.observe(&snapshots[i % snapshots.len()]);
            prop_assert!(state.row() == 0 || state.row() < state.known.rows);
        }
    }
}
