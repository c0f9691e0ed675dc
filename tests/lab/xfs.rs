//! Origins of XFS on a real array (`tests/lab/xfs.sh`).

use std::collections::BTreeMap;

use super::{by_member, intervals, lab, text};

/// Every kind of block appears, and next to nothing is unknown.
pub(super) fn blocks_of_xfs_have_their_origins(kernel: &str) {
    let Some(dir) = lab(kernel, "xfs") else {
        return;
    };
    let errors = text(dir.join("xfs.err"));
    println!("{errors}");
    assert_eq!(text(dir.join("xfs.status")).trim(), "0");
    assert!(
        !errors.contains("refused") && !errors.contains("raw"),
        "{errors}"
    );
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
    for origin in [
        "ag_header",
        "inode_cluster",
        "directory",
        "xattr",
        "file_data",
    ] {
        assert!(of(origin, "read") > 0, "{origin} is not read");
    }
    // The inodes of ext4 are in tables.
    assert_eq!(of("inode_table", "write") + of("inode_table", "read"), 0);
    let all: u64 = bytes.values().sum();
    let unknown = of("unknown", "read") + of("unknown", "write");
    assert!(unknown * 100 < all, "unknown: {unknown} of {all}");
}
