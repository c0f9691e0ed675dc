//! A thin pool without free blocks (`tests/lab/thin.sh`).

use super::output::{each, lines, word};
use super::{findings, lab, text};

/// The verdict names the pool while the array is idle, and doctor before that.
pub(super) fn a_full_thin_pool_is_named(kernel: &str) {
    let Some(dir) = lab(kernel, "thin") else {
        return;
    };
    assert!(!findings(&dir, "enough").contains_key("thin-pool-full"));
    let low = &findings(&dir, "low")["thin-pool-full"];
    assert_eq!(low["severity"], "warning", "{low:#}");
    let full = &findings(&dir, "full")["thin-pool-full"];
    assert_eq!(
        (&full["severity"], &full["figures"]["mode"]),
        (&"critical".into(), &"out_of_data_space".into())
    );
    assert!(!findings(&dir, "enlarged").contains_key("thin-pool-full"));

    let lines = lines(&dir, "thin");
    let arrays = each(lines.last().expect("an interval"), "arrays");
    let verdict = &arrays[0]["verdict"];
    assert_eq!(word(verdict, "severity"), "stalled", "{verdict:#}");
    assert!(
        word(verdict, "sentence").contains("thin pool pool has no free data blocks"),
        "{verdict:#}"
    );
    // Bytes written to the volume, by the kernel. top may have seen some before.
    let written = |name: &str| -> u64 {
        let stat = text(dir.join(name));
        let sectors = stat.split_whitespace().nth(6).and_then(|field| field.parse::<u64>().ok());
        sectors.expect("sectors written") * 512
    };
    let by_kernel = written("after") - written("before");
    let volumes = lines.iter().map(|line| &each(line, "arrays")[0]["thin_volumes"]["thin"]);
    let by_top: u64 = volumes.filter_map(|volume| volume["bytes"][1].as_u64()).sum();
    assert!(by_kernel > 1 << 20, "{by_kernel}");
    assert!((by_kernel..by_kernel + (1 << 20)).contains(&by_top), "{by_top} of {by_kernel}");
    let why = text(dir.join("why.txt"));
    assert!(why.contains("no free data blocks") && why.contains("status 4"), "{why}");
}
