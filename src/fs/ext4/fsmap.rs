//! Layout of a mounted filesystem from `FS_IOC_GETFSMAP` (linux/fsmap.h, fs/ext4/fsmap.c), on any
//! file of the filesystem. The fallback for devices that cannot be opened: it has less information
//! than `layout` and costs more, because the kernel reads every bitmap that is not in memory.
//!
//! The result is checked like untrusted input: records may be in any order, repeat, or have invalid
//! numbers, and the walk always terminates.

use std::fs::File;
use std::mem::size_of;
use std::path::Path;

use bytemuck::{Pod, Zeroable};
use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use super::identify::{EXT_MAGIC, FsKind};
use super::layout::{Ext4Layout, Journal};
use super::ranges::Collector;
use crate::address::FsBlock;
use crate::fs::{Error, mount};
use crate::origin::Origin;

/// `struct fsmap`; bytes, not blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct FsmapRecord {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head` without the keys and records that follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Head {
    iflags: u32,
    oflags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
}

/// `FMH_OF_DEV_T`: devices are device numbers.
const OF_DEV_T: u32 = 0x1;
/// `FMR_OF_SPECIAL_OWNER`: `owner` is one of the `OWN_*` below, not an inode.
const OF_SPECIAL_OWNER: u32 = 0x10;
/// `FMR_OF_LAST`.
const OF_LAST: u32 = 0x20;

/// `FMR_OWNER`.
const fn owner(kind: u8, code: u32) -> u64 {
    ((kind as u64) << 32) | code as u64
}

/// `EXT4_FMR_OWN_*` (fs/ext4/fsmap.h).
const OWN_FS: u64 = owner(b'X', 1);
const OWN_LOG: u64 = owner(b'X', 2);
const OWN_INODES: u64 = owner(b'X', 5);
const OWN_GDT: u64 = owner(b'f', 1);
const OWN_RESV_GDT: u64 = owner(b'f', 2);
const OWN_BLKBM: u64 = owner(b'f', 3);
const OWN_INOBM: u64 = owner(b'f', 4);

/// Records per call. Large, because the kernel lists all metadata again for each call.
const PAGE: usize = 16384;
/// Maximum number of records, which take minutes to read. A typical filesystem has 5 to 10 per
/// group and one for each free extent.
const MAX_RECORDS: usize = 16 << 20;
/// Maximum size of an ext4: physical block numbers have 48 bits in an extent.
const MAX_BLOCKS: u64 = 1 << 48;

/// The argument of the ioctl. The head and its two keys have the size of one record each.
struct GetFsmap<'a>(&'a mut [FsmapRecord]);

const HEAD: usize = 0;
const LOW: usize = 1;
const HIGH: usize = 2;
const RECORDS: usize = 3;
const _: () =
    assert!(size_of::<FsmapRecord>() == 64 && size_of::<Head>() == size_of::<FsmapRecord>());

// SAFETY: the opcode is FS_IOC_GETFSMAP, whose argument is a `struct fsmap_head` with `fmh_count`
// records after it; `ask` sets that count to the number of records that fit into the slice. The
// kernel writes nothing but integers, so every record stays a valid value.
unsafe impl Ioctl for GetFsmap<'_> {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        // _IOWR('X', 59, struct fsmap_head), and that struct includes the keys.
        ioctl::opcode::read_write::<[FsmapRecord; RECORDS]>(b'X', 59)
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Calls the ioctl once, for the records after `low`.
fn ask(file: &File, low: FsmapRecord) -> Result<Vec<FsmapRecord>, Error> {
    let mut argument = vec![FsmapRecord::zeroed(); RECORDS + PAGE];
    argument[HEAD] = bytemuck::cast(Head { count: PAGE as u32, ..Head::zeroed() });
    argument[LOW] = low;
    argument[HIGH] = FsmapRecord {
        device: u32::MAX,
        flags: u32::MAX,
        physical: u64::MAX,
        owner: u64::MAX,
        offset: u64::MAX,
        ..FsmapRecord::zeroed()
    };
    // SAFETY: `GetFsmap` describes this call, the count in the head is the number of records after
    // the keys, and the argument outlives the call.
    unsafe { ioctl::ioctl(file, GetFsmap(&mut argument)) }.map_err(|errno| Error::Mount {
        call: "call FS_IOC_GETFSMAP on",
        source: errno.into(),
        hint: match errno {
            Errno::NOTTY | Errno::OPNOTSUPP => {
                "the driver of this filesystem does not support it (ext4 does)"
            }
            Errno::INVAL => "this kernel rejects the arguments",
            Errno::PERM | Errno::ACCESS => "a security policy forbids it",
            _ => "check dmesg",
        },
    })?;
    let head: Head = bytemuck::cast(argument[HEAD]);
    let mut records = argument.split_off(RECORDS);
    records.truncate(head.entries.try_into().unwrap_or(PAGE));
    if head.oflags & OF_DEV_T == 0 && !records.is_empty() {
        return Err(invalid("has no device numbers"));
    }
    Ok(records)
}

