//! The header of a recording, from the topology.

use std::ffi::OsString;

use serde_json::{Map, Value, json};

use crate::fs::Layout;
use crate::fs::ext4::Ext4Layout;
use crate::fs::xfs::{XfsGeometry, XfsLog};
use crate::machine::host_id::HostIdentity;
use crate::machine::topology::Topology;
use crate::machine::{Array, DeviceRole, Filesystem, Member};
use crate::recording::header::{
    Header, RecordedArray, RecordedFilesystem, RecordedMember, RecordedMount,
};

/// Maximum number of layout ranges of a filesystem: enough for some 10 TB.
const MAX_LAYOUT_RANGES: usize = 20_000;

/// Header of a recording that starts now on this host.
pub fn header(
    topology: &Topology,
    targets: &[String],
    command: &[OsString],
    buffer: u32,
) -> Header {
    let HostIdentity { host_name, host_id, kernel } = HostIdentity::own();
    let arrays = &topology.host.arrays;
    let now = jiff::Timestamp::now();
    Header {
        host: host_name,
        host_id,
        kernel,
        machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        utc_offset_s: jiff::tz::TimeZone::try_system()
            .ok()
            .map(|zone| zone.to_offset(now).seconds()),
        targets: targets.to_vec(),
        command: command.iter().map(|c| c.to_string_lossy().into_owned()).collect(),
        arrays: arrays.iter().map(array).collect(),
        filesystems: arrays
            .iter()
            .flat_map(|a| a.filesystems.iter().map(move |fs| (a, fs)))
            .map(|(a, fs)| filesystem(topology, a, fs))
            .collect(),
        buffer_bytes: u64::from(buffer),
        notes: Vec::new(),
        checksum: 0,
    }
}

fn array(a: &Array) -> RecordedArray {
    RecordedArray {
        name: a.name.clone(),
        dev: a.dev.to_string(),
        level: a.level.clone(),
        layout: a.layout,
        chunk_sectors: a.chunk_sectors,
        sectors: a.sectors,
        disks: a.raid_disks,
        component_sectors: a.component_sectors,
        metadata: a.metadata.clone(),
        array_state: a.array_state.clone(),
        degraded: a.degraded,
        sync_action: a.sync_action.clone(),
        reshape_position: a.reshape_position,
        consistency_policy: a.consistency_policy.clone(),
        members: a.members.iter().map(member).collect(),
    }
}

fn member(m: &Member) -> RecordedMember {
    RecordedMember {
        name: m.name.clone(),
        dev: m.dev.to_string(),
        disk: m.disk_name.clone(),
        start: m.start.0,
        sectors: m.sectors,
        slot: m.slot,
        state: m.state.clone(),
        data_offset: m.data_offset.0,
        data_sectors: m.data_sectors,
    }
}

fn filesystem(topology: &Topology, array: &Array, fs: &Filesystem) -> RecordedFilesystem {
    let layout = topology.layouts.get(&fs.dev);
    let (ranges, is_cut) = layout.map_or((Vec::new(), false), |l| layout_ranges(l, fs));
    let mounted = fs.mounts.first().map_or("", |m| m.fstype.as_str());
    let kind = match fs.role {
        DeviceRole::Main => layout.map_or(mounted.to_owned(), Layout::name),
        DeviceRole::Log(_) => format!("{mounted}_log"),
        DeviceRole::Realtime(_) => format!("{mounted}_realtime"),
        DeviceRole::Swap => "swap".to_owned(),
    };
    // Others look a filesystem up by its mount point, and must find its main device.
    let mounts = match fs.role {
        DeviceRole::Main => fs.mounts.as_slice(),
        DeviceRole::Log(_) | DeviceRole::Realtime(_) | DeviceRole::Swap => &[],
    };
    RecordedFilesystem {
        name: fs.name.clone(),
        dev: fs.dev.to_string(),
        array: array.name.clone(),
        kind,
        mounts: mounts
            .iter()
            .map(|m| RecordedMount {
                path: m.path.display().to_string(),
                options: m.options.clone(),
            })
            .collect(),
        parameters: layout.map(parameters).unwrap_or_default(),
        layout: ranges,
        segments: fs
            .segments
            .iter()
            .map(|s| (s.fs_sector.0, s.array_sector.0, s.sectors))
            .collect(),
        stripes: match fs.segments.iter().any(|s| s.stripe.gap > 0) {
            true => {
                fs.segments.iter().map(|s| (s.stripe.chunk, s.stripe.gap, s.stripe.phase)).collect()
            }
            false => Vec::new(),
        },
        layout_is_cut: is_cut,
    }
}

fn parameters(layout: &Layout) -> Map<String, Value> {
    let all = match layout {
        Layout::Ext4(layout) => ext4_parameters(layout),
        Layout::Xfs(layout) => xfs_parameters(&layout.geometry),
        Layout::XfsDevice(_) | Layout::Swap { .. } => Value::Null,
    };
    match all {
        Value::Object(all) => all,
        _ => Map::new(),
    }
}

