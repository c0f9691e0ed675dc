//! The findings as one JSON object (schema raidtrace.doctor/1).

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::finding::{Finding, FindingSeverity};
use super::kernel::Ability;
use super::live::MeasuredWrites;
use super::select::{Diagnosis, LeftOut};

pub fn write(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DoctorJson<'a> {
    schema: &'a str,
    time: String,
    worst: Option<FindingSeverity>,
    findings: &'a [Finding],
    left_out: LeftOut,
    checked: Checked<'a>,
    kernel: &'a Ability,
    notes: &'a [String],
    /// Present if writes were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<&'a MeasuredWrites>,
}

/// Names of what was checked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Checked<'a> {
    arrays: Vec<&'a str>,
    filesystems: Vec<&'a str>,
}

/// The object.
pub fn object(diagnosis: &Diagnosis<'_>) -> Value {
    let arrays = &diagnosis.facts.arrays;
    let filesystems = arrays.iter().flat_map(|a| &a.filesystems);
    json!(DoctorJson {
        schema: "raidtrace.doctor/1",
        time: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        worst: diagnosis.worst(),
        findings: diagnosis.found,
        left_out: diagnosis.left_out,
        checked: Checked {
            arrays: arrays.iter().map(|a| a.array.name.as_str()).collect(),
            filesystems: filesystems.map(|f| f.fs.name.as_str()).collect(),
        },
        kernel: diagnosis.able,
        notes: &diagnosis.facts.notes,
        live: diagnosis.live,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<super::DoctorJson<'_>>("raidtrace.doctor/1");
    }
}
