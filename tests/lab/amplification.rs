//! Member IO caused by writes on every level, compared with md's rules
//! (`tests/lab/amplification.sh`).

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::{intervals, lab, text};

const PARTS: [&str; 5] =
    ["data_bytes", "parity_bytes", "rmw_read_bytes", "md_bitmap_bytes", "md_journal_bytes"];

/// Array, and member bytes (data, parity, pre-read) per byte written in single blocks and in full
/// stripes.
const LEVELS: [(&str, [f64; 3], [f64; 3]); 7] = [
    // On 4 disks md reads the other two data blocks, on 5 the old block and the old parity,
    // whichever is less.
    ("md120", [1.0, 1.0, 2.0], [1.0, 1.0 / 3.0, 0.0]),
    ("md121", [1.0, 1.0, 2.0], [1.0, 1.0 / 4.0, 0.0]),
    ("md122", [1.0, 2.0, 2.0], [1.0, 2.0 / 3.0, 0.0]),
    ("md123", [1.0, 2.0, 3.0], [1.0, 2.0 / 5.0, 0.0]),
    ("md124", [2.0, 0.0, 0.0], [2.0, 0.0, 0.0]),
    ("md125", [2.0, 0.0, 0.0], [2.0, 0.0, 0.0]),
    ("md126", [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
];

/// Single blocks on a RAID 0 of a RAID 1 and a RAID 5 with 3 disks: md reads the other data block.
const NESTED: [(&str, [f64; 3]); 3] =
    [("md119", [1.0, 0.0, 0.0]), ("md117", [1.0, 1.0, 1.0]), ("md118", [2.0, 0.0, 0.0])];

fn each<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// Submitted bytes and [`PARTS`] of one array in one phase, by origin and operation.
fn sums(dir: &Path, phase: &str, array: &str) -> BTreeMap<(String, String), [u64; 6]> {
    let phases = text(dir.join("phases"));
    let numbers: Vec<usize> = phases
        .lines()
        .find_map(|line| line.strip_prefix(phase))
        .unwrap_or_else(|| panic!("no {phase} in {phases}"))
        .split_whitespace()
        .map(|n| n.parse().expect("a number of lines"))
        .collect();
    let mut sums = BTreeMap::<_, [u64; 6]>::new();
    for line in &intervals(dir.join("top.out"))[numbers[0]..numbers[1]] {
        for row in each(line, "arrays")
            .iter()
            .filter(|a| a["name"] == array)
            .flat_map(|a| each(a, "amplification"))
        {
            let name = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let sum = sums.entry((name("origin"), name("op"))).or_default();
            sum[0] += number(&row["submitted_bytes"]);
            for (to, part) in sum[1..].iter_mut().zip(PARTS) {
                *to += number(&row[part]);
            }
        }
    }
    sums
}

/// Asserts that each submitted byte of file data caused `wanted` bytes (data, parity, pre-read),
/// within 5 %.
fn costs(dir: &Path, phase: &str, array: &str, wanted: [f64; 3]) {
    let sums = sums(dir, phase, array);
    let row = sums[&("file_data".to_owned(), "write".to_owned())];
    let cost = [1, 2, 3].map(|i| row[i] as f64 / row[0] as f64);
    println!("{array} {phase}: {cost:.3?} for each of {} bytes", row[0]);
    assert!(row[0] >= 16 * 4096, "{array}: {row:?} is too little");
    for (is, wanted) in cost.iter().zip(wanted) {
        assert!((is - wanted).abs() < 0.05, "{array} {phase}: {sums:#?}");
    }
}

pub fn amplification_of_single_blocks(kernel: &str) {
    let Some(dir) = lab(kernel, "amplification") else {
        return;
    };
    for (array, wanted, _) in LEVELS {
        costs(&dir, "single", array, wanted);
    }
}

pub fn amplification_of_an_array_of_arrays(kernel: &str) {
    let Some(dir) = lab(kernel, "amplification") else {
        return;
    };
    for (array, wanted) in NESTED {
        costs(&dir, "single", array, wanted);
    }
}

pub fn amplification_of_full_stripes(kernel: &str) {
    let Some(dir) = lab(kernel, "amplification") else {
        return;
    };
    for (array, _, wanted) in LEVELS {
        costs(&dir, "full", array, wanted);
    }
}

/// Small files with fsync: all reads are pre-reads of md, and journal and file data are each
/// charged for their stripes.
pub fn amplification_of_small_files(kernel: &str) {
    let Some(dir) = lab(kernel, "amplification") else {
        return;
    };
    for (array, alone, full) in LEVELS {
        let sums = sums(&dir, "small", array);
        for origin in ["file_data", "journal"] {
            let row = sums[&(origin.to_owned(), "write".to_owned())];
            let factor = row[1..4].iter().sum::<u64>() as f64 / row[0] as f64;
            let (least, most) = (full.iter().sum::<f64>(), alone.iter().sum::<f64>());
            println!("{array} {origin}: {factor:.2}x, between {least:.2} and {most:.2}");
            assert!((least - 0.05..=most + 0.05).contains(&factor), "{array}: {sums:#?}");
            assert_eq!(
                row[1],
                (row[0] as f64 * alone[0]) as u64,
                "{array} {origin}: data bytes equal the copies"
            );
        }
        let read: u64 = ["file_data", "journal", "block_bitmap", "inode_table"]
            .iter()
            .filter_map(|o| sums.get(&((*o).to_owned(), "read".to_owned())))
            .map(|row| row[1].saturating_sub(row[0]))
            .sum();
        assert_eq!(read, 0, "{array}: pre-reads are not reads: {sums:#?}");
    }
}

/// In every interval, each byte of the members is in exactly one figure of one row.
pub fn amplification_adds_up(kernel: &str) {
    let Some(dir) = lab(kernel, "amplification") else {
        return;
    };
    let mut all = 0;
    for line in intervals(dir.join("top.out")) {
        for array in each(&line, "arrays") {
            let charged: u64 = each(array, "amplification")
                .iter()
                .flat_map(|row| PARTS.map(|part| number(&row[part])))
                .sum();
            let moved: u64 = each(array, "members")
                .iter()
                .flat_map(|m| each(m, "io"))
                .map(|cell| number(&cell["bytes"]))
                .sum();
            assert_eq!(charged, moved, "{array}");
            all += moved;
        }
    }
    assert!(all > 16 << 20, "{all} bytes are too little");
}
