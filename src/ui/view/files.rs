//! One row per file whose data was read or written. Rates count bios, as in the processes view, not
//! requests.

use ratatui::text::Line;

use super::Scene;
use super::table::TableView;
use crate::analysis::counters::TaskCounters;
use crate::analysis::units;
use crate::origin::{Op, Origin};
use crate::ui::rows::{self, FileRow};
use crate::ui::table::{Column, Columns};
use crate::ui::text::{clean, cut, glue, width};

pub(super) struct FilesView;

impl TableView for FilesView {
    type Row<'a> = FileRow<'a>;
    const EMPTY: &'static str = "no file data was read or written in this interval";

    fn rows<'a>(scene: &Scene<'a>) -> Vec<FileRow<'a>> {
        rows::files(scene.array, scene.secs, scene.filter(), scene.state.measure)
    }

    fn columns<'a>(rows: &[FileRow<'a>], _: &Scene<'a>, _: usize) -> Columns<FileRow<'a>> {
        let first = rows.first().map(device);
        let several = rows.iter().any(|r| Some(device(r)) != first);
        let devices = rows.iter().map(|r| width(&device(r))).max();
        let device_width = devices.unwrap_or(0).clamp(4, 16);
        Columns(vec![
            Column::figure("r/s", 6, 5, |r: &FileRow<'a>| Some(r.reads), units::count),
            Column::figure("w/s", 6, 6, |r| Some(r.writes), units::count),
            Column::figure("MiB/s", 7, 8, |r: &FileRow<'a>| Some(r.bytes), units::mib)
                .default_if(true),
            Column::figure("share", 7, 4, |r| Some(r.share), units::percent_short),
            Column::name("fs", device_width, 7, device).shown_if(several),
            Column::path("path", 20, 10, |r| r.path.clone()),
        ])
    }

    fn reserved(_: usize) -> usize {
        0
    }

    /// `smaller ones: 12/s 48 KiB/s, unattributed: 3/s 12 KiB/s`: bios of files without a row; and
    /// thin volumes.
    fn totals(scene: &Scene<'_>, width: usize, lines: usize) -> Vec<Line<'static>> {
        let files = &scene.array.files;
        let sum = |sum: TaskCounters, label: &str| {
            let bytes = units::bytes(sum.bytes as f64 / scene.secs);
            let bios = units::count(sum.bios as f64 / scene.secs);
            (sum.bios > 0).then(|| format!("{label}: {bios}/s {bytes}/s"))
        };
        let rest = sum(files.rest, "smaller ones");
        let unattributed = sum(files.unattributed, "unattributed");
        let parts: Vec<String> = rest.into_iter().chain(unattributed).collect();
        let keeps = |op| scene.filter().keeps(Origin::FileData, op);
        let (reads, writes) = (keeps(Op::Read), keeps(Op::Write));
        if !(reads || writes) {
            return Vec::new();
        }
        // These sums are not kept by operation.
        let all = if reads && writes { "" } else { "reads and writes: " };
        let sums = (!parts.is_empty()).then(|| format!("{all}{}", parts.join(", ")));
        // The files in them cannot be told.
        let volumes = rows::thin_volumes(scene.array, scene.secs);
        let line = |text: String| {
            let text = cut(&format!("  {text}"), width).into_owned();
            Line::styled(text, scene.palette.dim())
        };
        sums.into_iter().chain(volumes).take(lines).map(line).collect()
    }

    /// The path, inode, generation and filesystem of the file, and every operation.
    fn detail(row: &FileRow<'_>, scene: &Scene<'_>) -> String {
        let (id, location) = (row.file.id, &row.file.location);
        let mount = location.mount.as_deref().map(clean);
        let io = row.file.io.iter();
        let io = io.filter(|io| scene.filter().keeps(Origin::FileData, io.op));
        let each = io.map(|io| {
            format!(
                " {} {}/s {}/s",
                io.op,
                units::count(io.bios as f64 / scene.secs),
                glue(&units::bytes(io.bytes as f64 / scene.secs))
            )
        });
        let mut text = format!(
            "{}: inode {} generation {} of {} {}{}:{}",
            row.path,
            id.inode,
            id.generation,
            id.device(),
            device(row),
            mount.map_or(String::new(), |m| format!(" on {m}")),
            each.collect::<Vec<_>>().join(",")
        );
        let tasks = rows::dirtied_by(id, &scene.array.tasks);
        if !tasks.is_empty() {
            text.push_str(&format!("; dirtied by {tasks}"));
        }
        text
    }
}

fn device(row: &FileRow<'_>) -> String {
    clean(&row.file.location.device_name).into_owned()
}
