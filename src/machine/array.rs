//! Arrays from /sys/block/mdX/md (Documentation/admin-guide/md.rst; drivers/md/md.c, `md_attr_*`).
//! A disk without md becomes an array with one member.

use std::path::Path;

use super::blocks::{Block, BlockKind, Blocks};
use super::dm_raid::{BITMAP_START, DmRaid, DmRaidStatus};
use super::metadata;
use super::nvme;
use super::project::{MappedRun, Projector};
use super::sys::{Sys, attribute, names, number, selected};
use super::types::{Array, BeforeReshape, Member, MemberPiece, MetadataDevice, QueueFacts};
use crate::address::{DiskSector, MemberSector};

/// Number of pieces of a member that the programs map. Its disk has room for few, and an array
/// whose members need more would be left out.
const MAX_PIECES: usize = 4;

/// Reads arrays.
pub(super) struct ArrayReader<'a> {
    pub sys: &'a Sys,
    pub blocks: &'a Blocks,
    pub projector: &'a Projector<'a>,
    /// Also read the superblocks on the members, not only sysfs.
    pub superblocks: bool,
    /// Missing information, one line each.
    pub notes: Vec<String>,
}

/// Sectors from a file in KiB.
fn kib(path: impl AsRef<Path>) -> Option<u64> {
    number::<u64>(path)?.checked_mul(2)
}

/// Parses `new (old)`, which md prints while a reshape changes a number.
fn new_and_old(path: impl AsRef<Path>) -> Option<(i64, i64)> {
    let text = attribute(path)?;
    let (new, old) = match text.split_once(" (") {
        Some((new, old)) => (new, old.trim_end_matches(')')),
        None => (text.as_str(), text.as_str()),
    };
    Some((new.trim().parse().ok()?, old.trim().parse().ok()?))
}

/// Parses `done / total`; `None` for `none` and `delayed`.
pub(super) fn progress(text: &str) -> Option<(u64, u64)> {
    let (done, total) = text.split_once('/')?;
    Some((done.trim().parse().ok()?, total.trim().parse().ok()?))
}

/// Splits the comma-separated words of md/dev-*/state.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|w| !w.is_empty()).map(str::to_string).collect()
}

