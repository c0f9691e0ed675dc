//! The report as one JSON object (schema raidtrace.layout/1).

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::analysis::placement::report::{self, Report};
use crate::analysis::placement::spread::{FIXED, Member};

/// Writes the object on one line.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &object(report))?;
    writeln!(out)
}

/// The report as a JSON value.
pub fn object(report: &Report) -> Value {
    let (target, fs) = (&report.target, &report.target.fs);
    let geometry = &target.array.geometry;
    let groups = fs.groups;
    let skew = |figure: fn(&Member) -> u64| report.spread.skew(figure);
    let mut skews = Map::new();
    for origin in FIXED {
        let value = report.spread.skew(|m| m.sectors_of(origin));
        skews.insert(origin.name().to_owned(), json!(value));
    }
    skews.insert("bitmaps".to_owned(), json!(skew(Member::bitmaps)));
    skews.insert("inode_table_heads".to_owned(), json!(skew(|m| m.heads)));
    skews.insert("worst".to_owned(), json!(report.skews.worst()));
    json!({
        "schema": "raidtrace.layout/1",
        "target": target.name,
        "array": target.array.name,
        "level": geometry.level().name(),
        "disks": geometry.disks(),
        "chunk_bytes": geometry.chunk_sectors().unwrap_or(0) * 512,
        "filesystem": fs.kind,
        "bytes": fs.bytes(),
        "block_bytes": fs.block_size,
        "blocks": fs.blocks,
        "blocks_per_group": groups.map(|g| g.blocks),
        "groups": groups.map(|g| g.count),
        "groups_per_flex": groups.map(|g| g.per_flex),
        "inode_table_blocks": groups.map(|g| g.table_blocks),
        "members": members(report),
        "skew": skews,
        "grown": report.grown.map(|(disks, s)| json!({
            "disks": disks,
            "skew": {
                "bitmaps": s.bitmaps,
                "inode_table_heads": s.tables,
                "worst": s.worst(),
            },
        })),
        "uneven": report.uneven,
        "headline": report.headline,
        "why": report.why,
        "advice": report.advice,
        "notes": report::notes(target).collect::<Vec<_>>(),
    })
}

fn members(report: &Report) -> Vec<Value> {
    let fs = &report.target.fs;
    let block_sectors = u64::from(fs.block_size / 512);
    let member = |(slot, member): (usize, &Member)| {
        let mut object = Map::new();
        let mut bytes = Map::new();
        object.insert("slot".to_owned(), json!(slot));
        let name = report.target.array.members.get(slot);
        object.insert("name".to_owned(), json!(name));
        for origin in FIXED {
            let sectors = member.sectors_of(origin);
            object.insert(origin.name().to_owned(), json!(sectors / block_sectors));
            bytes.insert(origin.name().to_owned(), json!(sectors * 512));
        }
        let heads = json!(member.heads / block_sectors);
        object.insert("inode_table_heads".to_owned(), heads);
        object.insert("bytes".to_owned(), Value::Object(bytes));
        Value::Object(object)
    };
    let members = report.spread.members.iter().enumerate();
    members.map(member).collect()
}
