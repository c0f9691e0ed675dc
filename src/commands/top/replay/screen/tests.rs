use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::Player;
use crate::recording::reader::{Reader, Wanted};
use crate::recording::source::Source;
use crate::ui::keys::Key;
use crate::ui::palette::{Depth, Palette};
use crate::ui::state::Action;
use crate::ui::view;

fn player(bytes: &'static [u8]) -> Player {
    let reader = Reader::new(
        Box::new(Cursor::new(bytes)),
        Path::new("demo"),
        Wanted::Figures,
    );
    let interval = Duration::from_secs(1);
    let source = Source::new(reader.unwrap(), interval, Box::new(|| None));
    let mut player = Player::new(source, interval);
    player.step().unwrap();
    player
}

fn demo() -> Player {
    player(include_bytes!("../demo.rtrace"))
}

fn press(player: &mut Player, keys: &str) {
    for c in keys.chars() {
        let key = match c {
            '>' => Key::Right,
            '<' => Key::Left,
            '}' => Key::PageDown,
            '{' => Key::PageUp,
            '\n' => Key::Enter,
            c => Key::Char(c),
        };
        let action = player.state.on_key(key);
        assert_ne!(action, Action::Quit);
        player.act(action).unwrap();
        while player.goal.is_some() {
            player.search().unwrap();
        }
    }
}

fn drawn(player: &Player, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let palette = Palette::new(Depth::None);
    terminal
        .draw(|frame| view::draw(frame, &player.state, player.shown.as_deref(), palette))
        .unwrap();
    terminal.backend().to_string()
}

fn after(keys: &str) -> (Player, i64) {
    let mut player = demo();
    press(&mut player, keys);
    let time = player.time_us();
    (player, time)
}

#[test]
fn one_steps_to_and_fro() {
    let (_, first) = after("");
    let (player, third) = after(">>");
    assert!(player.state.paused && third > first + 1_500_000);
    assert_eq!(after(">><").1, after(">").1);
    assert_eq!(after("}").1, after(">>>>>>>>>>").1);
    assert_eq!(after("}>{").1, after(">").1);
    assert_eq!(after("<<<").1, first);
    assert!(!after("  ").0.state.paused);
}

#[test]
fn the_end_is_the_end_and_one_can_leave_it() {
    let (player, last) = after("}}}}}}}}");
    assert!(player.state.replay.as_ref().unwrap().ended && player.is_still());
    let (player, before) = after("}}}}}}}}<");
    assert!(!player.state.replay.as_ref().unwrap().ended);
    assert!(before < last && before > last - 3_000_000);
}

#[test]
fn one_goes_to_a_moment() {
    let (_, first) = after("");
    let (_, there) = after("t+8\n");
    assert!(
        (first + 6_900_000..first + 8_500_000).contains(&there),
        "{}",
        there - first
    );
    assert_eq!(after("}t+2\n").1, after("t+2\n").1);
    let (player, here) = after("tnoon\n");
    assert_eq!(here, first);
    let said = player.state.replay.as_ref().unwrap().said.clone().unwrap();
    assert!(said.contains("'noon' is no time"), "{said}");
    // While one types, letters are no keys.
    assert_eq!(
        after("tq?n").0.state.replay.unwrap().typed.as_deref(),
        Some("q?n")
    );
}

#[test]
fn n_finds_the_next_hot_spot() {
    let (player, found) = after("n");
    assert!(!player.findings().is_empty());
    assert!(found > after("").1);
    let (back, before) = after("}N");
    assert!(before <= after("}").1);
    assert!(!back.findings().is_empty() || back.state.replay.unwrap().said.is_some());
    let (player, _) = after("}}}}}}}}n");
    let said = player.state.replay.as_ref().unwrap().said.clone().unwrap();
    assert!(said.contains("no other hot spot"), "{said}");
}

#[test]
fn speed() {
    let (player, _) = after("++");
    assert_eq!(player.state.replay.as_ref().unwrap().speed, 5.0);
    assert!(player.pace() < Duration::from_millis(500));
    assert_eq!(after("+++++++++++++").0.pace(), Duration::from_millis(20));
    assert_eq!(after("-").0.state.replay.unwrap().speed, 0.5);
}

#[test]
fn screens() {
    let mut player = demo();
    press(&mut player, "}");
    insta::assert_snapshot!("replay_80x24", drawn(&player, 80, 24));
    insta::assert_snapshot!("replay_120x40", drawn(&player, 120, 40));
    press(&mut player, "?");
    insta::assert_snapshot!("replay_help", drawn(&player, 80, 32));
    press(&mut player, "?t12:0");
    insta::assert_snapshot!("replay_typing", drawn(&player, 80, 12));
}

#[test]
fn a_tail_that_is_missing_is_told_in_every_view() {
    let whole: &'static [u8] = include_bytes!("../demo.rtrace");
    let mut player = player(&whole[..whole.len() * 3 / 4]);
    press(&mut player, "}}}}}}}}");
    for view in '1'..='6' {
        press(&mut player, &view.to_string());
        assert!(drawn(&player, 80, 24).contains("TAIL MISSING"));
    }
}
