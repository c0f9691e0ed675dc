//! The header of a recording: machine, arrays and filesystems.
//!
//! Later versions may add fields: a missing field has its default, an unknown field is ignored.

use jiff::tz::{Offset, TimeZone};
use serde::{Deserialize, Serialize};

/// Key of the schema version in the metadata of the Arrow schema.
pub const VERSION_KEY: &str = "raidtrace.schema";
/// Key of the header, as JSON, in the same metadata.
pub const HEADER_KEY: &str = "raidtrace.header";
/// Schema version of the files written. Files with a later version are rejected.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Name of the host.
    pub host: String,
    /// Identifier of the installation, see [`crate::machine::host_id`]; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// Kernel release: `6.12.48+deb13-cloud-amd64`.
    pub kernel: String,
    /// `x86_64`.
    pub machine: String,
    /// raidtrace's version.
    pub version: String,
    /// Start of the recording, RFC 3339.
    pub started: String,
    /// UTC offset of the machine at the start, in seconds east of UTC; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utc_offset_s: Option<i32>,
    /// Targets of the command line; empty for everything in use.
    pub targets: Vec<String>,
    /// Command that was recorded, if any.
    pub command: Vec<String>,
    /// Arrays by name (`md2` before `md10`).
    pub arrays: Vec<RecordedArray>,
    /// Filesystems on the arrays.
    pub filesystems: Vec<RecordedFilesystem>,
    /// Size of the ring buffer; 0 if requests are not recorded.
    pub buffer_bytes: u64,
    /// Data that the kernel or the host could not provide.
    pub notes: Vec<String>,
    /// CRC-32C of the stored JSON: the same in all copies and parts of a recording. 0 in a header
    /// that was not read from a recording.
    #[serde(skip)]
    pub checksum: u32,
}

impl Header {
    /// Time zone of the recorded machine, with its UTC offset at the start of the recording.
    pub fn zone(&self) -> Option<TimeZone> {
        Some(Offset::from_seconds(self.utc_offset_s?).ok()?.to_time_zone())
    }
}

/// Geometry of an array, as in mdadm. Sectors have 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedArray {
    /// Kernel name.
    pub name: String,
    /// `9:127`.
    pub dev: String,
    /// `raid0`, ... or `single`.
    pub level: String,
    /// md/layout.
    pub layout: u32,
    /// 0 if the level has no chunks.
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
    /// Members by slot; members without a slot last.
    pub members: Vec<RecordedMember>,
}

/// Location of a member. Sectors have 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedMember {
    /// Kernel name.
    pub name: String,
    /// `7:1`.
    pub dev: String,
    /// Whole disk that the member is on.
    pub disk: String,
    /// First sector of the member on the disk.
    pub start: u64,
    /// Size.
    pub sectors: u64,
    /// raid_disk.
    pub slot: Option<u32>,
    /// Words of md/dev-*/state.
    pub state: Vec<String>,
    /// First sector of data.
    pub data_offset: u64,
    pub data_sectors: u64,
}

/// A filesystem, or a device that may hold one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedFilesystem {
    /// Kernel name of the block device, as in the column `filesystem`.
    pub name: String,
    /// `9:127`.
    pub dev: String,
    /// Kernel name of the array.
    pub array: String,
    /// `ext4`, `xfs`, ...; empty if unknown. `xfs_log`, `xfs_realtime`: such a device of an XFS,
    /// which has no mounts.
    pub kind: String,
    pub mounts: Vec<RecordedMount>,
    /// Facts of the superblock by name: `block_size`, `blocks`, `blocks_per_group`, `groups`,
    /// `features`, ...
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Blocks with a fixed location: first sector on the array, number of sectors, origin.
    pub layout: Vec<(u64, u64, String)>,
    /// Location on the array: first sector of the filesystem, first sector on the array, number of
    /// sectors. Empty in recordings of older versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<(u64, u64, u64)>,
    /// The stripe of each of `segments`, if a volume is striped over several arrays: sectors of a
    /// chunk, sectors of the other legs after it, and sectors of the first chunk that come before
    /// the segment. Empty without a stripe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stripes: Vec<(u64, u64, u64)>,
    /// True if `layout` is incomplete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layout_is_cut: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedMount {
    /// Mount point; bytes that are not UTF-8 are escaped as in columns.
    pub path: String,
    /// Options in /proc/self/mountinfo.
    pub options: String,
}
