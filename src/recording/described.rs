//! Arrays and filesystems as the header of a recording describes them. The header is untrusted.

use serde_json::{Map, Value};

use super::header::{Header, RecordedArray, RecordedFilesystem, RecordedMember};
use crate::address::{ArraySector, FsBlock, FsSector, MemberSector};
use crate::analysis::placement::target::{Target, TargetArray, whole};
use crate::analysis::placement::{BlockGroups, FsMetadata, Groups};
use crate::analysis::relocate::Side;
use crate::fs::ext4::features::incompat;
use crate::fs::xfs::{XfsFeatures, XfsGeometry, XfsLayout, XfsLog};
use crate::fs::{SectorRange, Uuid};
use crate::machine::{Array, Member};
use crate::mke2fs::{Conf, Options, plan};
use crate::origin::Origin;
use crate::printable::clean;
use crate::raid::MAX_DISKS;

/// An array, and the filesystem on it.
pub struct Described {
    pub target: Target,
    /// First sector of data by slot; `None` for a missing member.
    pub data_offsets: Vec<Option<u64>>,
    /// First sector of the filesystem on the array.
    pub start: u64,
}

impl Described {
    /// Finds the filesystem `wanted`: a device, an array or a mount point; by default the only one.
    ///
    /// # Errors
    /// There is no such filesystem, or more than one, or the recording does not describe it.
    pub fn choose(header: &Header, wanted: Option<&str>) -> Result<Self, String> {
        let fits = |fs: &&RecordedFilesystem| {
            let name = wanted.map_or(&*fs.name, |name| name.trim_start_matches("/dev/"));
            let is_mounted = || fs.mounts.iter().any(|m| Some(&*m.path) == wanted);
            let is_known = fs.kind.starts_with("ext") || fs.kind == "xfs";
            is_known && (fs.name == name || fs.array == name || is_mounted())
        };
        let fitting: Vec<_> = header.filesystems.iter().filter(fits).collect();
        let word = |fs: &RecordedFilesystem| format!("{} ({})", fs.name, fs.kind);
        let words: Vec<_> = header.filesystems.iter().map(word).collect();
        match fitting.as_slice() {
            [one] => Self::new(header, one),
            [first, others @ ..] if others.iter().all(|fs| fs.name == first.name) => {
                let arrays: Vec<_> = fitting.iter().map(|fs| fs.array.as_str()).collect();
                let (name, arrays) = (&first.name, arrays.join(", "));
                let why = format!("{name} is on several arrays ({arrays}): --load supports one");
                Err(clean(&why).into_owned())
            }
            _ if words.is_empty() => Err("its header describes no filesystem".to_owned()),
            some => Err(format!(
                "it has {} filesystems that fit: name one of {}; --load supports ext2, ext3, ext4 \
                 and XFS",
                some.len(),
                clean(&words.join(", "))
            )),
        }
    }

    /// The filesystem, prepared for [`relocate`](crate::analysis::relocate).
    ///
    /// # Errors
    /// Structures are missing.
    pub fn side(&self) -> Result<Side, String> {
        let name = &self.target.name;
        let side = Side::new(&self.target.fs);
        side.map_err(|e| format!("its header has an incomplete layout of {name}: {e}"))
    }

