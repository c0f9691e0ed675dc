//! Builds the tables of the BPF programs from a topology. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::boundaries::{PlacedFs, boundaries};
use super::dev_index;
use super::plan::{DirtiedCounting, Need};
use super::tiles::{Lists, Tiles};
use super::wire::{
    rt_array, rt_dev, rt_dev_entry, rt_extent, rt_geometry, rt_member, rt_part, rt_slot,
};
use crate::address::{DiskSector, FsSector, MemberSector};
use crate::contract::{
    self, ARRAY_CRYPT, ARRAY_EXT, ARRAY_RESHAPING, ARRAY_XFS, DEV_CLASSIFIED, DEV_NESTED,
    DEV_REBUILDS, DEV_STACKED, DEV_START_TIME, DEV_VOLUMES,
};
use crate::fs::ext4::features::ro_compat;
use crate::fs::{Layout, SectorRange, Uuid};
use crate::machine::topology::{Topology, geometry};
use crate::machine::{Array, Dev, Filesystem, Member, MemberPiece, QueueFacts, Segment};
use crate::raid::Geometry;

pub(super) const DEVS: usize = contract::DEVS as usize;
const DISK_PARTS: usize = contract::DISK_PARTS as usize;
/// Maximum number of in-flight slots (64 MiB). Requests without a slot are counted without times,
/// and as a loss (`RT_LOST_ISSUE`).
pub(super) const MAX_SLOTS: u32 = 1 << 22;
/// Minimum size of md's superblock: on disks with 4 KiB blocks md writes whole blocks (md.c,
/// super_1_load()).
const SUPERBLOCK_SECTORS: u64 = 8;

const PART_STRIPES: u16 = contract::PART_STRIPES as u16;
const PART_MIRROR: u16 = contract::PART_MIRROR as u16;
const PART_RESHAPE: u16 = contract::PART_RESHAPE as u16;

/// By device number: 1 + the device's index in the arrays (0 if the device is not an array), and
/// the device.
type Watched = BTreeMap<u32, (u16, rt_dev)>;

/// The content of the maps.
#[derive(Debug, Default)]
pub struct Tables {
    /// Block devices, disks and arrays.
    pub(crate) devs: Vec<rt_dev>,
    /// Multiplier of the device index's hash.
    pub(crate) mult: u64,
    /// Used slots of the device index.
    pub(crate) index: Vec<(u32, rt_dev_entry)>,
    /// Arrays in the order of the topology.
    pub(crate) arrays: Vec<rt_array>,
    /// Members by id.
    pub(crate) members: Vec<rt_member>,
    /// Lists of boundaries of the arrays' tiles.
    pub(crate) boundaries: Vec<u64>,
    /// Index in `boundaries` of each tile's list, array by array.
    pub(crate) tiles: Vec<u32>,
    /// Events to trace besides the requests of disks.
    pub need: Need,
    /// In-flight slots of all disks.
    pub(crate) slots: u32,
    /// UUIDs of the filesystems by device. Learned blocks of another filesystem of the same layout
    /// must be forgotten.
    uuids: BTreeMap<Dev, Option<Uuid>>,
    /// True if there is an md array. Only members of md arrays can change.
    pub(crate) md: bool,
    /// Limits of these tables, one line each.
    pub notes: Vec<String>,
}

