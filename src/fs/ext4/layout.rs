//! The complete layout of a filesystem. Reads the superblock, all group descriptors and the few
//! inodes created by mkfs, but no bitmaps, no inode tables and nothing else that grows with the
//! filesystem.
//!
//! Origins of special blocks:
//!
//! * Block 0 of a filesystem with 1 KiB blocks is the boot block: `other_metadata`. With larger
//!   blocks bytes 0 to 1023 share block 0 with the superblock.
//! * The extent or indirect blocks of the journal, quota and orphan inodes are `extent_tree`; the
//!   double indirect block of the resize inode is `other_metadata`; the blocks it points to are
//!   reserved GDT blocks: `group_descriptors`.
//! * Quota files can grow. Their blocks are those at the time of reading.
//! * Overlapping claims (damaged filesystems only) are resolved by `ranges`, with a note.

use std::io;

use super::descriptors::Descriptor;
use super::features::{compat, incompat};
use super::identify::{EXT_MAGIC, EXT_SUPERBLOCK_AT, FsKind};
use super::inode::{Inode, InodeBlocks};
use super::ranges::{Collector, Range};
use super::superblock::{Checksum, Ext4Superblock};
use crate::address::FsBlock;
use crate::fs::Error;
use crate::fs::read::{Fields, ReadAt};
use crate::fs::uuid::Uuid;
use crate::origin::Origin;

/// The resize inode, `EXT4_RESIZE_INO`.
const RESIZE_INO: u32 = 7;

/// Location of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Unknown: the layout is from FS_IOC_GETFSMAP, not from the device.
    Unknown,
    /// No journal.
    None,
    /// In the filesystem.
    Internal {
        /// Blocks that its inode maps.
        blocks: u64,
    },
    /// On another device.
    External {
        /// UUID of that device; `None` if the layout is from FS_IOC_GETFSMAP.
        uuid: Option<Uuid>,
    },
}

/// Blocks with a fixed location in a filesystem.
#[derive(Clone, Debug)]
pub struct Ext4Layout {
    /// Block size in bytes: 1024 to 65536.
    pub block_size: u32,
    /// Blocks of the filesystem.
    pub blocks: u64,
    /// Block groups; `None` for an external journal, or if a mount does not tell their number.
    pub groups: Option<u32>,
    /// ext2, ext3 or ext4; always ext4 if from a mount.
    pub kind: FsKind,
    /// The superblock; `None` if the layout is from a mount.
    pub superblock: Option<Ext4Superblock>,
    /// Ranges in blocks of the filesystem: sorted by `first`, disjoint, adjacent ones of the same
    /// origin merged. Other blocks hold file data, directories and the like.
    pub ranges: Vec<Range>,
    /// Location of the journal.
    pub journal: Journal,
    /// Structures that were left out, and the reasons, one line each. Empty for an intact
    /// filesystem read from its device.
    pub notes: Vec<String>,
}

impl Ext4Layout {
    /// Reads the layout of the filesystem at byte 0 of `dev`.
    pub fn read(dev: &dyn ReadAt) -> Result<Self, Error> {
        let superblock = Ext4Superblock::read(dev)?;
        let mut builder =
            Builder { dev, sb: &superblock, collector: Collector::default(), notes: Vec::new() };
        if let Checksum::Invalid { stored, computed } = superblock.checksum {
            builder.notes.push(format!(
                "s_checksum is {stored:#010x}, but the superblock has checksum {computed:#010x}: \
                 this can happen while mounted; otherwise check it with: e2fsck -n"
            ));
        }
        builder.superblocks();
        builder.groups()?;
        if builder.collector.is_full() {
            return Err(Error::Unusable(format!(
                "the metadata of this filesystem ({} groups of {} blocks) is in more pieces than \
                 raidtrace reads: check its superblock with: dumpe2fs -h",
                superblock.groups, superblock.blocks_per_group
            )));
        }
        let journal = builder.journal();
        builder.other_inodes();
        builder.mmp();
        let (collector, mut notes) = (builder.collector, builder.notes);
        let (ranges, overlap) = collector.finish();
        if let Some(o) = overlap {
            notes.push(o.note());
        }
        Ok(Self {
            block_size: superblock.block_size,
            blocks: superblock.blocks_count,
            groups: Some(superblock.groups),
            kind: superblock.kind(),
            superblock: Some(superblock),
            ranges,
            journal,
            notes,
        })
    }

