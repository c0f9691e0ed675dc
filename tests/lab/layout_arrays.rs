//! `layout` of filesystems on two arrays (`tests/lab/layout_arrays.sh`).

use serde_json::Value;

use super::output::{count, each, word};
use super::{intervals, lab, text};

/// What all members have, of each array's first member if `level` is raid1, whose members have the
/// same.
fn sum(arrays: &[Value], figure: &str) -> u64 {
    let of_array = |array: &Value| -> u64 {
        let members = each(array, "members").iter();
        let distinct = if word(array, "level") == "raid1" { 1 } else { usize::MAX };
        members.take(distinct).map(|m| count(m, figure)).sum()
    };
    arrays.iter().map(of_array).sum()
}

/// The arrays have together what the filesystem's own tool counts.
pub(super) fn several_arrays_add_up(kernel: &str) {
    let Some(dir) = lab(kernel, "layout_arrays") else {
        return;
    };
    let layout = |case: &str| intervals(dir.join(format!("{case}.layout")));
    for (case, names) in [("linear", ["md120", "md121"]), ("striped", ["md122", "md123"])] {
        let arrays = layout(case);
        println!("{}", text(dir.join(format!("{case}.text"))));
        assert_eq!(arrays.iter().map(|a| word(a, "array")).collect::<Vec<_>>(), names);
        let share: f64 = arrays.iter().filter_map(|a| a["share"].as_f64()).sum();
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        let dumpe2fs = text(dir.join(format!("{case}.fs")));
        let groups = dumpe2fs.matches("Block bitmap at ").count() as u64;
        assert!(groups > 3);
        assert_eq!(sum(&arrays, "block_bitmap"), groups, "{case}");
        assert_eq!(sum(&arrays, "inode_bitmap"), groups, "{case}");
        let tables = dumpe2fs.lines().find_map(|l| l.strip_prefix("Inode blocks per group:"));
        let tables: u64 = tables.expect("a size").trim().parse().expect("a number");
        assert_eq!(sum(&arrays, "inode_table"), groups * tables, "{case}");
        assert!(arrays.iter().all(|a| sum(std::slice::from_ref(a), "block_bitmap") > 0));
    }
    let one = &layout("one")[0];
    assert_eq!(one["share"], layout("linear")[1]["share"]);
    let arrays = layout("xfs");
    let groups = text(dir.join("xfs.fs"));
    let groups: u64 = groups.trim().trim_start_matches("agcount = ").parse().expect("a number");
    assert_eq!(sum(&arrays, "ag_headers"), groups);
    let refused = text(dir.join("search.err"));
    assert!(refused.contains("work on one: name it (md120, md121)"), "{refused}");
}