impl Tables {
    /// Builds the tables. `Err` is one line: the topology is too large.
    pub fn new(topology: &Topology) -> Result<Self, String> {
        let mut tables = Self {
            md: topology.host.arrays.iter().any(Array::is_md),
            uuids: (topology.layouts.iter()).map(|(dev, layout)| (*dev, layout.uuid())).collect(),
            ..Self::default()
        };
        let mut lists = Lists::default();
        let mut devs = Watched::new();
        for (number, array) in topology.host.arrays.iter().enumerate() {
            let number = number as u32;
            let own = devs.entry(array.dev.kernel()).or_default();
            own.0 = number as u16 + 1;
            // Members on dm-crypt carry cipher text when their requests complete; an array below
            // dm-crypt always does.
            let clear = !array.filesystems.iter().any(encrypted);
            if clear && (array.rebuilds() || array.members.iter().any(|m| m.encrypted)) {
                own.1.flags |= DEV_REBUILDS;
            }
            let geometry = geometry(array);
            if let Err(why) = &geometry {
                tables.notes.push(format!(
                    "{}: {why}: the origin of its members' IO is unknown",
                    array.name
                ));
            }
            tables.caveats(topology, array);
            let mapping = geometry.as_ref().ok();
            tables.array(topology, array, mapping, number, &mut devs, &mut lists);
            for member in &array.members {
                tables.member(array, member, mapping, number, &mut devs)?;
            }
        }
        tables.boundaries = lists.into_words();
        tables.stack(&topology.host.arrays, &mut devs);
        tables.paths(&topology.host.arrays, &mut devs);
        if devs.len() > DEVS {
            return Err(format!(
                "{} disks and arrays are more than raidtrace can watch at once ({DEVS}): name \
                 fewer targets",
                devs.len()
            ));
        }
        let entries: Vec<rt_dev_entry> = (0..)
            .zip(&devs)
            .map(|(index, (&dev, &(array, d)))| rt_dev_entry {
                dev,
                index,
                array,
                flags: d.flags,
                pad: 0,
            })
            .collect();
        let part = |flag| devs.values().flat_map(|(_, d)| &d.parts).any(|p| p.flags & flag != 0);
        tables.need = Need {
            stripes: part(PART_STRIPES),
            md_submits: devs.values().any(|(_, d)| d.flags & DEV_CLASSIFIED != 0),
            mirrors: part(PART_MIRROR),
            bio_based: devs
                .values()
                .any(|(_, d)| d.flags & (DEV_STACKED | DEV_NESTED | DEV_REBUILDS) != 0),
            dirtied: DirtiedCounting::No,
            journals: true,
            nothing: false,
            ext4: tables.arrays.iter().any(|a| a.flags & ARRAY_EXT != 0),
            xfs: tables.arrays.iter().any(|a| a.flags & ARRAY_XFS != 0),
            quota: topology.layouts.values().any(|layout| {
                let superblock = layout.ext4().and_then(|l| l.superblock.as_ref());
                superblock.is_some_and(|s| s.feature_ro_compat & ro_compat::QUOTA != 0)
            }),
        };
        tables.devs = devs.into_values().map(|(_, dev)| dev).collect();
        (tables.mult, tables.index) = dev_index::place(&entries).ok_or_else(|| {
            format!("{} devices do not fit the device index: name fewer targets", entries.len())
        })?;
        Ok(tables)
    }

    /// Hash of everything that the programs depend on. Programs loaded for one topology can run for
    /// another with an equal digest.
    pub fn digest(&self) -> u64 {
        /// Hashes the output of `Debug`, which has all fields, without storing it.
        struct Digest(DefaultHasher);
        impl Write for Digest {
            fn write_str(&mut self, s: &str) -> std::fmt::Result {
                self.0.write(s.as_bytes());
                Ok(())
            }
        }
        let mut digest = Digest(DefaultHasher::new());
        let Self {
            notes: _,
            devs,
            mult,
            index,
            arrays,
            members,
            boundaries,
            tiles,
            need,
            slots,
            uuids,
            md: _,
        } = self;
        let maps = (devs, mult, index, arrays, members);
        let _ = write!(digest, "{maps:?}{need:?}{slots}{uuids:?}");
        (boundaries, tiles).hash(&mut digest.0);
        digest.0.finish()
    }

    /// Hash of the filesystems and their layouts.
    pub(super) fn layout_digest(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        (&self.boundaries, &self.tiles, &self.uuids).hash(&mut digest);
        digest.finish()
    }

    /// Links nested arrays to the outer arrays that they are members of.
    fn stack(&mut self, arrays: &[Array], devs: &mut Watched) {
        let members = arrays.iter().flat_map(|a| &a.members);
        for (id, member) in (1..).zip(members) {
            let Some(inner) = member.nested_array else {
                continue;
            };
            let Some(number) = arrays.iter().position(|a| a.dev == inner) else {
                continue;
            };
            devs.entry(inner.kernel()).or_default().1.flags |= DEV_NESTED;
            let array = &mut self.arrays[number];
            if array.outer_member != 0 {
                self.notes.push(format!(
                    "{}: several members are on this array: the origin of IO of {} may be wrong \
                     on its disks",
                    arrays[number].name, member.name
                ));
                continue;
            }
            array.outer_member = id;
            array.outer_start = member.start.0;
        }
    }

