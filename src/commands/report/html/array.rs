//! The section of an array.

use maud::{Markup, html};

use super::members::name;
use super::{MEMBERS, PageArray, ROWS, addresses, members};
use crate::analysis::hotspot::{HotspotKind, HotspotSeverity};
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::{amplification, units};
use crate::commands::report::lines::shares;
use crate::origin::{Op, io_name};
use crate::recording::gather::{PageDetail, Report, Sizes};
use crate::ui::figures::{self, MemberFigure, UTILISATION};
use crate::ui::html::figure::figure;
use crate::ui::html::page::{self, Tone, message, remark};
use crate::ui::html::plot::Plot;
use crate::ui::html::table::{HtmlCell, HtmlTable};
use crate::ui::html::{self, text};
use crate::ui::rows::{self, Measure, RowFilter};
use crate::ui::view::header;

pub(super) fn section(report: &Report, detail: &PageDetail, subject: &PageArray<'_>) -> Markup {
    let array = subject.array;
    let id = page::anchor("array", subject.number);
    let idle = array.hotspot.as_ref().is_some_and(|h| h.kind == HotspotKind::Idle);
    let body = html! {
        p.faint { (text(&header::subject(array))) }
        @for filesystem in array.info.filesystems.iter().take(ROWS) {
            p.faint { (text(filesystem)) }
        }
        @if let Some(hotspot) = &array.hotspot {
            @let tone = match hotspot.severity {
                HotspotSeverity::Warning => Tone::Warning,
                HotspotSeverity::Info => Tone::Info,
                HotspotSeverity::None => Tone::Good,
            };
            (message(tone, &hotspot.headline))
        }
        (remark(&header::measured(&report.snapshot, array)))
        h3 { "Members" }
        (table_of_members(report, subject))
        @if !idle {
            (members::over_time(detail, subject))
            h3 { "Origins by member" }
            (heat_map(report, subject, Measure::Requests))
            (heat_map(report, subject, Measure::Bytes))
            h3 { "Latency, slowest first" }
            (latencies(array))
            (sizes(report, array))
            (addresses::body(report, detail, subject))
            (tasks(report, array))
            (files(report, array))
            (amplification(array))
        }
    };
    page::section(&id, &array.info.name, &body)
}

fn table_of_members(report: &Report, subject: &PageArray<'_>) -> Markup {
    let array = subject.array;
    let secs = rows::seconds(report.snapshot.interval);
    let mut table = HtmlTable::new("Members, per second").text("member");
    let unhealthy = array.members.iter().any(|m| m.health.is_some());
    if unhealthy {
        table = table.text("state");
    }
    let all = rows::members(array, secs, RowFilter::default(), Measure::Requests);
    let mut shown = Vec::new();
    for figure in figures::all() {
        if let Some(heading) = figure.page_heading(&all) {
            table = table.figure(heading);
            shown.push(figure);
        }
    }
    let each = all.iter().map(|row| {
        let state = row.member.health.clone().unwrap_or_default();
        let mut cells: Vec<HtmlCell> = vec![name(row.member).into()];
        cells.extend(unhealthy.then(|| state.into()));
        cells.extend(shown.iter().map(|figure| {
            let cell = HtmlCell::new(figure.text(row));
            match figure.title {
                UTILISATION => cell.with_heat(figure.value(row).unwrap_or(0.0)),
                _ => cell,
            }
        }));
        cells
    });
    table.rows(each, subject.members, "members");
    html! {
        (table.draw())
        (remark(&format!(
            "busy: share of the period with a request in flight. p50, p99, max: time in the \
             device, at most 25 % too high.{}",
            shown.iter().filter_map(MemberFigure::remark).collect::<String>()
        )))
    }
}

/// Origins by member. The colour of a cell grows with its distance above the mean of its origin.
fn heat_map(report: &Report, subject: &PageArray<'_>, measure: Measure) -> Markup {
    let array = subject.array;
    let secs = rows::seconds(report.snapshot.interval);
    let (origins, all) = rows::heat(array, secs, RowFilter::default(), measure);
    let (what, figure): (_, fn(f64) -> String) = match measure {
        Measure::Requests => ("Requests per second", units::count),
        Measure::Bytes => ("MiB per second", units::mib),
    };
    let columns: Vec<&rows::OriginRow> = origins.iter().chain([&all]).collect();
    let mut table =
        HtmlTable::new(format!("{what} by origin and member")).text("member").as_heat_map();
    for column in &columns {
        table = table.figure(column.name());
    }
    let each = array.members.iter().enumerate().map(|(i, member)| {
        let cells = columns.iter().map(|column| {
            let value = column.each.get(i).copied().unwrap_or(0.0);
            let ratio = if column.mean > 0.0 { value / column.mean } else { 0.0 };
            let title = format!(
                "{}, {}: {} the mean",
                name(member),
                column.name(),
                units::factor(Some(ratio))
            );
            let cell = HtmlCell::new(figure(value));
            // As on the screen of top: plain up to the mean, strongest from four times the mean on.
            match ratio > 1.05 {
                true => cell.with_heat((ratio - 1.0) / 3.0).with_title(title),
                false => cell,
            }
        });
        let mut row = vec![HtmlCell::new(name(member))];
        row.extend(cells);
        row
    });
    table.rows(each, subject.members, "members");
    let skew =
        columns.iter().map(|c| HtmlCell::new(units::factor((c.skew > 0.0).then_some(c.skew))));
    let mut last = vec![HtmlCell::new("skew")];
    last.extend(skew);
    table.row(last);
    html! {
        (table.draw())
        (remark("Coloured: above the mean of the column, strongest from four times the mean on. \
                 skew: busiest member over the mean."))
    }
}