    fn new(header: &Header, fs: &RecordedFilesystem) -> Result<Self, String> {
        let name = clean(&fs.name);
        let array = header.arrays.iter().find(|a| a.name == fs.array);
        let array = array.ok_or_else(|| format!("its header has no array for {name}"))?;
        let array_name = clean(&array.name);
        let is_other =
            |name: &str| header.arrays.iter().any(|a| a.name == name && name != array.name);
        if array.members.iter().any(|m| is_other(&m.name) || is_other(&m.disk)) {
            return Err(format!("{array_name} is an array of arrays: --load supports one level"));
        }
        if array.sync_action.as_deref() == Some("reshape") || array.reshape_position.is_some() {
            return Err(format!("{array_name} was reshaping: its geometry changed meanwhile"));
        }
        let start = match (fs.segments.as_slice(), fs.layout.iter().map(|r| r.0).min()) {
            (_, None) => Err(format!("its header has no layout of {name}, which was not readable")),
            // A filesystem begins with its boot block or superblock.
            ([], Some(start)) => Ok(start),
            ([(0, start, _)], _) if fs.stripes.is_empty() => Ok(*start),
            ([_], _) => {
                Err(format!("{} has a part of {name}: --load supports whole ones", fs.array))
            }
            _ => Err(format!("{name} is in several pieces of the array: --load supports one")),
        }?;
        let degraded = (array.degraded > 0).then(|| {
            format!("{array_name} was degraded: the load of missing members is in no column")
        });
        let described = machine_array(array);
        let array = TargetArray::from_array(&described);
        let array = array.map_err(|e| format!("{array_name}: {e}"))?;
        let here = fs.segments.first().map_or(u64::MAX, |(.., sectors)| *sectors);
        let fs = if fs.kind == "xfs" { xfs(fs) } else { ext4(fs, start) };
        let fs = fs.map_err(|e| format!("{name}: {e}"))?;
        if here < fs.bytes() / 512 {
            return Err(format!("{array_name} has a part of {name}: --load supports whole ones"));
        }
        let offset = |slot| {
            let member = described.members.iter().find(|m| m.slot == Some(slot));
            member.map(|m| m.data_offset.0)
        };
        let data_offsets = (0..array.geometry.disks()).map(offset).collect();
        let notes = fs.notes.iter().cloned().chain(degraded).collect();
        let segments = whole(ArraySector(start));
        let target = Target { name: name.into_owned(), fs, segments, array, notes };
        Ok(Self { target, data_offsets, start })
    }
}

/// An array with what its geometry follows from.
fn machine_array(array: &RecordedArray) -> Array {
    let member = |m: &RecordedMember| Member {
        name: m.name.clone(),
        slot: m.slot,
        data_offset: MemberSector(m.data_offset),
        data_sectors: m.data_sectors,
        ..Member::default()
    };
    Array {
        name: array.name.clone(),
        sectors: array.sectors,
        level: array.level.clone(),
        layout: array.layout,
        chunk_sectors: array.chunk_sectors,
        // More are refused, but not counted before.
        raid_disks: array.disks.min(MAX_DISKS + 1),
        component_sectors: array.component_sectors,
        members: array.members.iter().map(member).collect(),
        ..Array::default()
    }
}

/// A parameter of the filesystem.
fn number<T: TryFrom<u64>>(parameters: &Map<String, Value>, name: &str) -> Result<T, String> {
    let value = parameters.get(name).and_then(Value::as_u64);
    let value = value.ok_or_else(|| format!("the header of the recording has no {name}"))?;
    T::try_from(value).map_err(|_| format!("{name} is {value} in the header of the recording"))
}

/// An XFS, whose parameters are checked like a superblock.
fn xfs(fs: &RecordedFilesystem) -> Result<FsMetadata, String> {
    let get = |name| number::<u32>(&fs.parameters, name);
    let has = |name| {
        fs.parameters.get(name).and_then(Value::as_bool).ok_or_else(|| {
            format!("the header of the recording has no {name}: an older version recorded it")
        })
    };
    let blocks = get("log_blocks")?;
    let geometry = XfsGeometry {
        version: if get("version")? == 4 { 4 } else { 5 },
        block_size: get("block_size")?,
        sector_size: get("sector_size")?,
        inode_size: get("inode_size")?,
        blocks: number(&fs.parameters, "blocks")?,
        ag_blocks: get("ag_blocks")?,
        ag_count: get("ag_count")?,
        log: match number(&fs.parameters, "log_first") {
            Ok(first) => XfsLog::Internal { first: FsBlock(first), blocks },
            Err(_) => XfsLog::External { blocks },
        },
        stripe_unit: get("stripe_unit")?,
        stripe_width: get("stripe_width")?,
        inode_align: get("inode_align")?,
        features: XfsFeatures {
            finobt: has("finobt")?,
            rmapbt: has("rmapbt")?,
            reflink: has("reflink")?,
        },
        realtime_blocks: 0,
        uuid: Uuid::default(),
    };
    let checked = geometry.check();
    checked.map_err(|why| format!("the header of the recording is damaged: {why}"))?;
    Ok(FsMetadata::from_xfs(XfsLayout::from_geometry(geometry)))
}

