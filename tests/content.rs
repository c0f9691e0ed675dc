//! Blocks whose origin is known only from their content, read through the page cache of the block
//! device, as dd, a backup or e2fsck read them. Compared with the output of debugfs.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use common::Witness;
use common::{
    Loop, MIB, Top, idle, installed, keep_caches, mount_namespaces, sum, table, tool, tracing,
    undisturbed, until_idle,
};

const BLOCK: u64 = 4096;

/// A filesystem with a directory of more than 100 blocks, and the number of blocks of all its
/// directories.
fn planted() -> (Loop, u64) {
    let device = Loop::ext4(192 * MIB, &["-b", "4096", "-O", "^dir_index", "-N", "16384"]);
    let large = device.mount.join("large");
    fs::create_dir(&large).unwrap();
    for n in 0..8000 {
        File::create(large.join(format!("a file with quite a long name, to fill blocks, {n:06}")))
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

/// Drops all cached pages of the device, even if another mount namespace still has it mounted.
fn drop_pages(device: &str) {
    tool("blockdev", &["--flushbufs", device]);
    common::drop_caches("1");
}

fn mount_again(device: &mut Loop) {
    device.umount();
    drop_pages(&device.device());
    device.mount();
}

/// Directory and extent_tree bytes read, as counted by raidtrace, and a table of all IO; `None` if
/// the kernel hid requests.
fn seen_read(device: &Loop, act: impl FnOnce(), read: impl FnOnce()) -> Option<(u64, u64, String)> {
    idle(&device.name);
    let witness = Witness::new(&device.name);
    let (top, _) = Top::json(&["-i", "0.2", &device.name]);
    act();
    // Reads by the filesystem itself do not count.
    until_idle(&top, &device.name, None);
    drop_pages(&device.device());
    let _cached = keep_caches();
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

/// From Linux 6.15 on, the page cache of a block device has large folios, and the b_page of a
/// buffer head is the first page of its folio. A block that is written in such a folio must not
/// make raidtrace learn wrong addresses for the other pages.
#[test]
fn directories_are_recognised_after_a_read_of_the_mounted_device() {
    if !(tracing() && installed("mke2fs") && installed("blockdev")) {
        return;
    }
    let _one = mount_namespaces();
    undisturbed(|| {
        let (mut device, blocks) = planted();
        mount_again(&mut device);
        // This creates large folios, with buffer heads if ext4 reads one of their blocks.
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

/// A request that was split starts in the middle of a segment.
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
            assert_eq!((directory, extent_tree), (blocks * BLOCK, 0), "{kib} KiB: {table}");
            Some(())
        });
    }
}