fn latencies(array: &ArraySnapshot) -> Markup {
    let mut table = HtmlTable::new("Latency by member, origin and operation")
        .text("member")
        .text("origin")
        .text("operation")
        .figure("requests")
        .figure("queue p50")
        .figure("queue p99")
        .figure("device p50")
        .figure("device p99")
        .figure("device max");
    let mut slowest = rows::latencies(array, 1.0, RowFilter::default());
    slowest.sort_by_key(|r| std::cmp::Reverse(r.device.quantile(0.99)));
    let each = slowest.iter().map(|row| {
        let us = |h: &crate::analysis::hist::Hist, q| HtmlCell::new(units::latency(h.quantile(q)));
        [
            html::name(&row.member.name).into(),
            row.origin.name().into(),
            row.op.name().into(),
            format!("{:.0}", row.requests).into(),
            us(row.queue, 0.5),
            us(row.queue, 0.99),
            us(row.device, 0.5),
            us(row.device, 0.99),
            us(row.device, 1.0),
        ]
    });
    table.rows(each, ROWS, "rows");
    html! {
        (table.draw())
        (remark("queue: from the allocation of the request to its issue to the driver; device: \
                 from issue to completion."))
    }
}

/// Requests by size: a picture per operation.
fn sizes(report: &Report, array: &ArraySnapshot) -> Markup {
    let mine: Vec<(Op, &Sizes)> = report
        .sizes
        .iter()
        .filter(|((name, op), _)| *name == array.info.name && *op != Op::Flush)
        .map(|((_, op), sizes)| (*op, sizes))
        .collect();
    let used = |bucket: &usize| {
        let of = |s: &Sizes| s.requests.get(*bucket).copied().unwrap_or(0);
        mine.iter().any(|(_, s)| of(s) > 0)
    };
    let (Some(first), Some(last)) =
        ((0..Sizes::BUCKETS).find(used), (0..Sizes::BUCKETS).rev().find(used))
    else {
        return Markup::default();
    };
    let buckets = first..=last;
    let label = |bucket: usize| match bucket {
        0 => "no data".to_owned(),
        bucket => units::size(Sizes::from(bucket)),
    };
    let mut plot = Plot::new(
        "Requests by size",
        &vec![1.0; buckets.clone().count()],
        (label(first), label(last)),
    );
    let mut table =
        HtmlTable::new("Requests by size: from this size to less than twice as much").text("size");
    for (op, sizes) in &mine {
        let each: Vec<f64> =
            buckets.clone().map(|b| sizes.requests.get(b).copied().unwrap_or(0) as f64).collect();
        let most = each.iter().copied().fold(0.0, f64::max);
        let title = format!("{op}: requests");
        plot.stack(title, units::count(most), &[("b1".to_owned(), each)], most);
        table = table.figure(format!("{op}s")).figure(format!("{op} bytes"));
    }
    let mut titles = Vec::new();
    for bucket in buckets {
        let figures = mine.iter().map(|(op, s)| {
            let at = |all: &[u64]| all.get(bucket).copied().unwrap_or(0);
            (op, at(&s.requests), at(&s.bytes))
        });
        let words = figures.clone().map(|(op, n, _)| format!("{n} {op}s"));
        titles.push(format!("{}: {}", label(bucket), words.collect::<Vec<_>>().join(", ")));
        let cells = figures.flat_map(|(_, n, bytes)| {
            [HtmlCell::new(n.to_string()), units::bytes(bytes as f64).into()]
        });
        table.row(std::iter::once(HtmlCell::new(label(bucket))).chain(cells));
    }
    plot.set_titles(titles);
    html! {
        h3 { "Request sizes" }
        div.half {
            (figure(
                &plot.draw(),
                "A bar has the requests from one power of two to the next. The kernel counts a \
                 flush without data as a write too.",
                &table.draw(),
                false,
            ))
        }
    }
}

