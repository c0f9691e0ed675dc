//! The normal format of e2image: superblock, group descriptors, inode tables and bitmaps of a
//! filesystem, one after the other (lib/ext2fs/e2image.h, imager.c). [`E2Image`] makes all but the
//! bitmaps readable at their offsets on the device. The raw format is sparse and needs no support.
//! QCOW2 images are detected by [`is_qcow2`] but not read.
//!
//! Reads of other blocks fail; they do not return zeros.

use std::io;

use super::identify::EXT_SUPERBLOCK_AT;
use super::superblock::Ext4Superblock;
use crate::address::FsBlock;
use crate::fs::Error;
use crate::fs::read::{Fields, ReadAt};

/// `magic_descriptor` of `struct ext2_image_hdr`, at byte 4.
const DESCRIPTOR: &[u8] = b"Ext2 Image 1.0\0";
/// Bytes of the header that this module reads.
const HEADER: usize = 320;
/// `SUPERBLOCK_SIZE`. The superblock occupies a whole block of the image, followed by the
/// descriptors.
const SUPERBLOCK: u64 = 1024;

/// Reason in notes and errors for blocks that no e2image has.
pub const NOT_IN_E2IMAGE: &str = "only superblock, descriptors and inodes of an e2image are read";

/// True if `file` is an e2image in the normal format.
pub fn is_e2image(file: &dyn ReadAt) -> bool {
    let mut head = [0; 4 + DESCRIPTOR.len()];
    file.read_at(0, &mut head).is_ok() && head[4..] == *DESCRIPTOR
}

/// True if `file` is a QCOW2 image, as created by `e2image -Q`.
pub fn is_qcow2(file: &dyn ReadAt) -> bool {
    let mut magic = [0; 4];
    file.read_at(0, &mut magic).is_ok() && magic == *b"QFI\xfb"
}

/// An e2image, readable like its device.
pub struct E2Image<'a> {
    file: &'a dyn ReadAt,
    super_at: u64,
    inodes_at: u64,
    size: u64,
    block_size: u64,
    /// First device block, count, and byte of the first block in the image; sorted by first block.
    pieces: Vec<(FsBlock, u64, u64)>,
}

impl<'a> E2Image<'a> {
    /// Reads the header, the superblock and the addresses of the inode tables.
    ///
    /// # Errors
    /// The image is truncated or its superblock is invalid.
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
            // Placeholder until the superblock is read.
            size: u64::MAX,
            block_size: 1024,
            pieces: Vec::new(),
        };
        let sb = Ext4Superblock::read(&image)?;
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
            // Only inodes created by mkfs are read, and they are in the first groups.
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

    /// Merges pieces that are contiguous on the device and in the image.
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

    /// Byte in the image for byte `offset` of the device, and the number of contiguous bytes.
    fn locate(&self, offset: u64) -> Option<(u64, u64)> {
        let block = FsBlock(offset / self.block_size);
        let inside = offset % self.block_size;
        let after = self.pieces.partition_point(|p| p.0 <= block);
        let &(first, count, at) = self.pieces.get(after.checked_sub(1)?)?;
        let skip = (block - first) * self.block_size + inside;
        (block < first.saturating_add(count)).then(|| (at + skip, count * self.block_size - skip))
    }
}

/// A field of `struct ext2_image_hdr`.
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
                .locate(offset + done as u64)
                .ok_or_else(|| io::Error::other(NOT_IN_E2IMAGE))?;
            let n = usize::try_from(room).unwrap_or(usize::MAX).min(buf.len() - done);
            self.file.read_at(at, &mut buf[done..done + n])?;
            done += n;
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
