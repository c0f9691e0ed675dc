use std::time::Duration;

use super::{VIEWS, draw};
use crate::analysis::alloc::{AllocSnapshot, FigureSource, figures, fixture};
use crate::commands::alloc::state::AllocScreenState;
use crate::ui::keys::Key;
use crate::ui::palette::{Depth, Palette};
use crate::ui::text::{is_hidden, width};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];

fn key(c: char) -> Key {
    match c {
        'j' => Key::Down,
        'k' => Key::Up,
        'h' => Key::Left,
        'l' => Key::Right,
        'G' => Key::End,
        'g' => Key::Home,
        '\t' => Key::Tab,
        '\n' => Key::Enter,
        c => Key::Char(c),
    }
}

fn screen(shown: &AllocSnapshot, keys: &str, (columns, lines): (u16, u16), depth: Depth) -> Buffer {
    let mut state = AllocScreenState::new(VIEWS.len(), Duration::from_secs(1));
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    let mut put = |state: &AllocScreenState| {
        terminal.draw(|frame| draw(frame, state, Some(shown), Palette::new(depth))).unwrap();
    };
    state.observe(shown);
    put(&state);
    for c in keys.chars() {
        state.on_key(key(c));
        state.observe(shown);
        put(&state);
    }
    terminal.backend().buffer().clone()
}

/// Text of the screen, without the spaces at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += (width(symbol) as u16).max(1);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn drawn(shown: &AllocSnapshot, keys: &str, size: (u16, u16)) -> String {
    text(&screen(shown, keys, size, Depth::Indexed))
}

fn all() -> [(&'static str, AllocSnapshot); 5] {
    [
        ("linear", fixture::linear()),
        ("healthy", fixture::healthy()),
        ("degraded", fixture::degraded()),
        ("empty", fixture::empty()),
        ("huge", fixture::huge()),
    ]
}

#[test]
fn every_view_at_every_size() {
    for (i, view) in VIEWS.iter().enumerate() {
        for size in SIZES {
            let mut sheet = String::new();
            for (name, shown) in all() {
                sheet.push_str(&format!("--- {name}\n"));
                sheet.push_str(&drawn(&shown, &(i + 1).to_string(), size));
            }
            insta::assert_snapshot!(format!("{}_{}x{}", view.0, size.0, size.1), sheet);
        }
    }
}

#[test]
fn help_and_special_screens() {
    let (linear, cold) = (fixture::linear(), fixture::cold());
    insta::assert_snapshot!("help", drawn(&linear, "?", (80, 24)));
    insta::assert_snapshot!("help_with_notes", drawn(&fixture::degraded(), "?", (80, 24)));
    insta::assert_snapshot!("help_40x10", drawn(&linear, "?", (40, 10)));
    // `j` scrolls down: the last note is reachable on the smallest screen.
    let mut noted = fixture::degraded();
    noted.notes = (0..9).map(|i| format!("note {i}: {}", "x ".repeat(60))).collect();
    let lines: Vec<String> = (0..140)
        .step_by(5)
        .map(|n| drawn(&noted, &format!("?{}", "j".repeat(n)), (40, 10)))
        .collect();
    assert!(lines.iter().any(|s| s.contains("note 8")) && lines[27].contains("none: "));
    insta::assert_snapshot!("paused", drawn(&linear, "p", (80, 24)));
    insta::assert_snapshot!("cold", drawn(&cold, "", (80, 24)));
    insta::assert_snapshot!("livelock", drawn(&fixture::livelock(), "", (80, 24)));
    insta::assert_snapshot!("second", drawn(&fixture::huge(), "a3jj", (80, 24)));
    let tiny = drawn(&linear, "", (39, 9));
    assert!(tiny.starts_with("too small: 39x9, needs 40x10"), "{tiny}");
    let mut none = fixture::empty();
    none.filesystems.clear();
    let text = drawn(&none, "", (80, 24));
    assert!(text.starts_with("no ext4 filesystem is left"), "{text}");
}

#[test]
fn figures_that_are_not_counted_are_not_zero() {
    let mut s = fixture::empty();
    for figure in [figures::REQUESTS, figures::LATENCY, figures::DISCARDS] {
        s.sources.insert(figure, FigureSource::None);
    }
    let overview = drawn(&s, "1", (80, 24));
    assert!(overview.contains("allocations are not counted (see the notes)"), "{overview}");
    assert!(!overview.contains("nothing was allocated"), "{overview}");
    let line = overview.lines().find(|l| l.starts_with("allocations"));
    assert!(line.is_some_and(|l| l.ends_with("not known here")), "{overview}");
}

#[test]
fn differing_counts_add_a_note() {
    let [same, differs] = [false, true].map(fixture::counted_twice);
    let screen = drawn(&differs, "1", (120, 40));
    assert!(screen.contains("1 note: ?") && screen.contains("more than 20 % apart"), "{screen}");
    let screen = drawn(&same, "1", (120, 40));
    assert!(
        !screen.contains("note: ?") && screen.contains("ext4 itself counts 9,163,644"),
        "{screen}"
    );
    let help = drawn(&differs, "?", (120, 40));
    for words in [
        "md3: 9,163,644 groups considered by the hook's count (fentry), 4,581,822",
        "ext4's own (mb_stats), in 120 searches",
    ] {
        assert!(help.contains(words), "{help}");
    }
}

#[test]
fn each_filesystem_has_its_own_source_of_free_extents() {
    let mut s = fixture::linear();
    s.sources.insert(figures::FRAGMENTATION, FigureSource::MbStructs);
    let linear = drawn(&s, "2G", (80, 24));
    assert!(!linear.contains("groups in memory"), "{linear}");
    let mut s = fixture::healthy();
    s.sources.insert(figures::FRAGMENTATION, FigureSource::MbGroups);
    let healthy = drawn(&s, "2G", (80, 24));
    assert!(healthy.contains("groups in memory"), "{healthy}");
}

#[test]
fn scrolling_stops_at_the_last_line() {
    let shown = fixture::linear();
    let bottom = drawn(&shown, "2G", (80, 24));
    assert!(bottom.contains("groups by their largest free extent"), "{bottom}");
    let down = format!("2{}", "j".repeat(200));
    assert_eq!(drawn(&shown, &down, (80, 24)), bottom);
    // The first key up scrolls at once.
    assert_ne!(drawn(&shown, &format!("{down}k"), (80, 24)), bottom);
    assert_eq!(drawn(&shown, "2Gg", (80, 24)), drawn(&shown, "2", (80, 24)));
}

#[test]
fn keys_that_change_the_interval() {
    use crate::ui::state::ScreenAction;
    let mut state = AllocScreenState::new(VIEWS.len(), Duration::from_secs(1));
    let two = ScreenAction::Interval(Duration::from_secs(2));
    assert_eq!(state.on_key(Key::Char('+')), two);
    assert_eq!(state.on_key(Key::Char('-')), ScreenAction::Interval(Duration::from_secs(1)));
    assert_eq!(state.on_key(Key::Interrupt), ScreenAction::Quit);
    assert_eq!(state.on_key(Key::Char('9')), ScreenAction::Nothing);
}

#[test]
fn no_color_draws_the_same_text_without_a_colour() {
    for keys in ["", "2", "3", "4", "5", "?"] {
        let shown = fixture::linear();
        let plain = screen(&shown, keys, (80, 24), Depth::None);
        assert_eq!(text(&plain), drawn(&shown, keys, (80, 24)));
        for cell in plain.content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{keys}");
        }
    }
}

