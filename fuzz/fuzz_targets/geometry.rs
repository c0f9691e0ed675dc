//! Superblocks of ext4 and XFS with absurd geometry, on a device of any size: no panic, and no
//! more time and memory than tools/fuzz allows.
//!
//! An input is the filesystem (odd: XFS), the size of the device in sectors (8 bytes), the
//! superblock, and bytes that fill the rest of the device.

#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use raidtrace::fs::ReadAt;
use raidtrace::fs::ext4::Ext4Layout;
use raidtrace::fs::xfs::XfsLayout;

/// A device whose bytes follow from its superblock and a pattern.
struct Device<'a> {
    size: u64,
    superblock: &'a [u8],
    superblock_at: u64,
    fill: &'a [u8],
}

impl ReadAt for Device<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf.fill(0);
        if !self.fill.is_empty() {
            // The pattern starts at each 512 bytes.
            let mut at = offset;
            for byte in buf.iter_mut() {
                *byte = self.fill.get((at % 512) as usize % self.fill.len()).copied().unwrap_or(0);
                at += 1;
            }
        }
        for (at, byte) in (self.superblock_at..).zip(self.superblock) {
            if let Some(index) = at.checked_sub(offset)
                && let Some(place) = usize::try_from(index).ok().and_then(|i| buf.get_mut(i))
            {
                *place = *byte;
            }
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

/// Sets the fields of an ext4 superblock that follow from others, so that the fuzzer need not:
/// s_clusters_per_group without bigalloc, and s_inodes_count.
fn agree(superblock: &mut [u8]) {
    let get = |at: usize| u32::from_le_bytes(superblock[at..at + 4].try_into().expect("4 bytes"));
    let (low, first, per_group, inodes) = (get(4), get(20), get(32), get(40));
    let high = if get(0x60) & 0x80 == 0 { 0 } else { get(0x150) };
    let blocks = u64::from(high) << 32 | u64::from(low);
    let groups = blocks.saturating_sub(first.into()).div_ceil(u64::from(per_group).max(1));
    let inodes = groups.saturating_mul(inodes.into()) as u32;
    if get(0x64) & 0x200 == 0 {
        superblock[36..40].copy_from_slice(&per_group.to_le_bytes());
    }
    superblock[..4].copy_from_slice(&inodes.to_le_bytes());
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    let Some((sectors, data)) = data.split_first_chunk() else { return };
    let is_xfs = kind % 2 == 1;
    let (superblock_at, length) = if is_xfs { (0, 512) } else { (1024, 1024) };
    let Some((superblock, fill)) = data.split_at_checked(length) else { return };
    let mut superblock = superblock.to_vec();
    // The fuzzer need not find the magic.
    if is_xfs {
        superblock[..4].copy_from_slice(b"XFSB");
    } else {
        superblock[56..58].copy_from_slice(&[0x53, 0xef]);
        agree(&mut superblock);
    }
    let size = u64::from_le_bytes(*sectors).saturating_mul(512).min(i64::MAX as u64);
    let device = Device { size, superblock: &superblock, superblock_at, fill };
    if is_xfs {
        if let Ok(layout) = XfsLayout::read(&device) {
            for ranges in [&layout.ranges, &layout.roots] {
                assert!(ranges.iter().all(|r| r.count > 0));
                assert!(ranges.windows(2).all(|w| w[0].end() <= w[1].first));
            }
        }
    } else if let Ok(layout) = Ext4Layout::read(&device) {
        assert!(layout.ranges.iter().all(|r| r.count > 0));
        assert!(layout.ranges.windows(2).all(|w| w[0].end() <= w[1].first));
        assert!(layout.ranges.last().is_none_or(|r| r.end().0 <= layout.blocks));
    }
});
