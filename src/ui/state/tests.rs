use super::{Overlay, ScreenAction, ScreenState};
use crate::analysis::fixture;
use crate::origin::{Op, Origin};
use crate::ui::keys::Key;
use crate::ui::rows::Measure;
use proptest::prelude::*;
use std::time::Duration;

fn start() -> ScreenState {
    let mut state = ScreenState::new(6, Duration::from_secs(1));
    state.observe(&fixture::raid0(12));
    state
}

/// The state after these keys: `<` and `>` are Left and Right, `^` and `v` Up and Down, `\t` Tab,
/// `\n` Enter.
fn after(keys: &str) -> (ScreenState, ScreenAction) {
    let mut state = start();
    let mut action = ScreenAction::Nothing;
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
fn arrow_keys_select_a_member_or_a_sort_column() {
    let mut state = start();
    state.tabs.set_drawn_sort(Some((0, 3))); // column 0 of 3
    state.on_key(Key::Right);
    assert_eq!((state.member, state.tabs.sort(0)), (0, (Some(1), false)));
    state.selects_member.set(true);
    for (key, member) in [(Key::Right, 1), (Key::Left, 0), (Key::Left, 0)] {
        state.on_key(key);
        assert_eq!(state.member, member);
    }
    for _ in 0..50 {
        state.on_key(Key::Right);
    }
    assert_eq!((state.member, state.tabs.sort(0)), (11, (Some(1), false)));
    state.on_key(Key::Char('s'));
    assert_eq!(state.tabs.sort(0).0, Some(1));
    state.observe(&fixture::raid0(3));
    assert_eq!(state.member, 2);
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
fn keys_return_actions() {
    let half = Duration::from_millis(500);
    for (keys, action) in [
        ("q", ScreenAction::Quit),
        ("\x1b", ScreenAction::Quit),
        ("?", ScreenAction::Draw),
        ("?\x1b", ScreenAction::Draw),
        ("f\x1b", ScreenAction::Draw),
        ("fq", ScreenAction::Draw),
        ("-", ScreenAction::Interval(half)),
        ("+", ScreenAction::Interval(Duration::from_secs(2))),
        ("-----", ScreenAction::Nothing),
        ("z", ScreenAction::Nothing),
    ] {
        assert_eq!(after(keys).1, action, "{keys:?}");
    }
    let mut state = after("f").0;
    assert_eq!(state.on_key(Key::Interrupt), ScreenAction::Quit);
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
        Just(Key::Up), Just(Key::Down), Just(Key::Left), Just(Key::Right), Just(
            Key::PageDown,
        ), Just(Key::End),
        Just(Key::Tab), Just(Key::Enter), Just(Key::Esc),
        prop::sample::select("sSofxmp+-a[]?1234q".chars().collect::<Vec<_>>()).prop_map(Key::Char),
    ], 0..40), sizes in prop::collection::vec(0usize..14, 1..4)) {
        let snapshots: Vec<_> = sizes.iter().map(|&n| fixture::raid0(n)).collect();
        let mut state = ScreenState::new(6, Duration::from_secs(1));
        for (i, key) in keys.into_iter().enumerate() {
            state.on_key(key);
            state.observe(&snapshots[i % snapshots.len()]);
            state.tabs.set_rows(sizes[i % sizes.len()]);
            prop_assert!(state.member == 0 || state.member < state.known.members);
        }
    }
}
