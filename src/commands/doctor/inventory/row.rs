//! A row of the inventory, and the rows of a host.

use serde::{Deserialize, Serialize};

use crate::commands::doctor::facts::{ArrayFacts, DiskFacts, Facts, FsFacts};
use crate::commands::doctor::finding::Finding;
use crate::machine::dm::raid_volume;
use crate::machine::{ArrayState, Member, MemberState};

/// Name and version of the lines.
pub const SCHEMA: &str = "raidtrace.inventory/1";

/// Subject of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InventoryKind {
    #[default]
    Host,
    Array,
    Member,
    Filesystem,
    Finding,
}

/// A row, with the columns of the table `inventory` (recording/dataset/columns.toml), which says
/// what they are and when they are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InventoryRow {
    pub schema: String,
    /// RFC 3339, UTC.
    pub time: String,
    pub host_name: String,
    pub host_id: Option<String>,
    pub kernel: String,
    pub version: String,
    pub kind: InventoryKind,
    pub array: Option<String>,
    pub volume: Option<String>,
    pub level: Option<String>,
    pub chunk_bytes: Option<u64>,
    pub raid_disks: Option<u32>,
    pub size_bytes: Option<u64>,
    pub health: Option<String>,
    pub member: Option<String>,
    pub slot: Option<u32>,
    pub disk: Option<String>,
    pub model: Option<String>,
    pub firmware: Option<String>,
    pub rotational: Option<bool>,
    pub filesystem: Option<String>,
    pub fs_type: Option<String>,
    pub mounted_on: Option<String>,
    pub mount_options: Option<String>,
    pub skew: Option<f64>,
    pub finding: Option<String>,
    pub severity: Option<String>,
    pub title: Option<String>,
    pub commands: Vec<String>,
}

/// The rows of a host. `host` has the values of all rows.
pub fn rows(facts: &Facts, found: &[Finding], host: &InventoryRow) -> Vec<InventoryRow> {
    let mut rows = vec![host.clone()];
    for of in &facts.arrays {
        rows.push(array(of, host));
        let states = ArrayState::from_array(&of.array).members;
        rows.extend(of.members().map(|(member, disk)| {
            let state = states.iter().find(|state| state.name == member.name);
            self::member(of, member, disk, state, host)
        }));
        rows.extend(of.filesystems.iter().map(|fs| filesystem(of, fs, host)));
    }
    rows.extend(found.iter().map(|found| finding(found, host)));
    rows
}

fn array(of: &ArrayFacts, host: &InventoryRow) -> InventoryRow {
    let array = &of.array;
    InventoryRow {
        kind: InventoryKind::Array,
        array: Some(array.name.clone()),
        volume: raid_volume(array),
        level: Some(array.level.clone()),
        chunk_bytes: Some(u64::from(array.chunk_sectors) * 512),
        raid_disks: Some(array.raid_disks),
        size_bytes: bytes(array.sectors),
        health: ArrayState::from_array(array).health(),
        ..host.clone()
    }
}

fn member(
    of: &ArrayFacts,
    member: &Member,
    disk: &DiskFacts,
    state: Option<&MemberState>,
    host: &InventoryRow,
) -> InventoryRow {
    let is_md = of.array.level != "single";
    InventoryRow {
        kind: InventoryKind::Member,
        array: Some(of.array.name.clone()),
        size_bytes: bytes(member.sectors),
        health: state.filter(|_| is_md).and_then(MemberState::health),
        member: Some(member.name.clone()),
        slot: member.slot,
        disk: known(&member.disk_name),
        model: known(&disk.model),
        firmware: known(&disk.firmware),
        rotational: Some(member.queue.rotational),
        ..host.clone()
    }
}

fn filesystem(of: &ArrayFacts, fs: &FsFacts, host: &InventoryRow) -> InventoryRow {
    let mount = fs.fs.mounts.first();
    InventoryRow {
        kind: InventoryKind::Filesystem,
        array: Some(of.array.name.clone()),
        size_bytes: fs.space.map(|space| space.bytes),
        filesystem: Some(fs.fs.name.clone()),
        fs_type: mount.map(|mount| mount.fstype.clone()),
        mounted_on: mount.map(|mount| mount.path.display().to_string()),
        mount_options: mount.map(|mount| mount.options.clone()),
        skew: fs.report.as_ref().map(|report| report.skews.worst()),
        ..host.clone()
    }
}

fn finding(found: &Finding, host: &InventoryRow) -> InventoryRow {
    InventoryRow {
        kind: InventoryKind::Finding,
        array: found.array.clone(),
        filesystem: found.filesystem.clone(),
        mounted_on: found.mounted_on.clone(),
        finding: Some(found.id.to_owned()),
        severity: Some(found.severity.to_string()),
        title: Some(found.title.clone()),
        commands: found.commands.clone(),
        ..host.clone()
    }
}

fn bytes(sectors: u64) -> Option<u64> {
    sectors.checked_mul(512).filter(|bytes| *bytes > 0)
}

fn known(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
