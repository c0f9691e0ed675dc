//! Content of a device by magic numbers, for messages such as "XFS on the array". Does not check
//! whether the content is intact.

use std::fmt;
use std::io;

use super::features::{compat, incompat, ro_compat};
use crate::fs::partitions::partitions;
use crate::fs::read::{Fields, ReadAt};

/// Content of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsKind {
    /// ext2: no journal, no feature of ext3 or ext4.
    Ext2,
    /// ext3: a journal, no feature of ext4.
    Ext3,
    /// ext4: at least one feature that only ext4 has.
    Ext4,
    /// An external jbd2 journal.
    JournalDevice,
    Xfs,
    Btrfs,
    /// Swap space.
    Swap,
    /// An LVM2 physical volume.
    Lvm2,
    /// A LUKS container, version 1 or 2.
    Luks,
    /// A member of an md array (superblock 0.90, 1.0, 1.1 or 1.2).
    MdMember,
    /// A member of a DDF or IMSM (Intel) container.
    ContainerMember,
    Bcache,
    Bcachefs,
    Jfs,
    Gfs2,
    Zfs,
    /// A whole disk with a GPT or DOS partition table.
    Partitioned,
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FsKind::*;
        f.pad(match self {
            Ext2 => "ext2",
            Ext3 => "ext3",
            Ext4 => "ext4",
            JournalDevice => "an external ext4 journal",
            Xfs => "XFS",
            Btrfs => "btrfs",
            Swap => "swap space",
            Lvm2 => "an LVM2 physical volume",
            Luks => "a LUKS container",
            MdMember => "a member of an md array",
            ContainerMember => "a member of a DDF or IMSM container",
            Bcache => "a bcache device",
            Bcachefs => "bcachefs",
            Jfs => "JFS",
            Gfs2 => "GFS2",
            Zfs => "a member of a ZFS pool",
            Partitioned => "a whole disk with a partition table",
        })
    }
}

/// `s_magic`, fs/ext4/ext4.h `EXT4_SUPER_MAGIC`.
pub(super) const EXT_MAGIC: u16 = 0xef53;
/// Byte offset of the superblock with any block size.
pub(super) const EXT_SUPERBLOCK_AT: u64 = 1024;
/// `MD_SB_MAGIC`, include/uapi/linux/raid/md_p.h.
const MD_MAGIC: u32 = 0xa92b_4efc;
/// `DDF_HEADER_MAGIC` (mdadm, super-ddf.c), in the last sector.
const DDF_MAGIC: [u8; 4] = [0xde, 0x11, 0xde, 0x11];
/// `MPB_SIGNATURE` (mdadm, super-intel.c), in the last but one sector of 512 bytes.
const IMSM_SIGNATURE: &[u8] = b"Intel Raid ISM ";
/// Magics at byte 4120: those of bcache (include/uapi/linux/bcache.h) and bcachefs.
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
/// `UBERBLOCK_MAGIC` of ZFS, whose first label has uberblocks from 128 to 256 KiB.
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Features of ext2 and ext3 according to libblkid (superblocks/ext.c).
const EXT3_RO_COMPAT: u32 = ro_compat::SPARSE_SUPER | ro_compat::LARGE_FILE | ro_compat::BTREE_DIR;
const EXT3_INCOMPAT: u32 = incompat::FILETYPE | incompat::RECOVER | incompat::META_BG;

/// ext2, ext3 or ext4 by feature bits.
pub(super) fn ext_kind(has: u32, incompat_bits: u32, ro: u32) -> FsKind {
    if incompat_bits & incompat::JOURNAL_DEV != 0 {
        FsKind::JournalDevice
    } else if ro & !EXT3_RO_COMPAT != 0 || incompat_bits & !EXT3_INCOMPAT != 0 {
        FsKind::Ext4
    } else if has & compat::HAS_JOURNAL != 0 {
        FsKind::Ext3
    } else {
        FsKind::Ext2
    }
}

