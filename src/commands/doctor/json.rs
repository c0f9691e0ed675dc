//! The findings as one JSON object (schema raidtrace.doctor/1).

use std::io::{self, Write};

use serde_json::{Value, json};

use super::finding::Finding;
use super::kernel::{Ability, Line};
use super::live::Row;
use super::select::Diagnosis;

/// Writes it on one line.
pub fn write(out: &mut dyn Write, diagnosis: &Diagnosis<'_>) -> io::Result<()> {
    let mut object = object(diagnosis);
    if let Some(live) = diagnosis.live {
        object["live"] = json!({
            "recording": live.recording,
            "interval_s": live.interval_s,
            "lost": live.lost,
            "rows": live.rows.iter().map(row).collect::<Vec<_>>(),
        });
    }
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)
}

/// The object.
pub fn object(diagnosis: &Diagnosis<'_>) -> Value {
    let Diagnosis {
        facts,
        found,
        able,
        left_out,
        ..
    } = diagnosis;
    json!({
        "schema": "raidtrace.doctor/1",
        "time": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "worst": found.iter().map(|f| f.severity).max().map(|s| s.name()),
        "findings": found.iter().map(finding).collect::<Vec<_>>(),
        "left_out": {
            "ignored": left_out.ignored,
            "acknowledged": left_out.acknowledged,
            "below_min_severity": left_out.below,
        },
        "checked": {
            "arrays": facts.arrays.iter().map(|a| &a.array.name).collect::<Vec<_>>(),
            "filesystems": facts
                .arrays
                .iter()
                .flat_map(|a| &a.filesystems)
                .map(|f| &f.fs.name)
                .collect::<Vec<_>>(),
        },
        "kernel": kernel(able),
        "notes": facts.notes,
    })
}

/// What `--kernel` prints.
pub fn kernel(able: &Ability) -> Value {
    let lines = |lines: &[Line]| -> Vec<Value> {
        lines
            .iter()
            .map(|(what, works, how)| json!({"what": what, "works": works.value(), "how": how}))
            .collect()
    };
    json!({
        "release": able.release,
        "can_run": able.can.value(),
        "why": able.why,
        "needs": lines(&able.needs),
        "gives": lines(&able.gives),
        "notes": able.notes,
    })
}

fn row(r: &Row) -> Value {
    let member = |m: &super::live::Share| json!({"name": m.name, "slot": m.slot, "bytes": m.bytes, "predicted_share": m.predicted});
    json!({
        "array": r.array,
        "origin": r.origin,
        "op": "write",
        "bytes": r.bytes,
        "observed": r.observed,
        "predicted": r.predicted,
        "members": r.members.iter().map(member).collect::<Vec<_>>(),
    })
}

fn finding(f: &Finding) -> Value {
    json!({
        "id": f.id,
        "severity": f.severity.name(),
        "array": f.array,
        "filesystem": f.filesystem,
        "mounted_on": f.mounted,
        "title": f.title,
        "seen": f.seen,
        "figures": f.figures,
        "why": f.why,
        "commands": f.commands,
        "destroys": f.destroys,
        "risk": f.risk,
        "not_when": f.unless,
        "source": f.source,
    })
}