    /// Adds notes on limits of the attribution for an array.
    fn caveats(&mut self, topology: &Topology, array: &Array) {
        if array.before_reshape.is_some() || array.reshape_position.is_some() {
            self.notes.push(format!(
                "{}: a reshape is in progress: the origin of a member's IO is known only if md \
                 has its array sector",
                array.name
            ));
        }
        for fs in &array.filesystems {
            let Some(layout) = topology.layouts.get(&fs.dev) else {
                continue;
            };
            // If the filesystem is in one piece, its bios are classified before encryption
            // (`DEV_STACKED`).
            if encrypted(fs) && only_piece(fs, layout).is_none() {
                let blocks = match layout {
                    Layout::Ext4(_) => "directory, extent_tree and xattr blocks",
                    Layout::Xfs(_) => "btrees, inode_cluster, directory and xattr blocks",
                    // All of a log is in one range, and realtime blocks are file_data.
                    Layout::XfsDevice(_) | Layout::Swap { .. } => continue,
                };
                self.notes.push(format!(
                    "{}: encrypted, and on {} in several pieces or in part: its {blocks} are \
                     shown as file_data",
                    fs.name, array.name
                ));
            }
        }
    }

    fn array(
        &mut self,
        topology: &Topology,
        array: &Array,
        geometry: Option<&Geometry>,
        number: u32,
        devs: &mut Watched,
        lists: &mut Lists,
    ) {
        let known: Vec<_> = array
            .filesystems
            .iter()
            .filter_map(|fs| Some((fs, topology.layouts.get(&fs.dev)?)))
            .collect();
        let ranges: Vec<Cow<'_, [SectorRange]>> = known.iter().map(|k| k.1.ranges()).collect();
        let placed: Vec<_> = known
            .iter()
            .zip(&ranges)
            .map(|((fs, layout), ranges)| PlacedFs {
                segments: &fs.segments,
                ranges,
                block_sectors: layout.block_sectors(),
                blocks: layout.blocks(),
                xfs: layout.is_xfs(),
            })
            .collect();
        for (placed, (fs, _)) in placed.iter().zip(&known) {
            if placed.cuts_blocks() {
                self.notes.push(format!(
                    "{}: the pieces on {} do not end at block boundaries: directory, extent_tree \
                     and xattr blocks that are split, on a striped volume all of them, are shown \
                     as file_data",
                    fs.name, array.name
                ));
            }
        }
        let table = boundaries(&placed);
        let tiles = Tiles::new(&table, array.sectors);
        // Only the origin of the members' bios is unknown in this case, not that of the array's
        // bios.
        let unmapped = geometry.is_none() || array.reshape_position.is_some();
        let crypt = array.filesystems.iter().any(encrypted)
            || array.members.iter().any(|member| member.encrypted);
        let ext = known.iter().any(|(_, layout)| layout.ext4().is_some());
        let xfs = known.iter().any(|(_, layout)| layout.is_xfs());
        self.arrays.push(rt_array {
            geometry: geometry.map_or_else(
                || rt_geometry { array_sectors: array.sectors, ..rt_geometry::default() },
                Geometry::wire,
            ),
            tile_sectors: tiles.sectors,
            tile_shift: crate::raid::wire::shift(tiles.sectors),
            slot_shift: tiles.slot_shift(),
            tile_lead: tiles.lead,
            first_tile: self.tiles.len() as u32,
            nr_tiles: tiles.number as u32,
            outer_member: 0,
            flags: if ext { ARRAY_EXT } else { 0 }
                | if xfs { ARRAY_XFS } else { 0 }
                | if unmapped { ARRAY_RESHAPING } else { 0 }
                | if crypt { ARRAY_CRYPT } else { 0 },
            outer_start: 0,
        });
        self.tiles.extend(tiles.list_indices(&table, lists));
        // The programs look up the filesystem of a page's file here (`rt_page_inode()`).
        for fs in &array.filesystems {
            let main = fs.role.main().map_or(fs.dev, |main| main.dev);
            devs.entry(main.kernel()).or_default();
        }
        for (fs, layout) in known {
            let only = only_piece(fs, layout);
            let pieces = fs.segments.iter().map(|piece| piece.before(layout.end()));
            // Dirtied blocks and pages are charged to a single array, which must contain the whole
            // filesystem.
            if only.is_some() || pieces.fold(0, u64::saturating_add) >= layout.end().0 {
                let d = &mut devs.entry(fs.dev.kernel()).or_default().1;
                d.dirty_array = number + 1;
                d.fs_block = layout.block_size();
            }
            // Freed blocks are tracked only with a single segment: with several, each block would
            // have to be looked up in the mapping.
            if let Some(only) = only {
                let d = &mut devs.entry(fs.dev.kernel()).or_default().1;
                d.fs_array = number + 1;
                d.fs_start = only.array_sector.0;
                if encrypted(fs) {
                    d.flags |= DEV_STACKED;
                }
            }
        }
    }

