//! The comparison as one JSON object on one line, schema `raidtrace.report-against/1`.

use std::io::{self, Write};

use serde::Serialize;

use super::compared::{Compared, ComparedRecording};
use crate::analysis::compare::bootstrap::RESAMPLES;
use crate::analysis::compare::change::{Change, MAX_FALSE_DISCOVERIES};
use crate::analysis::compare::comparison::{ArrayComparison, Method};
use crate::analysis::time;
use crate::ui::json::{Losses, write_line};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AgainstJson<'a> {
    schema: &'a str,
    before: AgainstRecording<'a>,
    after: AgainstRecording<'a>,
    arrays: &'a [ArrayComparison],
    /// Names of arrays that are only in the recording before, or after.
    only_before: &'a [String],
    only_after: &'a [String],
    /// Differences of operations on files, the most important one first.
    operations: &'a [Change],
    method: AgainstMethod<'a>,
    notes: &'a [String],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AgainstMethod<'a> {
    #[serde(flatten)]
    method: Method,
    bootstrap: &'a str,
    multiple_comparisons: &'a str,
    false_discovery_rate: f64,
    confidence: f64,
    resamples: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AgainstRecording<'a> {
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

/// Writes the comparison as one line.
pub fn write(out: &mut impl Write, compared: &Compared<'_>) -> io::Result<()> {
    let Compared { recordings, comparison, notes } = compared;
    let [before, after] = recordings.each_ref().map(recording);
    let object = AgainstJson {
        schema: "raidtrace.report-against/1",
        before,
        after,
        arrays: &comparison.arrays,
        only_before: &comparison.only_before,
        only_after: &comparison.only_after,
        operations: &comparison.operations,
        method: AgainstMethod {
            method: comparison.method,
            bootstrap: "moving blocks",
            multiple_comparisons: "Benjamini-Hochberg",
            false_discovery_rate: MAX_FALSE_DISCOVERIES,
            confidence: 0.95,
            resamples: RESAMPLES,
        },
        notes,
    };
    write_line(out, &serde_json::json!(object))
}

fn recording<'a>(recording: &'a ComparedRecording<'_>) -> AgainstRecording<'a> {
    let (report, header) = (&recording.report, &recording.report.header);
    AgainstRecording {
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
        intervals: recording.series.seconds.len(),
        gaps_s: recording.series.gaps.as_secs_f64(),
        lost: Losses::from(report.snapshot.lost),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<super::AgainstJson<'_>>("raidtrace.report-against/1");
    }
}
