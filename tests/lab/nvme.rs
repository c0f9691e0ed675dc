//! NVMe native multipath (`tests/lab/nvme.sh`): requests are made on hidden disks.

use std::collections::BTreeMap;

use serde_json::Value;

use super::output::by_origin;
use super::{agrees, intervals, lab, text};

/// All origins of RAID 1 on whole drives and of RAID 5 on partitions are the kernel's.
pub(super) fn nvme_multipath_agrees(kernel: &str) {
    let Some(dir) = lab(kernel, "nvme") else {
        return;
    };
    for array in ["md120", "md121"] {
        agrees(&dir, array);
    }
}

/// Data written through two paths, and through the one that is left, is that of the drive.
pub(super) fn nvme_paths_come_and_go(kernel: &str) {
    let Some(dir) = lab(kernel, "nvme") else {
        return;
    };
    let each: Vec<u64> = text(dir.join("paths.each"))
        .lines()
        .map(|line| line.split_whitespace().nth(4).and_then(|n| n.parse().ok()).expect("writes"))
        .collect();
    assert!(each.len() == 2 && each.iter().all(|writes| *writes > 0), "both are used: {each:?}");
    let lines = intervals(dir.join("paths.out"));
    let written = by_origin(&lines);
    let data: u64 = written
        .iter()
        .filter(|((_, origin, op), _)| (*origin, *op) == ("file_data", "write"))
        .map(|(_, (_, bytes))| bytes)
        .sum();
    assert_eq!(data, 16 << 20);
    // The drive's figures by path, while it has two: 128 writes in turn, and then half of them.
    let mut by_path = BTreeMap::<&str, u64>::new();
    let paths = lines.iter().flat_map(|l| l["arrays"][0]["members"][0]["paths"].as_object());
    for (name, path) in paths.flatten() {
        let requests = path["requests"].as_array().expect("reads and writes");
        *by_path.entry(name).or_default() += requests.iter().flat_map(Value::as_u64).sum::<u64>();
    }
    assert!(by_path.len() == 2 && by_path.values().all(|n| *n >= 60), "{by_path:?}");
    for line in &lines {
        let lost = line["lost"].as_object().expect("reasons");
        assert!(lost.values().all(|n| *n == 0), "{lost:?}");
    }
}
