//! Where md keeps its own data on each member. sysfs knows most; the superblock on the member knows the rest and is a
//! check on it. Where it cannot be read (not root) the rules of the metadata version must do.

use std::io;
use std::path::Path;

use super::blocks::Blocks;
use super::superblock::{self, Reject, Superblock, Version};
use super::sys::{Sys, attribute, number};
use super::types::{Array, Member};

/// sizeof(bitmap_super_t), drivers/md/md-bitmap.h.
const BITMAP_SUPER: u64 = 256;

/// Fills the members' places; returns a line for everything that is not as it should be. `md` is /sys/block/mdX/md.
/// `superblocks`: whether members are read; else all is from sysfs, and there are no lines.
pub(super) fn fill(
    sys: &Sys,
    md: &Path,
    array: &mut Array,
    blocks: &Blocks,
    superblocks: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(version) = array.metadata.as_deref().and_then(Version::parse) else {
        if let Some(other) = &array.metadata {
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
        let Some(place) = version
            .place(member.sectors)
            .filter(|p| *p < member.sectors)
        else {
            continue;
        };
        member.sb_offset = Some(place);
        member.sb_sectors = if version == Version::V090 { 8 } else { 2 };
        let found = blocks.get(member.dev).filter(|_| superblocks).map(|block| {
            let disk = blocks.disk_of(block);
            let bytes: Option<u64> = number(disk.dir.join("queue/logical_block_size"));
            let path = sys.path(format!("/dev/{}", block.name.replace('!', "/")));
            read(
                version,
                &path,
                place,
                member.sectors,
                bytes.unwrap_or(512) / 512,
            )
        });
        let sb = match found {
            Some(Ok(sb)) => Some(sb),
            // A failed disk's superblock is nobody's business.
            _ if member.state.iter().any(|w| w == "faulty") => None,
            Some(Err(Failure::Unreadable(e))) => {
                unreadable.push(&member.name);
                cause.get_or_insert(e);
                None
            }
            // The device has gone, which has been said.
            None => None,
            Some(Err(Failure::Rejected(why))) => {
                notes.push(format!(
                    "{}: superblock of {} at sector {place}: {why}: its places are taken from sysfs alone",
                    array.name, member.name
                ));
                None
            }
        };
        if let Some(sb) = &sb {
            member.sb_sectors = sb.sectors;
            layout = layout.or(sb.layout);
            member.bad_block_log = sb.bad_block_log;
            if member.ppl.is_none() {
                member.ppl = sb.ppl;
            }
            if array.reshape_position.is_none() && sb.data_offset != member.data_offset {
                notes.push(format!(
                    "{}: data of {} begin at sector {} by sysfs and {} by its superblock: sysfs is believed",
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
            "{}: superblocks of {} cannot be read ({cause}): md's places on them are taken from sysfs, and the bad-block log counts as raw",
            array.name,
            unreadable.join(", ")
        ));
    }
    notes
}

enum Failure {
    Unreadable(io::Error),
    Rejected(Reject),
}

fn read(
    version: Version,
    path: &Path,
    place: u64,
    sectors: u64,
    block_sectors: u64,
) -> Result<Superblock, Failure> {
    let bytes = superblock::read(path, place).map_err(Failure::Unreadable)?;
    superblock::parse(version, &bytes, place, sectors, block_sectors).map_err(Failure::Rejected)
}

/// What md/bitmap says of the write-intent bitmap.
struct Bitmap {
    /// Sectors from the start of the superblock; `None`: no bitmap, or in a file, or the file `location` is not there
    /// (lockless bitmap, 6.18).
    location: Option<i64>,
    /// Whether there is one on the members at all.
    internal: bool,
    /// Sectors set aside for it; `None` when md does not know.
    space: Option<u64>,
    /// Sectors that it needs at its chunk size.
    needed: Option<u64>,
}

impl Bitmap {
    fn read(md: &Path, array: &Array) -> Self {
        let location = attribute(md.join("bitmap/location"));
        // In 512-byte sectors: RAID 10's bitmap covers the array, the others' each member.
        let covered = match array.level.as_str() {
            "raid10" => array.sectors,
            _ => array.component_sectors,
        };
        let chunk = number::<u64>(md.join("bitmap/chunksize")).map_or(0, |bytes| bytes / 512);
        let needed = (chunk > 0 && covered > 0).then(|| {
            let bytes = BITMAP_SUPER + covered.div_ceil(chunk).div_ceil(8);
            // Written by pages.
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

    /// Its first sector and length on a member.
    fn on(&self, version: Version, member: &Member, sb: Option<&Superblock>) -> Option<(u64, u64)> {
        if !self.internal {
            return None;
        }
        let by_sysfs = self
            .location
            .and_then(|offset| member.sb_offset?.checked_add_signed(offset));
        let start = by_sysfs.or_else(|| sb?.bitmap)?;
        // Without a word from md: up to whatever comes next. 1.0 and 0.90 have their data before, so up to the end.
        let limit = match (version, member.bad_block_log) {
            (Version::V11 | Version::V12, _) if start >= member.data_offset => return None,
            (Version::V11 | Version::V12, Some((log, _))) if log > start => log,
            (Version::V11 | Version::V12, _) => member.data_offset,
            (Version::V10 | Version::V090, _) => match member.sb_offset {
                Some(sb) if start < sb => sb,
                _ => member.sectors,
            },
        };
        let room = limit.checked_sub(start).filter(|n| *n > 0)?;
        Some((start, self.space.or(self.needed).unwrap_or(room).min(room)))
    }
}