    /// Reads the superblock of an external journal (mke2fs -O journal_dev). The journal starts in
    /// the next block (fs/ext4/super.c, ext4_get_journal_blkdev()).
    pub fn read_journal_device(dev: &dyn ReadAt) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut raw = [0; 1024];
        dev.read_at(EXT_SUPERBLOCK_AT, &mut raw)?;
        let f = Fields(&raw);
        if f.u16(0x38) != EXT_MAGIC || f.u32(0x60) & incompat::JOURNAL_DEV == 0 {
            return Err(invalid("not the superblock of an external journal"));
        }
        let block_size = match f.u32(0x18) {
            log @ 0..=6 => 1024u32 << log,
            _ => {
                return Err(invalid("s_log_block_size of the external journal is over 6"));
            }
        };
        let high = if f.u32(0x60) & incompat::BIT64 == 0 { 0 } else { u64::from(f.u32(0x150)) };
        let device = dev.size()? / u64::from(block_size);
        let blocks = (high << 32 | u64::from(f.u32(0x4))).min(device);
        let journal = EXT_SUPERBLOCK_AT / u64::from(block_size) + 1;
        if blocks <= journal {
            return Err(invalid("the external journal has no blocks"));
        }
        let range =
            |first, end, origin| Range { first: FsBlock(first), count: end - first, origin };
        Ok(Self {
            block_size,
            blocks,
            groups: None,
            kind: FsKind::JournalDevice,
            superblock: None,
            ranges: vec![
                range(0, journal, Origin::Superblock),
                range(journal, blocks, Origin::Journal),
            ],
            journal: Journal::None,
            notes: Vec::new(),
        })
    }
}

/// Descriptors with invalid block numbers, for one kind of metadata.
struct Misplaced {
    origin: Origin,
    blocks: u64,
    count: u64,
    first: (u32, FsBlock),
}

struct Builder<'a> {
    dev: &'a dyn ReadAt,
    sb: &'a Ext4Superblock,
    collector: Collector,
    notes: Vec<String>,
}

