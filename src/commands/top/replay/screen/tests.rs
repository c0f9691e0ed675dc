use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::TopPlayback;
use crate::commands::top::replay::demo::INCIDENTS;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::source::IntervalReader;
use crate::ui::batch;
use crate::ui::keys::Key;
use crate::ui::palette::{Depth, Palette};
use crate::ui::player::Playback as _;
use crate::ui::state::{Replay, ReplayState, ScreenAction, ScreenState};
use crate::ui::view;

/// A screen and its recording, without the threads between them.
struct Player {
    recording: TopPlayback,
    state: ScreenState,
}

impl Player {
    fn update(&mut self) {
        self.state.set_position(self.recording.position());
        self.state.observe(&self.recording.shown().unwrap());
    }

    fn time_us(&self) -> i64 {
        self.recording.time_us()
    }

    fn replay(&self) -> &ReplayState {
        self.state.replay.as_ref().unwrap()
    }

    fn message(&self) -> String {
        self.replay().position.message.clone().unwrap()
    }
}

fn player(bytes: &'static [u8]) -> Player {
    let reader =
        Reader::new(Box::new(Cursor::new(bytes)), Path::new("demo"), WantedColumns::Figures);
    let interval = Duration::from_secs(1);
    let source = IntervalReader::new(reader.unwrap(), interval, Box::new(|| None));
    let mut state = ScreenState::new(view::VIEWS.len(), interval);
    state.replay = Some(ReplayState::default());
    let mut player = Player { recording: TopPlayback::new(source, interval), state };
    player.recording.step().unwrap();
    player.update();
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
        assert_ne!(action, ScreenAction::Quit);
        if let ScreenAction::Replay(request) = action {
            player.recording.act(request, &mut |_| false).unwrap();
        }
        player.update();
    }
}

