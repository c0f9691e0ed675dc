//! `Ext4Layout::read` on hostile images: no panic, no endless walk, and the promises of its ranges
//! kept.
//!
//! An input is the beginning of an image of 1 MiB.

#![no_main]

use libfuzzer_sys::fuzz_target;
use raidtrace::address::FsBlock;
use raidtrace::fs::ext4::{Ext4Layout, identify};

fuzz_target!(|data: &[u8]| {
    let mut image = data[..data.len().min(1 << 20)].to_vec();
    image.resize(1 << 20, 0);
    let _ = identify(&image.as_slice());
    // The magic is not worth searching for.
    image[1080..1082].copy_from_slice(&[0x53, 0xef]);
    let Ok(layout) = Ext4Layout::read(&image.as_slice()) else {
        return;
    };
    let mut end = FsBlock(0);
    for range in &layout.ranges {
        assert!(range.count > 0 && range.first >= end);
        end = range.end();
    }
    assert!(end.0 <= layout.blocks);
});