impl Builder<'_> {
    /// The boot block, superblocks and group descriptors with their backups.
    fn superblocks(&mut self) {
        let collector = &mut self.collector;
        self.sb.fixed_blocks(&mut |first, count, origin| {
            if !collector.is_full() {
                collector.push(first, count, origin);
            }
        });
    }

    /// Bitmaps and inode tables, from the descriptors.
    fn groups(&mut self) -> Result<(), Error> {
        let sb = self.sb;
        if self.collector.is_full() {
            return Ok(());
        }
        let mut misplaced = [
            (Origin::BlockBitmap, 1),
            (Origin::InodeBitmap, 1),
            (Origin::InodeTable, u64::from(sb.inode_table_blocks())),
        ]
        .map(|(origin, blocks)| Misplaced {
            origin,
            blocks,
            count: 0,
            first: (0, FsBlock(0)),
        });
        let flex = sb.has_incompat(incompat::FLEX_BG);
        // ext4_check_descriptors() in super.c requires bitmaps and inode tables after the primary
        // superblock and descriptors, and without flex_bg in their own group.
        let taken = sb.superblock_block() + u64::from(sb.primary_gdt_blocks());
        let collector = &mut self.collector;
        sb.for_each_descriptor(self.dev, &mut |group, descriptor| {
            let Descriptor { block_bitmap, inode_bitmap, inode_table } = descriptor;
            let (low, high) = if flex {
                (FsBlock(0), sb.blocks_count)
            } else {
                let first = sb.group_first_block(group);
                (first, (first.0 + u64::from(sb.blocks_per_group)).min(sb.blocks_count))
            };
            for (at, kind) in
                [block_bitmap, inode_bitmap, inode_table].into_iter().zip(&mut misplaced)
            {
                if at > taken && at >= low && at.saturating_add(kind.blocks).0 <= high {
                    if !collector.is_full() {
                        collector.push(at, kind.blocks, kind.origin);
                    }
                } else {
                    if kind.count == 0 {
                        kind.first = (group, at);
                    }
                    kind.count += 1;
                }
            }
        })?;
        for m in misplaced.iter().filter(|m| m.count > 0) {
            self.notes.push(format!(
                "{} of {} groups have an invalid location of their {}, first group {} (block {}): \
                 it is left out; check it with: e2fsck -n",
                m.count, sb.groups, m.origin, m.first.0, m.first.1
            ));
        }
        Ok(())
    }

    /// Adds the blocks of an inode, and a note if its map is damaged.
    fn push_mapping(&mut self, name: &str, mapping: &InodeBlocks, origin: Origin) {
        for &(first, count) in &mapping.data {
            self.collector.push(first, count, origin);
        }
        for &(first, count) in &mapping.tree {
            self.collector.push(first, count, Origin::ExtentTree);
        }
        if let Some(what) = &mapping.first_bad {
            self.notes.push(format!(
                "the map of the {name} has {} bad entries, which are left out, the first: {what}",
                mapping.bad
            ));
        }
    }

    fn journal(&mut self) -> Journal {
        let sb = self.sb;
        if !sb.has_compat(compat::HAS_JOURNAL) {
            return Journal::None;
        }
        if sb.journal_inum == 0 {
            return Journal::External { uuid: Some(sb.journal_uuid) };
        }
        let own = Inode::read(self.dev, sb, sb.journal_inum)
            .map_err(|why| (why, InodeBlocks::default()))
            .and_then(|inode| self.complete_map(&inode));
        let mapping = own.unwrap_or_else(|(why, partial)| {
            let backup = sb.journal_backup.and_then(|b| {
                let inode = Inode::from_map(b.i_block, b.size);
                self.complete_map(&inode).ok()
            });
            let (instead, mapping) = match backup {
                Some(mapping) => ("its copy in the superblock is used", mapping),
                None => {
                    ("there is no valid copy, so the journal is incomplete in this layout", partial)
                }
            };
            self.notes.push(format!(
                "journal inode {} is invalid: {why}; {instead}; check it with: e2fsck -n",
                sb.journal_inum
            ));
            mapping
        });
        self.push_mapping("journal", &mapping, Origin::Journal);
        Journal::Internal { blocks: mapping.blocks() }
    }

    /// The map of a journal inode if it is complete, else the reason and the incomplete map.
    fn complete_map(&self, inode: &Inode) -> Result<InodeBlocks, (String, InodeBlocks)> {
        if !inode.is_regular() {
            let why = format!("it is not a regular file (mode {:o})", inode.mode);
            return Err((why, InodeBlocks::default()));
        }
        let mapping = inode.map(self.dev, self.sb);
        let bytes = mapping.blocks().saturating_mul(self.sb.block_size.into());
        if mapping.bad > 0 || bytes == 0 || bytes < inode.size {
            let why = format!("it maps {bytes} of its {} bytes", inode.size);
            return Err((why, mapping));
        }
        Ok(mapping)
    }

    /// Quota files, the orphan file and the resize inode.
    fn other_inodes(&mut self) {
        let sb = self.sb;
        let [user, group, project] = sb.quota_inums;
        for (name, ino) in [
            ("user quota file", user),
            ("group quota file", group),
            ("project quota file", project),
            ("orphan file", sb.orphan_file_inum),
        ] {
            if ino == 0 {
                continue;
            }
            match Inode::read(self.dev, sb, ino) {
                Ok(inode) => {
                    let mapping = inode.map(self.dev, sb);
                    self.push_mapping(name, &mapping, Origin::OtherMetadata);
                }
                Err(why) => self.unreadable(name, ino, &why),
            }
        }
        if sb.has_compat(compat::RESIZE_INODE) {
            match Inode::read(self.dev, sb, RESIZE_INO) {
                // 0: no blocks are reserved.
                Ok(inode) if inode.double_indirect() == FsBlock(0) => {}
                Ok(inode) => self.push_single("resize inode", inode.double_indirect()),
                Err(why) => self.unreadable("resize inode", RESIZE_INO, &why),
            }
        }
    }

    fn mmp(&mut self) {
        if self.sb.mmp_block != 0 {
            self.push_single("MMP block", FsBlock(self.sb.mmp_block));
        }
    }

    /// Adds one block of `other_metadata`.
    fn push_single(&mut self, name: &str, block: FsBlock) {
        if block > self.sb.superblock_block() && block.0 < self.sb.blocks_count {
            self.collector.push(block, 1, Origin::OtherMetadata);
        } else {
            self.notes.push(format!(
                "the {name} has the invalid block number {block} and is left out; check it with: \
                 e2fsck -n"
            ));
        }
    }

    fn unreadable(&mut self, name: &str, ino: u32, why: &str) {
        self.notes.push(format!("the {name} (inode {ino}) is left out: {why}"));
    }
}
