//! Array and filesystem of a recording, from its header. The header is untrusted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::address::{FsBlock, FsSector};
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::placement::{self, Filesystem};
use crate::analysis::relocate::{Groups, Prepared, Side};
use crate::fs::ext4::features::incompat;
use crate::fs::{SectorRange, Uuid, xfs};
use crate::mke2fs::{Conf, Options, plan};
use crate::origin::Origin;
use crate::raid::{Geometry, Level, Params};
use crate::recording::header::{self, Header};
use crate::ui::text;

/// An array, and the filesystem on it.
pub struct Source {
    /// Kernel name of the array.
    pub array: String,
    /// Kernel name of the filesystem's device.
    pub name: String,
    pub geometry: Geometry,
    pub options: ArrayOptions,
    /// Usable sectors of each member.
    pub member_sectors: Vec<u64>,
    /// Names of members by slot.
    pub members: Vec<String>,
    pub fs: Filesystem,
    /// The groups of the filesystem, indexed for the translation.
    pub side: Prepared,
    /// Its parameters, if it is an XFS.
    pub xfs: Option<xfs::Geometry>,
    /// First sector of the filesystem on the array.
    pub start: u64,
    /// Caveats about the figures.
    pub notes: Vec<String>,
}

impl Source {
    /// Finds the filesystem `wanted`: a device, an array or a mount point; by default the only one.
    ///
    /// # Errors
    /// There is no such filesystem, or more than one, or the recording does not describe it.
    pub fn choose(header: &Header, wanted: Option<&str>) -> Result<Self, String> {
        let fits = |fs: &&header::Filesystem| match wanted.map(|w| w.trim_start_matches("/dev/")) {
            Some(name) => {
                let mounted = fs.mounts.iter().any(|m| Some(m.path.as_str()) == wanted);
                fs.name == name || fs.array == name || mounted
            }
            None => true,
        };
        let all: Vec<_> = header.filesystems.iter().filter(fits).collect();
        let known: Vec<_> =
            all.iter().filter(|f| f.kind.starts_with("ext") || f.kind == "xfs").collect();
        let list = |all: &[&header::Filesystem]| {
            all.iter().map(|f| text::clean(&f.name).into_owned()).collect::<Vec<_>>().join(", ")
        };
        match (known.as_slice(), all.as_slice()) {
            ([one], _) => Self::new(header, one),
            ([], []) => {
                let recorded: Vec<_> = header.filesystems.iter().collect();
                Err(match (wanted, recorded.as_slice()) {
                    (Some(name), [_, ..]) => format!(
                        "it has no {}; its filesystems: {}",
                        text::clean(name),
                        list(&recorded)
                    ),
                    _ => "its header describes no filesystem, so there is nothing to lay out"
                        .to_owned(),
                })
            }
            ([], [first, ..]) => Err(format!(
                "{} holds {}: --load supports ext2, ext3, ext4 and XFS",
                text::clean(&first.name),
                match first.kind.as_str() {
                    "" => "no known filesystem".to_owned(),
                    kind => text::clean(kind).into_owned(),
                }
            )),
            (several, _) => {
                let several: Vec<_> = several.iter().map(|f| **f).collect();
                Err(format!("it has several filesystems: name one of {}", list(&several)))
            }
        }
    }

