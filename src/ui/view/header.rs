//! The header (array, headline, figures, tabs) and the line at the bottom.

use std::time::Duration;

use jiff::tz::TimeZone;
use ratatui::style::Style;
use ratatui::text::Span;

use super::{AMPLIFICATION, Scene, VIEWS};
use crate::analysis::hotspot::{Hotspot, HotspotKind};
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};
use crate::analysis::time;
use crate::analysis::traffic::{IoSum, Traffic};
use crate::analysis::units;
use crate::ui::palette::Palette;
use crate::ui::pen::{self, Pen, ends, tabs_width};
use crate::ui::rows;
use crate::ui::rows::Measure;
use crate::ui::state::{Overlay, ScreenState};
use crate::ui::text;
use crate::ui::text::clean;

/// End of the interval: `2026-11-20T12:00:01Z`, or `13:00:01 local, 2026-11-20T12:00:01Z` if local
/// time differs from UTC.
pub fn stamp(snapshot: &Snapshot) -> String {
    both_times(snapshot, "%Y-%m-%dT%H:%M:%SZ", &time::local())
}

fn both_times(snapshot: &Snapshot, utc: &str, zone: &TimeZone) -> String {
    let utc = snapshot.time.strftime(utc);
    if time::is_utc(snapshot.time.as_microsecond(), zone) {
        return utc.to_string();
    }
    let local = snapshot.time.to_zoned(zone.clone());
    format!("{} local, {utc}", local.strftime("%H:%M:%S"))
}

/// `md127 raid0, 12 disks, 512 KiB chunk, 1.2 TiB; degraded`. Not sanitized.
pub fn subject(array: &ArraySnapshot) -> String {
    let info = &array.info;
    format!(
        "{} {}{}",
        name(array),
        shape(array),
        info.health.as_deref().map_or(String::new(), |t| format!("; {t}"))
    )
}

/// `md127`, or `dm-4 (vg/lv)`.
fn name(array: &ArraySnapshot) -> String {
    let info = &array.info;
    let volume = info.volume.as_ref().map_or(String::new(), |volume| format!(" ({volume})"));
    format!("{}{volume}", info.name)
}

fn shape(array: &ArraySnapshot) -> String {
    let info = &array.info;
    let mut parts = vec![info.level.clone()];
    if info.level != "single" {
        parts.push(format!("{} disk{}", info.disks, if info.disks == 1 { "" } else { "s" }));
    }
    if info.chunk_bytes > 0 {
        parts.push(format!("{} chunk", units::size(info.chunk_bytes)));
    }
    if info.bytes > 0 {
        parts.push(units::size(info.bytes));
    }
    parts.join(", ")
}

/// `1 s: 582 r/s 8.9 MiB/s, 3.1k w/s 16 MiB/s; lost 0; overhead 0.8 % of a CPU`, and flushes and
/// discards if any.
pub fn measured(snapshot: &Snapshot, array: &ArraySnapshot) -> String {
    let secs = rows::seconds(snapshot.interval);
    let all: Traffic = array.members.iter().flat_map(|m| &m.io).collect();
    let count =
        |sum: IoSum, unit: &str| format!("{} {unit}", units::count(sum.requests as f64 / secs));
    let bytes = |sum: IoSum| format!("{}/s", units::bytes(sum.bytes as f64 / secs));
    let mut parts = vec![
        format!("{} {}", count(all.read, "r/s"), bytes(all.read)),
        format!("{} {}", count(all.write, "w/s"), bytes(all.write)),
    ];
    // The names that iostat uses.
    if all.flush.requests > 0 {
        parts.push(count(all.flush, "f/s"));
    }
    if all.discard.requests > 0 {
        let freed = bytes(all.discard);
        parts.push(format!("{} freeing {freed}", count(all.discard, "d/s")));
    }
    format!(
        "{}: {}; {}; {}",
        units::seconds(snapshot.interval),
        parts.join(", "),
        lost(snapshot),
        snapshot.overhead.describe(snapshot.interval),
    )
}

