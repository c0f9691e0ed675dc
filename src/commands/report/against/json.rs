//! The comparison as one JSON object on one line, schema `raidtrace.report-against/1`.

use std::io::{self, Write};

use serde::Serialize;

use super::compared::{Compared, Recording};
use crate::analysis::compare::change::{Change, Subject};
use crate::analysis::compare::comparison::ArrayComparison;
use crate::analysis::compare::pairs::Reason;
use crate::analysis::compare::resample::RESAMPLES;
use crate::analysis::snapshot::ArrayInfo;
use crate::analysis::time;
use crate::origin::{Op, Origin};
use crate::ui::json::{Losses, write_line};

#[derive(Serialize)]
struct Whole<'a> {
    schema: &'static str,
    before: Part<'a>,
    after: Part<'a>,
    arrays: Vec<Array<'a>>,
    only_before: &'a [String],
    only_after: &'a [String],
    operations: Vec<Line<'a>>,
    method: Method,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Part<'a> {
    file: String,
    host: &'a str,
    kernel: &'a str,
    machine: &'a str,
    version: &'a str,
    from: String,
    to: String,
    interval_s: f64,
    requests: u64,
    submissions: u64,
    errors: u64,
    complete: bool,
    ending: String,
    intervals: usize,
    gaps_s: f64,
    lost: Losses,
}

#[derive(Serialize)]
struct Array<'a> {
    before: Info<'a>,
    after: Info<'a>,
    paired_by: &'static str,
    verdict: &'static str,
    headline: &'a str,
    changes: Vec<Line<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Info<'a> {
    name: &'a str,
    level: &'a str,
    chunk_bytes: u64,
    disks: u32,
    health: Option<&'a str>,
}

/// A difference. Only the fields of its subject are present.
#[derive(Default, Serialize)]
struct Line<'a> {
    subject: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_before: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_after: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Op>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'static str>,
    figure: &'static str,
    before: Option<f64>,
    after: Option<f64>,
    difference: Option<f64>,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    p: Option<f64>,
    p_adjusted: Option<f64>,
    significant: bool,
}

#[derive(Serialize)]
struct Method {
    bootstrap: &'static str,
    multiple_comparisons: &'static str,
    false_discovery_rate: f64,
    confidence: f64,
    resamples: usize,
    intervals: [usize; 2],
    interval_s: [f64; 2],
    block_intervals: Option<[usize; 2]>,
    tested: usize,
    different: usize,
}

/// Writes the comparison as one line.
pub fn write(out: &mut impl Write, compared: &Compared<'_>) -> io::Result<()> {
    let comparison = &compared.comparison;
    let method = &comparison.method;
    write_line(
        out,
        &Whole {
            schema: "raidtrace.report-against/1",
            before: part(&compared.before),
            after: part(&compared.after),
            arrays: comparison.arrays.iter().map(array).collect(),
            only_before: &comparison.only_before,
            only_after: &comparison.only_after,
            operations: comparison.operations.iter().map(line).collect(),
            method: Method {
                bootstrap: "moving blocks",
                multiple_comparisons: "Benjamini-Hochberg",
                false_discovery_rate: crate::analysis::compare::change::FALSE_DISCOVERIES,
                confidence: 0.95,
                resamples: RESAMPLES,
                intervals: method.intervals.into(),
                interval_s: [digits(method.interval_s.0), digits(method.interval_s.1)],
                block_intervals: method.blocks.map(Into::into),
                tested: method.tested,
                different: method.different,
            },
            notes: &compared.notes,
        },
    )
}

fn part<'a>(recording: &'a Recording<'_>) -> Part<'a> {
    let (report, header) = (&recording.report, &recording.report.header);
    Part {
        file: recording.path.display().to_string(),
        host: &header.host,
        kernel: &header.kernel,
        machine: &header.machine,
        version: &header.version,
        from: time::rfc3339(report.from_us),
        to: time::rfc3339(report.to_us),
        interval_s: report.snapshot.interval.as_secs_f64(),
        requests: report.requests,
        submissions: report.submissions,
        errors: report.errors,
        complete: !report.ending.is_cut(),
        ending: report.ending.to_string(),
        intervals: recording.series.intervals.len(),
        gaps_s: recording.series.gaps_us as f64 / 1e6,
        lost: Losses::from(report.snapshot.lost),
    }
}

fn array(array: &ArrayComparison) -> Array<'_> {
    Array {
        before: info(&array.before),
        after: info(&array.after),
        paired_by: match array.reason {
            Reason::Asked => "option",
            Reason::Name => "name",
            Reason::Only => "only_one",
            Reason::Order => "order",
        },
        verdict: array.verdict.name(),
        headline: &array.headline,
        changes: array.changes.iter().map(line).collect(),
        notes: &array.notes,
    }
}

fn info(info: &ArrayInfo) -> Info<'_> {
    Info {
        name: &info.name,
        level: &info.level,
        chunk_bytes: info.chunk_bytes,
        disks: info.disks,
        health: info.health.as_deref(),
    }
}

fn line(change: &Change) -> Line<'_> {
    let estimate = &change.estimate;
    let mut line = Line {
        figure: change.figure.name(),
        op: change.figure.op(),
        before: estimate.before.map(digits),
        after: estimate.after.map(digits),
        difference: estimate.difference().map(digits),
        ratio: estimate.ratio().map(digits),
        interval: estimate.interval.map(|(l, h)| [digits(l), digits(h)]),
        p: estimate.p.map(digits),
        p_adjusted: change.adjusted.map(digits),
        significant: change.is_significant(),
        ..Line::default()
    };
    match &change.subject {
        Subject::Load => line.subject = "load",
        Subject::Array => line.subject = "array",
        Subject::Member { slot, before, after } => {
            line.subject = "member";
            line.slot = *slot;
            line.member_before = Some(before);
            line.member_after = Some(after);
        }
        Subject::Origin(origin, op) => {
            line.subject = "origin";
            line.origin = Some(*origin);
            line.op = Some(*op);
        }
        Subject::Task(name) => {
            line.subject = "task";
            line.task = Some(name);
        }
        Subject::File(path) => {
            line.subject = "file";
            line.path = Some(path);
        }
        Subject::Operation(name) => {
            line.subject = "operation";
            line.operation = Some(name);
        }
    }
    line
}

/// `value` with six significant digits; 0 if it is not finite (undefined figures are `None`).
fn digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(5 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 { (value * scale).round() / scale } else { value }
}
