//! `XfsLayout::read` on hostile images: no panic, and the promises of its ranges kept.
//!
//! An input is the beginning of an image of 16 MiB; the size of the data device is made to fit.

#![no_main]

use libfuzzer_sys::fuzz_target;
use raidtrace::fs::xfs::XfsLayout;

fuzz_target!(|data: &[u8]| {
    let mut image = data[..data.len().min(16 << 20)].to_vec();
    image.resize(16 << 20, 0);
    // The magic is not worth searching for, nor the size.
    image[..4].copy_from_slice(b"XFSB");
    image[8..16].copy_from_slice(&4096u64.to_be_bytes());
    let Ok(layout) = XfsLayout::read(&image.as_slice()) else {
        return;
    };
    for ranges in [&layout.ranges, &layout.roots] {
        assert!(ranges.iter().all(|r| r.count > 0));
        assert!(ranges.windows(2).all(|w| w[0].end() <= w[1].first));
    }
});
