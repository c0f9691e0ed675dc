//! Members on which the allocation groups of an XFS start, and the suggested size
//! (`tests/lab/agsize.sh`).

use std::path::Path;

use serde_json::Value;

use super::{by_member, intervals, lab, text};

/// Busiest over the mean.
fn skew(values: &[u64]) -> f64 {
    let most = values.iter().max().copied().unwrap_or(0);
    most as f64 * values.len() as f64 / values.iter().sum::<u64>().max(1) as f64
}

/// Writes and reads of one case of `agsize.sh`.
struct Load {
    /// Bytes of an allocation group's metadata that raidtrace saw written, by member.
    written: Vec<u64>,
    /// Read requests of the members according to the kernel.
    read: Vec<u64>,
    headlines: Vec<String>,
    layout: Value,
}

impl Load {
    fn of(dir: &Path, case: &str) -> Self {
        assert_eq!(text(dir.join(format!("{case}.status"))).trim(), "0");
        let lines = intervals(dir.join(format!("{case}.out")));
        let mut written = vec![0; 7];
        for ((member, origin, op), bytes) in by_member(&lines) {
            let slot: usize = member.trim_start_matches("loop").parse().expect("loopN");
            let of_group =
                ["superblock", "ag_header", "free_space_btree", "inode_btree", "inode_cluster"];
            if op == "write" && of_group.contains(&origin.as_str()) {
                written[slot] += bytes;
            }
        }
        let stat = text(dir.join("stat"));
        let reads = |label: &str, slot: usize| -> u64 {
            let line = format!("{case}.{label} loop{slot} ");
            let figures = stat.lines().find_map(|l| l.strip_prefix(&line));
            let first = figures.and_then(|f| f.split_whitespace().next()?.parse().ok());
            first.expect("read requests")
        };
        let read = (0..7).map(|slot| reads("after", slot) - reads("before", slot));
        let headline =
            |line: &Value| line["arrays"][0]["hotspot"]["headline"].as_str().map(str::to_owned);
        let load = Self {
            written,
            read: read.collect(),
            headlines: lines.iter().filter_map(headline).collect(),
            layout: intervals(dir.join(format!("{case}.layout"))).remove(0),
        };
        println!("{case}: written {:?}, read requests {:?}", load.written, load.read);
        println!("{:?}", load.headlines);
        load
    }
}

/// One member has the metadata of all allocation groups, by raidtrace, and the pre-reads for it, by
/// the kernel. `layout` predicts that, `top` names the member and the reason, and the suggested
/// agsize spreads both.
pub(super) fn the_suggested_agsize_is_even(kernel: &str) {
    let Some(dir) = lab(kernel, "agsize") else {
        return;
    };
    let load = Load::of(&dir, "default");
    assert_eq!(load.layout["skew"]["ag_headers"], 7.0);
    assert!(skew(&load.written) > 6.0 && skew(&load.read) > 2.0);
    let busiest = load.read.iter().max();
    assert_eq!(busiest, load.read.first(), "the member with the groups");
    let reason = "loop0 carries";
    let remedy = "all 44 allocation groups start there, only a new mkfs.xfs -d \
                  agsize=1099510579200 changes that";
    let names = |h: &&String| h.contains(reason) && h.contains(remedy);
    assert!(load.headlines.iter().any(|h| names(&h)), "no headline");

    let load = Load::of(&dir, "suggested");
    assert_eq!(load.layout["agsize_bytes"], 1_099_510_579_200_u64);
    assert!(skew(&load.written) < 1.6 && skew(&load.read) < 1.6);
    assert!(!load.headlines.iter().any(|h| h.contains("start there")));
}