impl ArrayReader<'_> {
    /// Reads an md array.
    pub fn md(&mut self, block: &Block) -> Array {
        let md = block.dir.join("md");
        let text = |name: &str| attribute(md.join(name));
        let level = text("level").unwrap_or_default();
        let layout = new_and_old(md.join("layout")).unwrap_or((0, 0));
        let chunk = new_and_old(md.join("chunk_size")).unwrap_or((0, 0));
        let disks = new_and_old(md.join("raid_disks")).unwrap_or((0, 0));
        let layout_of = |n: i64| match (level.as_str(), n) {
            // Without a layout in the superblock, the module parameter applies when the array is
            // assembled (raid0.c, create_strip_zones). It matters only if members differ in size.
            ("raid0", n) if n <= 0 => {
                number(self.sys.path("/sys/module/raid0/parameters/default_layout")).unwrap_or(0)
            }
            (_, n) => u32::try_from(n).unwrap_or(0),
        };
        let chunk_of = |bytes: i64| match level.as_str() {
            // A unit to which md has rounded the members' sizes already (linear.c, linear_conf).
            "linear" => 0,
            _ => u32::try_from(bytes / 512).unwrap_or(0),
        };
        let disks_of = |n: i64| u32::try_from(n).unwrap_or(0);
        let reshape_position = number(md.join("reshape_position"));
        let mut array = Array {
            name: block.name.clone(),
            mapper_name: None,
            dev: block.dev,
            sectors: block.sectors,
            layout: layout_of(layout.0),
            chunk_sectors: chunk_of(chunk.0),
            raid_disks: disks_of(disks.0),
            component_sectors: kib(md.join("component_size")).unwrap_or(0),
            metadata: text("metadata_version").filter(|v| v != "none"),
            array_state: text("array_state").unwrap_or_default(),
            degraded: number(md.join("degraded")).unwrap_or(0),
            sync_action: text("sync_action"),
            sync_completed: text("sync_completed").and_then(|t| progress(&t)),
            reshape_position,
            before_reshape: reshape_position.map(|_: u64| BeforeReshape {
                layout: layout_of(layout.1),
                chunk_sectors: chunk_of(chunk.1),
                raid_disks: disks_of(disks.1),
                backwards: text("reshape_direction").as_deref() == Some("backwards"),
            }),
            consistency_policy: text("consistency_policy"),
            members: Vec::new(),
            filesystems: Vec::new(),
            unmounted: Vec::new(),
            level,
        };
        array.members = names(&md)
            .iter()
            .filter_map(|entry| Some(self.member(&md.join(entry), entry.strip_prefix("dev-")?)))
            .collect();
        array.members.sort_by(|a, b| {
            let key = |m: &Member| (m.slot.unwrap_or(u32::MAX), is_replacement(m));
            (key(a), &a.name).cmp(&(key(b), &b.name))
        });
        let mut notes = metadata::fill(self.sys, &md, &mut array, self.blocks, self.superblocks);
        self.notes.append(&mut notes);
        array
    }

    /// Reads a member. `dir` is md/dev-NAME.
    fn member(&mut self, dir: &Path, name: &str) -> Member {
        let mut member = match self.blocks.member(dir, name) {
            Some(block) => self.device(block),
            None => {
                self.notes.push(format!(
                    "{name}: md still lists this member, but the device was removed from the \
                     machine"
                ));
                Member { name: name.to_string(), ..Member::default() }
            }
        };
        member.state = attribute(dir.join("state")).map_or_else(Vec::new, |t| words(&t));
        // `journal` and `none` (a spare) are not numbers.
        member.slot = number(dir.join("slot"));
        let sector = |f: &str| number(dir.join(f)).map(MemberSector);
        member.data_offset = sector("offset").unwrap_or_default();
        member.new_data_offset = sector("new_offset").unwrap_or(member.data_offset);
        member.data_sectors = kib(dir.join("size")).unwrap_or(0);
        let size = number::<u64>(dir.join("ppl_size")).filter(|n| *n > 0);
        member.ppl = sector("ppl_sector").filter(|s| s.0 > 0).zip(size);
        member
    }

    /// Device fields of a member: the disk that gets its requests, and its start sector on that
    /// disk.
    fn device(&mut self, block: &Block) -> Member {
        let mut disk = self.blocks.disk_of(block);
        let mut start = match block.kind {
            BlockKind::Partition { start, .. } => start,
            _ => 0,
        };
        let mapped = !disk.is_base();
        let mut encrypted = false;
        let mut later_pieces = Vec::new();
        if mapped {
            // Device mapper below md. Requests can be mapped if one disk has all of the member.
            match self.pieces(block).as_deref() {
                Ok([first, later @ ..]) if self.are_of_one_disk(first, later) => {
                    disk = self.blocks.get(first.base).unwrap_or(disk);
                    start = first.base_sector;
                    later_pieces = later.iter().map(member_piece).collect();
                    let mut layers = self.blocks.beneath(block.dev).into_iter();
                    encrypted = layers.any(|b| self.projector.encrypts(b));
                }
                found => {
                    let why = found
                        .err()
                        .map_or("striped, in too many pieces, or on several disks", String::as_str);
                    self.notes.push(format!(
                        "{}: its bios are counted, without device times, because its requests on \
                         the disks below it cannot be mapped ({why})",
                        block.name
                    ));
                }
            }
        }
        let paths = nvme::read(self.sys, &disk.name, queue);
        Member {
            name: block.name.clone(),
            dev: block.dev,
            disk: disk.dev,
            disk_name: disk.name.clone(),
            start: DiskSector(start),
            sectors: block.sectors,
            mapped,
            later_pieces,
            encrypted,
            queue: nvme::numbered(&paths).unwrap_or_else(|| queue(&disk.dir)),
            paths,
            ..Member::default()
        }
    }

    /// Reads an array of device mapper's raid target.
    pub fn dm_raid(&mut self, block: &Block, raid: &DmRaid) -> Array {
        let status = self.sys.dm().raid_status(block.dev).unwrap_or_else(|e| {
            self.notes.push(format!("{}: its state cannot be read: {e}", block.name));
            DmRaidStatus { action: "idle".to_owned(), ..DmRaidStatus::default() }
        });
        let (level, layout) = raid.level_and_layout().unwrap_or((&raid.kind, 0));
        let has_metadata = raid.slots.iter().any(|(meta, _)| meta.is_some());
        let data_sectors = raid.sectors_of_device(block.sectors);
        let mut array = Array {
            name: block.name.clone(),
            mapper_name: Some(match &block.kind {
                BlockKind::Dm { name, .. } => name.clone(),
                _ => block.name.clone(),
            }),
            dev: block.dev,
            sectors: block.sectors,
            level: level.to_owned(),
            layout,
            chunk_sectors: raid.chunk_sectors,
            raid_disks: u32::try_from(raid.slots.len()).unwrap_or(u32::MAX),
            component_sectors: if level == "raid0" { 0 } else { data_sectors },
            metadata: has_metadata.then(|| "dm-raid".to_owned()),
            array_state: "active".to_owned(),
            degraded: status.degraded(level),
            sync_action: (level != "raid0").then(|| status.action.clone()),
            sync_completed: status.sync_completed(),
            reshape_position: status.reshape_position(),
            consistency_policy: Some(
                match has_metadata {
                    _ if raid.journal => "journal",
                    true if level != "raid0" => "bitmap",
                    _ => "none",
                }
                .to_owned(),
            ),
            ..Array::default()
        };
        for (slot, (meta, data)) in (0..).zip(&raid.slots) {
            let Some(data) = data.and_then(|dev| self.blocks.get(dev)) else { continue };
            let mut member = self.device(data);
            member.volumes.push(data.name.clone());
            member.slot = Some(slot);
            member.state = status.words(slot);
            if raid.write_mostly.contains(&slot) {
                member.state.push("write_mostly".to_owned());
            }
            member.data_offset = MemberSector(status.data_offset);
            member.new_data_offset = member.data_offset;
            member.data_sectors = data_sectors;
            if let Some(meta) = meta.and_then(|dev| self.blocks.get(dev)) {
                self.metadata_device(&mut member, meta);
            }
            array.members.push(member);
        }
        // The volumes of LVM are on one disk each, whose name says more than dm-7.
        let disks: Vec<String> = array.members.iter().map(|m| m.disk_name.clone()).collect();
        for member in &mut array.members {
            if disks.iter().filter(|name| **name == member.disk_name).count() == 1 {
                member.name.clone_from(&member.disk_name);
            }
        }
        array
    }

    /// Adds the metadata device of a slot, in which md's superblock has the first block.
    fn metadata_device(&mut self, member: &mut Member, meta: &Block) {
        member.volumes.push(meta.name.clone());
        let notes = self.notes.len();
        let at = self.device(meta);
        self.notes.truncate(notes); // on a member
        if !member.mapped || at.disk != member.disk || at.disk == at.dev {
            self.notes.push(format!(
                "{}: md's metadata on {} are not counted, because they are not on one disk with \
                 the data",
                member.name, meta.name
            ));
            return;
        }
        let (dev, start, sectors) = (meta.dev, at.start, meta.sectors);
        member.metadata_device = Some(MetadataDevice { dev, start, sectors });
        member.sb_offset = Some(MemberSector(member.sectors));
        member.sb_sectors = BITMAP_START.min(meta.sectors);
        let bitmap = MemberSector(member.sectors.saturating_add(BITMAP_START));
        member.bitmap = meta.sectors.checked_sub(BITMAP_START).map(|sectors| (bitmap, sectors));
    }

    /// Pieces of a device mapper device on the disks below it. `Err` is the reason why its requests
    /// there are not counted: a kernel whose dm_mod is a module without BTF does not tell which bio
    /// of md a request is for.
    fn pieces(&self, block: &Block) -> Result<Vec<MappedRun>, String> {
        let exists = |path| self.sys.path(path).exists();
        if exists("/sys/module/dm_mod/initstate") && !exists("/sys/kernel/btf/dm_mod") {
            return Err("no /sys/kernel/btf/dm_mod".into());
        }
        self.projector.project(block)
    }

    /// True for pieces that the programs can map: of one disk, and few. A member on another array
    /// has only one.
    fn are_of_one_disk(&self, first: &MappedRun, later: &[MappedRun]) -> bool {
        let is_array = self.blocks.get(first.base).is_some_and(Block::is_array);
        later.len() < if is_array { 1 } else { MAX_PIECES }
            && first.stripe.gap == 0
            && later.iter().all(|piece| piece.base == first.base && piece.stripe.gap == 0)
    }

    /// Reads a disk without md.
    pub fn single(&mut self, block: &Block) -> Array {
        let beneath = self.blocks.slaves_of_disk(block);
        if !beneath.is_empty() {
            self.notes.push(format!(
                "{} is built on {}: only {0} is traced, not the devices below it",
                block.name,
                beneath.join(", ")
            ));
        }
        let member = Member {
            slot: Some(0),
            state: vec!["in_sync".into()],
            data_sectors: block.sectors,
            ..self.device(block)
        };
        Array {
            name: block.name.clone(),
            dev: block.dev,
            sectors: block.sectors,
            level: "single".into(),
            raid_disks: 1,
            array_state: "active".into(),
            members: vec![member],
            ..Array::default()
        }
    }
}

fn member_piece(run: &MappedRun) -> MemberPiece {
    MemberPiece {
        sector: MemberSector(run.sector),
        start: DiskSector(run.base_sector),
        sectors: run.sectors,
    }
}

/// True for a replacement, which shares its slot with the member that it replaces.
fn is_replacement(member: &Member) -> bool {
    member.state.iter().any(|w| w == "replacement")
}

/// Reads properties of a request queue. `dir` is /sys/block/X.
fn queue(dir: &Path) -> QueueFacts {
    let tags: Vec<u32> = names(dir.join("mq"))
        .iter()
        .filter_map(|hctx| number(dir.join("mq").join(hctx).join("nr_tags")))
        .collect();
    let flag = |name: &str| number::<u32>(dir.join("queue").join(name)).is_some_and(|n| n != 0);
    QueueFacts {
        nr_hw_queues: tags.len() as u32,
        nr_tags: tags.iter().copied().max().unwrap_or(0),
        iostats: flag("iostats"),
        scheduler: attribute(dir.join("queue/scheduler")).map(|text| selected(&text).to_owned()),
        rotational: flag("rotational"),
        bio_based: tags.is_empty(),
    }
}
