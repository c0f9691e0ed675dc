use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::{VIEWS, draw};
use crate::analysis::slow::fixture::interval;
use crate::analysis::slow::history;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::commands::slow::state::SlowScreenState;
use crate::recording::slow::SlowInterval;
use crate::ui::keys::Key;
use crate::ui::palette::{Depth, Palette};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];

fn key(c: char) -> Key {
    match c {
        'j' => Key::Down,
        '\n' => Key::Enter,
        c => Key::Char(c),
    }
}

/// Presses `keys` and returns the screen as text.
fn drawn(snapshot: Option<&SlowSnapshot>, keys: &str, (columns, lines): (u16, u16)) -> String {
    let mut state = SlowScreenState::new(VIEWS.len(), Duration::from_secs(1));
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    let mut put = |state: &SlowScreenState| {
        terminal.draw(|frame| draw(frame, state, snapshot, Palette::new(Depth::Indexed))).unwrap();
    };
    put(&state);
    for c in keys.chars() {
        state.on_key(key(c));
        put(&state);
    }
    let buffer = terminal.backend().buffer();
    let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..lines).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[test]
fn every_view_at_every_size() {
    let (slow, none) = (interval(), SlowSnapshot::default());
    for (i, view) in VIEWS.iter().enumerate() {
        for size in SIZES {
            let mut sheet = String::new();
            for (name, snapshot) in
                [("slow", Some(&slow)), ("none", Some(&none)), ("waiting", None)]
            {
                sheet.push_str(&format!("--- {name}\n"));
                sheet.push_str(&drawn(snapshot, &(i + 1).to_string(), size));
            }
            insta::assert_snapshot!(format!("{}_{}x{}", view.0, size.0, size.1), sheet);
        }
    }
}

#[test]
fn the_waterfall_opens_and_closes() {
    let slow = interval();
    for size in SIZES {
        insta::assert_snapshot!(
            format!("open_{}x{}", size.0, size.1),
            drawn(Some(&slow), "\n", size)
        );
    }
    assert_eq!(drawn(Some(&slow), "\nx", (80, 24)), drawn(Some(&slow), "", (80, 24)));
    // Without operations there is no waterfall to open.
    assert!(drawn(Some(&SlowSnapshot::default()), "\n", (80, 24)).contains("none yet"));
}

#[test]
fn operations_that_have_not_ended_come_first() {
    let mut slow = interval();
    let open = crate::analysis::slow::fixture::unended();
    (slow.unended, slow.unended_count) = (vec![open], 1);
    for size in SIZES {
        let name = format!("unended_{}x{}", size.0, size.1);
        insta::assert_snapshot!(name, drawn(Some(&slow), "", size));
    }
}

/// Two intervals of `tests/lab/slow_databases.sh`, with commits of PostgreSQL and of MariaDB.
#[test]
fn commits_of_databases() {
    let mut slow = SlowSnapshot::default();
    for line in include_str!("databases.jsonl").lines() {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        let time: jiff::Timestamp = json["time"].as_str().unwrap().parse().unwrap();
        let interval = SlowInterval::parse(time.as_microsecond(), line).unwrap();
        history::add(&mut slow, &interval);
    }
    insta::assert_snapshot!("databases_80x24", drawn(Some(&slow), "j", (80, 24)));
}

#[test]
fn help_names_keys_and_notes() {
    let mut slow = interval();
    slow.notes =
        vec!["no reads: this kernel has no traceable function ext4_file_read_iter".to_owned()];
    insta::assert_snapshot!(drawn(Some(&slow), "?", (80, 40)));
}
