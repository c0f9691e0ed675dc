//! Origins of XFS on a real array (`tests/lab/xfs.sh`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Case, by_member, by_slot, intervals, lab, text, traced_case};

/// Every kind of block appears, and next to nothing is unknown.
pub(super) fn blocks_of_xfs_have_their_origins(kernel: &str) {
    let Some(dir) = lab(kernel, "xfs") else {
        return;
    };
    let errors = text(dir.join("xfs.err"));
    println!("{errors}");
    assert_eq!(text(dir.join("xfs.status")).trim(), "0");
    assert!(!errors.contains("refused") && !errors.contains("raw"), "{errors}");
    let mut bytes = BTreeMap::<(String, String), u64>::new();
    for ((_, origin, op), sum) in by_member(&intervals(dir.join("xfs.out"))) {
        *bytes.entry((origin, op)).or_default() += sum;
    }
    println!("{bytes:?}");
    let of = |origin: &str, op: &str| {
        let key = (origin.to_owned(), op.to_owned());
        bytes.get(&key).copied().unwrap_or(0)
    };
    for origin in [
        "superblock",
        "ag_header",
        "free_space_btree",
        "inode_btree",
        "inode_cluster",
        "directory",
        "xattr",
        "journal",
        "file_data",
    ] {
        assert!(of(origin, "write") > 0, "{origin} is not written");
    }
    for origin in ["ag_header", "inode_cluster", "directory", "xattr", "file_data"] {
        assert!(of(origin, "read") > 0, "{origin} is not read");
    }
    // The inodes of ext4 are in tables.
    assert_eq!(of("inode_table", "write") + of("inode_table", "read"), 0);
    let all: u64 = bytes.values().sum();
    let unknown = of("unknown", "read") + of("unknown", "write");
    assert!(unknown * 100 < all, "unknown: {unknown} of {all}");
}

/// Bytes that were written to an array, by origin.
fn written(lines: &[Value], array: &str, origin: &str) -> u64 {
    by_slot(lines, array, origin, "write").values().sum()
}

/// Lines of a case since the moment that the script noted in NAME.MARK.
fn since<'a>(kernel: &str, case: &'a Case, mark: &str) -> &'a [Value] {
    let dir = lab(kernel, "xfs_changes").expect("has run");
    let first: usize = text(dir.join(mark)).trim().parse().expect("a number");
    &case.lines[first..]
}

/// Growth and a filesystem made anew are noted, and the new fixed places have their origins.
pub(super) fn xfs_is_grown_and_made_anew(kernel: &str) {
    let Some(case) = traced_case(kernel, "xfs_changes", "xfs_grown") else {
        return;
    };
    let note = |words: &str| {
        let line = case.said.lines().find(|l| l.contains(words));
        line.unwrap_or_else(|| panic!("no note on {words}: {}", case.said))
    };
    assert!(note("was resized from 102400 to").contains("tracing reloaded"));
    // The learned blocks of the old filesystem are forgotten.
    assert!(note("now holds another filesystem").contains("tracing reloaded"));
    let lines = since(kernel, &case, "xfs_grown.grown");
    for origin in ["ag_header", "superblock", "inode_cluster", "journal"] {
        assert!(written(lines, "md120", origin) > 0, "{origin}");
    }
    assert_eq!(written(lines, "md120", "raw"), 0, "the new AGs are known");
    assert_eq!(written(lines, "md120", "unknown"), 0);
}

/// Neither a freeze nor a shutdown is taken for a change of the filesystem.
pub(super) fn xfs_is_frozen_and_shut_down(kernel: &str) {
    let Some(case) = traced_case(kernel, "xfs_changes", "xfs_frozen") else {
        return;
    };
    let notes: Vec<_> = case.said.lines().filter(|l| l.contains("md120:")).collect();
    let mounts = |l: &&str| l.contains("mounted on") || l.contains("unmounted from");
    assert!(notes.iter().all(mounts), "{notes:?}");
    assert!(!case.said.contains("tracing reloaded"), "{}", case.said);
    for origin in ["journal", "inode_cluster", "inode_btree", "ag_header"] {
        let read: u64 = by_slot(&case.lines, "md120", origin, "read").values().sum();
        assert!(written(&case.lines, "md120", origin) + read > 0, "{origin}");
    }
    for origin in ["raw", "unknown"] {
        assert_eq!(written(&case.lines, "md120", origin), 0, "{origin}");
    }
}

/// All of the log device is journal, and a realtime device holds file data. One note reports the
/// mount.
pub(super) fn devices_of_xfs_belong_to_it(kernel: &str) {
    let Some(case) = traced_case(kernel, "xfs_changes", "xfs_devices") else {
        return;
    };
    // The first two before the mount, when the devices are not known.
    for words in ["the log is on another", "also on a realtime device", "mounted on"] {
        let notes = case.said.lines().filter(|l| l.contains(words));
        assert_eq!(notes.count(), 1, "{words}: {}", case.said);
    }
    let lines = since(kernel, &case, "xfs_devices.mounted");
    for line in lines {
        let line = line.to_string();
        assert!(line.contains("log of xfs on /mnt/md120"), "{line}");
        assert!(line.contains("realtime device of xfs on /mnt/md120"), "{line}");
    }
    assert!(written(lines, "md121", "journal") > 0);
    assert!(written(lines, "md122", "file_data") >= 4 << 20);
    for array in ["md120", "md121", "md122"] {
        for origin in ["raw", "unknown"] {
            assert_eq!(written(lines, array, origin), 0, "{array} {origin}");
        }
    }
    for (array, origin) in [("md120", "journal"), ("md121", "file_data"), ("md122", "directory")] {
        assert_eq!(written(lines, array, origin), 0, "{array} {origin}");
    }
}

/// `alloc` names the filesystem, in one line.
pub(super) fn alloc_refuses_an_xfs(kernel: &str) {
    let Some(dir) = lab(kernel, "xfs_changes") else {
        return;
    };
    let said = text(dir.join("xfs_alloc.err"));
    assert_eq!(text(dir.join("xfs_alloc.status")).trim(), "1", "{said}");
    assert!(said.contains("/mnt/md120 is XFS"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
