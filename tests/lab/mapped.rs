//! Arrays whose members are device mapper devices.

use std::collections::BTreeMap;

use super::lab;
use super::output::{count, each, figures, lines, word};

/// Pre-reads, parity and a check have their reasons as on disks. The kernel's statistics of such a
/// member are of bios, so no request is missed.
pub fn members_on_device_mapper(kernel: &str) {
    let Some(dir) = lab(kernel, "mapped") else {
        return;
    };
    let lines = lines(&dir, "mapped");
    let mut sums = BTreeMap::<_, u64>::new();
    for array in lines.iter().flat_map(|l| each(l, "arrays")) {
        for row in each(array, "members").iter().flat_map(|m| each(m, "io")) {
            let key = (word(array, "name"), word(row, "origin"), word(row, "op"));
            *sums.entry(key).or_default() += count(row, "bytes");
        }
    }
    println!("{sums:?}");
    for (array, did) in figures(&dir, "expected") {
        let sum = |origin, op| sums.get(&(array.as_str(), origin, op)).copied().unwrap_or(0);
        let [level, writes, checked] = did[..] else { panic!("{did:?}") };
        // A check does not read the blocks that are in the stripe cache.
        let resync = sum("resync", "read");
        assert!(resync <= checked && resync > checked - checked / 50, "{array}: {resync}");
        assert_eq!(sum("file_data", "read") + sum("unknown", "read"), 0, "{array}");
        if level == 5 {
            // The old block and the old parity, or both other blocks; other writes add to it.
            assert!(sum("rmw_read", "read") >= writes * 2 * 4096, "{array}");
            assert!(sum("parity", "write") >= writes * 4096, "{array}");
        } else {
            assert_eq!(sum("rmw_read", "read") + sum("parity", "write"), 0, "{array}");
        }
    }
    let uncounted: u64 = lines.iter().map(|l| count(&l["lost"], "uncounted")).sum();
    assert_eq!(uncounted, 0);
}