/// Content of `dev`; `None` without a known magic.
///
/// Containers are checked before filesystems: a RAID 1 member with its superblock at the end starts
/// with the filesystem of the array.
pub fn identify(dev: &dyn ReadAt) -> io::Result<Option<FsKind>> {
    let size = dev.size()?;
    let has = |at: u64, magic: &[u8]| -> io::Result<bool> {
        let mut found = [0; 16];
        let found = &mut found[..magic.len()];
        if at.checked_add(magic.len() as u64).is_none_or(|end| end > size) {
            return Ok(false);
        }
        dev.read_at(at, found)?;
        Ok(found == magic)
    };
    // 1.1 at 0, 1.2 at 4 KiB, 1.0 in the last 8 to 12 KiB (md.c:super_1_load), 0.90 in the last
    // 64 to 128 KiB (md.c:calc_dev_sboffset).
    let md_offsets = [
        Some(0),
        Some(4096),
        size.checked_sub(8192).map(|at| at & !4095),
        (size & !0xffff).checked_sub(0x1_0000),
    ];
    for at in md_offsets.into_iter().flatten() {
        if has(at, &MD_MAGIC.to_le_bytes())? {
            return Ok(Some(FsKind::MdMember));
        }
    }
    let from_end = |bytes: u64| size.checked_sub(bytes).unwrap_or(u64::MAX);
    if has(from_end(512), &DDF_MAGIC)? || has(from_end(1024), IMSM_SIGNATURE)? {
        return Ok(Some(FsKind::ContainerMember));
    }
    // The label may be in any of the first four sectors (lvm2, lib/label/label.h).
    for sector in 0..4 {
        if has(sector * 512, b"LABELONE")? && has(sector * 512 + 24, b"LVM2 001")? {
            return Ok(Some(FsKind::Lvm2));
        }
    }
    for (at, magic, kind) in [
        (0, &b"LUKS\xba\xbe"[..], FsKind::Luks),
        (0, b"XFSB", FsKind::Xfs),
        (0x1_0040, b"_BHRfS_M", FsKind::Btrfs),
    ] {
        if has(at, magic)? {
            return Ok(Some(kind));
        }
    }
    if size >= 2 * EXT_SUPERBLOCK_AT && has(EXT_SUPERBLOCK_AT + 0x38, &EXT_MAGIC.to_le_bytes())? {
        let mut raw = [0; 12];
        dev.read_at(EXT_SUPERBLOCK_AT + 0x5c, &mut raw)?;
        let f = Fields(&raw);
        return Ok(Some(ext_kind(f.u32(0), f.u32(4), f.u32(8))));
    }
    // The magic is at the end of the first page, which has 4 to 64 KiB.
    for page in [4096, 8192, 16384, 32768, 65536] {
        if has(page - 10, b"SWAPSPACE2")? || has(page - 10, b"SWAP-SPACE")? {
            return Ok(Some(FsKind::Swap));
        }
    }
    // After the filesystems that are traced: each place costs a read of the device.
    for (at, magic, kind) in [
        (4120, BCACHE, FsKind::Bcache),
        (4120, BCACHEFS, FsKind::Bcachefs),
        (0x8000, &b"JFS1"[..], FsKind::Jfs),
        (0x1_0000, b"\x01\x16\x19\x70\0\0\0\x01", FsKind::Gfs2),
    ] {
        if has(at, magic)? {
            return Ok(Some(kind));
        }
    }
    for at in (128 << 10..256 << 10).step_by(1024) {
        if has(at, &ZFS_MAGIC.to_le_bytes())? || has(at, &ZFS_MAGIC.to_be_bytes())? {
            return Ok(Some(FsKind::Zfs));
        }
    }
    // Last: a filesystem may have been made over a table.
    Ok(partitions(dev)?.map(|_| FsKind::Partitioned))
}

#[cfg(test)]
mod tests {
    use super::{FsKind, identify};

    fn with(at: usize, magic: &[u8]) -> Option<FsKind> {
        let mut image = vec![0; 256 << 10];
        image[at..at + magic.len()].copy_from_slice(magic);
        identify(&image.as_slice()).unwrap()
    }

    #[test]
    fn magics() {
        assert_eq!(with(0, b""), None);
        assert_eq!(with(0, b"XFSB"), Some(FsKind::Xfs));
        assert_eq!(with(0, b"LUKS\xba\xbe"), Some(FsKind::Luks));
        assert_eq!(with(0x10040, b"_BHRfS_M"), Some(FsKind::Btrfs));
        assert_eq!(with(4086, b"SWAPSPACE2"), Some(FsKind::Swap));
        assert_eq!(with(65526, b"SWAPSPACE2"), Some(FsKind::Swap));
        assert_eq!(with(1080, &[0x53, 0xef]), Some(FsKind::Ext2));
        let end = 256 << 10;
        assert_eq!(with(end - 512, &[0xde, 0x11, 0xde, 0x11]), Some(FsKind::ContainerMember));
        assert_eq!(
            with(end - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00"),
            Some(FsKind::ContainerMember)
        );
        assert_eq!(with(4120, super::BCACHE), Some(FsKind::Bcache));
        assert_eq!(with(4120, super::BCACHEFS), Some(FsKind::Bcachefs));
        assert_eq!(with(0x8000, b"JFS1"), Some(FsKind::Jfs));
        assert_eq!(with(0x1_0000, &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1]), Some(FsKind::Gfs2));
        for magic in [super::ZFS_MAGIC.to_le_bytes(), super::ZFS_MAGIC.to_be_bytes()] {
            assert_eq!(with(130 << 10, &magic), Some(FsKind::Zfs));
        }
        assert_eq!(with(512, b"EFI PART"), Some(FsKind::Partitioned));
        let md = 0xa92b_4efc_u32.to_le_bytes();
        for at in [0, 4096, (256 << 10) - 8192, 192 << 10] {
            assert_eq!(with(at, &md), Some(FsKind::MdMember), "at {at}");
        }
        let mut label = [0; 32];
        label[..8].copy_from_slice(b"LABELONE");
        label[24..].copy_from_slice(b"LVM2 001");
        assert_eq!(with(512, &label), Some(FsKind::Lvm2));
    }

    #[test]
    fn features_decide_between_ext2_ext3_and_ext4() {
        let ext = |has: u32, incompat: u32, ro: u32| {
            let mut sb = vec![0x53, 0xef];
            sb.resize(0x5c - 0x38, 0);
            for word in [has, incompat, ro] {
                sb.extend(word.to_le_bytes());
            }
            with(1080, &sb)
        };
        assert_eq!(ext(0x38, 0x2, 0x3), Some(FsKind::Ext2));
        assert_eq!(ext(0x3c, 0x2, 0x3), Some(FsKind::Ext3));
        assert_eq!(ext(0x3c, 0x2c2, 0x46b), Some(FsKind::Ext4));
        assert_eq!(ext(0x38, 0x42, 0x3), Some(FsKind::Ext4));
        assert_eq!(ext(0, 0x8, 0), Some(FsKind::JournalDevice));
    }

    #[test]
    fn an_empty_or_tiny_device_has_no_known_content() {
        for len in [0, 1, 512, 1079, 1082, 4097] {
            assert_eq!(identify(&vec![0; len].as_slice()).unwrap(), None);
        }
    }
}
