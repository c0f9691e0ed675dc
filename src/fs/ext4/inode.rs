//! The blocks of one inode, by extents (fs/ext4/ext4_extents.h, ext4/ifork.rst) or by the block map
//! of ext2 and ext3 (ext4/blockmap.rst).
//!
//! The walk is bounded for any input: no block is read twice, the format limits the depth, and
//! [`MAX_MAP_BYTES`] and [`MAX_RUNS`] limit the map blocks and runs.

use std::collections::HashSet;

use super::superblock::Ext4Superblock;
use crate::address::FsBlock;
use crate::fs::Error;
use crate::fs::read::{Fields, ReadAt};

/// `EXT4_EXTENTS_FL`.
const EXTENTS_FLAG: u32 = 0x8_0000;
/// `EXT4_INLINE_DATA_FL`.
const INLINE_DATA_FLAG: u32 = 0x1000_0000;
const EXTENT_MAGIC: u16 = 0xf30a;
/// `EXT4_MAX_EXTENT_DEPTH`.
const MAX_DEPTH: u16 = 5;
/// `EXT_INIT_MAX_LEN`: a larger `ee_len` means an unwritten extent of `ee_len - EXT_INIT_MAX_LEN`
/// blocks.
const MAX_INITIALISED: u16 = 32768;
/// Maximum bytes of extent or indirect blocks read for one inode. The largest journal of mke2fs
/// (10,240,000 blocks) needs 40 MB as a block map.
const MAX_MAP_BYTES: u64 = 64 << 20;
/// Maximum number of runs of one inode. A journal made by mke2fs has tens to thousands.
const MAX_RUNS: usize = 4 << 20;

/// Fields of an inode (`struct ext4_inode`).
pub(super) struct Inode {
    /// `i_mode`.
    pub mode: u16,
    /// Size in bytes.
    pub size: u64,
    /// `i_flags`.
    pub flags: u32,
    /// Extents or block map.
    pub i_block: [u8; 60],
}

/// Blocks of an inode.
#[derive(Default)]
pub(super) struct InodeBlocks {
    /// First block and length of each run of data, in file order.
    pub data: Vec<(FsBlock, u64)>,
    /// First block and length of each run of extent or indirect blocks.
    pub tree: Vec<(FsBlock, u64)>,
    /// Number of invalid pointers that were left out, and the first of them.
    pub bad: u64,
    pub first_bad: Option<String>,
}

impl InodeBlocks {
    /// Number of data blocks.
    pub fn blocks(&self) -> u64 {
        self.data.iter().map(|&(_, count)| count).sum()
    }
}

impl Inode {
    /// Reads inode `ino` (counted from 1). `Err` is a message.
    pub fn read(dev: &dyn ReadAt, sb: &Ext4Superblock, ino: u32) -> Result<Self, String> {
        if ino == 0 || ino > sb.inodes_count {
            return Err(format!("the filesystem has inodes 1 to {}", sb.inodes_count));
        }
        let (group, index) = ((ino - 1) / sb.inodes_per_group, (ino - 1) % sb.inodes_per_group);
        let table = sb.descriptor(dev, group).map_err(|e: Error| e.to_string())?.inode_table;
        let within = u64::from(index) * u64::from(sb.inode_size);
        if table.saturating_add(sb.inode_table_blocks().into()).0 > sb.blocks_count {
            return Err(format!(
                "group {group}'s inode table at block {table} lies outside the filesystem"
            ));
        }
        let mut raw = [0; 128];
        dev.read_at(table.byte(sb.block_size) + within, &mut raw)
            .map_err(|e| format!("cannot read the inode table at block {table}: {e}"))?;
        let f = Fields(&raw);
        Ok(Self {
            mode: f.u16(0),
            size: f.split(0x4, Some(0x6c)),
            flags: f.u32(0x20),
            i_block: f.bytes(0x28),
        })
    }

    /// An inode with only a map. The magic of the map distinguishes extents from a block map.
    pub fn from_map(i_block: [u8; 60], size: u64) -> Self {
        let extents = Fields(&i_block).u16(0) == EXTENT_MAGIC;
        Self { mode: 0o10_0600, size, flags: if extents { EXTENTS_FLAG } else { 0 }, i_block }
    }

    /// `S_ISREG`.
    pub fn is_regular(&self) -> bool {
        self.mode & 0o17_0000 == 0o10_0000
    }

