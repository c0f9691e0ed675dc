//! The ext4 allocator: what it did, why, and a flame graph.

use maud::{Markup, html};

use super::times;
use crate::analysis::alloc::figures::{allocator_cpus, tasks_at_once};
use crate::analysis::profile::Profile;
use crate::analysis::units;
use crate::recording::gather::AllocSummary;
use crate::ui::html::figure::details;
use crate::ui::html::flame;
use crate::ui::html::page::{Tone, command, message, remark};
use crate::ui::html::table::HtmlTable;
use crate::ui::html::text;
use crate::ui::rows::seconds;
use crate::ui::text::sanitize;

pub(super) const TITLE: &str = "ext4 allocator";
const MAX_FILESYSTEMS: usize = 32;
/// Maximum number of stacks in the table.
const MAX_STACKS: usize = 40;

pub(super) fn body(allocator: &AllocSummary, stacks: &Profile) -> Markup {
    let s = &allocator.whole;
    let secs = seconds(s.interval);
    let shown = s.filesystems.iter().take(MAX_FILESYSTEMS);
    html! {
        @for fs in shown {
            @let mount = fs.mount.as_ref().map(|m| format!(" on {m}")).unwrap_or_default();
            h3 { (text(&format!("{}{mount}", fs.name))) }
            p {
                (units::count(fs.counts.requests as f64)) " allocations, "
                (units::count(fs.counts.got as f64)) " blocks, "
                (format!("{:.1}", tasks_at_once(fs, secs))) " tasks in it at a time"
            }
            @match &fs.reason {
                Some(reason) => {
                    (message(Tone::Warning, &reason.sentence))
                    @for line in &reason.commands { (command(line)) }
                    @if let Some(risk) = &reason.risk { (remark(&format!("Risk: {risk}"))) }
                }
                None => { (message(Tone::Good, "Nothing stands out in the whole period")) }
            }
            @let whole = fs.reason.as_ref().map(|r| r.sentence.as_str());
            @let busiest = allocator.busiest.get(&fs.dev);
            @if let Some(b) = busiest.filter(|b| Some(b.reason.sentence.as_str()) != whole) {
                p {
                    "Busiest: " (format!("{:.1}", b.tasks)) " tasks from "
                    (times::clock(b.from_us)) " to "
                    (times::clock(b.to_us)) ": " (text(&b.reason.sentence))
                }
            }
        }
        @if s.filesystems.len() > MAX_FILESYSTEMS {
            @let more = s.filesystems.len() - MAX_FILESYSTEMS;
            (remark(&format!("{more} more filesystems are left out.")))
        }
        @if let (Some(cpus), Some(cpu)) = (allocator_cpus(s), &s.cpu) {
            p {
                "CPUs in the allocator: " (format!("{cpus:.1}"))
                @if let Some((name, _)) = &cpu.hottest { ", most in " code { (text(name)) "()" } }
            }
        }
        (profile(stacks))
    }
}

/// The flame graph, and its stacks in a table.
fn profile(stacks: &Profile) -> Markup {
    let mut all: Vec<(String, Vec<&str>, u64)> = stacks
        .stacks()
        .map(|(comm, stack, samples)| {
            let names = stack.names().iter().map(|n| &**n);
            (sanitize(comm), names.collect(), samples)
        })
        .collect();
    all.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (&a.0, &a.1).cmp(&(&b.0, &b.1))));
    let whole = |(comm, names, samples): &'_ (String, Vec<&'_ str>, u64)| {
        let mut frames = vec![comm.clone()];
        frames.extend(names.iter().map(|n| (*n).to_owned()));
        (frames, *samples)
    };
    let frames: Vec<(Vec<String>, u64)> = all.iter().map(whole).collect();
    let graph = flame::draw(frames.iter().map(|(names, samples)| {
        let names = names.iter().map(String::as_str);
        (names.collect(), *samples)
    }));
    let Some(graph) = graph else {
        return remark("No kernel stacks were recorded: there is no flame graph.");
    };
    let sum: u64 = all.iter().fold(0, |sum, s| sum.saturating_add(s.2));
    let mut table = HtmlTable::new("Stacks with the most samples")
        .text("task")
        .figure("samples")
        .figure("share")
        .text("innermost functions");
    let rows = all.iter().map(|(comm, names, samples)| {
        let innermost: Vec<&str> = names.iter().rev().take(6).copied().collect();
        [
            comm.clone().into(),
            samples.to_string().into(),
            units::percent_short(*samples as f64 / sum.max(1) as f64).into(),
            innermost.join(" \u{2190} ").into(),
        ]
    });
    table.rows(rows, MAX_STACKS, "stacks");
    html! {
        h3 { "Flame graph" }
        figure {
            (graph)
            figcaption {
                "Kernel stacks of all tasks while the allocator was traced: the task at the \
                 bottom, each function above its caller, \
                 width by samples."
            }
            (details("Figures", &table.draw(), false))
        }
        @if stacks.other() > 0 { (remark(&format!("{} samples whose stacks were not kept are left \
                                                   out.", stacks.other()))) }
    }
}
