//! Metadata and first files on the members of real arrays, compared with `layout --plan`
//! (`tests/lab/placement.sh`). `tools/layout-table --measured` creates docs/measured/placement.md
//! from the same lines.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::{intervals, lab, text};

/// Blocks by slot, by case (`0-12-512-defaults`) and figure (`bitmaps`).
type Measured = BTreeMap<String, BTreeMap<String, Vec<u64>>>;

fn measured(dir: &Path) -> Measured {
    let mut found = Measured::new();
    for line in text(dir.join("placement")).lines() {
        println!("{line}");
        let mut words = line.split(' ');
        let (case, figure) = (words.next().expect("case"), words.next().expect("figure"));
        let blocks = words.map(|w| w.parse().expect("blocks")).collect();
        found.entry(case.to_owned()).or_default().insert(figure.to_owned(), blocks);
    }
    assert_eq!(found.len(), 8, "four arrays with two filesystems each");
    found
}

/// Random skew: a hash of their names distributes 128 directories over 33 to 257 flex groups.
const CHANCE: f64 = 0.4;

/// Busiest member over the mean.
fn skew(blocks: &[u64]) -> f64 {
    let (most, sum) = (blocks.iter().max(), blocks.iter().sum::<u64>());
    most.copied().unwrap_or(0) as f64 * blocks.len() as f64 / sum.max(1) as f64
}

pub(super) fn metadata_matches_the_plan(kernel: &str) {
    let Some(dir) = lab(kernel, "placement") else {
        return;
    };
    for (case, figures) in measured(&dir) {
        let planned = intervals(dir.join(format!("{case}.json"))).remove(0);
        let blocks = |m: &Value| m["block_bitmap"].as_u64().zip(m["inode_bitmap"].as_u64());
        let members = planned["members"].as_array().expect("members").iter();
        let bitmaps: Vec<u64> = members.filter_map(blocks).map(|(b, i)| b + i).collect();
        assert_eq!(figures["bitmaps"], bitmaps, "{case}");
        let predicted = planned["skew"]["inode_table_heads"].as_f64().expect("skew");
        let real = skew(&figures["tables"]);
        assert!(
            (real - predicted).abs() < CHANCE,
            "{case}: inode tables in use: {real:.2}, planned {predicted:.2}"
        );
    }
}

pub(super) fn recommended_options_are_even(kernel: &str) {
    let Some(dir) = lab(kernel, "placement") else {
        return;
    };
    let mut fixed = 0;
    for (case, figures) in measured(&dir) {
        let worst = ["bitmaps", "tables"].map(|f| skew(&figures[f]));
        if case.ends_with("-recommended") {
            let even = 1.1 + CHANCE;
            assert!(worst[0] < 1.1, "{case}: bitmaps {:.2}", worst[0]);
            assert!(worst[1] < even, "{case}: inode tables {:.2}", worst[1]);
            let first = skew(&figures["first_directories"]);
            assert!(first < even + 0.2, "{case}: first directories {first:.2}");
        } else if worst.iter().any(|&s| s >= 1.5) {
            fixed += 1;
        }
    }
    assert_eq!(fixed, 4, "arrays that are uneven by default");
}

/// ext4 has one goal per flex group (`ext4_inode_to_goal_block`). Directories and the first larger
/// files use it, small files do not: layout therefore has no figure for files.
pub(super) fn first_files_use_the_goal(kernel: &str) {
    let Some(dir) = lab(kernel, "placement") else {
        return;
    };
    let found = measured(&dir);
    let figures = &found["0-12-512-defaults"];
    let of = |figure: &str| skew(&figures[figure]);
    for (goal, first) in [("goal_directories", "first_directories"), ("goal_files", "first_large")]
    {
        let (goal, real) = (of(goal), of(first));
        assert!(goal > 3.5, "{first}: goals {goal:.2}");
        let apart = (real / goal - 1.0).abs();
        assert!(apart < 0.25, "{first}: {real:.2}, goals {goal:.2}");
    }
    let slots = figures["first_small"].iter().zip(&figures["goal_files"]);
    let off: u64 = slots.filter(|(_, goal)| **goal == 0).map(|(n, _)| n).sum();
    let all: u64 = figures["first_small"].iter().sum();
    assert!(off * 3 > all, "{off} of {all} small files are not at a goal");
}
