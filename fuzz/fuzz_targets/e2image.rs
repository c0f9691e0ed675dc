//! `E2Image` on hostile files: no panic, no endless walk. An input is the beginning of the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use raidtrace::fs::ext4::{E2Image, Ext4Layout};

fuzz_target!(|data: &[u8]| {
    let mut file = data[..data.len().min(1 << 18)].to_vec();
    file.resize(1 << 18, 0);
    // The superblock's place and magic are not worth searching for.
    file[0x11c..0x120].copy_from_slice(&1024_u32.to_le_bytes());
    file[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]);
    let file = file.as_slice();
    let Ok(image) = E2Image::open(&file) else {
        return;
    };
    if let Ok(layout) = Ext4Layout::read(&image) {
        assert!(layout.ranges.last().is_none_or(|r| r.end().0 <= layout.blocks));
    }
});
