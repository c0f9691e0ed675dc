//! Identity of an ext filesystem, from a few superblock fields that are cheap to read every few
//! seconds. Does not validate them: a damaged superblock counts as another filesystem.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use super::features::{compat, incompat, ro_compat};
use super::identify::{EXT_MAGIC, EXT_SUPERBLOCK_AT};
use crate::fs::Identity;
use crate::fs::read::{Fields, ReadAt};
use crate::fs::uuid::Uuid;

/// Reads 1 KiB. `None` without an ext filesystem.
///
/// # Errors
/// The device cannot be read.
pub fn identity(dev: &dyn ReadAt) -> io::Result<Option<Identity>> {
    let mut raw = [0; 1024];
    match dev.read_at(EXT_SUPERBLOCK_AT, &mut raw) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let f = Fields(&raw);
    Ok((f.u16(0x38) == EXT_MAGIC).then(|| from_fields(f)))
}

fn from_fields(f: Fields<'_>) -> Identity {
    let mut layout = DefaultHasher::new();
    // Only features that affect the layout: the kernel sets others at run time (large_file,
    // orphan_present, recover).
    let features = [
        f.u32(0x5c)
            & (compat::HAS_JOURNAL
                | compat::RESIZE_INODE
                | compat::SPARSE_SUPER2
                | compat::FAST_COMMIT
                | compat::ORPHAN_FILE),
        f.u32(0x60)
            & (incompat::JOURNAL_DEV
                | incompat::META_BG
                | incompat::BIT64
                | incompat::MMP
                | incompat::FLEX_BG),
        f.u32(0x64)
            & (ro_compat::SPARSE_SUPER
                | ro_compat::GDT_CSUM
                | ro_compat::QUOTA
                | ro_compat::BIGALLOC
                | ro_compat::METADATA_CSUM
                | ro_compat::PROJECT),
    ];
    features.hash(&mut layout);
    // s_first_data_block to s_inodes_per_group, inode size, reserved GDT, journal inode, backup of
    // its map, descriptor size, first_meta_bg, MMP block, flex size, quota, backup groups, project
    // quota, orphan file.
    for (at, bytes) in [
        (0x14, 0x18),
        (0x58, 2),
        (0xce, 2),
        (0xe0, 4),
        (0xfd, 3),
        (0x104, 4),
        (0x10c, 0x44),
        (0x168, 8),
        (0x174, 1),
        (0x240, 8),
        (0x24c, 8),
        (0x26c, 4),
        (0x280, 4),
    ] {
        f.0[at..at + bytes].hash(&mut layout);
    }
    Identity {
        uuid: Uuid(f.bytes(0x68)),
        mkfs_time: f.u32(0x108),
        blocks: f.split(0x4, Some(0x150)),
        layout: layout.finish(),
    }
}
#[cfg(test)]
mod tests {
    use super::{Identity, identity};

    fn image(change: impl Fn(&mut [u8])) -> Option<Identity> {
        let mut image = vec![0u8; 4096];
        let sb = &mut image[1024..2048];
        sb[0x38..0x3a].copy_from_slice(&0xef53u16.to_le_bytes());
        sb[0x68] = 7;
        change(sb);
        identity(&image.as_slice()).unwrap()
    }

    #[test]
    fn only_fields_that_affect_the_layout_change_the_identity() {
        let plain = image(|_| ());
        assert!(plain.is_some());
        // Free blocks, mount time, mount count, state, recover, large_file, orphan_present, kbytes
        // written.
        for (at, bit) in
            [(0xc, 1), (0x2c, 1), (0x34, 1), (0x3a, 1), (0x60, 4), (0x64, 2), (0x66, 1), (0x178, 1)]
        {
            assert_eq!(image(|sb| sb[at] |= bit), plain, "{at:#x}");
        }
        // UUID, blocks (low and high), flex_bg, meta_bg, inode size, reserved GDT, journal map,
        // flex size, mkfs time.
        for (at, bit) in [
            (0x68, 8),
            (0x4, 1),
            (0x152, 1),
            (0x61, 2),
            (0x60, 0x10),
            (0x59, 1),
            (0xce, 1),
            (0x120, 1),
            (0x174, 4),
            (0x108, 1),
        ] {
            assert_ne!(image(|sb| sb[at] |= bit), plain, "{at:#x}");
        }
        assert_eq!(image(|sb| sb[0x38] = 0), None);
        assert_eq!(identity(&[0u8; 1100].as_slice()).unwrap(), None);
    }
}
