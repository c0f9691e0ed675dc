//! Commands that fix the reported problem, and the figures of a filesystem.

use ratatui::text::Line;

use super::groups::extents;
use super::{AllocScene, Pen, labelled};
use crate::analysis::units::percent;
use crate::commands::alloc::text::{
    activity, allocation_lines, bitmap_lines, busiest, in_allocator, is_counted, search_lines,
};
use crate::ui::rows::label;
use crate::ui::text::{clean, glue, sanitize};

/// Maximum number of tasks and of files to list.
const MAX_NAMED: usize = 3;
/// Maximum number of CPUs to list.
const MAX_CPUS: usize = 8;

pub(super) fn draw(pen: &mut Pen<'_>, scene: &AllocScene<'_>) {
    let (s, fs) = (scene.snapshot, scene.fs);
    let mut lines: Vec<Line<'static>> = Vec::new();
    let columns = pen.width();
    let mut add =
        |label: &str, text: &str| labelled(&mut lines, columns, label, text, scene.palette);
    if let Some(reason) = &fs.reason {
        for (i, command) in reason.commands.iter().enumerate() {
            add(if i == 0 { "how to fix it" } else { "" }, &clean(command));
        }
        if let Some(risk) = &reason.risk {
            let label = if reason.commands.is_empty() { "note" } else { "risk" };
            add(label, &clean(risk));
        }
        if let Some(rule) = &reason.rule {
            add("more", &format!("raidtrace doctor: {}", clean(rule)));
        }
    }
    if !fs.counts.is_empty() || !is_counted(s) {
        let all = allocation_lines(s, fs).into_iter().chain(search_lines(s, fs));
        for (label, text) in all.chain(bitmap_lines(s, fs)) {
            add(label, &text);
        }
    }
    if let Some(text) = in_allocator(s) {
        add("CPU", &text);
        let each: Vec<String> = busiest(s)
            .iter()
            .take(MAX_CPUS)
            .map(|(n, share)| glue(&format!("CPU {n} {}", percent(*share))))
            .collect();
        if !each.is_empty() {
            add("", &each.join(", "));
        }
    }
    for (i, task) in fs.tasks.iter().take(MAX_NAMED).enumerate() {
        let text = format!(
            "{} (pid {}): {}",
            sanitize(&task.comm),
            task.pid,
            activity(&task.share, fs, s)
        );
        add(if i == 0 { "by" } else { "" }, &text);
    }
    for (i, file) in fs.files.iter().take(MAX_NAMED).enumerate() {
        let path = label(file.id.inode, &file.location);
        let text = format!("{path}: {}", activity(&file.share, fs, s));
        add(if i == 0 { "for" } else { "" }, &text);
    }
    extents(&mut lines, scene, columns);
    pen.scroll(&scene.state.tabs, &lines);
}