fn lost(snapshot: &Snapshot) -> String {
    let reasons = snapshot.lost.nonzero();
    let named: Vec<String> =
        reasons.map(|(loss, n)| format!("{} {}", loss.label(), units::count(n as f64))).collect();
    if named.is_empty() {
        "lost 0".to_owned()
    } else {
        format!("LOST {} ({})", units::count(snapshot.lost.events() as f64), named.join(", "))
    }
}

/// `12:00:01Z`, or `13:00:01 local, 12:00:01Z` on a wide screen if local time differs from UTC.
fn clock(snapshot: &Snapshot, columns: usize) -> String {
    let zone = if columns < 70 { TimeZone::UTC } else { time::local() };
    both_times(snapshot, "%H:%M:%SZ", &zone)
}

/// Draws the lines above the view, fewer on a low screen.
pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>, snapshot: &Snapshot) {
    let (state, array, palette) = (scene.state, scene.array, scene.palette);
    let (columns, tall) = (pen.width(), pen.lines() >= 18);
    let mut left = vec![
        Span::styled(clean(&name(array)).into_owned(), palette.title()),
        Span::raw(format!(" {}", clean(&shape(array)))),
    ];
    if let Some(health) = &array.info.health {
        left.insert(1, Span::styled(format!(" {}", clean(health)), palette.alarm()));
    }
    let mut right = Vec::new();
    if snapshot.arrays.len() > 1 {
        right.push(Span::raw(format!("array {}/{}  ", state.array + 1, snapshot.arrays.len())));
    }
    if let Some(replay) = &state.replay {
        if replay.position.cut {
            right.push(Span::styled("TAIL MISSING", palette.alarm()));
            right.push(Span::raw("  "));
        }
        right.push(Span::styled(
            if replay.position.ended { "END" } else { "REPLAY" },
            palette.title(),
        ));
        right.push(Span::raw(" "));
    }
    if state.paused {
        right.push(Span::styled("PAUSED", palette.alarm()));
        right.push(Span::raw(" "));
    }
    right.push(Span::raw(clock(snapshot, columns)));
    pen.line(&ends(left, right, columns));
    let narrow = columns < 60;
    draw_headline(pen, scene, if tall { 4 } else { 3 });
    if let Some(slow) = &array.slow {
        let sentence = clean(slow).replace(" %", "\u{a0}%");
        pen.marked("! ", &sentence, palette.alarm(), if tall { 3 } else { 1 });
    }
    let style = if snapshot.lost.events() > 0 { palette.alarm() } else { palette.dim() };
    if tall || !narrow || snapshot.lost.events() > 0 {
        let text = format!("last {}", measured(snapshot, array));
        pen.text(&text::cut(&text, columns), style);
    }
    if tall {
        let filesystems = array.info.filesystems.join("; ");
        let filesystems = if filesystems.is_empty() { "no known filesystem" } else { &filesystems };
        pen.text(&text::cut(&clean(filesystems), columns), Style::new());
    }
    tabs(pen, scene);
}

/// The headline and its time window, which may be longer than the interval of the figures. Not
/// sanitized.
pub fn headline(hotspot: &Hotspot) -> String {
    if hotspot.kind == HotspotKind::Idle {
        hotspot.headline.clone()
    } else {
        let over = units::seconds_about(hotspot.over);
        format!("last {over}: {}", hotspot.headline)
    }
}

/// ` (last 10 s)` if `over` is longer than the interval, else empty.
pub fn last(over: Duration, snapshot: &Snapshot) -> String {
    if over < snapshot.interval + snapshot.interval / 2 {
        String::new()
    } else if over.as_secs() < 10 {
        format!(" (last {})", units::seconds(over))
    } else {
        format!(" (last {} s)", over.as_secs_f64().round())
    }
}

fn draw_headline(pen: &mut Pen<'_>, scene: &Scene<'_>, lines: usize) {
    let Some(hotspot) = &scene.array.hotspot else {
        return;
    };
    let (mark, style) =
        if hotspot.is_warning() { ("! ", scene.palette.alarm()) } else { ("  ", Style::new()) };
    let headline = headline(hotspot);
    // Keep a figure and its unit on one line.
    let headline = clean(&headline).replace(" %", "\u{a0}%");
    pen.marked(mark, &headline, style, lines);
}

