//! A row per task that submitted bios to the array or dirtied data on it, with the origins of its
//! bios as a stacked bar. Rates are of bios, before md splits and the queue merges them; `causes`
//! counts bytes that the task read and those that it dirtied.

use super::Scene;
use super::table::TableView;
use crate::analysis::units;
use crate::origin::{Origin, io_name};
use crate::ui::rows::{self, BarPart, TaskRow};
use crate::ui::table::{Column, Columns};
use crate::ui::text::{self, clean};

pub(super) struct TasksView;

impl TableView for TasksView {
    type Row<'a> = TaskRow<'a>;
    const EMPTY: &'static str = "no task submitted to the array in this interval";
    const BAR: &'static str = "origins";

    fn rows<'a>(scene: &Scene<'a>) -> Vec<TaskRow<'a>> {
        rows::tasks(scene.array, scene.secs, scene.filter(), scene.state.measure)
    }

    fn columns<'a>(rows: &[TaskRow<'a>], _: &Scene<'a>, screen: usize) -> Columns<TaskRow<'a>> {
        let widest = |f: fn(&TaskRow<'_>) -> String| {
            rows.iter().map(|r| text::width(&f(r))).max().unwrap_or(0)
        };
        let wide = screen >= 120;
        let comm = widest(|r| r.comm.clone()).clamp(8, if wide { 24 } else { 15 });
        let role_width = widest(role).clamp(6, if wide { 32 } else { 14 });
        let cgroup_width = widest(cgroup).clamp(6, (screen / 4).max(6));
        let has_dirtied = rows::has_dirtied(rows);
        let has_discards = rows.iter().any(|r| r.discards > 0.0);
        type Value<'a> = fn(&TaskRow<'a>) -> Option<f64>;
        let count = |title: &'static str, priority, value: Value<'a>| {
            Column::figure(title, 6, priority, value, units::count)
        };
        let mib = |title: &'static str, priority, value: Value<'a>| {
            Column::figure(title, 7, priority, value, units::mib)
        };
        Columns(vec![
            Column::number("pid", 8, 6, |r: &TaskRow<'a>| Some(u64::from(r.task.pid))),
            Column::name("comm", comm, 10, |r| r.comm.clone()),
            Column::name("role", role_width, 4, role),
            count("r/s", 5, |r| Some(r.reads)),
            count("w/s", 7, |r| Some(r.writes)),
            count("d/s", 1, |r| Some(r.discards)).shown_if(has_discards),
            mib("MiB/s", 8, |r| Some(r.bytes)).default_if(!has_dirtied),
            mib("causes", 9, |r| Some(r.causes)).shown_if(has_dirtied).default_if(has_dirtied),
            Column::name("cgroup", cgroup_width, 3, cgroup).shown_if(wide),
        ])
    }

    fn reserved(screen: usize) -> usize {
        if screen >= 120 { 25 } else { 13 }
    }

    fn parts(row: &TaskRow<'_>, _: &Scene<'_>) -> Vec<BarPart> {
        row.parts.clone()
    }

    /// Role, cgroup and every origin of the task with its figures.
    fn detail(row: &TaskRow<'_>, scene: &Scene<'_>) -> String {
        let task = row.task;
        let mut text = format!("{} pid {}", row.comm, task.pid);
        if let Some(role) = &task.role {
            text.push_str(&format!(", {}", clean(role)));
        }
        let tasks = rows::on_behalf_of(task, &scene.array.tasks);
        if !tasks.is_empty() {
            text.push_str(&format!(", for {tasks}"));
        }
        let cgroup = task.cgroup.as_deref().map_or("unknown".into(), clean);
        text.push_str(&format!(", cgroup {cgroup}:"));
        let mut io: Vec<_> =
            task.io.iter().filter(|i| scene.filter().keeps(i.origin, i.op)).collect();
        io.sort_by_key(|i| std::cmp::Reverse(i.bytes));
        let each = io.iter().map(|i| {
            format!(
                " {} {} {}/s {}/s",
                io_name(i.origin, i.op),
                i.op,
                units::count(i.bios as f64 / scene.secs),
                rate(i.bytes, scene)
            )
        });
        let submitted = each.collect::<Vec<_>>().join(",");
        let dirtied = dirtied(row, scene);
        let between = match submitted.is_empty() || dirtied.is_empty() {
            true => "",
            false => ";",
        };
        format!("{text}{submitted}{between}{dirtied}")
    }
}

fn role(row: &TaskRow<'_>) -> String {
    row.task.role.as_deref().map_or(String::new(), |r| clean(r).into_owned())
}

fn cgroup(row: &TaskRow<'_>) -> String {
    row.task.cgroup.as_deref().map_or("-".to_owned(), |c| clean(c).into_owned())
}

/// Number of dirtied files that are named for a task.
const MAX_FILES: usize = 4;

/// ` dirtied inode_table 1.2 MiB/s, file_data 3 MiB/s; files dirtied: /srv/a 2 MiB/s, /srv/b 1
/// MiB/s`: bytes that jbd2 and writeback write for the task; empty if it dirtied nothing.
fn dirtied(row: &TaskRow<'_>, scene: &Scene<'_>) -> String {
    let mut kept: Vec<_> =
        row.task.dirtied.iter().filter(|i| scene.filter().keeps(i.origin, i.op)).collect();
    kept.sort_by_key(|i| std::cmp::Reverse(i.bytes));
    let each: Vec<_> = kept
        .iter()
        .map(|i| {
            let name = match i.origin {
                Origin::Unknown => "metadata",
                origin => origin.name(),
            };
            format!(" {name} {}/s", rate(i.bytes, scene))
        })
        .collect();
    if each.is_empty() {
        return String::new();
    }
    let data = kept.iter().any(|i| i.origin == Origin::FileData);
    let files = if data { dirtied_files(row, scene) } else { String::new() };
    format!(" dirtied{}{files}", each.join(","))
}

fn dirtied_files(row: &TaskRow<'_>, scene: &Scene<'_>) -> String {
    let files = &row.task.dirtied_files;
    let named = files.busiest.iter().take(MAX_FILES);
    let mut each: Vec<_> = named
        .map(|f| {
            let path = rows::label(f.id.inode, &f.location);
            format!("{path} {}/s", rate(f.bytes(), scene))
        })
        .collect();
    if files.busiest.len() > MAX_FILES || files.rest.bytes > 0 {
        each.push("others".to_owned());
    }
    if each.is_empty() {
        return String::new();
    }
    format!("; files dirtied: {}", each.join(", "))
}

fn rate(bytes: u64, scene: &Scene<'_>) -> String {
    text::glue(&units::bytes(bytes as f64 / scene.secs)).to_string()
}