fn drawn(player: &Player, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let palette = Palette::new(Depth::None);
    terminal
        .draw(|frame| view::draw(frame, &player.state, player.recording.shown.as_deref(), palette))
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
fn keys_step_forwards_and_backwards() {
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
fn stepping_back_from_the_end() {
    let (player, last) = after("}}}}}}}}");
    assert!(player.replay().position.ended);
    let (player, before) = after("}}}}}}}}<");
    assert!(!player.replay().position.ended);
    assert!(before < last && before > last - 3_000_000);
}

#[test]
fn t_seeks_to_a_time() {
    let (_, first) = after("");
    let (_, there) = after("t+8\n");
    assert!((first + 6_900_000..first + 8_500_000).contains(&there), "{}", there - first);
    assert_eq!(after("}t+2\n").1, after("t+2\n").1);
    let (player, here) = after("tnoon\n");
    assert_eq!(here, first);
    let message = player.message();
    assert!(message.contains("'noon' is not a time"), "{message}");
    // While a time is being typed, letters are not commands.
    assert_eq!(after("tq?n").0.state.replay.unwrap().typed.as_deref(), Some("q?n"));
}

#[test]
fn n_finds_the_next_hot_spot() {
    let (player, found) = after("n");
    assert!(!player.recording.hotspots().is_empty());
    assert!(found > after("").1);
    let (back, before) = after("}N");
    assert!(before <= after("}").1);
    assert!(!back.recording.hotspots().is_empty() || back.replay().position.message.is_some());
    let (player, _) = after("}}}}}}}}n");
    let message = player.message();
    assert!(message.contains("no other hot spot"), "{message}");
}

#[test]
fn plus_and_minus_change_the_speed() {
    let (player, _) = after("++");
    assert_eq!(player.state.speed(), Some(5.0));
    assert_eq!(after("+++++++++++++").0.state.speed(), Some(1000.0));
    assert_eq!(after("-").0.state.speed(), Some(0.5));
    assert_eq!(after("p").0.state.speed(), None);
    assert_eq!(after("t").0.state.speed(), None);
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

/// What `raidtrace demo` shows: the first seconds with the cause.
#[test]
fn screens_of_the_demo() {
    let mut player = player(INCIDENTS[0].recording().unwrap().leak());
    press(&mut player, ">>>>>>>>>");
    insta::assert_snapshot!("demo_80x24", drawn(&player, 80, 24));
    insta::assert_snapshot!("demo_120x40", drawn(&player, 120, 40));
}

/// The case of XFS, while it is busiest.
#[test]
fn screens_of_xfs() {
    let recording = zstd::decode_all(&include_bytes!("../xfs.rtrace.zst")[..]).unwrap();
    let mut player = player(recording.leak());
    press(&mut player, ">>>>>>>");
    insta::assert_snapshot!("xfs_80x24", drawn(&player, 80, 24));
    insta::assert_snapshot!("xfs_120x40", drawn(&player, 120, 40));
}

#[test]
fn every_view_marks_a_truncated_recording() {
    let whole: &'static [u8] = include_bytes!("../demo.rtrace");
    let mut player = player(&whole[..whole.len() * 3 / 4]);
    press(&mut player, "}}}}}}}}");
    for view in '1'..='6' {
        press(&mut player, &view.to_string());
        assert!(drawn(&player, 80, 24).contains("TAIL MISSING"));
    }
}

#[test]
fn a_key_ends_a_search() {
    for keys in ["n", "N", "t+8\n"] {
        let (mut player, _) = after("}}}");
        let before = player.time_us();
        let mut steps = 0;
        let request = match keys {
            "n" => Replay::Hotspot { forwards: true },
            "N" => Replay::Hotspot { forwards: false },
            _ => Replay::Time("+3600".to_owned()),
        };
        let key = &mut |_: Option<&TopPlayback>| {
            steps += 1;
            true
        };
        player.recording.act(request, key).unwrap();
        assert_eq!(steps, 1, "{keys}");
        let moved = player.time_us() - before;
        assert!((0..2_000_000).contains(&moved), "{keys}: {moved}");
    }
}

/// The recording of an incident, six seconds after its cause.
fn incident(name: &str) -> Player {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incidents/recorded");
    let causes = std::fs::read_to_string(folder.join("causes")).unwrap();
    let cause = causes.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let bytes = std::fs::read(folder.join(format!("{name}.rtrace"))).unwrap();
    let mut player = player(bytes.leak());
    let until_us = (cause.unwrap().parse::<f64>().unwrap() * 1e6) as i64 + 6_000_000;
    while player.time_us() < until_us && !player.replay().position.ended {
        press(&mut player, ">");
    }
    player
}

fn all_views(player: &mut Player, (columns, lines): (u16, u16)) -> String {
    let each = view::VIEWS.iter().enumerate().map(|(at, view)| {
        press(player, &(at + 1).to_string());
        let screen = drawn(player, columns, lines);
        let lines = screen.lines().map(|line| line.trim_matches('"').trim_end());
        let screen: String = lines.flat_map(|line| [line, "\n"]).collect();
        format!("=== {}\n{screen}\n", view.title)
    });
    each.collect()
}

/// `top --batch` and every view of every incident. The files are in tests/incidents/screens.
#[test]
fn views_of_recorded_incidents() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../../../tests/incidents/screens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _bound = settings.bind_to_scope();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incidents/recorded");
    let causes = std::fs::read_to_string(folder.join("causes")).unwrap();
    for name in causes.lines().filter_map(|line| line.split(' ').next()) {
        let mut player = incident(name);
        let shown = player.recording.shown().unwrap();
        let headline = shown.arrays[0].hotspot.as_ref().map_or("", |h| &h.headline[..]);
        let start: String = headline.chars().take(30).collect();
        let mut batch = Vec::new();
        batch::write(&mut batch, &shown).unwrap();
        let views = all_views(&mut player, (80, 24));
        // All views begin with the same sentence.
        for view in views.split("\n=== ") {
            assert!(view.contains(&start), "{name}: {headline}\n{view}");
        }
        insta::assert_snapshot!(name, String::from_utf8(batch).unwrap() + "\n" + &views);
    }
}

/// Twelve members on large and small screens.
#[test]
fn views_at_every_size() {
    for (columns, lines) in [(120, 40), (200, 50), (40, 12), (20, 5)] {
        let views = all_views(&mut incident("bitmaps-3-of-12"), (columns, lines));
        insta::assert_snapshot!(format!("views_{columns}x{lines}"), views);
    }
}