    fn new(header: &Header, fs: &header::Filesystem) -> Result<Self, String> {
        let name = text::clean(&fs.name).into_owned();
        let array = header
            .arrays
            .iter()
            .find(|a| a.name == fs.array)
            .ok_or_else(|| format!("its header has no array for {name}"))?;
        let others: BTreeSet<&str> = header
            .arrays
            .iter()
            .map(|a| a.name.as_str())
            .filter(|name| *name != array.name)
            .collect();
        let is_nested = |m: &&header::Member| {
            others.contains(m.name.as_str()) || others.contains(m.disk.as_str())
        };
        let nested = array.members.iter().find(is_nested);
        if let Some(member) = nested {
            return Err(format!(
                "{} is an array of arrays ({}): --load supports one level",
                text::clean(&array.name),
                text::clean(&member.name)
            ));
        }
        let reshaping = array.sync_action.as_deref() == Some("reshape");
        if reshaping || array.reshape_position.is_some() {
            return Err(format!(
                "{} was reshaping: its geometry changed while it was recorded",
                text::clean(&array.name)
            ));
        }
        if fs.layout.is_empty() {
            return Err(format!(
                "its header has no layout of {name}: it was recorded without access to the device"
            ));
        }
        let level: Level = array.level.parse().map_err(|e| format!("{e}"))?;
        let member_sectors = member_sectors(array, level);
        let geometry = Geometry::new(&Params {
            level,
            layout: array.layout,
            disks: array.disks,
            chunk_sectors: array.chunk_sectors,
            member_sectors: member_sectors.clone(),
        })
        .map_err(|e| format!("{}: {e}", text::clean(&array.name)))?;
        let options = ArrayOptions {
            level: Some(level),
            disks: Some(array.disks),
            chunk: (array.chunk_sectors > 0).then(|| u64::from(array.chunk_sectors) * 512),
            layout: Some(array.layout.to_string()),
            ..ArrayOptions::default()
        };
        let mut notes = Vec::new();
        let named = |e: String| format!("{name}: {e}");
        let xfs = if fs.kind == "xfs" { Some(allocation_groups(fs).map_err(named)?) } else { None };
        let start = first_sector(fs)?;
        let layout = match &xfs {
            Some(geometry) => {
                let layout = xfs::Layout::from_geometry(geometry.clone());
                Filesystem::from_xfs(layout)
            }
            None => {
                let mut layout = filesystem(fs, start).map_err(named)?;
                if fs.layout_is_cut {
                    complete(&mut layout, &fs.parameters).map_err(|e| {
                        format!(
                            "its header has only the first part of the layout of {name}, and \
                             mke2fs cannot supply the rest: {e}"
                        )
                    })?;
                    notes.push(format!(
                        "the header has only the first part of the layout of {name}; the whole \
                         layout, including the journal, is assumed to be what mke2fs would make"
                    ));
                }
                layout
            }
        };
        let sectors = layout.bytes() / 512;
        if start.saturating_add(sectors) > geometry.array_sectors() {
            notes.push(format!(
                "{name} is longer than its array: IO beyond the end of the array is only in the \
                 column \"recorded\""
            ));
        }
        let side =
            match &xfs {
                Some(geometry) => Prepared::Allocation(Groups::new(geometry)),
                None => {
                    let side = Side::new(&layout, stripe(&layout, &fs.mounts));
                    let side = side.and_then(|side| side.check().map(|()| side));
                    Prepared::Blocks(side.map_err(|e| {
                        format!("its header has an incomplete layout of {name}: {e}")
                    })?)
                }
            };
        let slots: BTreeMap<u32, &str> =
            array.members.iter().filter_map(|m| Some((m.slot?, m.name.as_str()))).collect();
        let member = |slot| slots.get(&slot).map_or("-", |name| *name).to_owned();
        if array.degraded > 0 {
            notes.push(format!(
                "{} was degraded; the model and planned columns assume that no member is missing",
                text::clean(&array.name)
            ));
        }
        Ok(Self {
            array: array.name.clone(),
            name: fs.name.clone(),
            members: (0..geometry.disks()).map(member).collect(),
            geometry,
            options,
            member_sectors,
            fs: layout,
            side,
            xfs,
            start,
            notes,
        })
    }
}

/// Usable sectors of members: one size for all, or one per slot for RAID 0.
fn member_sectors(array: &header::Array, level: Level) -> Vec<u64> {
    let slot =
        |slot| array.members.iter().find(|m| m.slot == Some(slot)).map_or(0, |m| m.data_sectors);
    match level {
        Level::Single => vec![array.sectors],
        Level::Raid0 => (0..array.disks.min(255)).map(slot).collect(),
        _ if array.component_sectors > 0 => vec![array.component_sectors],
        _ => {
            let members = array.members.iter().filter(|m| m.slot.is_some());
            vec![members.map(|m| m.data_sectors).min().unwrap_or(0)]
        }
    }
}

