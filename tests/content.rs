//! Blocks whose origin only their content tells, read through the block device's page cache as dd, a backup or e2fsck reads
//! them: against what debugfs says of the filesystem.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use common::Witness;
use common::{
    Loop, MIB, Top, idle, installed, json, mount_namespaces, sum, table, tool, tracing, undisturbed,
};

const BLOCK: u64 = 4096;

/// A filesystem with a directory of more than 100 blocks; and how many blocks its directories have.
fn planted() -> (Loop, u64) {
    let device = Loop::ext4(
        192 * MIB,
        &["-b", "4096", "-O", "^dir_index", "-N", "16384"],
    );
    let large = device.mount.join("large");
    fs::create_dir(&large).unwrap();
    for n in 0..8000 {
        File::create(large.join(format!(
            "a file with quite a long name, to fill blocks, {n:06}"
        )))
        .unwrap();
    }
    device.sync();
    let blocks = |path: &Path| fs::metadata(path).unwrap().len() / BLOCK;
    let all = ["", "large", "lost+found"].map(|d| blocks(&device.mount.join(d)));
    assert!(all[1] > 100, "{all:?}");
    (device, all.iter().sum())
}

/// Reads all of a device, in order, through its page cache.
fn read_device(device: &str) {
    let mut file = File::open(device).unwrap();
    let mut buffer = vec![0; MIB as usize];
    while file.read(&mut buffer).unwrap() > 0 {}
}

/// Nothing of the device stays cached, also where another mount namespace still has it mounted.
fn drop_pages(device: &str) {
    tool("blockdev", &["--flushbufs", device]);
    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
}

fn mount_again(device: &mut Loop) {
    device.umount();
    drop_pages(&device.device());
    device.mount();
}

/// Directory and extent_tree bytes that raidtrace has seen read; `None`: the kernel kept some from it.
fn seen_read(device: &Loop, act: impl FnOnce(), read: impl FnOnce()) -> Option<(u64, u64, String)> {
    idle(&device.name);
    let witness = Witness::new(&device.name);
    let (top, _) = Top::json(&["-i", "0.2", &device.name]);
    act();
    // What the filesystem itself has read by now is not what is looked at.
    while sum(&json(&top.line()), "*", "*", "requests") > 0 {}
    drop_pages(&device.device());
    let begun = idle(&device.name);
    read();
    assert!(idle(&device.name) > begun, "nothing was read");
    let intervals = top.intervals();
    if witness.is_some_and(|w| w.any_over_init()) {
        return None;
    }
    let bytes = |origin| sum(&intervals, origin, "read", "bytes");
    Some((bytes("directory"), bytes("extent_tree"), table(&intervals)))
}

/// From Linux 6.15 on the device's page cache has large folios, and a buffer head's b_page is the first page of its folio: a
/// block that is written when such folios are there must not teach raidtrace a wrong address for every page.
#[test]
fn a_device_that_was_read_while_mounted_is_read_right_again() {
    if !(tracing() && installed("mke2fs") && installed("blockdev")) {
        return;
    }
    let _one = mount_namespaces();
    undisturbed(|| {
        let (mut device, blocks) = planted();
        mount_again(&mut device);
        // Large folios, with buffer heads where ext4 asks for a block of them.
        read_device(&device.device());
        let large = device.mount.join("large");
        let rename = |n: u32| {
            let name = |what: &str| large.join(format!("{what}, to fill blocks, {n:06}"));
            fs::rename(
                name("a file with quite a long name"),
                name("another with quite a long name"),
            )
            .unwrap();
        };
        let path = device.device();
        let act = || {
            (0..8000).step_by(397).for_each(rename);
            device.sync();
            tool("umount", &[device.mount.to_str().unwrap()]);
        };
        let seen = seen_read(&device, act, || read_device(&path));
        device.mount();
        let (directory, extent_tree, table) = seen?;
        assert_eq!((directory, extent_tree), (blocks * BLOCK, 0), "{table}");
        Some(())
    });
}

/// A request that was split begins in the middle of a segment.
#[test]
fn requests_of_any_size_show_the_same_directory() {
    if !(tracing() && installed("mke2fs") && installed("blockdev")) {
        return;
    }
    let _one = mount_namespaces();
    let (mut device, blocks) = planted();
    for kib in ["1280", "64", "32"] {
        let limit = format!("/sys/block/{}/queue/max_sectors_kb", device.name);
        fs::write(&limit, kib).unwrap();
        undisturbed(|| {
            mount_again(&mut device);
            let path = device.device();
            let (directory, extent_tree, table) = seen_read(&device, || {}, || read_device(&path))?;
            assert_eq!(
                (directory, extent_tree),
                (blocks * BLOCK, 0),
                "{kib} KiB: {table}"
            );
            Some(())
        });
    }
}