    /// All blocks of the inode.
    pub fn map(&self, dev: &dyn ReadAt, sb: &Ext4Superblock) -> InodeBlocks {
        let mut walk = InodeWalker { dev, sb, seen: HashSet::new(), out: InodeBlocks::default() };
        if self.flags & EXTENTS_FLAG != 0 {
            walk.extent_node(&self.i_block, None);
        } else if self.flags & INLINE_DATA_FLAG == 0 {
            for slot in 0..15 {
                let block = FsBlock(Fields(&self.i_block).u32(4 * slot).into());
                walk.pointer(block, slot.saturating_sub(11));
            }
        }
        walk.out
    }

    /// The double indirect block of the resize inode; its entries are the reserved GDT blocks
    /// after the primary superblock (fs/ext4/resize.c:reserve_backup_gdb).
    pub fn double_indirect(&self) -> FsBlock {
        FsBlock(Fields(&self.i_block).u32(4 * 13).into())
    }
}

struct InodeWalker<'a> {
    dev: &'a dyn ReadAt,
    sb: &'a Ext4Superblock,
    seen: HashSet<FsBlock>,
    out: InodeBlocks,
}

impl InodeWalker<'_> {
    fn bad(&mut self, what: impl FnOnce() -> String) {
        self.out.bad += 1;
        self.out.first_bad.get_or_insert_with(what);
    }

    /// Adds data blocks, if they are inside the filesystem.
    fn data(&mut self, first: FsBlock, count: u64) {
        let (low, high) = (u64::from(self.sb.first_data_block), self.sb.blocks_count);
        if first.0 < low || first.saturating_add(count).0 > high {
            self.bad(|| {
                format!(
                    "{count} blocks at {first} lie outside blocks {low} to {}",
                    high.saturating_sub(1)
                )
            });
            return;
        }
        let full = self.out.data.len() >= MAX_RUNS;
        match self.out.data.last_mut() {
            Some((start, len)) if *start + *len == first => *len += count,
            _ if full => self.bad(|| format!("over {MAX_RUNS} runs")),
            _ => self.out.data.push((first, count)),
        }
    }

    /// Reads an extent or indirect block, once.
    fn node(&mut self, block: FsBlock) -> Option<Vec<u8>> {
        let size = u64::from(self.sb.block_size);
        if block <= self.sb.superblock_block() || block.0 >= self.sb.blocks_count {
            self.bad(|| format!("map block {block} is invalid"));
        } else if self.seen.len() as u64 * size >= MAX_MAP_BYTES {
            self.bad(|| format!("over {MAX_MAP_BYTES} bytes of map blocks"));
        } else if !self.seen.insert(block) {
            self.bad(|| format!("map block {block} occurs twice"));
        } else {
            let mut buf = vec![0; size as usize];
            match self.dev.read_at(block.byte(self.sb.block_size), &mut buf) {
                Ok(()) => {
                    match self.out.tree.last_mut() {
                        Some((start, len)) if *start + *len == block => *len += 1,
                        _ => self.out.tree.push((block, 1)),
                    }
                    return Some(buf);
                }
                Err(e) => self.bad(|| format!("cannot read map block {block}: {e}")),
            }
        }
        None
    }

    /// Walks a pointer of a block map, `level` indirections above the data. Block 0 is a hole.
    fn pointer(&mut self, block: FsBlock, level: usize) {
        if block == FsBlock(0) {
            return;
        }
        if level == 0 {
            self.data(block, 1);
            return;
        }
        let Some(buf) = self.node(block) else { return };
        for at in (0..buf.len()).step_by(4) {
            self.pointer(FsBlock(Fields(&buf).u32(at).into()), level - 1);
        }
    }

    /// Walks a node of the extent tree: a header of 12 bytes, then entries of 12. `depth` is the
    /// depth that the parent requires; `None` for the root.
    fn extent_node(&mut self, node: &[u8], depth: Option<u16>) {
        let f = Fields(node);
        let (magic, entries, own) = (f.u16(0), usize::from(f.u16(2)), f.u16(6));
        let room = (node.len() - 12) / 12;
        if magic != EXTENT_MAGIC || entries > room || depth.unwrap_or(own) != own || own > MAX_DEPTH
        {
            self.bad(|| {
                format!("an extent header has magic {magic:#06x}, {entries} entries, depth {own}")
            });
            return;
        }
        for at in (0..entries).map(|i| 12 + 12 * i) {
            if own == 0 {
                let len = f.u16(at + 4);
                let len = if len > MAX_INITIALISED { len - MAX_INITIALISED } else { len };
                let first = u64::from(f.u16(at + 6)) << 32 | u64::from(f.u32(at + 8));
                self.data(FsBlock(first), len.into());
            } else {
                let child = u64::from(f.u16(at + 8)) << 32 | u64::from(f.u32(at + 4));
                if let Some(buf) = self.node(FsBlock(child)) {
                    self.extent_node(&buf, Some(own - 1));
                }
            }
        }
    }
}
