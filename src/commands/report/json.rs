//! `report --json`: one object on one line, schema `raidtrace.report/1`.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::allocator::ReportAllocator;
use super::slow;
use crate::analysis::overhead::OverheadLine;
use crate::analysis::time;
use crate::analysis::timeline::{TimelineInterval, WorkIo};
use crate::analysis::units::round;
use crate::origin::Op;
use crate::recording::gather::{Report, Sizes};
use crate::recording::slow::SlowInterval;
use crate::ui::json::{JsonArray, Losses, write_line};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportJson<'a> {
    schema: &'static str,
    file: String,
    host: &'a str,
    kernel: &'a str,
    machine: &'a str,
    version: &'a str,
    command: &'a [String],
    recorded: ReportPeriod,
    from: String,
    to: String,
    local: Local,
    recorder_utc_offset_s: Option<i32>,
    interval_s: f64,
    complete: bool,
    ending: String,
    requests: u64,
    submissions: u64,
    errors: u64,
    invalid_rows: u64,
    arrays: Vec<ReportArray<'a>>,
    timeline: Vec<ReportInterval<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocator: Option<ReportAllocator<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow: Option<SlowInterval>,
    lost: Losses,
    loss_messages: Vec<ReportLoss<'a>>,
    overhead: OverheadLine,
    notes: Vec<&'a String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportPeriod {
    from: String,
    to: String,
}

/// `from` and `to` in local time.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Local {
    from: String,
    to: String,
    time_zone: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportInterval<'a> {
    from: String,
    to: String,
    interval_s: f64,
    arrays: Vec<IntervalArray<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct IntervalArray<'a> {
    name: &'a str,
    members: Vec<IntervalMember<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct IntervalMember<'a> {
    name: &'a str,
    disk: IntervalDisk,
    /// 99th percentile of the times in the device, µs.
    p99_us: Option<u64>,
    io: &'a [WorkIo],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct IntervalDisk {
    utilisation: f64,
    requests: u64,
    uncounted: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportArray<'a> {
    #[serde(flatten)]
    array: JsonArray<'a>,
    sizes: Vec<Size>,
}

/// Requests of `from_bytes` to less than twice as many bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Size {
    op: Op,
    from_bytes: u64,
    requests: u64,
    bytes: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportLoss<'a> {
    time: String,
    text: &'a str,
}

/// Writes the report as one line.
pub fn write(out: &mut impl Write, path: &Path, report: &Report) -> io::Result<()> {
    let snapshot = &report.snapshot;
    let arrays = snapshot.arrays.iter().map(|a| ReportArray {
        array: JsonArray::new(a, snapshot.interval),
        sizes: sizes(report, &a.info.name),
    });
    let header = &report.header;
    write_line(
        out,
        &ReportJson {
            schema: "raidtrace.report/1",
            file: path.display().to_string(),
            host: &header.host,
            kernel: &header.kernel,
            machine: &header.machine,
            version: &header.version,
            command: &header.command,
            recorded: ReportPeriod {
                from: time::rfc3339(report.recorded_us.0),
                to: time::rfc3339(report.recorded_us.1),
            },
            from: time::rfc3339(report.from_us),
            to: time::rfc3339(report.to_us),
            local: local(report),
            recorder_utc_offset_s: header.utc_offset_s,
            interval_s: snapshot.interval.as_secs_f64(),
            complete: !report.ending.is_cut(),
            ending: report.ending.to_string(),
            requests: report.requests,
            submissions: report.submissions,
            errors: report.errors,
            invalid_rows: report.invalid_rows,
            arrays: arrays.collect(),
            timeline: timeline(report),
            allocator: report.allocator.as_ref().map(ReportAllocator::new),
            slow: report.slow.as_ref().map(slow::json),
            lost: Losses::from(snapshot.lost),
            loss_messages: report
                .losses
                .iter()
                .map(|(us, text)| ReportLoss { time: time::rfc3339(*us), text })
                .collect(),
            overhead: snapshot.overhead.into(),
            notes: super::text::notes(report),
        },
    )
}

fn local(report: &Report) -> Local {
    let zone = time::local();
    Local {
        from: time::rfc3339_in(report.from_us, &zone),
        to: time::rfc3339_in(report.to_us, &zone),
        time_zone: zone.iana_name().map(str::to_owned),
    }
}

fn timeline<'a>(report: &'a Report) -> Vec<ReportInterval<'a>> {
    let names = &report.timeline.names;
    let arrays = |at: usize, interval: &'a TimelineInterval| -> Vec<IntervalArray<'a>> {
        let mut arrays: Vec<IntervalArray<'a>> = Vec::new();
        for (number, (array, name)) in names.iter().enumerate() {
            let Some(work) = interval.members.get(number) else {
                continue;
            };
            let member = IntervalMember {
                name,
                disk: IntervalDisk {
                    utilisation: round(interval.utilisation(number)),
                    requests: work.disk.requests,
                    uncounted: work.disk.uncounted,
                },
                p99_us: report.timeline.p99_us(at, number),
                io: &work.io,
            };
            match arrays.iter_mut().find(|a| a.name == array) {
                Some(known) => known.members.push(member),
                None => arrays.push(IntervalArray { name: array, members: vec![member] }),
            }
        }
        arrays
    };
    let intervals = report.timeline.intervals.iter();
    intervals
        .enumerate()
        .map(|(at, interval)| ReportInterval {
            from: time::rfc3339(interval.from_us),
            to: time::rfc3339(interval.to_us),
            interval_s: round(interval.to_us.saturating_sub(interval.from_us) as f64 / 1e6),
            arrays: arrays(at, interval),
        })
        .collect()
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

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<super::ReportJson<'_>>("raidtrace.report/1");
    }
}