fn number(parameters: &Map<String, Value>, name: &str) -> Result<u64, String> {
    let value = parameters.get(name).and_then(Value::as_u64);
    value.ok_or_else(|| format!("the header of the recording has no {name}"))
}

/// First sector of a filesystem on its array.
fn first_sector(fs: &header::Filesystem) -> Result<u64, String> {
    match fs.segments.as_slice() {
        // A filesystem begins with its boot block or superblock.
        [] => Ok(fs.layout.iter().map(|r| r.0).min().unwrap_or(0)),
        [(0, at, _)] => Ok(*at),
        _ => Err("the filesystem is in several pieces of the array (LVM): --load supports one"
            .to_owned()),
    }
}

/// The parameters of an XFS, checked like a superblock.
fn allocation_groups(fs: &header::Filesystem) -> Result<xfs::Geometry, String> {
    let get = |name| number(&fs.parameters, name);
    let narrow = |name| {
        let value = get(name)?;
        u32::try_from(value)
            .map_err(|_| format!("{name} is {value} in the header of the recording"))
    };
    let has = |name| {
        let value = fs.parameters.get(name).and_then(Value::as_bool);
        value.ok_or_else(|| {
            format!("the header of the recording has no {name}: an older version recorded it")
        })
    };
    let blocks = narrow("log_blocks")?;
    let log = match fs.parameters.get("log_first").and_then(Value::as_u64) {
        Some(first) => xfs::Log::Internal { first: FsBlock(first), blocks },
        None => xfs::Log::External { blocks },
    };
    let geometry = xfs::Geometry {
        version: if get("version")? == 4 { 4 } else { 5 },
        block_size: narrow("block_size")?,
        sector_size: narrow("sector_size")?,
        inode_size: narrow("inode_size")?,
        blocks: get("blocks")?,
        ag_blocks: narrow("ag_blocks")?,
        ag_count: narrow("ag_count")?,
        log,
        stripe_unit: narrow("stripe_unit")?,
        stripe_width: narrow("stripe_width")?,
        inode_align: narrow("inode_align")?,
        features: xfs::Features {
            finobt: has("finobt")?,
            rmapbt: has("rmapbt")?,
            reflink: has("reflink")?,
        },
        realtime_blocks: 0,
        uuid: Uuid::default(),
    };
    match geometry.check() {
        Ok(()) => Ok(geometry),
        Err(why) => Err(format!("the header of the recording is damaged: {why}")),
    }
}

/// The filesystem, which starts at sector `start` of its array.
fn filesystem(fs: &header::Filesystem, start: u64) -> Result<Filesystem, String> {
    let get = |name| number(&fs.parameters, name);
    let or = |name, default| number(&fs.parameters, name).unwrap_or(default);
    let block_size = get("block_size")?;
    if !(1024..=65536).contains(&block_size) || !block_size.is_power_of_two() {
        return Err(format!("block_size is {block_size}"));
    }
    let (blocks, groups) = (get("blocks")?, get("groups")?);
    let (per_group, inodes_per_group) = (get("blocks_per_group")?, get("inodes_per_group")?);
    let (inode_size, incompat_bits) = (get("inode_size")?, get("feature_incompat")?);
    let bits = u64::from(incompat::FLEX_BG);
    let per_flex = if incompat_bits & bits != 0 {
        1_u64.checked_shl(or("log_groups_per_flex", 0).min(31) as u32)
    } else {
        None
    };
    let narrow = |value: u64, name: &str| {
        u32::try_from(value)
            .map_err(|_| format!("{name} is {value} in the header of the recording"))
    };
    let first_block =
        u64::from(block_size == 1024 && or("clusters_per_group", per_group) == per_group);
    let mut ranges = Vec::with_capacity(fs.layout.len());
    for (first, sectors, origin) in &fs.layout {
        let origin = Origin::ALL.into_iter().find(|o| o.name() == origin);
        let (Some(first), Some(origin)) = (first.checked_sub(start), origin) else {
            continue;
        };
        ranges.push(SectorRange { first: FsSector(first), count: *sectors, origin });
    }
    ranges.sort_unstable_by_key(|r| r.first);
    let table_blocks = inodes_per_group.saturating_mul(inode_size).div_ceil(block_size);
    let layout = Filesystem {
        kind: fs.kind.clone(),
        block_size: block_size as u32,
        blocks: blocks.min(1 << 53),
        groups: Some(placement::Groups::Block(placement::BlockGroups {
            count: narrow(groups, "groups")?,
            first_block: first_block as u32,
            blocks: narrow(per_group, "blocks_per_group")?,
            per_flex: per_flex.unwrap_or(1) as u32,
            table_blocks: u32::try_from(table_blocks)
                .map_err(|_| format!("an inode table of {table_blocks} blocks"))?,
        })),
        inodes: or("inodes", 0),
        grows_to: 0,
        ranges,
        stride: narrow(or("raid_stride", 0), "raid_stride")?,
        stripe_width: narrow(or("raid_stripe_width", 0), "raid_stripe_width")?,
        notes: Vec::new(),
    };
    Ok(layout)
}

