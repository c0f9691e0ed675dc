//! Tables: tasks, files, CPUs and threads. Tasks and files have the same columns except for the
//! names.

use ratatui::text::Span;

use super::{AllocScene, bar};
use crate::analysis::alloc::figures::{LATENCY, has, is_hooked, one_cpu};
use crate::analysis::alloc::{AllocShare, Cpu};
use crate::analysis::units::{count, percent_short};
use crate::commands::alloc::text::in_allocator;
use crate::ui::pen::Pen;
use crate::ui::rows::{label, seconds};
use crate::ui::table::{Column, Columns, Rest};
use crate::ui::text::{clean, sanitize, width, wrap};

/// Screens with fewer columns show only the most important figures.
const MIN_WIDE: usize = 60;
/// Shown instead of rows.
const NONE: &str = "  nothing in this interval";

/// A task or a file, and its share of the filesystem's allocations.
struct ShareRow {
    pid: Option<u64>,
    /// Name of the task, or path of the file.
    name: String,
    role: String,
    /// Requests per second.
    requests: f64,
    /// Blocks per second.
    blocks: f64,
    /// Share of the filesystem's time in the allocator, if measured.
    time: Option<f64>,
    /// Groups considered per request, if counted.
    groups: Option<f64>,
}

impl ShareRow {
    fn new(scene: &AllocScene<'_>, share: &AllocShare, name: String) -> Self {
        let (s, fs) = (scene.snapshot, scene.fs);
        let secs = seconds(s.interval);
        let nanoseconds = fs.counts.nanoseconds;
        let has_time = has(s, LATENCY, nanoseconds > 0);
        let has_groups = is_hooked(s, &fs.counts) && share.requests > 0;
        Self {
            pid: None,
            name,
            role: String::new(),
            requests: share.requests as f64 / secs,
            blocks: share.blocks as f64 / secs,
            time: has_time.then(|| share.nanoseconds as f64 / nanoseconds.max(1) as f64),
            groups: has_groups.then(|| share.looked as f64 / share.requests as f64),
        }
    }
}

/// The columns before the names. The first column starts at the left edge.
fn figures(with_pid: bool, screen: usize) -> Vec<Column<ShareRow>> {
    let wide = screen >= MIN_WIDE;
    let first = if with_pid && wide { 6 } else { 5 };
    vec![
        Column::number("tid", 7, 9, |r: &ShareRow| r.pid).shown_if(with_pid && wide),
        Column::figure("/s", first, 9, |r| Some(r.requests), count),
        Column::figure("blocks/s", 9, 9, |r: &ShareRow| Some(r.blocks), count).shown_if(wide),
        Column::figure("time", 6, 9, |r| r.time, percent_short),
        Column::figure("groups", 7, 9, |r| r.groups, count),
    ]
}

/// Draws tasks or files.
fn draw(
    pen: &mut Pen<'_>,
    scene: &AllocScene<'_>,
    columns: Vec<Column<ShareRow>>,
    rows: &[ShareRow],
) {
    let (tabs, palette) = (&scene.state.tabs, scene.palette);
    Columns(columns).draw(pen, tabs, rows, None, NONE, palette);
}

pub(super) fn tasks(pen: &mut Pen<'_>, scene: &AllocScene<'_>) {
    let tasks = scene.fs.tasks.iter().map(|t| ShareRow {
        pid: Some(u64::from(t.pid)),
        role: clean(t.role.as_deref().unwrap_or("")).into_owned(),
        ..ShareRow::new(scene, &t.share, sanitize(&t.comm))
    });
    let mut columns = figures(true, pen.width());
    // Names first, then the role if there is room for both.
    let used: usize = if pen.width() >= MIN_WIDE { 36 } else { 19 };
    let room = pen.width().saturating_sub(used + 2);
    let comm = room.min(26);
    let role = room.saturating_sub(comm + 1);
    columns.push(Column::name("process", comm, 9, |r: &ShareRow| r.name.clone()).gap(2));
    columns.push(
        Column::name("what it is", role, 8, |r: &ShareRow| r.role.clone()).shown_if(role > 4),
    );
    let rows: Vec<ShareRow> = tasks.collect();
    draw(pen, scene, columns, &rows);
}

pub(super) fn files(pen: &mut Pen<'_>, scene: &AllocScene<'_>) {
    let files = scene
        .fs
        .files
        .iter()
        .map(|f| ShareRow::new(scene, &f.share, label(f.id.inode, &f.location)));
    let mut columns = figures(false, pen.width());
    columns.push(Column::path("file", 8, 9, |r: &ShareRow| r.name.clone()).gap(2));
    let rows: Vec<ShareRow> = files.collect();
    draw(pen, scene, columns, &rows);
}

/// A CPU or thread: name, samples, and the number of samples if it were always busy.
struct CpuRow<'a> {
    name: String,
    cpu: &'a Cpu,
    possible: Option<u64>,
}

impl CpuRow<'_> {
    fn share(&self, samples: u64) -> Option<f64> {
        let possible = self.possible.filter(|n| *n > 0)?;
        Some(samples as f64 / possible as f64)
    }

    fn busy(&self) -> Option<f64> {
        self.share(self.cpu.busy)
    }

    fn allocator(&self) -> Option<f64> {
        self.share(self.cpu.allocator)
    }
}

/// All busy CPUs, most samples in the allocator first; then the threads.
pub(super) fn cpu(pen: &mut Pen<'_>, scene: &AllocScene<'_>) {
    let (s, palette) = (scene.snapshot, scene.palette);
    let Some(summary) = in_allocator(s) else {
        pen.text("CPUs are not sampled", palette.dim());
        return;
    };
    let screen = pen.width();
    for line in wrap(&summary, screen, 3) {
        pen.text(&line, palette.title());
    }
    let mut cpus: Vec<_> = s.cpus.iter().collect();
    cpus.sort_by_key(|(n, c)| (std::cmp::Reverse((c.allocator, c.busy)), **n));
    let cpus = cpus.into_iter().map(|(n, cpu)| CpuRow {
        name: format!("CPU {n}"),
        cpu,
        possible: Some(cpu.possible),
    });
    let threads = s.on_cpu.iter().map(|(pid, comm, cpu)| CpuRow {
        name: format!("{} ({pid})", sanitize(comm)),
        cpu,
        possible: one_cpu(s),
    });
    let rows: Vec<CpuRow<'_>> = cpus.chain(threads).collect();
    let name = (screen / 2).clamp(14, 32);
    let columns = vec![
        Column::name("CPU, thread", name, 9, |r: &CpuRow<'_>| r.name.clone()).gap(0),
        Column::figure("busy", 5, 9, CpuRow::busy, percent_short),
        Column::figure("alloc", 6, 9, CpuRow::allocator, percent_short),
    ];
    let bars = |row: &CpuRow<'_>, room: usize| {
        let bars = room.saturating_sub(2).min(60);
        let allocator = bar(row.allocator().unwrap_or(0.0), bars);
        let busy = bar(row.busy().unwrap_or(0.0), bars);
        let rest = "░".repeat(width(&busy).saturating_sub(width(&allocator)));
        vec![
            Span::raw("  "),
            Span::styled(allocator, palette.bar()),
            Span::styled(rest, palette.dim()),
        ]
    };
    let (tabs, bars) = (&scene.state.tabs, Some(("  of a CPU", &bars as Rest<'_, _>)));
    Columns(columns).draw(pen, tabs, &rows, bars, NONE, palette);
}
