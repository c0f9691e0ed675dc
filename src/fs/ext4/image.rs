//! The normal format of e2image: a superblock, the group descriptors and the inode tables of a filesystem one after the
//! other (lib/ext2fs/e2image.h, imager.c), shown as the device that they were on. Its raw format is sparse and needs
//! nothing; QCOW2 is told by [`is_qcow2`] and left to e2image.
//!
//! What the image does not have reads as an error, so that nothing is taken for zeros.

use std::io;

use super::error::Error;
use super::identify::EXT_SUPERBLOCK_AT;
use super::read::{Fields, ReadAt};
use super::superblock::Superblock;

/// `magic_descriptor` of `struct ext2_image_hdr`, at byte 4.
const DESCRIPTOR: &[u8] = b"Ext2 Image 1.0\0";
/// Bytes of the header that are read here.
const HEADER: usize = 320;
/// `SUPERBLOCK_SIZE`; a block is kept for it, and the descriptors follow.
const SUPERBLOCK: u64 = 1024;

/// What a note or an error says that would have needed a block which no e2image has.
pub const MISSING: &str = "an e2image has only superblock, descriptors and inodes";

/// Whether `file` is an e2image in the normal format.
pub fn is_e2image(file: &dyn ReadAt) -> bool {
    let mut head = [0; 4 + DESCRIPTOR.len()];
    file.read_at(0, &mut head).is_ok() && head[4..] == *DESCRIPTOR
}

/// Whether `file` is a QCOW2 image, as `e2image -Q` makes them.
pub fn is_qcow2(file: &dyn ReadAt) -> bool {
    let mut magic = [0; 4];
    file.read_at(0, &mut magic).is_ok() && magic == *b"QFI\xfb"
}

/// An e2image that reads as the device it was made of.
pub struct E2Image<'a> {
    file: &'a dyn ReadAt,
    super_at: u64,
    inodes_at: u64,
    size: u64,
    block_size: u64,
    /// Blocks of the device, count, and the image's byte for the first one; in the order of `first`.
    pieces: Vec<(u64, u64, u64)>,
}

impl<'a> E2Image<'a> {
    /// Reads the header, the superblock and where the inode tables were.
    ///
    /// # Errors
    /// When the image is cut short or its superblock makes no sense.
    pub fn open(file: &'a dyn ReadAt) -> Result<Self, Error> {
        let mut head = [0; HEADER];
        file.read_at(0, &mut head).map_err(|source| Error::Read {
            what: "header of the e2image",
            offset: 0,
            source,
        })?;
        let f = Fields(&head);
        let mut image = Self {
            file,
            super_at: f.u32(OFFSET_SUPER).into(),
            inodes_at: f.u32(OFFSET_INODE).into(),
            // Until the superblock has said more.
            size: u64::MAX,
            block_size: 1024,
            pieces: Vec::new(),
        };
        let sb = Superblock::read(&image)?;
        image.block_size = sb.block_size.into();
        image.size = sb.blocks_count.saturating_mul(image.block_size);
        let descriptors = image.super_at + image.block_size;
        for nr in 0..sb.gdt_blocks() {
            let at = descriptors + u64::from(nr) * image.block_size;
            image.pieces.push((sb.descriptor_block(nr), 1, at));
        }
        image.pieces.sort_unstable();
        image.merge();
        if image.inodes_at > 0 {
            // Only the inodes that mkfs makes are asked for, and they are in the first groups.
            let each = u64::from(sb.inode_table_blocks());
            let first_groups = sb.groups.min(128);
            let mut tables = Vec::new();
            for group in 0..first_groups {
                let table = sb.descriptor(&image, group)?.inode_table;
                let at = image.inodes_at + u64::from(group) * each * image.block_size;
                tables.push((table, each, at));
            }
            image.pieces.extend(tables);
            image.pieces.sort_unstable();
        }
        Ok(image)
    }

    /// Pieces that follow on each other on both sides are one.
    fn merge(&mut self) {
        let size = self.block_size;
        self.pieces.dedup_by(|b, a| {
            let follows = a.0 + a.1 == b.0 && a.2 + a.1 * size == b.2;
            if follows {
                a.1 += b.1;
            }
            follows
        });
    }

    /// Where `offset` of the device is in the image, and for how many bytes.
    fn place(&self, offset: u64) -> Option<(u64, u64)> {
        let (block, inside) = (offset / self.block_size, offset % self.block_size);
        let behind = self.pieces.partition_point(|p| p.0 <= block);
        let &(first, count, at) = self.pieces.get(behind.checked_sub(1)?)?;
        let skip = (block.checked_sub(first)?) * self.block_size + inside;
        (block < first.saturating_add(count)).then(|| (at + skip, count * self.block_size - skip))
    }
}

/// Of `struct ext2_image_hdr`.
const OFFSET_SUPER: usize = 0x11c;
const OFFSET_INODE: usize = 0x120;

impl ReadAt for E2Image<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let len = buf.len() as u64;
        if offset >= EXT_SUPERBLOCK_AT && offset + len <= EXT_SUPERBLOCK_AT + SUPERBLOCK {
            let at = self.super_at + (offset - EXT_SUPERBLOCK_AT);
            return self.file.read_at(at, buf);
        }
        let mut done = 0;
        while done < buf.len() {
            let (at, room) = self
                .place(offset + done as u64)
                .ok_or_else(|| io::Error::other(MISSING))?;
            let n = usize::try_from(room)
                .unwrap_or(usize::MAX)
                .min(buf.len() - done);
            self.file.read_at(at, &mut buf[done..done + n])?;
            done += n;
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
