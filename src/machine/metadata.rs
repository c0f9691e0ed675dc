//! Areas of md's metadata on each member, from sysfs and from the superblock on the member. Without
//! access to the superblock (not root) the rules of the metadata version apply.

use std::io;
use std::path::Path;

use super::blocks::Blocks;
use super::container;
use super::privileges::raised;
use super::superblock::{self, MdSuperblock, Version};
use super::sys::{Sys, attribute, number};
use super::types::{Array, Member};
use crate::address::MemberSector;

/// sizeof(bitmap_super_t), drivers/md/md-bitmap.h.
const BITMAP_SUPER: u64 = 256;

/// Sets the metadata areas of all members; returns one note for each inconsistency. `md` is
/// /sys/block/mdX/md. Without `superblocks` only sysfs is read, and there are no notes.
pub(super) fn fill(
    sys: &Sys,
    md: &Path,
    array: &mut Array,
    blocks: &Blocks,
    superblocks: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(version) = array.metadata.as_deref().and_then(Version::parse) else {
        let bitmap = Bitmap::read(md, array).external();
        array.members.iter_mut().for_each(|m| m.bitmap = bitmap);
        if !container::restrict(array, blocks)
            && let Some(other) = &array.metadata
        {
            notes.push(format!(
                "{}: metadata {other}: the IO that maintains it counts as raw",
                array.name
            ));
        }
        return notes;
    };
    let bitmap = Bitmap::read(md, array);
    let mut unreadable: Vec<&str> = Vec::new();
    let mut cause = None;
    let mut layout = None;
    for member in &mut array.members {
        let Some(sb_sector) =
            version.superblock_sector(member.sectors).filter(|s| *s < member.sectors)
        else {
            continue;
        };
        member.sb_offset = Some(MemberSector(sb_sector));
        member.sb_sectors = if version == Version::V090 { 8 } else { 2 };
        let block = blocks.get(member.dev).filter(|_| superblocks);
        let found = block.map(|block| -> io::Result<_> {
            let disk = blocks.disk_of(block);
            let bytes: Option<u64> = number(disk.dir.join("queue/logical_block_size"));
            let path = sys.path(format!("/dev/{}", block.name.replace('!', "/")));
            let raw = raised(|| superblock::read(&path, sb_sector))?;
            let logical = bytes.unwrap_or(512) / 512;
            let sectors = member.sectors;
            Ok(superblock::parse(version, &raw, sb_sector, sectors, logical))
        });
        let sb = match found {
            Some(Ok(Ok(sb))) => Some(sb),
            // The superblock of a failed disk does not matter.
            _ if member.state.iter().any(|w| w == "faulty") => None,
            Some(Err(e)) => {
                unreadable.push(&member.name);
                cause.get_or_insert(e);
                None
            }
            // The device was removed; there is a note already.
            None => None,
            Some(Ok(Err(why))) => {
                notes.push(format!(
                    "{}: superblock of {} at sector {sb_sector}: {why}: the member's metadata \
                     areas are taken from sysfs only",
                    array.name, member.name
                ));
                None
            }
        };
        if let Some(sb) = &sb {
            member.sb_sectors = sb.sectors;
            layout = layout.or(sb.layout);
            member.bad_block_log = sb.bad_block_log.map(area);
            if member.ppl.is_none() {
                member.ppl = sb.ppl.map(area);
            }
            if array.reshape_position.is_none() && sb.data_offset != member.data_offset.0 {
                notes.push(format!(
                    "{}: data of {} begins at sector {} according to sysfs and {} according to \
                     its superblock: sysfs is used",
                    array.name, member.name, member.data_offset, sb.data_offset
                ));
            }
        }
        member.bitmap = bitmap.on(version, member, sb.as_ref());
    }
    if array.level == "raid0" && array.layout == 0 {
        array.layout = layout.unwrap_or(0);
    }
    if let Some(cause) = cause {
        notes.push(format!(
            "{}: superblocks of {} cannot be read ({cause}): md's metadata areas are taken from \
             sysfs, and the bad-block log counts as raw",
            array.name,
            unreadable.join(", ")
        ));
    }
    notes
}

fn area((start, sectors): (u64, u64)) -> (MemberSector, u64) {
    (MemberSector(start), sectors)
}

/// The write-intent bitmap as described by md/bitmap.
struct Bitmap {
    /// Sectors from the start of the superblock; `None` without a bitmap, with a bitmap in a file,
    /// and without the sysfs file `location` (lockless bitmap, 6.18).
    location: Option<i64>,
    /// True if the bitmap is on the members.
    internal: bool,
    /// Sectors reserved for the bitmap; `None` if md reports none.
    space: Option<u64>,
    /// Sectors that the bitmap needs at its chunk size.
    needed: Option<u64>,
}

impl Bitmap {
    fn read(md: &Path, array: &Array) -> Self {
        let location = attribute(md.join("bitmap/location"));
        // All sizes are in sectors. The bitmap of RAID 10 covers the array, the bitmap of other
        // levels each member.
        let covered = match array.level.as_str() {
            "raid10" => array.sectors,
            _ => array.component_sectors,
        };
        let chunk = number::<u64>(md.join("bitmap/chunksize")).map_or(0, |bytes| bytes / 512);
        let needed = (chunk > 0 && covered > 0).then(|| {
            let bytes = BITMAP_SUPER + covered.div_ceil(chunk).div_ceil(8);
            // md writes whole pages.
            bytes.div_ceil(4096) * 8
        });
        Self {
            internal: match location.as_deref() {
                Some(text) => text != "none" && text != "file",
                None => attribute(md.join("bitmap_type")).is_some_and(|t| t.contains("[llbitmap]")),
            },
            location: location.and_then(|t| t.parse().ok()),
            space: number(md.join("bitmap/space")).filter(|n| *n > 0),
            needed,
        }
    }

    /// First sector and length of the bitmap on each member of an array with external metadata,
    /// where `location` is a sector of the member. IMSM's header is in the 4 KiB before the bits
    /// (mdadm, super-intel.c, get_bitmap_sector).
    fn external(&self) -> Option<(MemberSector, u64)> {
        let start = u64::try_from(self.location?).ok()?.checked_sub(8)?;
        Some((MemberSector(start), 8 + self.space.or(self.needed)?))
    }

    /// First sector and length of the bitmap on a member.
    fn on(
        &self,
        version: Version,
        member: &Member,
        sb: Option<&MdSuperblock>,
    ) -> Option<(MemberSector, u64)> {
        if !self.internal {
            return None;
        }
        let from_sysfs =
            self.location.and_then(|offset| member.sb_offset?.0.checked_add_signed(offset));
        let start = MemberSector(from_sysfs.or_else(|| sb?.bitmap)?);
        // Without a size from md, the bitmap ends at the next area. Versions 1.0 and 0.90 have the
        // data first.
        let limit = match (version, member.bad_block_log) {
            (Version::V11 | Version::V12, _) if start >= member.data_offset => return None,
            (Version::V11 | Version::V12, Some((log, _))) if log > start => log,
            (Version::V11 | Version::V12, _) => member.data_offset,
            (Version::V10 | Version::V090, _) => match member.sb_offset {
                Some(sb) if start < sb => sb,
                _ => MemberSector(member.sectors),
            },
        };
        let room = (limit > start).then(|| limit - start)?;
        Some((start, self.space.or(self.needed).unwrap_or(room).min(room)))
    }
}