    /// Reserves the in-flight slots of a disk.
    fn queue(&mut self, d: &mut rt_dev, name: &str, queue: &QueueFacts) {
        d.depth = queue.nr_tags;
        d.nr_slots = queue.nr_tags.saturating_mul(queue.nr_hw_queues);
        if self.slots.saturating_add(d.nr_slots) > MAX_SLOTS {
            self.notes.push(format!(
                "{name}: too many requests in flight to time them all: device times are missing"
            ));
            d.nr_slots = 0;
        }
        d.slot_base = self.slots;
        self.slots += d.nr_slots;
        if queue.iostats {
            d.flags |= DEV_START_TIME;
        }
    }

    /// Gives each path of an NVMe multipath head the head's members, and slots of its own. The bios
    /// of its requests have the head's sectors, but not its partitions: a flush that md sent is
    /// counted for the array's member, as on a disk with several volumes.
    fn paths(&mut self, arrays: &[Array], devs: &mut Watched) {
        for member in arrays.iter().flat_map(|a| &a.members) {
            let Some(&(_, head)) = devs.get(&member.disk.kernel()) else { continue };
            for path in &member.paths {
                let number = path.dev.kernel();
                if number == 0 || devs.contains_key(&number) {
                    continue; // another member is on the same disk
                }
                let has_parts = head.nr_parts > 1 || head.parts[0].start != 0;
                let flags = head.flags & !(DEV_START_TIME | DEV_CLASSIFIED);
                let flags = flags | if has_parts { DEV_VOLUMES } else { 0 };
                let mut d = rt_dev { flags, ..head };
                self.queue(&mut d, &path.name, &path.queue);
                devs.insert(number, (0, d));
            }
        }
    }

