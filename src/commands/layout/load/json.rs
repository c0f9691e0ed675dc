//! JSON output (schema raidtrace.layout-load/1).

use serde_json::{Map, Value, json};

use super::findings::{COLUMNS, Findings, assumptions, not_predicted};
use crate::analysis::placement::Filesystem;
use crate::analysis::placement::spread::skew;
use crate::analysis::relocate::Direction;
use crate::raid::Geometry;

pub fn object(found: &Findings<'_>) -> Value {
    let (source, plan) = (found.source, &found.plan);
    let [bytes, requests] = found.errors();
    let submissions = |direction: Direction| {
        let (count, bytes) = found.submissions[direction as usize];
        json!({"submissions": count, "bytes": bytes})
    };
    json!({
        "schema": "raidtrace.layout-load/1",
        "recording": found.path,
        "array": source.array,
        "filesystem": source.name,
        "seconds": found.seconds,
        "read": submissions(Direction::Read),
        "write": submissions(Direction::Write),
        "recorded": side(&source.geometry, &source.fs, None),
        "planned": side(&plan.geometry, &plan.fs, Some(&plan.words)),
        "members": members(found),
        "skew": columns(|column| {
            let skews = Direction::BOTH.map(|d| (d.op().name().to_owned(), json!(found.skew(column, d))));
            let mut object: Map<String, Value> = skews.into_iter().collect();
            object.insert("bytes".to_owned(), json!(skew(found.bytes(column).into_iter())));
            Value::Object(object)
        }),
        "load": columns(|column| match found.load(column) {
            Some((mean, most)) => json!({"mean": mean, "most": most}),
            None => Value::Null,
        }),
        "check": {"bytes_error": bytes, "requests_error": requests},
        "headline": found.headline(),
        "assumptions": assumptions(source, plan),
        "not_predicted": not_predicted(source),
        "notes": found.notes,
    })
}

fn side(geometry: &Geometry, fs: &Filesystem, options: Option<&str>) -> Value {
    let groups = fs.block_groups();
    let mut side = json!({
        "options": options,
        "level": geometry.level().name(),
        "disks": geometry.disks(),
        "chunk_bytes": geometry.chunk_sectors().unwrap_or(0) * 512,
        "bytes": fs.bytes(),
        "blocks_per_group": groups.map(|g| g.blocks),
        "groups": groups.map(|g| g.count),
        "groups_per_flex": groups.map(|g| g.per_flex),
    });
    if let Some(groups) = fs.allocation_groups() {
        side["allocation_groups"] = json!(groups.count);
        side["agsize_bytes"] = json!(groups.sectors * 512);
    }
    side
}

/// An object with a value for each column.
fn columns(value: impl Fn(usize) -> Value) -> Value {
    let names = COLUMNS.iter().enumerate();
    let object: Map<String, Value> =
        names.map(|(column, name)| ((*name).to_owned(), value(column))).collect();
    Value::Object(object)
}

fn members(found: &Findings<'_>) -> Vec<Value> {
    let disks = found.plan.geometry.disks().max(found.source.geometry.disks());
    let origins = found.origins();
    let device = |column: usize| {
        found.column(column).map(|f| found.laid.service.seconds(f)).unwrap_or_default()
    };
    let device = [device(0), device(1), device(2)];
    let member = |slot: usize| {
        let io: Vec<Value> = origins
            .iter()
            .map(|&(origin, direction)| {
                let mut row = Map::new();
                row.insert("origin".to_owned(), json!(origin.name()));
                row.insert("op".to_owned(), json!(direction.op().name()));
                for (column, name) in COLUMNS.iter().enumerate() {
                    let sum = found
                        .column(column)
                        .map(|f| f.sum(slot, origin, direction))
                        .unwrap_or_default();
                    let sum = json!({"requests": sum.requests, "bytes": sum.bytes});
                    row.insert((*name).to_owned(), sum);
                }
                Value::Object(row)
            })
            .collect();
        json!({
            "slot": slot,
            "name": found.source.members.get(slot),
            "device_seconds": columns(|column| json!(device[column].get(slot))),
            "io": io,
        })
    };
    (0..disks as usize).map(member).collect()
}
