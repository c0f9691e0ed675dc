//! `layout --load`: predictions from the recording of a load on default filesystems, compared with
//! recordings of the same load on filesystems that were really made (`tests/lab/layout_load.sh`).
//! `tools/layout-table --load` creates docs/measured/layout-load.md from the same files.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;

use super::lab;

pub(super) fn load_on_raid0_is_predicted(kernel: &str) {
    load_is_predicted(kernel, &RAID0);
}

pub(super) fn load_on_raid5_is_predicted(kernel: &str) {
    load_is_predicted(kernel, &RAID5);
}

pub(super) fn load_on_xfs_on_raid0_is_predicted(kernel: &str) {
    load_is_predicted(kernel, &XFS0);
}

pub(super) fn load_on_xfs_on_raid5_is_predicted(kernel: &str) {
    load_is_predicted(kernel, &XFS5);
}

/// The recording to predict from, then the others: name and arguments of `layout --load`.
type Cases = [(&'static str, &'static [&'static str])];

const RAID0: [(&str, &[&str]); 4] = [
    ("0-8-512-defaults", &[]),
    ("0-8-512-group", &["-g", "32744"]),
    ("0-8-512-flex", &["-G", "4"]),
    ("0-8-512-packed", &["-E", "packed_meta_blocks=1"]),
];
const RAID5: [(&str, &[&str]); 4] = [
    ("5-4-64-defaults", &[]),
    ("5-4-64-group", &["-g", "32744", "-G", "2"]),
    ("5-4-64-flex", &["-G", "64"]),
    ("5-4-512-chunk", &["--chunk", "512K"]),
];

const XFS0: [(&str, &[&str]); 3] = [
    ("0-8-512-xfs-defaults", &[]),
    ("0-8-512-xfs-agsize", &["--mkfs", "-d agsize=3585536k"]),
    ("0-8-64-xfs-chunk", &["--chunk", "64K"]),
];
const XFS5: [(&str, &[&str]); 4] = [
    ("5-7-512-xfs-defaults", &[]),
    ("5-7-512-xfs-agsize", &["--mkfs", "-d agsize=3587072k"]),
    ("5-7-512-xfs-fewer", &["--mkfs", "-d agsize=5219328k"]),
    ("5-7-512-xfs-more", &["--mkfs", "-d agsize=2049536k"]),
];

/// Largest difference of a share that is allowed, of all bytes.
const METADATA: f64 = 0.03;
const DATA: f64 = 0.10;
/// Differences of the busiest member's share that are too small for an order.
const EQUAL: f64 = 0.02;
/// Predictions that differ by less are a tie: metadata writes that the model does not add may make
/// an option worse.
const TIE: f64 = 0.01;

fn load(dir: &Path, recording: &str, options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_raidtrace"))
        .args(["layout", "--json", "--load"])
        .arg(dir.join(format!("{recording}.rtrace")))
        .args(options)
        .output()
        .expect("raidtrace");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{recording}: {words}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Share of all bytes by member, origin and operation.
type Shares = BTreeMap<(u64, String, String), f64>;

fn shares(found: &Value, column: &str) -> Shares {
    let mut shares = Shares::new();
    for member in found["members"].as_array().expect("members") {
        for io in member["io"].as_array().expect("io") {
            let word = |v: &Value| v.as_str().expect("text").to_owned();
            let slot = member["slot"].as_u64().expect("slot");
            let key = (slot, word(&io["origin"]), word(&io["op"]));
            shares.insert(key, io[column]["bytes"].as_f64().expect("bytes"));
        }
    }
    let sum: f64 = shares.values().sum();
    shares.values_mut().for_each(|bytes| *bytes /= sum);
    shares
}

/// Share of the written bytes on the busiest member.
fn busiest(shares: &Shares) -> f64 {
    let mut members = BTreeMap::<u64, f64>::new();
    for ((slot, _, op), share) in shares {
        if op == "write" {
            *members.entry(*slot).or_default() += share;
        }
    }
    let sum: f64 = members.values().sum();
    members.values().copied().fold(0.0, f64::max) / sum
}

fn load_is_predicted(kernel: &str, cases: &Cases) {
    let Some(dir) = lab(kernel, "layout_load") else {
        return;
    };
    let mut order = Vec::new();
    for (name, options) in cases {
        let predicted = load(&dir, cases[0].0, options);
        let observed = load(&dir, name, &[]);
        let predicted = shares(&predicted, "planned");
        let observed = shares(&observed, "recorded");
        let mut worst = [(0.0, String::new()), (0.0, String::new())];
        for key in predicted.keys().chain(observed.keys()) {
            let [p, o] = [&predicted, &observed].map(|s| s.get(key).copied().unwrap_or(0.0));
            let is_data = matches!(key.1.as_str(), "file_data" | "parity" | "rmw_read");
            let apart = (p - o).abs();
            let worst = &mut worst[usize::from(is_data)];
            if apart > worst.0 {
                *worst = (apart, format!("{key:?}: predicted {p:.3}, observed {o:.3}"));
            }
        }
        let [metadata, data] = worst;
        println!("{name}: metadata {metadata:?}, data {data:?}");
        // The recorded filesystem itself has the recorded load.
        let is_own = *name == cases[0].0;
        let [most_metadata, most_data] = if is_own { [0.0; 2] } else { [METADATA, DATA] };
        assert!(metadata.0 <= most_metadata, "{name}: {}", metadata.1);
        assert!(data.0 <= most_data, "{name}: {}", data.1);
        order.push((*name, busiest(&predicted), busiest(&observed)));
    }
    println!("{order:.3?}");
    for (a, a_predicted, a_observed) in &order {
        for (b, b_predicted, b_observed) in &order {
            if a_observed + EQUAL < *b_observed {
                assert!(*a_predicted < b_predicted + TIE, "{a} is better than {b}: {order:.3?}");
            }
        }
    }
}