#[test]
fn untrusted_text_is_sanitized_at_every_size() {
    let mut evil = fixture::huge();
    let name = "\x1b]0;x\x07\u{202e}\u{9b}31m\n".to_owned();
    let fs = &mut evil.filesystems[0];
    fs.name.clone_from(&name);
    fs.tasks[0].role = Some(name.clone());
    fs.members = vec![(name.clone(), 9, 9, fixture::hist(&[(9, 9)]))];
    fs.reason.as_mut().unwrap().sentence.clone_from(&name);
    fs.reason.as_mut().unwrap().commands = vec![name.clone()];
    fs.reason.as_mut().unwrap().rule = Some(name.clone());
    fs.reason.as_mut().unwrap().risk = Some(name.clone());
    evil.criteria = vec![name.clone(); 5];
    evil.cpu.as_mut().unwrap().hottest = Some((name.clone(), 9));
    let mut shown: Vec<AllocSnapshot> = all().into_iter().map(|s| s.1).collect();
    shown.push(evil);
    for shown in &shown {
        for keys in ["", "2G", "3G", "4jj", "5G", "?", "a2", "p"] {
            for size in [
                (0, 0),
                (1, 1),
                (39, 10),
                (40, 9),
                (40, 10),
                (57, 13),
                (80, 17),
                (80, 24),
                (300, 100),
            ] {
                for cell in screen(shown, keys, size, Depth::Eight).content() {
                    let odd = |c: char| c.is_control() || is_hidden(c);
                    assert!(!cell.symbol().contains(odd), "{keys} {size:?}");
                }
            }
        }
    }
}
