//! `Layout::read` on hostile images: no panic, no endless walk, and the promises of its ranges
//! kept.
//!
//! An input is the beginning of an image of 1 MiB. A good seed: `truncate -s 1M seed && mke2fs -F
//! -b 1024 -t ext4 seed`, then its first 128 KiB, in `fuzz/corpus/ext4_layout/`; with
//! `-O ^metadata_csum` nothing hangs on a checksum (a wrong one is only a note anyhow).

#![no_main]

use libfuzzer_sys::fuzz_target;
use raidtrace::fs::ext4::{Layout, identify};

fuzz_target!(|data: &[u8]| {
    let mut image = data[..data.len().min(1 << 20)].to_vec();
    image.resize(1 << 20, 0);
    let _ = identify(&image.as_slice());
    // The magic is not worth searching for.
    image[1080..1082].copy_from_slice(&[0x53, 0xef]);
    let Ok(layout) = Layout::read(&image.as_slice()) else {
        return;
    };
    let mut end = 0;
    for range in &layout.ranges {
        assert!(range.count > 0 && range.first >= end);
        assert_eq!(layout.origin_of(range.first), Some(range.origin));
        end = range.end();
    }
    assert!(end <= layout.blocks);
});
