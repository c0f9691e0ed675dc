//! What stands at the beginning of a recording: of which machine, arrays and filesystems it is.
//!
//! Additive: a field that is missing has its default, one that is not known is left alone.

use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};

/// Key of the schema's version in the metadata of the Arrow schema.
pub const VERSION_KEY: &str = "raidtrace.schema";
/// Key of the header, as JSON, beside it.
pub const HEADER_KEY: &str = "raidtrace.header";
/// What this version writes. A higher one is refused.
pub const VERSION: u32 = 1;

/// Of which machine, arrays and filesystems a recording is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Of the host.
    pub host: String,
    /// Its kernel's release: `6.12.48+deb13-cloud-amd64`.
    pub kernel: String,
    /// `x86_64`.
    pub machine: String,
    /// raidtrace's version.
    pub version: String,
    /// When recording began, RFC 3339.
    pub started: String,
    /// What clocks of the machine showed then, in seconds east of UTC; `None`: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utc_offset_s: Option<i32>,
    /// What was asked for; empty: everything in use.
    pub targets: Vec<String>,
    /// The command that was run meanwhile, if one was.
    pub command: Vec<String>,
    /// Outermost first, as they are numbered.
    pub arrays: Vec<Array>,
    /// What lies on them.
    pub filesystems: Vec<Filesystem>,
    /// Of the ring buffer.
    pub buffer_bytes: u64,
    /// What the kernel or the host could not give.
    pub notes: Vec<String>,
}

impl Header {
    /// The time zone of the machine that recorded, as it was when recording began.
    pub fn zone(&self) -> Option<TimeZone> {
        Some(
            Offset::from_seconds(self.utc_offset_s?)
                .ok()?
                .to_time_zone(),
        )
    }
}

/// An array's geometry, as mdadm has it. Sectors are of 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Array {
    /// Kernel name.
    pub name: String,
    /// `9:127`.
    pub dev: String,
    /// `raid0`, ... or `single`.
    pub level: String,
    /// md/layout.
    pub layout: u32,
    /// 0 where the level has none.
    pub chunk_sectors: u32,
    /// Size.
    pub sectors: u64,
    /// raid_disks, missing ones included.
    pub disks: u32,
    /// md/component_size in sectors.
    pub component_sectors: u64,
    /// md/metadata_version.
    pub metadata: Option<String>,
    /// md/array_state.
    pub array_state: String,
    /// md/degraded.
    pub degraded: u32,
    /// md/sync_action.
    pub sync_action: Option<String>,
    /// md/reshape_position.
    pub reshape_position: Option<u64>,
    /// md/consistency_policy.
    pub consistency_policy: Option<String>,
    /// By slot; those without a slot last.
    pub members: Vec<Member>,
}

/// A member's place. Sectors are of 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Kernel name.
    pub name: String,
    /// `7:1`.
    pub dev: String,
    /// The whole disk that carries it.
    pub disk: String,
    /// Where it begins on that.
    pub start: u64,
    /// Size.
    pub sectors: u64,
    /// raid_disk.
    pub slot: Option<u32>,
    /// md's words.
    pub state: Vec<String>,
    /// First sector of data.
    pub data_offset: u64,
    /// Sectors of data.
    pub data_sectors: u64,
}

/// A filesystem, or a device that may hold one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filesystem {
    /// Kernel name of its block device: what the column `filesystem` says.
    pub name: String,
    /// `9:127`.
    pub dev: String,
    /// Kernel name of the array.
    pub array: String,
    /// `ext4`, ...; empty: not known.
    pub kind: String,
    /// Where it is mounted.
    pub mounts: Vec<Mount>,
    /// Facts of the superblock by name: `block_size`, `blocks`, `blocks_per_group`, `groups`, `features`, ...
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// What lies at fixed places: first sector on the array, sectors, origin.
    pub layout: Vec<(u64, u64, String)>,
    /// `layout` has not all of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layout_is_cut: bool,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// Where; not UTF-8: as the columns have it.
    pub path: String,
    /// As /proc/self/mountinfo has them.
    pub options: String,
}
