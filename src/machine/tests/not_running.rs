//! Arrays that are not running.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::tree::Tree;
use crate::machine::superblock::tests::V1;
use crate::machine::{RefusedArray, not_running};

/// Writes a superblock, of Linux 6.19 or later with a logical block size.
fn put(tree: &Tree, disk: &str, logical_block: u32) {
    let mut bytes = V1 { data_sectors: 1024, ..V1::raid5() }.bytes();
    let add = |bytes: &mut [u8], at: usize, more: u32| {
        let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        bytes[at..at + 4].copy_from_slice(&word.wrapping_add(more).to_le_bytes());
    };
    add(&mut bytes, 224, logical_block);
    add(&mut bytes, 216, logical_block);
    let file = File::create(tree.path(format!("dev/{disk}"))).unwrap();
    file.set_len(1 << 20).unwrap();
    file.write_all_at(&bytes, 4096).unwrap();
}

const DISKS: &str = "
    disk sda 8:0 209715200
    disk sdb 8:16 209715200
    disk sdc 8:32 209715200
    disk cciss!c0d0 104:0 209715200
    disk sr0 11:0 209715200 removable=1
    disk sdd 8:48 209715200";

fn refused(tree: &Tree) -> Vec<RefusedArray> {
    not_running(&tree.sys()).unwrap().refused
}

#[test]
fn superblocks_of_a_newer_kernel() {
    let tree = Tree::new(DISKS);
    std::fs::create_dir_all(tree.path("dev/cciss")).unwrap();
    for disk in ["sda", "sdb", "sdd", "cciss/c0d0", "sr0"] {
        put(&tree, disk, 4096);
    }
    put(&tree, "sdc", 0);
    tree.write("sys/block/sdd/holders/dm-0", "");
    // Nothing shows that md lacks the field.
    assert_eq!(refused(&tree), []);
    tree.write("sys/module/md_mod/parameters/start_ro", "0\n");
    let expected = RefusedArray {
        name: "lab:0".to_owned(),
        members: ["sda", "sdb", "cciss!c0d0"].map(str::to_owned).to_vec(),
        logical_block: 4096,
    };
    assert_eq!(refused(&tree), [expected]);
    // The parameter came with the field.
    tree.write("sys/module/md_mod/parameters/check_new_feature", "Y\n");
    assert_eq!(refused(&tree), []);
    // An array shows it.
    tree.write("sys/block/md0/dev", "9:0\n");
    tree.write("sys/block/md0/md/array_state", "clean\n");
    assert_eq!(refused(&tree)[0].members.len(), 3);
    tree.write("sys/block/md0/md/logical_block_size", "0\n");
    assert_eq!(refused(&tree), []);
}

#[test]
fn slots_of_a_stopped_array() {
    let tree = Tree::new(
        "disk sda 8:0 209715200
        disk sdb 8:16 209715200
        md md7 9:7 0 array_state=inactive
        member md7 sda slot=0 state=spare
        member md7 sdb slot=1 state=spare",
    );
    let stopped = not_running(&tree.sys()).unwrap().stopped;
    assert_eq!((stopped[0].members.len(), stopped[0].slots), (2, None));
    put(&tree, "sdb", 0);
    let stopped = not_running(&tree.sys()).unwrap().stopped;
    assert_eq!((stopped[0].name.as_str(), stopped[0].slots), ("md7", Some(4)));
}