fn xfs_parameters(geometry: &XfsGeometry) -> Value {
    let (log_first, log_blocks) = match geometry.log {
        XfsLog::Internal { first, blocks } => (Some(first.0), blocks),
        XfsLog::External { blocks } => (None, blocks),
    };
    json!({
        "version": geometry.version,
        "log_first": log_first,
        "log_blocks": log_blocks,
        "inode_align": geometry.inode_align,
        "finobt": geometry.features.finobt,
        "rmapbt": geometry.features.rmapbt,
        "reflink": geometry.features.reflink,
        "block_size": geometry.block_size,
        "blocks": geometry.blocks,
        "sector_size": geometry.sector_size,
        "ag_count": geometry.ag_count,
        "ag_blocks": geometry.ag_blocks,
        "inode_size": geometry.inode_size,
        "stripe_unit": geometry.stripe_unit,
        "stripe_width": geometry.stripe_width,
    })
}

fn ext4_parameters(layout: &Ext4Layout) -> Value {
    let mut all = json!({
        "block_size": layout.block_size,
        "blocks": layout.blocks,
        "groups": layout.groups,
    });
    if let (Value::Object(all), Some(sb)) = (&mut all, &layout.superblock)
        && let Value::Object(more) = json!({
            "blocks_per_group": sb.blocks_per_group,
            "clusters_per_group": sb.clusters_per_group,
            "inodes_per_group": sb.inodes_per_group,
            "inode_size": sb.inode_size,
            "inodes": sb.inodes_count,
            "free_blocks": sb.free_blocks_count,
            "free_inodes": sb.free_inodes_count,
            "feature_compat": sb.feature_compat,
            "feature_incompat": sb.feature_incompat,
            "feature_ro_compat": sb.feature_ro_compat,
            "log_groups_per_flex": sb.log_groups_per_flex,
            "reserved_gdt_blocks": sb.reserved_gdt_blocks,
            "raid_stride": sb.raid_stride,
            "raid_stripe_width": sb.raid_stripe_width,
            "label": sb.label,
            "error_count": sb.error_count,
            "mount_opts": sb.mount_opts,
            "journal_inode": sb.journal_inum,
            "mkfs_time": sb.mkfs_time,
        })
    {
        all.extend(more);
    }
    all
}

/// Layout ranges on the array: first sector, sectors, origin. The flag is true if the list was
/// truncated.
fn layout_ranges(layout: &Layout, fs: &Filesystem) -> (Vec<(u64, u64, String)>, bool) {
    let ranges = layout.ranges();
    let mut found = Vec::new();
    for segment in &fs.segments {
        let first_range = ranges.partition_point(|r| r.end() <= segment.fs_sector);
        for range in &ranges[first_range..] {
            let first = range.first.max(segment.fs_sector);
            let last = range.end().min(segment.end());
            if first >= last {
                break;
            }
            let (first, last) = (segment.map(first), segment.map(last));
            if first == last {
                continue; // in a gap of a striped volume
            }
            if found.len() == MAX_LAYOUT_RANGES {
                return (found, true);
            }
            found.push((first.0, last - first, range.origin.name().to_owned()));
        }
    }
    (found, false)
}

/// Notes on filesystems whose layout was truncated in the header.
pub fn truncation_notes(header: &Header) -> Vec<String> {
    let cut = header.filesystems.iter().filter(|fs| fs.layout_is_cut);
    cut.map(|fs| {
        format!(
            "{}: the header of the recording holds only the first {MAX_LAYOUT_RANGES} layout \
             ranges; the \
             origins of requests are not affected",
            fs.name
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{DeviceRole, Topology, layout_ranges};
    use crate::address::{ArraySector, FsBlock, FsSector};
    use crate::fs::ext4::{Ext4Layout, FsKind, Journal, Range};
    use crate::machine::{Array, Filesystem, MainDevice, Mount, Segment};
    use crate::origin::Origin;

    #[test]
    fn layout_is_mapped_to_array_sectors() {
        let range = |first, count, origin| Range { first: FsBlock(first), count, origin };
        let layout = Ext4Layout {
            block_size: 4096,
            blocks: 1000,
            groups: Some(1),
            kind: FsKind::Ext4,
            superblock: None,
            ranges: vec![
                range(0, 2, Origin::Superblock),
                range(10, 4, Origin::BlockBitmap),
                range(100, 1, Origin::Journal),
            ],
            journal: Journal::None,
            notes: Vec::new(),
        };
        let segment = |fs_sector, array_sector, sectors| {
            Segment::new(FsSector(fs_sector), ArraySector(array_sector), sectors)
        };
        let fs = Filesystem {
            // Two segments, split within the bitmaps.
            segments: vec![segment(0, 5000, 96), segment(96, 2000, 7904)],
            ..Filesystem::default()
        };
        let at = |first: u64, sectors: u64, origin: &str| (first, sectors, origin.to_owned());
        let want = vec![
            at(5000, 16, "superblock"),
            at(5080, 16, "block_bitmap"),
            at(2000, 16, "block_bitmap"),
            at(2704, 8, "journal"),
        ];
        assert_eq!(layout_ranges(&layout.into(), &fs), (want, false));
    }

    #[test]
    fn the_log_of_an_xfs_is_not_found_by_its_mount_point() {
        let mount = Mount { path: "/srv".into(), fstype: "xfs".to_owned(), ..Mount::default() };
        let of = |role| {
            let fs = Filesystem { mounts: vec![mount.clone()], role, ..Filesystem::default() };
            let found = super::filesystem(&Topology::default(), &Array::default(), &fs);
            (found.kind, found.mounts.len())
        };
        assert_eq!(of(DeviceRole::Main), ("xfs".to_owned(), 1));
        let log = DeviceRole::Log(MainDevice::default());
        assert_eq!(of(log), ("xfs_log".to_owned(), 0));
    }
}
