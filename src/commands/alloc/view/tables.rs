//! Views 3 to 5: who allocates, for which files, on which CPU; a row each.

use ratatui::text::{Line, Span};

use super::{Pen, Scene, bar};
use crate::analysis::alloc::figures::{LATENCY, has, is_hooked, one_cpu};
use crate::analysis::alloc::{Cpu, Share};
use crate::analysis::units::{count, percent_short};
use crate::commands::alloc::text::in_allocator;
use crate::ui::rows::{label, seconds};
use crate::ui::text::{clean, cut, end, left, right, sanitize, width, wrap};

/// Below so many columns only the figures that matter most are there.
const NARROW: usize = 60;

/// Heading of [`figures`].
fn heading(columns: usize) -> &'static str {
    if columns < NARROW {
        "   /s  time groups"
    } else {
        "   /s blocks/s  time groups"
    }
}

/// Requests and blocks a second, part of the filesystem's time in the allocator, groups a request.
fn figures(scene: &Scene<'_>, share: &Share, columns: usize) -> String {
    let (s, fs) = (scene.snapshot, scene.fs);
    let secs = seconds(s.interval);
    let groups = if is_hooked(s, &fs.counts) && share.requests > 0 {
        count(share.looked as f64 / share.requests as f64)
    } else {
        "-".to_owned()
    };
    let time = share.nanoseconds as f64 / fs.counts.nanoseconds.max(1) as f64;
    let time = if has(s, LATENCY, fs.counts.nanoseconds > 0) {
        percent_short(time)
    } else {
        "-".to_owned()
    };
    let blocks = if columns < NARROW {
        String::new()
    } else {
        format!(" {}", right(&count(share.blocks as f64 / secs), 8))
    };
    format!(
        "{}{blocks} {} {}",
        right(&count(share.requests as f64 / secs), 5),
        right(&time, 5),
        right(&groups, 6)
    )
}

/// Rows of which one is selected.
fn table(
    pen: &mut Pen<'_>,
    scene: &Scene<'_>,
    head: &str,
    rows: usize,
    row: impl Fn(usize) -> Vec<Span<'static>>,
) {
    let columns = pen.width();
    pen.text(&cut(head, columns), scene.palette.title());
    scene.state.set_rows(rows);
    let selected = scene.state.row().min(rows.saturating_sub(1));
    let first = pen.first(rows, selected);
    for i in (first..rows).take(pen.lines()) {
        let mark = Span::raw(if i == selected { ">" } else { " " });
        let mut spans = vec![mark];
        spans.extend(row(i));
        pen.line(&Line::from(spans));
    }
    if rows == 0 {
        pen.text("  nothing in this interval", scene.palette.dim());
    }
}

pub(super) fn tasks(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let columns = pen.width();
    let figures_head = heading(columns);
    let tid = if columns < NARROW { 0 } else { 8 };
    let room = columns.saturating_sub(1 + tid + 2 + figures_head.len());
    // Names first; the role where there is room for both.
    let comm = room.min(26);
    let role = room.saturating_sub(comm + 1);
    let number = |text: &str| match tid {
        0 => String::new(),
        n => format!("{} ", right(text, n - 1)),
    };
    let head = format!(
        " {}{figures_head}  {}{}",
        number("tid"),
        left("process", comm),
        if role > 4 { " what it is" } else { "" }
    );
    let tasks = &scene.fs.tasks;
    table(pen, scene, &head, tasks.len(), |i| {
        let t = &tasks[i];
        let mut text = format!(
            "{}{}  {}",
            number(&t.pid.to_string()),
            figures(scene, &t.share, columns),
            left(&sanitize(&t.comm), comm)
        );
        if role > 4 {
            let what = clean(t.role.as_deref().unwrap_or("")).into_owned();
            text.push(' ');
            text.push_str(&cut(&what, role));
        }
        vec![Span::raw(text)]
    });
}

pub(super) fn files(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let columns = pen.width();
    let figures_head = heading(columns);
    let room = columns.saturating_sub(1 + 2 + figures_head.len());
    let head = format!(" {figures_head}  file");
    let files = &scene.fs.files;
    table(pen, scene, &head, files.len(), |i| {
        let f = &files[i];
        let path = label(f.id.inode, &f.location);
        vec![Span::raw(format!(
            "{}  {}",
            figures(scene, &f.share, columns),
            end(&path, room)
        ))]
    });
}

/// All CPUs that were busy, those with most in the allocator first; then the threads.
pub(super) fn cpu(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let s = scene.snapshot;
    let Some(summary) = in_allocator(s) else {
        scene.state.set_rows(1);
        pen.text("CPUs are not sampled here", scene.palette.dim());
        return;
    };
    let columns = pen.width();
    for line in wrap(&summary, columns, 3) {
        pen.text(&line, scene.palette.title());
    }
    let mut rows: Vec<(String, &Cpu, Option<u64>)> = Vec::new();
    let mut cpus: Vec<_> = s.cpus.iter().collect();
    cpus.sort_by_key(|(n, c)| (std::cmp::Reverse((c.allocator, c.busy)), **n));
    for (n, cpu) in cpus {
        rows.push((format!("CPU {n}"), cpu, Some(cpu.possible)));
    }
    for (pid, comm, cpu) in &s.on_cpu {
        let name = format!("{} ({pid})", sanitize(comm));
        rows.push((name, cpu, one_cpu(s)));
    }
    let name = (columns / 2).clamp(14, 32);
    let bars = columns.saturating_sub(1 + name + 13).min(60);
    let head = format!(" {} busy alloc  of a CPU", left("CPU, thread", name));
    table(pen, scene, &head, rows.len(), |i| {
        let (what, cpu, possible) = &rows[i];
        let share = |n: u64| match possible {
            Some(all @ 1..) => Some(n as f64 / *all as f64),
            _ => None,
        };
        let cell = |n: u64| share(n).map_or("-".to_owned(), percent_short);
        let (busy, allocator) = (
            share(cpu.busy).unwrap_or(0.0),
            share(cpu.allocator).unwrap_or(0.0),
        );
        let solid = bar(allocator, bars);
        let rest = bar(busy, bars);
        let rest = "░".repeat(width(&rest).saturating_sub(width(&solid)));
        vec![
            Span::raw(format!(
                "{} {} {}  ",
                left(what, name),
                right(&cell(cpu.busy), 4),
                right(&cell(cpu.allocator), 5)
            )),
            Span::styled(solid, scene.palette.bar()),
            Span::styled(rest, scene.palette.dim()),
        ]
    });
}