/// The ext2, ext3 or ext4 that starts at sector `start` of its array. A truncated layout becomes
/// that of mke2fs with the same parameters.
fn ext4(fs: &RecordedFilesystem, start: u64) -> Result<FsMetadata, String> {
    let get = |name| number::<u32>(&fs.parameters, name);
    let block_size = get("block_size")?;
    if !(1024..=65536).contains(&block_size) || !block_size.is_power_of_two() {
        return Err(format!("block_size is {block_size}"));
    }
    let blocks = get("blocks_per_group")?;
    let inodes = u64::from(get("inodes_per_group")?) * u64::from(get("inode_size")?);
    let has_flex = get("feature_incompat")? & incompat::FLEX_BG != 0;
    let flex = if has_flex { get("log_groups_per_flex").unwrap_or(0).min(31) } else { 0 };
    let has_boot_block =
        block_size == 1024 && get("clusters_per_group").unwrap_or(blocks) == blocks;
    let range = |(first, count, origin): &(u64, u64, String)| {
        let first = FsSector(first.checked_sub(start)?);
        Some(SectorRange { first, count: *count, origin: origin.parse().ok()? })
    };
    let mut ranges: Vec<_> = fs.layout.iter().filter_map(range).collect();
    ranges.sort_unstable_by_key(|r| r.first);
    let mut found = FsMetadata {
        kind: fs.kind.clone(),
        block_size,
        blocks: number::<u64>(&fs.parameters, "blocks")?.min(1 << 53),
        groups: Some(Groups::Block(BlockGroups {
            count: get("groups")?,
            first_block: has_boot_block.into(),
            blocks,
            per_flex: 1 << flex,
            table_blocks: u32::try_from(inodes.div_ceil(block_size.into()))
                .map_err(|_| format!("inode tables of {inodes} bytes"))?,
        })),
        inodes: number(&fs.parameters, "inodes").unwrap_or(0),
        grows_to: 0,
        ranges,
        stride: get("raid_stride").unwrap_or(0),
        stripe_width: get("raid_stripe_width").unwrap_or(0),
        notes: Vec::new(),
    };
    if fs.layout_is_cut {
        found.ranges = complete(&found, number(&fs.parameters, "inode_size")?)
            .map_err(|e| format!("mke2fs cannot supply the rest of a truncated layout: {e}"))?;
        found.notes.push(
            "the header has only the first part of the layout; the whole layout, including the \
             journal, is assumed to be what mke2fs would make"
                .to_owned(),
        );
    }
    Ok(found)
}

/// The whole layout that mke2fs makes with the parameters of a truncated one.
fn complete(fs: &FsMetadata, inode_size: u16) -> Result<Vec<SectorRange>, String> {
    let groups = fs.block_groups().ok_or("no groups")?;
    let journal = fs.ranges.iter().filter(|r| r.origin == Origin::Journal);
    let journal = journal.fold(0_u64, |sum, r| sum.saturating_add(r.count)) >> 11;
    let options = Options {
        // If the known part has no journal, it has mke2fs's default size.
        journal: (journal > 0).then(|| format!("size={journal}")).into_iter().collect(),
        block_size: Some(fs.block_size.into()),
        group: Some(groups.blocks),
        flex: (groups.per_flex > 1).then_some(groups.per_flex),
        inode_size: Some(inode_size),
        inodes: Some(fs.inodes),
        extended: vec![format!("stride={}", fs.stride)],
        ..Options::default()
    };
    let made = FsMetadata::new(plan(fs.bytes(), 0, &options, &Conf::compiled_in())?);
    if made.groups != fs.groups {
        return Err("it has other block groups than mke2fs makes".to_owned());
    }
    for kind in [Origin::BlockBitmap, Origin::InodeBitmap, Origin::InodeTable] {
        let of = |fs: &FsMetadata| -> Vec<SectorRange> {
            fs.ranges.iter().filter(|r| r.origin == kind).copied().collect()
        };
        let known = of(fs);
        // The last range may be incomplete.
        let whole = known.len().saturating_sub(1);
        if of(&made).get(..whole) != known.get(..whole) {
            return Err(format!("its {kind} blocks are not where mke2fs puts them"));
        }
    }
    Ok(made.ranges)
}
