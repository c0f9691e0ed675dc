//! `report --json`: the contract `raidtrace.report/1`, one object on one line.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::gather::{Report, Sizes};
use super::time;
use crate::origin::Op;
use crate::top::json::{Array, Losses, Overhead, write_line};

#[derive(Serialize)]
struct Whole<'a> {
    schema: &'static str,
    file: String,
    host: &'a str,
    kernel: &'a str,
    machine: &'a str,
    version: &'a str,
    command: &'a [String],
    recorded: Period,
    from: String,
    to: String,
    interval_s: f64,
    whole: bool,
    ending: String,
    requests: u64,
    submissions: u64,
    errors: u64,
    unplaced: u64,
    arrays: Vec<Part<'a>>,
    lost: Losses,
    losses: Vec<Loss<'a>>,
    overhead: Overhead,
    notes: Vec<&'a String>,
}

#[derive(Serialize)]
struct Period {
    from: String,
    to: String,
}

#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    array: Array<'a>,
    sizes: Vec<Size>,
}

/// Requests of `from_bytes` up to twice as much.
#[derive(Serialize)]
struct Size {
    op: Op,
    from_bytes: u64,
    requests: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Loss<'a> {
    time: String,
    text: &'a str,
}

/// Writes it and flushes.
pub fn write(out: &mut impl Write, path: &Path, report: &Report) -> io::Result<()> {
    let snapshot = &report.snapshot;
    let arrays = snapshot.arrays.iter().map(|a| Part {
        array: Array::new(a, snapshot.interval),
        sizes: sizes(report, &a.info.name),
    });
    let header = &report.header;
    write_line(
        out,
        &Whole {
            schema: "raidtrace.report/1",
            file: path.display().to_string(),
            host: &header.host,
            kernel: &header.kernel,
            machine: &header.machine,
            version: &header.version,
            command: &header.command,
            recorded: Period {
                from: time::rfc3339(report.recorded_us.0),
                to: time::rfc3339(report.recorded_us.1),
            },
            from: time::rfc3339(report.from_us),
            to: time::rfc3339(report.to_us),
            interval_s: snapshot.interval.as_secs_f64(),
            whole: !report.ending.is_cut(),
            ending: report.ending.to_string(),
            requests: report.requests,
            submissions: report.submissions,
            errors: report.errors,
            unplaced: report.unplaced,
            arrays: arrays.collect(),
            lost: Losses::from(snapshot.lost),
            losses: report
                .losses
                .iter()
                .map(|(us, text)| Loss {
                    time: time::rfc3339(*us),
                    text,
                })
                .collect(),
            overhead: snapshot.overhead.into(),
            notes: super::text::notes(report),
        },
    )
}

fn sizes(report: &Report, array: &str) -> Vec<Size> {
    let mine = report.sizes.iter().filter(|((name, _), _)| name == array);
    mine.flat_map(|((_, op), sizes)| {
        let each = sizes.requests.iter().zip(&sizes.bytes).enumerate();
        let some = each.filter(|(_, (requests, _))| **requests > 0);
        some.map(|(bucket, (&requests, &bytes))| Size {
            op: *op,
            from_bytes: Sizes::from(bucket),
            requests,
            bytes,
        })
    })
    .collect()
}