/// Replaces a truncated layout by the whole one that mke2fs makes with the same parameters.
///
/// # Errors
/// The first part differs from that.
fn complete(fs: &mut Filesystem, parameters: &Map<String, Value>) -> Result<(), String> {
    let groups = fs.block_groups().ok_or("no groups")?;
    let inode_size = number(parameters, "inode_size")?;
    let journal = fs
        .ranges
        .iter()
        .filter(|r| r.origin == Origin::Journal)
        .fold(0_u64, |sum, r| sum.saturating_add(r.count));
    let journal = journal.saturating_mul(512) >> 20;
    let options = Options {
        // Sized like the recorded journal, if the journal is among the known ranges; else mke2fs's
        // default size.
        journal: (journal > 0).then(|| format!("size={journal}")).into_iter().collect(),
        block_size: Some(fs.block_size.into()),
        group: Some(groups.blocks),
        flex: (groups.per_flex > 1).then_some(groups.per_flex),
        inode_size: u16::try_from(inode_size).ok(),
        inodes: Some(fs.inodes),
        extended: vec![format!("stride={}", fs.stride)],
        ..Options::default()
    };
    let made = Filesystem::new(plan(fs.bytes(), 0, &options, &Conf::compiled_in())?);
    if made.groups != fs.groups {
        return Err("it has other block groups than mke2fs makes".to_owned());
    }
    let kinds = [Origin::BlockBitmap, Origin::InodeBitmap, Origin::InodeTable];
    for kind in kinds {
        let of = |ranges: &[SectorRange]| -> Vec<SectorRange> {
            ranges.iter().filter(|r| r.origin == kind).copied().collect()
        };
        let (known, all) = (of(&fs.ranges), of(&made.ranges));
        // The last range may be incomplete.
        let whole = known.len().saturating_sub(1);
        if all.get(..whole) != known.get(..whole) {
            return Err(format!("its {kind} blocks are not where mke2fs puts them"));
        }
    }
    fs.ranges = made.ranges;
    Ok(())
}

/// Blocks that the kernel aligns large allocations to (`ext4_get_stripe_size`); 0 for none.
fn stripe(fs: &Filesystem, mounts: &[header::Mount]) -> u64 {
    let most = fs.block_groups().map_or(0, |g| g.blocks);
    let option = mounts.iter().find_map(|m| {
        let mut options = m.options.split(',');
        options.find_map(|o| o.strip_prefix("stripe=")?.parse::<u32>().ok())
    });
    used_stripe(option, fs.stripe_width, fs.stride, most)
}

/// The first of mount option, stripe width and stride that the kernel accepts. 0 if there is none,
/// or if it is 1, which the kernel treats as none.
pub fn used_stripe(option: Option<u32>, width: u32, stride: u32, most: u32) -> u64 {
    let found = [option.unwrap_or(0), width, stride];
    let found = found.into_iter().find(|n| (1..=most).contains(n));
    match found.unwrap_or(0) {
        1 => 0,
        blocks => blocks.into(),
    }
}
