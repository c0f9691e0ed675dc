//! The findings as one JSON object (schema raidtrace.doctor/1).

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::select::Diagnosis;

pub fn write(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// The object. `live` is present if writes were measured.
pub fn object(diagnosis: &Diagnosis<'_>) -> Value {
    let arrays = &diagnosis.facts.arrays;
    let filesystems = arrays.iter().flat_map(|a| &a.filesystems);
    let mut object = json!({
        "schema": "raidtrace.doctor/1",
        "time": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "worst": diagnosis.worst(),
        "findings": diagnosis.found,
        "left_out": diagnosis.left_out,
        "checked": {
            "arrays": arrays.iter().map(|a| &a.array.name).collect::<Vec<_>>(),
            "filesystems": filesystems.map(|f| &f.fs.name).collect::<Vec<_>>(),
        },
        "kernel": diagnosis.able,
        "notes": diagnosis.facts.notes,
    });
    if let Some(live) = diagnosis.live {
        object["live"] = json!(live);
    }
    object
}