/// The error of a result that is not possible.
fn invalid(why: &str) -> Error {
    Error::Unusable(format!(
        "the result of FS_IOC_GETFSMAP {why}; allow raidtrace to read the device instead"
    ))
}

/// Device number in the encoding of the records (`new_encode_dev`).
fn encode_dev((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The layout of the records so far.
struct FsmapLayout {
    device: u32,
    block_size: u32,
    collector: Collector,
    /// First block of metadata.
    first: FsBlock,
    /// First block after all records, free space included.
    end: FsBlock,
    /// Blocks of block bitmaps and of inode bitmaps: one of each per group.
    bitmaps: [u64; 2],
    external_journal: bool,
    /// Number of records with invalid values, and the first of them.
    bad: u64,
    first_bad: Option<FsmapRecord>,
}

impl FsmapLayout {
    fn new(device: u32, block_size: u32) -> Self {
        Self {
            device,
            block_size,
            collector: Collector::default(),
            first: FsBlock(u64::MAX),
            end: FsBlock(0),
            bitmaps: [0; 2],
            external_journal: false,
            bad: 0,
            first_bad: None,
        }
    }

    /// First block and count; `None` if invalid.
    fn blocks(&self, record: &FsmapRecord) -> Option<(FsBlock, u64)> {
        let size = u64::from(self.block_size);
        let first = FsBlock(record.physical / size);
        let count = record.length / size;
        let whole = record.physical.is_multiple_of(size) && record.length.is_multiple_of(size);
        (whole && count > 0 && first.checked_add(count)?.0 <= MAX_BLOCKS).then_some((first, count))
    }

    fn add(&mut self, record: &FsmapRecord) {
        let special = record.flags & OF_SPECIAL_OWNER != 0;
        if record.device != self.device {
            self.external_journal |= special && record.owner == OWN_LOG;
            return;
        }
        let Some((first, count)) = self.blocks(record) else {
            self.bad += 1;
            self.first_bad.get_or_insert(*record);
            return;
        };
        self.end = self.end.max(first + count);
        if !special {
            return;
        }
        let origin = match record.owner {
            OWN_FS => Origin::Superblock,
            OWN_GDT | OWN_RESV_GDT => Origin::GroupDescriptors,
            OWN_BLKBM => Origin::BlockBitmap,
            OWN_INOBM => Origin::InodeBitmap,
            OWN_INODES => Origin::InodeTable,
            OWN_LOG => Origin::Journal,
            // Free space, and blocks without a special owner: data, directories, the journal.
            _ => return,
        };
        match origin {
            Origin::BlockBitmap => self.bitmaps[0] = self.bitmaps[0].saturating_add(count),
            Origin::InodeBitmap => self.bitmaps[1] = self.bitmaps[1].saturating_add(count),
            _ => {}
        }
        self.first = self.first.min(first);
        self.collector.push(first, count, origin);
    }

    /// Returns the layout, of at least `blocks` blocks.
    fn finish(mut self, blocks: u64) -> Ext4Layout {
        // With 1 KiB blocks the superblock is in block 1, and block 0 is the boot block, for which
        // there is no record.
        if self.block_size == 1024 && self.first == FsBlock(1) {
            self.collector.push(FsBlock(0), 1, Origin::OtherMetadata);
        }
        let (journal, journal_note) = if self.external_journal {
            (
                Journal::External { uuid: None },
                "any quota and orphan files are missing; the journal is on another device",
            )
        } else {
            (
                Journal::Unknown,
                "any internal journal, quota and orphan files are missing; journal blocks are \
                 learned as they are written",
            )
        };
        let mut notes = vec![format!("layout from FS_IOC_GETFSMAP: {journal_note}")];
        if let Some(bad) = self.first_bad {
            notes.push(format!(
                "{} records of FS_IOC_GETFSMAP are invalid and left out, the first: {} bytes at \
                 byte {}",
                self.bad, bad.length, bad.physical
            ));
        }
        let (ranges, overlap) = self.collector.finish();
        if let Some(o) = overlap {
            notes.push(o.note());
        }
        let [block_bitmaps, inode_bitmaps] = self.bitmaps;
        let groups = u32::try_from(block_bitmaps)
            .ok()
            .filter(|&n| n > 0 && block_bitmaps == inode_bitmaps && overlap.is_none());
        if groups.is_none() {
            notes.push(format!(
                "FS_IOC_GETFSMAP reports {block_bitmaps} blocks of block bitmaps and \
                 {inode_bitmaps} of inode bitmaps, but there should be one of each per group: \
                 some metadata counts as file data"
            ));
        }
        Ext4Layout {
            block_size: self.block_size,
            blocks: blocks.max(self.end.0),
            groups,
            kind: FsKind::Ext4,
            superblock: None,
            ranges,
            journal,
            notes,
        }
    }
}

/// The key for the next page; `None` if it does not advance beyond `low` (later device or later
/// byte).
fn next_key(low: &FsmapRecord, last: &FsmapRecord) -> Option<FsmapRecord> {
    let end = last.physical.checked_add(last.length)?;
    // The kernel continues after the low key.
    let before = low.physical.checked_add(low.length)?;
    ((last.device, end) > (low.device, before)).then_some(FsmapRecord { reserved: [0; 3], ..*last })
}

/// Adds all records of `ask` to `map`, page by page.
fn walk(
    map: &mut FsmapLayout,
    limit: usize,
    mut ask: impl FnMut(FsmapRecord) -> Result<Vec<FsmapRecord>, Error>,
) -> Result<(), Error> {
    let mut low = FsmapRecord::zeroed();
    let mut seen = 0;
    loop {
        let records = ask(low)?;
        seen += records.len();
        records.iter().for_each(|record| map.add(record));
        let why = match records.last() {
            None if seen == 0 => "is empty".to_owned(),
            None => return Ok(()),
            Some(last) if last.flags & OF_LAST != 0 => return Ok(()),
            Some(_) if seen >= limit => {
                format!("does not end after {seen} records: too many free extents")
            }
            Some(last) => match next_key(&low, last) {
                Some(next) => {
                    low = next;
                    continue;
                }
                None => format!("goes back to byte {} after {seen} records", last.physical),
            },
        };
        return Err(invalid(&why));
    }
}

impl Ext4Layout {
    /// Layout of the mounted ext4 filesystem on `device` (major, minor), through any file or
    /// directory of it, such as its mount point. `superblock` is `None`, the ranges lack the
    /// journal and other inodes of mkfs, and an ext2 or ext3 mounted by the ext4 driver counts as
    /// ext4.
    ///
    /// Slow if few bitmaps are in memory, because the kernel reads them all.
    pub fn from_mount(mount_point: &Path, device: (u32, u32)) -> Result<Self, Error> {
        let file = mount::open(mount_point, device)?;
        let stat = fstatfs(&file).map_err(|errno| Error::Mount {
            call: "statfs",
            source: errno.into(),
            hint: "check dmesg",
        })?;
        if stat.f_type as u64 != u64::from(EXT_MAGIC) {
            return Err(Error::Unusable(format!(
                "the mount point is not on ext2, ext3 or ext4 (statfs returns magic {:#x}): name \
                 the mount point of the filesystem",
                stat.f_type as u64
            )));
        }
        // For ext4, `f_frsize` and `f_bsize` are both the block size.
        let block_size = u32::try_from(stat.f_frsize)
            .ok()
            .filter(|size| size.is_power_of_two() && (1024..=65536).contains(size))
            .ok_or_else(|| {
                invalid(&format!("needs a valid block size, but statfs reports {}", stat.f_frsize))
            })?;
        let mut map = FsmapLayout::new(encode_dev(device), block_size);
        walk(&mut map, MAX_RECORDS, |low| ask(&file, low))?;
        // f_blocks excludes the metadata (except with minixdf), so it is at most the size.
        Ok(map.finish((stat.f_blocks as u64).min(MAX_BLOCKS)))
    }
}
#[cfg(test)]
mod tests;
