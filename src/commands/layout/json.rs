//! The report as one JSON object (schema raidtrace.layout/1).

use serde_json::{Map, Value, json};

use crate::analysis::placement::report::{self, PlacementReport};
use crate::analysis::placement::spread::MemberSpread;
use crate::analysis::placement::{Skews, Target};

pub fn object(report: &PlacementReport) -> Value {
    let (target, fs) = (&report.target, &report.target.fs);
    let figures = fs.figures();
    let mut skews = Map::new();
    for &origin in figures.origins {
        let value = report.spread.skew(|m| m.sectors_of(origin));
        skews.insert(origin.name().to_owned(), json!(value));
    }
    skews.append(&mut main_skews(report, &report.skews));
    let mut object = json!({
        "schema": "raidtrace.layout/1",
        "target": target.name,
        "array": target.array.name,
        "share": target.share(),
        "filesystem": fs.kind,
        "block_bytes": fs.block_size,
        "blocks": fs.blocks,
        "members": members(report),
        "skew": skews,
        "grown": report.grown.map(|(disks, s)| json!({
            "disks": disks,
            "skew": main_skews(report, &s),
        })),
        "uneven": report.uneven,
        "headline": report.headline,
        "why": report.why,
        "advice": report.advice,
        "notes": report::notes(target).collect::<Vec<_>>(),
    });
    if let (Value::Object(object), Value::Object(mut sizes)) = (&mut object, sizes(target)) {
        object.append(&mut sizes);
    }
    object
}

/// The array, and the sizes of the filesystem and its groups.
pub fn sizes(target: &Target) -> Value {
    let (geometry, fs) = (&target.array.geometry, &target.fs);
    let mut sizes = json!({
        "level": geometry.level().name(),
        "disks": geometry.disks(),
        "chunk_bytes": geometry.chunk_sectors().unwrap_or(0) * 512,
        "bytes": fs.bytes(),
    });
    if let Some(groups) = fs.allocation_groups() {
        sizes["allocation_groups"] = json!(groups.count);
        sizes["blocks_per_group"] = json!(groups.blocks);
        sizes["agsize_bytes"] = json!(groups.sectors * 512);
    } else {
        let groups = fs.block_groups();
        sizes["blocks_per_group"] = json!(groups.map(|g| g.blocks));
        sizes["groups"] = json!(groups.map(|g| g.count));
        sizes["groups_per_flex"] = json!(groups.map(|g| g.per_flex));
        sizes["inode_table_blocks"] = json!(groups.map(|g| g.table_blocks));
    }
    sizes
}

/// The skews of the two figures, and the worst of all.
fn main_skews(report: &PlacementReport, skews: &Skews) -> Map<String, Value> {
    let [allocation, inodes] = report.target.fs.figures().keys;
    let mut object = Map::new();
    object.insert(allocation.to_owned(), json!(skews.allocation));
    object.insert(inodes.to_owned(), json!(skews.inodes));
    object.insert("worst".to_owned(), json!(skews.worst()));
    object
}

fn members(report: &PlacementReport) -> Vec<Value> {
    let fs = &report.target.fs;
    let figures = fs.figures();
    let [allocation_unit, inodes_unit] = fs.units();
    let member = |(slot, member): (usize, &MemberSpread)| {
        let mut object = Map::new();
        let mut bytes = Map::new();
        object.insert("slot".to_owned(), json!(slot));
        let name = report.target.array.members.get(slot);
        object.insert("name".to_owned(), json!(name));
        for &origin in figures.origins {
            let sectors = member.sectors_of(origin);
            // Headers of allocation groups share blocks.
            if fs.allocation_groups().is_none() {
                let blocks = sectors / fs.block_sectors();
                object.insert(origin.name().to_owned(), json!(blocks));
            }
            bytes.insert(origin.name().to_owned(), json!(sectors * 512));
        }
        let [allocation, inodes] = figures.keys;
        if fs.allocation_groups().is_some() {
            let headers = (figures.allocation)(member) / allocation_unit;
            object.insert(allocation.to_owned(), json!(headers));
        }
        let heads = json!(member.heads / inodes_unit);
        object.insert(inodes.to_owned(), heads);
        object.insert("bytes".to_owned(), Value::Object(bytes));
        Value::Object(object)
    };
    report.spread.members.iter().enumerate().map(member).collect()
}