fn tabs(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let (state, palette) = (scene.state, scene.palette);
    let view = &VIEWS[scene.view];
    let mut right = Vec::new();
    if let Some(op) = state.filter.op {
        right.push(Span::styled(format!("only {op} "), palette.alarm()));
    }
    if let Some(origin) = state.filter.origin {
        right.push(Span::styled(format!("only {origin} "), palette.alarm()));
    }
    let amplification = scene.array.amplification.as_ref();
    let unit = match (state.measure, amplification) {
        _ if pen.width() < 70 => None,
        (Measure::Requests, _) if view.is_measured => Some("by requests ".to_owned()),
        (Measure::Bytes, _) if view.is_measured => Some("by bytes ".to_owned()),
        (_, Some(a)) if view.title == AMPLIFICATION => {
            Some(format!("MiB/s over {} s ", a.over.as_secs_f64().round()))
        }
        _ => None,
    };
    right.extend(unit.map(|u| Span::styled(u, palette.dim())));
    let titles = VIEWS.map(|v| v.title);
    let needed = tabs_width(&titles);
    let mut taken: usize = right.iter().map(Span::width).sum();
    // Leave out the measure if the titles of all views fit only without it.
    if view.is_measured && needed <= pen.width() && needed + taken > pen.width() {
        taken -= right.pop().map_or(0, |span| span.width());
    }
    let room = pen.width().saturating_sub(taken);
    let left = pen::tabs(&titles, scene.view, room, palette);
    pen.line(&ends(left, right, pen.width()));
}

const HINTS: [&str; 10] = [
    "q quit",
    "? help",
    "Tab view",
    "s S sort",
    "o op",
    "f origin",
    "m measure",
    "p pause",
    "+ - interval",
    "a array",
];
const REPLAY_HINTS: [&str; 10] = [
    "q quit",
    "? help",
    "Tab view",
    "Space pause",
    "← → step",
    "n N hot spots",
    "t time",
    "+ - speed",
    "s sort",
    "f origin",
];

/// Draws the bottom line: the most important keys, or the prompt or message of a replay.
pub(super) fn footer(
    pen: &mut Pen<'_>,
    state: &ScreenState,
    snapshot: Option<&Snapshot>,
    palette: Palette,
) {
    let mut right = format!("every {}", units::seconds(state.interval));
    if let Some(replay) = &state.replay {
        if let Some(typed) = &replay.typed {
            let typed = clean(typed);
            let line = format!("go to (11:47, 11:47Z, +30, -30; Esc: stay): {typed}_");
            pen.text(&text::end(&line, pen.width()), palette.title());
            return;
        }
        if let Some(message) = &replay.position.message {
            pen.text(&text::cut(&clean(message), pen.width()), palette.alarm());
            return;
        }
        right = format!("{right}, speed {}", replay.speed);
    }
    let hints: &[&str] = match state.overlay {
        Overlay::Help(_) => &["↑↓ PgUp PgDn page", "any other key: back"],
        Overlay::Origins(_) => &["↑↓ choose", "Enter take", "Esc back"],
        Overlay::None if state.replay.is_some() => &REPLAY_HINTS,
        Overlay::None => &HINTS,
    };
    let notes = snapshot.map_or(0, |s| s.notes.len());
    pen::footer(pen, hints, notes, &right, palette);
}

#[cfg(test)]
mod tests {
    use super::both_times;
    use crate::analysis::fixture;
    use jiff::tz::{Offset, TimeZone};

    /// The screen's clock and the headings of `--batch`.
    #[test]
    fn local_time_is_shown_with_utc() {
        let snapshot = fixture::raid0(1);
        let east = TimeZone::fixed(Offset::constant(1));
        let heading = "%Y-%m-%dT%H:%M:%SZ";
        for (utc, zone, text) in [
            ("%H:%M:%SZ", &east, "13:00:01 local, 12:00:01Z"),
            ("%H:%M:%SZ", &TimeZone::UTC, "12:00:01Z"),
            (heading, &east, "13:00:01 local, 2026-11-20T12:00:01Z"),
            (heading, &TimeZone::UTC, "2026-11-20T12:00:01Z"),
        ] {
            assert_eq!(both_times(&snapshot, utc, zone), text);
        }
    }
}