    fn member(
        &mut self,
        array: &Array,
        member: &Member,
        geometry: Option<&Geometry>,
        number: u32,
        devs: &mut Watched,
    ) -> Result<(), String> {
        let id = self.members.len() as u32;
        let journal = member.state.iter().any(|s| s == "journal");
        let slot = member.slot.filter(|_| !journal);
        let extent = |e: Option<(MemberSector, u64)>| {
            e.map_or_else(rt_extent::default, |(start, sectors)| rt_extent {
                start: start.0,
                sectors,
            })
        };
        let superblock =
            member.sb_offset.map(|start| (start, member.sb_sectors.max(SUPERBLOCK_SECTORS)));
        let (slot, data_sectors) = match (geometry, slot) {
            (Some(g), Some(s)) => (g.wire_slot(s), g.used_sectors(s)),
            (_, None) if journal => (rt_slot::default(), 0),
            // Data whose position in the array is unknown: during a reshape (`ARRAY_RESHAPING`),
            // and on a spare, which md may activate before raidtrace notices.
            _ => {
                let sectors = match member.data_sectors {
                    0 => member.sectors.saturating_sub(member.data_offset.0),
                    n => n,
                };
                (rt_slot::default(), sectors)
            }
        };
        // A reshape may move the data. Until it ends, data can be at the old and at the new offset.
        let (data_offset, data_sectors) = match data_sectors {
            n if n > 0 && array.reshape_position.is_some() => {
                let first = member.data_offset.min(member.new_data_offset);
                let last = member.data_offset.max(member.new_data_offset);
                (first, last - first + n.max(member.data_sectors))
            }
            n => (member.data_offset, n),
        };
        self.members.push(rt_member {
            slot,
            data_offset: data_offset.0,
            data_sectors,
            superblock: extent(superblock),
            bad_blocks: extent(member.bad_block_log),
            bitmap: extent(member.bitmap),
            // The whole device; the superblock is looked up before it.
            journal: extent(if journal {
                Some((MemberSector(0), member.sectors))
            } else {
                member.ppl
            }),
            array: number,
            pad: 0,
        });
        if member.disk.kernel() == 0 {
            return Ok(()); // removed from the machine, but still listed by md
        }
        // If the member is an array, its bios are counted.
        let by_bio = member.mapped && member.dev == member.disk;
        if member.queue.bio_based && member.nested_array.is_none() && !by_bio {
            let why = match &member.paths[..] {
                [] => "bio-based device",
                _ => "NVMe multipath, whose paths have no number on this kernel",
            };
            self.notes.push(format!(
                "{}: {} makes no requests ({why}): its IO is not traced",
                array.name, member.disk_name
            ));
        }
        let d = &mut devs.entry(member.disk.kernel()).or_default().1;
        if d.nr_parts == 0 {
            self.queue(d, &member.disk_name, &member.queue);
            // Device mapper keeps statistics of its own; on 5.10, its devices have iostats 0.
            if !member.queue.iostats && !by_bio {
                self.notes.push(format!(
                    "{0}: the kernel keeps no statistics (queue/iostats is 0), so time in queue \
                     and utilisation are missing: echo 1 > /sys/block/{0}/queue/iostats",
                    member.disk_name
                ));
            }
        }
        let flags = match array.level.as_str() {
            "raid4" | "raid5" | "raid6" => PART_STRIPES,
            "raid1" | "raid10" => PART_MIRROR,
            _ => 0,
        };
        let reshape = flags != 0 && array.level != "raid1" && array.reshape_position.is_some();
        let flags = if reshape { flags | PART_RESHAPE } else { flags };
        let part = |piece: MemberPiece| rt_part {
            start: piece.start.0.wrapping_sub(piece.sector.0),
            first: piece.start.0,
            end: piece.start.0.saturating_add(piece.sectors),
            member: id,
            array: number as u16,
            flags,
        };
        for piece in member.pieces() {
            let Some(free) = d.parts.get_mut(d.nr_parts as usize) else {
                return Err(format!(
                    "{} carries more than {DISK_PARTS} members of traced arrays, which is more \
                     than raidtrace can distinguish: name fewer arrays",
                    member.disk_name
                ));
            };
            *free = part(piece);
            d.nr_parts += 1;
        }
        if member.other_volumes > 0 {
            d.flags |= DEV_VOLUMES;
        }
        // md submits its bios to the device mapper device, and only clones of them get to the disk.
        let own = if by_bio {
            d.flags |= DEV_NESTED;
            d
        } else if member.mapped {
            let own = &mut devs.entry(member.dev.kernel()).or_default().1;
            own.parts[0] = part(MemberPiece { sectors: member.sectors, ..MemberPiece::default() });
            own.nr_parts = 1;
            own
        } else {
            d
        };
        if by_bio || flags & (PART_STRIPES | PART_RESHAPE) != 0 {
            own.flags |= DEV_CLASSIFIED;
        }
        // A flush has no sector on the disk, only the device that md sent it to.
        if let Some(meta) = member.metadata_device {
            let own = &mut devs.entry(meta.dev.kernel()).or_default().1;
            let sector = MemberSector(member.sectors);
            own.parts[0] =
                part(MemberPiece { sector, start: DiskSector(0), sectors: meta.sectors });
            own.nr_parts = 1;
        }
        Ok(())
    }
}

/// True if dm-crypt is between the filesystem and the array.
fn encrypted(fs: &Filesystem) -> bool {
    fs.stack.iter().any(|s| s.starts_with("dm-crypt"))
}

/// The segment of a filesystem that is completely on the array, in one piece. If only its start
/// were on the array (a logical volume that continues on another device), its later blocks would be
/// confused with other blocks of this array.
fn only_piece<'a>(fs: &'a Filesystem, layout: &Layout) -> Option<&'a Segment> {
    match fs.segments.as_slice() {
        [only]
            if only.fs_sector == FsSector(0)
                && only.stripe.gap == 0
                && only.sectors >= layout.end().0 =>
        {
            Some(only)
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
pub(super) mod tests;