fn tasks(report: &Report, array: &ArraySnapshot) -> Markup {
    if array.tasks.is_empty() {
        return Markup::default();
    }
    let secs = rows::seconds(report.snapshot.interval);
    let mut all = rows::tasks(array, secs, RowFilter::default(), Measure::Bytes);
    let dirtied = rows::has_dirtied(&all);
    let mut table = HtmlTable::new("Tasks: IO submitted to the array, per second")
        .text("task")
        .figure("reads/s")
        .figure("writes/s")
        .figure("MiB/s");
    if dirtied {
        rows::sort_by_causes(&mut all);
        table = table.figure("causes MiB/s");
    }
    table = table.text("origins by bytes").text("cgroup, or on behalf of");
    let each = all.iter().map(|row| {
        let task = row.task;
        let who = match &task.role {
            Some(role) => format!("{role} ({}, pid {})", row.comm, task.pid),
            None => format!("{} (pid {})", row.comm, task.pid),
        };
        let sum: f64 = row.parts.iter().map(|p| p.1).sum();
        let parts = shares(row.parts.iter().copied(), sum.max(f64::MIN_POSITIVE), 3);
        let whom = rows::on_behalf_of(task, &array.tasks);
        let group = match whom.is_empty() {
            true => task.cgroup.clone().filter(|c| c != "/").unwrap_or_default(),
            false => format!("for {whom}"),
        };
        let mut cells: Vec<HtmlCell> = vec![
            who.into(),
            units::count(row.reads).into(),
            units::count(row.writes).into(),
            units::mib(row.bytes).into(),
        ];
        if dirtied {
            cells.push(units::mib(row.causes).into());
        }
        cells.extend([parts.into(), group.into()]);
        cells
    });
    table.rows(each, ROWS, "tasks");
    html! {
        h3 { "Tasks" }
        (table.draw())
        @if dirtied {
            (remark("causes: reads, and what the task dirtied and jbd2 or writeback wrote for it."))
        }
    }
}

fn files(report: &Report, array: &ArraySnapshot) -> Markup {
    if array.files.busiest.is_empty() {
        return Markup::default();
    }
    let secs = rows::seconds(report.snapshot.interval);
    let mut table = HtmlTable::new("Files: file data submitted, per second")
        .text("file")
        .figure("reads/s")
        .figure("writes/s")
        .figure("MiB/s")
        .figure("share")
        .text("dirtied by");
    let all = rows::files(array, secs, RowFilter::default(), Measure::Bytes);
    let each = all.iter().map(|row| {
        [
            row.path.clone().into(),
            units::count(row.reads).into(),
            units::count(row.writes).into(),
            units::mib(row.bytes).into(),
            units::percent_short(row.share).into(),
            rows::dirtied_by(row.file.id, &array.tasks).into(),
        ]
    });
    table.rows(each, ROWS, "files");
    let more = [
        (array.files.rest, "other files, not listed one by one"),
        (array.files.unattributed, "file data whose file is unknown"),
    ];
    html! {
        h3 { "Files" }
        (table.draw())
        @for (sum, what) in more.iter().filter(|(sum, _)| sum.bios > 0) {
            (remark(&format!("{what}: {} bios, {}", sum.bios, units::bytes(sum.bytes as f64))))
        }
    }
}

fn amplification(array: &ArraySnapshot) -> Markup {
    let all = rows::amplification(array, RowFilter::default());
    if all.is_empty() {
        return Markup::default();
    }
    let mut table = HtmlTable::new("Bytes moved by members for each byte submitted to the array")
        .text("IO")
        .figure("submitted")
        .figure("moved")
        .figure("factor")
        .text("per submitted byte");
    let each = all.iter().map(|row| {
        let r = &row.sums;
        let what = match r.is_md_background() {
            true => "md's own work, not caused by IO to the array".to_owned(),
            false => rows::price(r).unwrap_or_default(),
        };
        [
            format!("{} {}", io_name(r.origin, r.op), r.op).into(),
            units::bytes(r.submitted as f64).into(),
            units::bytes(r.below() as f64).into(),
            units::factor(r.factor()).into(),
            what.into(),
        ]
    });
    table.rows(each, MEMBERS, "rows");
    html! {
        h3 { "Amplification" }
        (table.draw())
        @if let Some((full, single)) = amplification::expected(&array.info).filter(|e| e.1 > 1.0) {
            (remark(&format!(
                "{} of {} disks: {full:.2} for full stripes, {single:.2} at most for single \
                 blocks.",
                array.info.level, array.info.disks
            )))
        }
    }
}
