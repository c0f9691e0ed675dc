//! The comparison as one JSON object on one line, schema `raidtrace.report-against/1`.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::compared::{Compared, ComparedRecording};
use crate::analysis::compare::bootstrap::RESAMPLES;
use crate::analysis::compare::change::MAX_FALSE_DISCOVERIES;
use crate::analysis::time;
use crate::ui::json::{Losses, write_line};

/// Writes the comparison as one line.
pub fn write(out: &mut impl Write, compared: &Compared<'_>) -> io::Result<()> {
    let Compared { recordings: [before, after], comparison, notes } = compared;
    let mut value = json!(comparison);
    value["schema"] = "raidtrace.report-against/1".into();
    value["before"] = recording(before);
    value["after"] = recording(after);
    value["notes"] = json!(notes);
    let method = &mut value["method"];
    method["bootstrap"] = "moving blocks".into();
    method["multiple_comparisons"] = "Benjamini-Hochberg".into();
    method["false_discovery_rate"] = MAX_FALSE_DISCOVERIES.into();
    method["confidence"] = 0.95.into();
    method["resamples"] = RESAMPLES.into();
    write_line(out, &value)
}

fn recording(recording: &ComparedRecording<'_>) -> Value {
    let (report, header) = (&recording.report, &recording.report.header);
    json!({
        "file": recording.path.display().to_string(),
        "host": header.host,
        "kernel": header.kernel,
        "machine": header.machine,
        "version": header.version,
        "from": time::rfc3339(report.from_us),
        "to": time::rfc3339(report.to_us),
        "interval_s": report.snapshot.interval.as_secs_f64(),
        "requests": report.requests,
        "submissions": report.submissions,
        "errors": report.errors,
        "complete": !report.ending.is_cut(),
        "ending": report.ending.to_string(),
        "intervals": recording.series.seconds.len(),
        "gaps_s": recording.series.gaps.as_secs_f64(),
        "lost": Losses::from(report.snapshot.lost),
    })
}
