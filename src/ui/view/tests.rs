use std::time::Duration;

use super::{VIEWS, draw};
use crate::analysis::around::DeviceIo;
use crate::analysis::figures::Counted;
use crate::analysis::files::Files;
use crate::analysis::fixture;
use crate::analysis::lost::Loss;
use crate::analysis::snapshot::Snapshot;
use crate::origin::{Op, Origin};
use crate::ui::keys::Key;
use crate::ui::palette::{Depth, Palette};
use crate::ui::state::ScreenState;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

const SIZES: [(u16, u16); 5] = [(80, 24), (120, 40), (200, 50), (40, 12), (20, 5)];

/// Key of the amplification view.
const AMPLIFICATION: &str = "6";

/// The screen after `keys` (Tab as `\t`).
fn screen(snapshot: &Snapshot, keys: &str, (columns, lines): (u16, u16), depth: Depth) -> Buffer {
    let mut state = ScreenState::new(VIEWS.len(), Duration::from_secs(1));
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    let mut put = |state: &ScreenState| {
        terminal.draw(|frame| draw(frame, state, Some(snapshot), Palette::new(depth))).unwrap();
    };
    state.observe(snapshot);
    put(&state);
    for c in keys.chars() {
        state.on_key(match c {
            'j' => Key::Down,
            'l' => Key::Right,
            'G' => Key::End,
            '\n' => Key::Enter,
            c => Key::Char(c),
        });
        state.observe(snapshot);
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
            x += (super::super::text::width(symbol) as u16).max(1);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn shown(snapshot: &Snapshot, keys: &str, size: (u16, u16)) -> String {
    text(&screen(snapshot, keys, size, Depth::Indexed))
}

#[test]
fn the_selected_member_shows_its_paths() {
    let mut snapshot = fixture::raid5();
    let path = |n, ms| DeviceIo { requests: [n, 0], ms: [n * ms, 0], ..DeviceIo::default() };
    let paths = [("nvme0c0n1", 600, 1), ("nvme0c1n1", 30, 120), ("nvme0c2n1", 0, 0)];
    let paths = paths.map(|(name, n, ms)| (name.to_owned(), path(n, ms)));
    let array = &mut snapshot.arrays[0];
    let member = array.members[0].name.clone();
    array.around.get_or_insert_default().paths.insert(member, paths.into());
    let text = shown(&snapshot, "1", (120, 40)).replace('\n', " ");
    let words = "nvme0c0n1 600/s in 1ms, nvme0c1n1 30/s in 120ms, nvme0c2n1 0/s in -;";
    assert!(text.contains(words), "{text}");
    assert!(!shown(&snapshot, "1j", (120, 40)).contains("nvme0c0n1"));
}

/// The files below a thin pool cannot be told: its volumes are shown, the busiest first.
#[test]
fn thin_volumes_are_in_the_files_view() {
    let mut snapshot = fixture::raid5();
    let array = &mut snapshot.arrays[0];
    array.files = Files::default();
    let io =
        |n| DeviceIo { requests: [n, 2 * n], bytes: [n << 20, n << 19], ..DeviceIo::default() };
    let volumes = [("vg-home", 4), ("vg-idle", 0), ("vg-pg\x1b[2J", 40)];
    array.around.get_or_insert_default().thin_volumes =
        volumes.map(|(name, n)| (name.to_owned(), io(n))).into();
    for size in [(80, 24), (40, 12)] {
        let text = shown(&snapshot, "5", size);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(at("no file data") < at("thin volume vg-pg\\x1b[2J: 40 r/s"), "{text}");
        assert!(!text.contains("vg-idle"));
    }
    let text = shown(&snapshot, "5", (80, 24));
    let words = ["[2J: 40 r/s 80 w/s 60.0 MiB/s", "vg-home: 4 r/s 8 w/s 6.00 MiB/s"];
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
}

#[test]
fn two_tasks_dirty_one_file() {
    let snapshot = fixture::dirtied();
    // Select postgres, which dirtied two files, and the second file, which two tasks dirtied.
    let all = [shown(&snapshot, "3j", (120, 40)), shown(&snapshot, "5j", (120, 40))].concat();
    insta::assert_snapshot!("dirtied_files", all);
}

#[test]
fn rows_of_a_level_with_parity_can_be_chosen() {
    let snapshot = fixture::raid5();
    for (name, keys) in [
        ("raid5_by_factor", "sjjj"),
        ("raid5_only_reads", "ol"),
        ("raid5_only_parity", "fjjjjjj\n"),
    ] {
        let keys = format!("{AMPLIFICATION}{keys}");
        insta::assert_snapshot!(name, shown(&snapshot, &keys, (80, 24)));
    }
}

#[test]
fn overlays_and_switches() {
    let snapshot = fixture::raid0(12);
    for (name, keys) in [
        ("help", "?"),
        ("origin_list", "fjj"),
        ("paused", "p"),
        ("only_writes_of_block_bitmap", "oofjj\n"),
        ("sorted_by_p99", "sssssssssjj"),
        ("heat_by_bytes", "2mjjllll"),
    ] {
        insta::assert_snapshot!(name, shown(&snapshot, keys, (80, 24)));
    }
    insta::assert_snapshot!("help_40x12", shown(&snapshot, "?", (40, 12)));
    insta::assert_snapshot!("idle", shown(&fixture::idle(12), "", (80, 24)));
}

/// Figures that are rarely counted have columns on a narrow screen, too, once there are any.
#[test]
fn counted_figures_are_shown_if_there_are_any() {
    let mut snapshot = fixture::raid0(12);
    assert!(!shown(&snapshot, "", (80, 24)).contains("requ/s"));
    let counted = Counted(std::array::from_fn(|at| [40, 80_000_000][at]));
    snapshot.arrays[0].members[3].counted.insert(Op::Write, counted);
    let screen = shown(&snapshot, "", (80, 24));
    assert!(screen.contains("requ/s") && screen.contains("requ t"), "{screen}");
    assert!(screen.contains("   40    2ms"), "{screen}");
    assert!(shown(&snapshot, "?", (80, 40)).contains("requ/s      requests that the driver"));
}

#[test]
fn losses_and_health_are_shown() {
    let mut snapshot = fixture::raid0(12);
    snapshot.lost[Loss::Rows] = 100;
    snapshot.lost[Loss::Tasks] = 20;
    snapshot.notes = vec!["kernel 5.10 has no module BTF: no md structures\x1b[2J".to_owned()];
    snapshot.arrays.push(snapshot.arrays[0].clone());
    let array = &mut snapshot.arrays[0];
    array.info.health = Some("degraded".to_owned());
    array.members[3].health = Some("faulty".to_owned());
    array.members[3].disk = None;
    array.members[0].io.push(fixture::cell(Origin::Raw, Op::Flush, 12, 0, 300));
    array.members[11].slot = None;
    array.members[11].health = Some("spare".to_owned());
    insta::assert_snapshot!("health", shown(&snapshot, "", (80, 24)));
    insta::assert_snapshot!("notes", shown(&snapshot, "?", (80, 30)));
    snapshot.arrays.clear();
    insta::assert_snapshot!("no_array", shown(&snapshot, "", (80, 24)));
}

/// Headline and figures may cover different time spans. Each names its own.
#[test]
fn headline_and_figures_name_their_time_span() {
    let mut snapshot = fixture::raid0(12);
    snapshot.arrays[0].hotspot.as_mut().unwrap().over = Duration::from_millis(9_980);
    let text = shown(&snapshot, "", (200, 50));
    assert!(text.contains("\n! last 10 s: loop1, loop5 and loop9 are busy"), "{text}");
    assert!(text.contains("\nlast 1 s: 630 r/s"), "{text}");
}

/// An 80x24 screen names the busy members within its first three lines.
#[test]
fn the_headline_is_in_the_first_three_lines() {
    let text = shown(&fixture::raid0(12), "", (80, 24));
    let first: Vec<&str> = text.lines().take(3).collect();
    assert!(
        first.join(" ").contains("loop1, loop5 and loop9 are busy 98 % of the time or more"),
        "{text}"
    );
    // An uneven but light load is not a warning.
    let mut calm = fixture::raid0(12);
    for member in &mut calm.arrays[0].members {
        member.disk.as_mut().unwrap().utilisation *= 0.11;
        for c in &mut member.io {
            c.device = fixture::cell(c.origin, c.op, c.requests, 0, 900).device;
        }
    }
    let second = Duration::from_secs(1);
    calm.arrays[0].hotspot = Some(crate::analysis::hotspot::find(&calm.arrays[0], second));
    let text = shown(&calm, "", (80, 24));
    assert!(text.contains("\n  last 1 s: no member is saturated"), "{text}");
    assert!(text.contains("block_bitmap"), "{text}");
    assert!(!text.contains('!'), "{text}");
}

/// A large screen shows origins, processes and latency beside the members.
#[test]
fn a_large_screen_has_panels() {
    let text = shown(&fixture::raid0(12), "", (200, 50));
    for panel in ["── 2 origins", "── 3 processes", "── 4 latency"] {
        assert!(text.contains(panel), "{panel}: {text}");
    }
    let blank = text.lines().filter(|l| l.is_empty()).count();
    assert!(blank < 8, "{blank} lines are blank: {text}");
}

/// Help has pages if it does not fit. No line is lost.
#[test]
fn help_has_pages() {
    let mut snapshot = fixture::raid0(12);
    assert!(shown(&snapshot, "?", (80, 24)).contains("raidtrace top: help ─"));
    snapshot.notes = (0..9).map(|n| format!("note number {n}")).collect();
    let first = shown(&snapshot, "?", (80, 24));
    assert!(first.contains("page 1 of 2") && first.contains("note number 8"), "{first}");
    assert!(!first.contains("moved by members"), "{first}");
    let second = shown(&snapshot, "?j", (80, 24));
    assert!(second.contains("moved by members"), "{second}");
    assert_eq!(shown(&snapshot, "?jj", (80, 24)), first);
}

/// After an fstrim and some fsyncs.
#[test]
fn discards_and_flushes_have_their_own_columns() {
    let mut snapshot = fixture::raid0(12);
    for member in &mut snapshot.arrays[0].members {
        let mut flushed = fixture::cell(Origin::Journal, Op::Write, 10, 40_960, 900);
        flushed.requests += 7;
        member.io.retain(|c| c.origin != Origin::Journal);
        member.io.push(flushed);
        member.io.push(fixture::cell(Origin::Journal, Op::Flush, 7, 0, 900));
        let freed = fixture::cell(Origin::FileData, Op::Discard, 3, 3 << 30, 900);
        member.io.push(freed);
        member.io.sort_by_key(|c| (c.origin, c.op));
    }
    for (name, keys, size) in [
        ("discards", "", (120, 40)),
        ("discards_by_origin", "2m", (120, 40)),
        ("only_discards", "oooo", (80, 24)),
    ] {
        insta::assert_snapshot!(name, shown(&snapshot, keys, size));
    }
}

/// One cell per interval, the newest on the right.
#[test]
fn utilisation_has_a_trend() {
    let mut snapshot = fixture::raid0(4);
    let second = Duration::from_secs(1);
    let recent = |utilisation| crate::analysis::recent::DiskInterval {
        interval: second,
        utilisation,
        ..crate::analysis::recent::DiskInterval::default()
    };
    let array = &mut snapshot.arrays[0];
    array.members[0].recent = (0..40).map(|i| recent(Some(f64::from(i) / 39.0))).collect();
    array.members[1].recent = vec![recent(Some(0.0)), recent(None), recent(Some(1.0))];
    insta::assert_snapshot!("trend_120x40", shown(&snapshot, "", (120, 40)));
    let text = shown(&snapshot, "", (80, 24));
    assert!(!text.contains("util trend"), "{text}");
}

#[test]
fn a_message_is_shown_until_the_first_interval_ends() {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let state = ScreenState::new(VIEWS.len(), Duration::from_secs(1));
    terminal.draw(|frame| draw(frame, &state, None, Palette::new(Depth::None))).unwrap();
    assert!(text(terminal.backend().buffer()).starts_with("measuring the first interval"));
}

#[test]
fn no_color_draws_the_same_text_without_a_colour() {
    for keys in ["", "2", "3", "4", "5", AMPLIFICATION, "?", "f"] {
        let snapshot = fixture::raid0(12);
        let plain = screen(&snapshot, keys, (80, 24), Depth::None);
        assert_eq!(text(&plain), shown(&snapshot, keys, (80, 24)));
        for cell in plain.content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{keys}");
        }
    }
}

/// Colours of one row of the bars, and of one row of the heat map.
#[test]
fn colours() {
    let line = |keys: &str, name: &str| {
        let buffer = screen(&fixture::raid0(12), keys, (80, 24), Depth::True);
        let y = (0..24).find(|&y| {
            let line: String = (0..80).map(|x| buffer[(x, y)].symbol().to_owned()).collect();
            line.contains(name)
        });
        let mut runs: Vec<(String, String)> = Vec::new();
        for x in 0..80 {
            let cell = &buffer[(x, y.unwrap())];
            let style = format!("{:?} on {:?} {:?}", cell.fg, cell.bg, cell.modifier);
            match runs.last_mut() {
                Some((text, s)) if *s == style => text.push_str(cell.symbol()),
                _ => runs.push((cell.symbol().to_owned(), style)),
            }
        }
        runs.iter().map(|(text, style)| format!("{text:?} {style}\n")).collect::<String>()
    };
    insta::assert_snapshot!("colours_members", line("", " 0 loop1 "));
    insta::assert_snapshot!("colours_heat", line("2", "B block_bitmap"));
}

#[test]
fn every_size_and_state_draws() {
    let mut snapshots: Vec<Snapshot> = [0, 1, 2, 12, 100].map(fixture::raid0).into();
    snapshots.push(fixture::idle(5));
    snapshots.push(fixture::raid5());
    snapshots.push(fixture::raid5());
    snapshots[7].arrays[0].amplification = None;
    for snapshot in &snapshots {
        for keys in [
            "",
            "2",
            "3",
            "4",
            "?",
            "f",
            "G",
            "2Gllllllllllllllll",
            "4G",
            AMPLIFICATION,
            "5G",
            "fjj\n",
            "3ffj\n",
            "mp",
        ] {
            for size in [
                (0, 0),
                (1, 1),
                (20, 5),
                (39, 10),
                (40, 9),
                (40, 10),
                (41, 11),
                (57, 13),
                (80, 17),
                (300, 100),
            ] {
                for cell in screen(snapshot, keys, size, Depth::Eight).content() {
                    assert!(!cell.symbol().chars().any(char::is_control));
                }
            }
        }
    }
}

#[test]
fn untrusted_names_reach_no_cell() {
    let mut snapshot = fixture::raid0(12);
    let evil = "\x1b]0;x\x07\u{202e}\u{9b}31m\n".to_owned();
    let array = &mut snapshot.arrays[0];
    array.info.name.clone_from(&evil);
    array.info.filesystems = vec![evil.clone()];
    array.info.health = Some(evil.clone());
    array.members[0].name.clone_from(&evil);
    array.members[1].health = Some(evil.clone());
    array.tasks[0].comm = evil.clone().into_bytes();
    array.tasks[0].role = Some(evil.clone());
    array.tasks[0].cgroup = Some(evil.clone());
    array.members[0].io[0].op = Op::Other;
    array.hotspot.as_mut().unwrap().headline.clone_from(&evil);
    snapshot.notes = vec![evil];
    for keys in ["", "2", "3", "4", AMPLIFICATION, "?"] {
        for size in SIZES {
            let text = shown(&snapshot, keys, size);
            assert!(
                !text
                    .chars()
                    .any(|c| c != '\n' && (c.is_control() || super::super::text::is_hidden(c))),
                "{text}"
            );
        }
    }
    // ratatui drops control characters by itself. raidtrace shows them escaped.
    assert!(shown(&snapshot, "", (80, 24)).starts_with("\\x1b]0;x\\x07\u{fffd}\\x9b31m\\x0a"));
}
