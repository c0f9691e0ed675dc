//! The report as one JSON object (schema raidtrace.layout/1).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::analysis::placement::report::{self, PlacementReport};
use crate::analysis::placement::spread::MemberSpread;
use crate::analysis::placement::{FsMetadata, Skews, Target};

/// Skews by origin, of the two main figures (`bitmaps` and `inode_table_heads`, or `ag_headers` and
/// `first_inodes`), and the `worst` of all. `null`: the filesystem has none of it.
pub type SkewsByFigure = BTreeMap<&'static str, Option<f64>>;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LayoutJson<'a> {
    schema: &'a str,
    target: &'a str,
    array: Option<&'a str>,
    /// Share of the filesystem that is on the array, 0 to 1.
    share: f64,
    filesystem: &'a str,
    block_bytes: u32,
    blocks: u64,
    members: Vec<MemberJson<'a>>,
    skew: SkewsByFigure,
    /// The skews after growing.
    grown: Option<GrownJson>,
    uneven: bool,
    headline: &'a str,
    why: Option<&'a str>,
    advice: Option<&'a str>,
    notes: Vec<&'a String>,
    #[serde(flatten)]
    sizes: PlacementSizes,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GrownJson {
    disks: u32,
    skew: SkewsByFigure,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MemberJson<'a> {
    slot: usize,
    name: Option<&'a str>,
    /// Bytes by origin.
    bytes: BTreeMap<&'static str, u64>,
    /// Blocks by origin (not on XFS, whose headers share blocks), and the two main figures.
    #[serde(flatten)]
    figures: BTreeMap<&'static str, u64>,
}

/// The array, and the sizes of the filesystem and its groups.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlacementSizes {
    level: &'static str,
    disks: u32,
    /// 0 if the level has no chunks.
    chunk_bytes: u64,
    bytes: u64,
    #[serde(flatten)]
    groups: GroupSizes,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum GroupSizes {
    Allocation {
        allocation_groups: u64,
        blocks_per_group: u64,
        agsize_bytes: u64,
    },
    /// `null` for a filesystem without block groups.
    Block {
        groups: Option<u32>,
        blocks_per_group: Option<u32>,
        groups_per_flex: Option<u32>,
        inode_table_blocks: Option<u32>,
    },
}

impl PlacementSizes {
    pub fn new(target: &Target) -> Self {
        let (geometry, fs) = (&target.array.geometry, &target.fs);
        let groups = fs.block_groups();
        Self {
            level: geometry.level().name(),
            disks: geometry.disks(),
            chunk_bytes: geometry.chunk_sectors().unwrap_or(0) * 512,
            bytes: fs.bytes(),
            groups: match fs.allocation_groups() {
                Some(groups) => GroupSizes::Allocation {
                    allocation_groups: groups.count.into(),
                    blocks_per_group: groups.blocks.into(),
                    agsize_bytes: groups.sectors * 512,
                },
                None => GroupSizes::Block {
                    groups: groups.map(|g| g.count),
                    blocks_per_group: groups.map(|g| g.blocks),
                    groups_per_flex: groups.map(|g| g.per_flex),
                    inode_table_blocks: groups.map(|g| g.table_blocks),
                },
            },
        }
    }
}

pub fn object(report: &PlacementReport) -> Value {
    let (target, fs) = (&report.target, &report.target.fs);
    let by_origin = fs.figures().origins.iter();
    let mut skew: SkewsByFigure =
        by_origin.map(|&o| (o.name(), report.spread.skew(|m| m.sectors_of(o)))).collect();
    skew.append(&mut main_skews(fs, &report.skews));
    json!(LayoutJson {
        schema: "raidtrace.layout/1",
        target: &target.name,
        array: target.array.name.as_deref(),
        share: target.share(),
        filesystem: &fs.kind,
        block_bytes: fs.block_size,
        blocks: fs.blocks,
        members: members(report),
        skew,
        grown: report.grown.map(|(disks, skews)| GrownJson { disks, skew: main_skews(fs, &skews) }),
        uneven: report.uneven,
        headline: &report.headline,
        why: report.why.as_deref(),
        advice: report.advice.as_deref(),
        notes: report::notes(target).collect(),
        sizes: PlacementSizes::new(target),
    })
}

/// The skews of the two figures, and the worst of all.
pub fn main_skews(fs: &FsMetadata, skews: &Skews) -> SkewsByFigure {
    let [allocation, inodes] = fs.figures().keys;
    let worst = ("worst", Some(skews.worst()));
    [(allocation, skews.allocation), (inodes, skews.inodes), worst].into()
}

fn members(report: &PlacementReport) -> Vec<MemberJson<'_>> {
    let fs = &report.target.fs;
    let figures = fs.figures();
    let ([allocation, inodes], [allocation_unit, inodes_unit]) = (figures.keys, fs.units());
    let has_headers = fs.allocation_groups().is_some();
    let member = |(slot, member): (usize, &MemberSpread)| {
        let by_origin = || figures.origins.iter().map(|&o| (o.name(), member.sectors_of(o)));
        // Headers of allocation groups share blocks.
        let blocks = by_origin().filter(|_| !has_headers).map(|(o, n)| (o, n / fs.block_sectors()));
        let headers = has_headers.then(|| (figures.allocation)(member) / allocation_unit);
        MemberJson {
            slot,
            name: report.target.array.members.get(slot).map(String::as_str),
            bytes: by_origin().map(|(origin, sectors)| (origin, sectors * 512)).collect(),
            figures: blocks
                .chain(headers.map(|n| (allocation, n)))
                .chain([(inodes, member.heads / inodes_unit)])
                .collect(),
        }
    };
    report.spread.members.iter().enumerate().map(member).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<super::LayoutJson<'_>>("raidtrace.layout/1");
    }
}
