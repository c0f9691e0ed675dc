//! Members that change during tracing. A directory tree in place of sysfs makes loop devices the
//! members of an array, so that no md is needed.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

use common::{
    DEADLINE, Loop, MIB, Witness, idle, installed, memory, raidtrace, tracing, undisturbed,
};
use raidtrace::analysis::snapshot::Snapshot;
use raidtrace::commands::record::output::OutputFiles;
use raidtrace::commands::record::recording::{Finished, Limits, RunningRecording};
use raidtrace::machine::Sys;
use raidtrace::machine::dm::Ioctl;
use raidtrace::session::engine::EngineSource as _;
use raidtrace::session::recorder::RecorderOptions;
use raidtrace::session::sampler::Sampler;
use serde_json::Value;

/// First data sector of a member.
const OFFSET: u64 = 2048;

/// This machine's devices, and a RAID 1 that exists only in the tree.
struct Tree {
    root: PathBuf,
    array: Loop,
    disks: Vec<Loop>,
    _dir: tempfile::TempDir,
}

impl Tree {
    /// Creates the array with the first two disks as members.
    fn new(disks: usize) -> Self {
        let dir = memory();
        let mut array = Loop::ext4(16 * MIB, &["-b", "4096"]);
        array.umount();
        let tree = Self {
            root: dir.path().join("tree"),
            array,
            disks: (0..disks).map(|_| Loop::new(32 * MIB)).collect(),
            _dir: dir,
        };
        for name in tree.disks.iter().chain([&tree.array]).map(|d| &d.name) {
            tree.put(format!("dev/{name}"), "");
            for what in ["dev", "size", "stat", "queue", "mq"] {
                let of = format!("sys/block/{name}/{what}");
                fs::create_dir_all(tree.root.join(&of).parent().unwrap()).unwrap();
                symlink(Path::new("/").join(&of), tree.root.join(of)).unwrap();
            }
        }
        for (name, value) in [
            ("level", "raid1"),
            ("layout", "0"),
            ("chunk_size", "0"),
            ("raid_disks", "2"),
            ("component_size", "16384"),
            ("metadata_version", "1.2"),
            ("array_state", "clean"),
            ("reshape_position", "none"),
        ] {
            tree.put(tree.md(name), value);
        }
        tree.join(0, "0");
        tree.join(1, "1");
        let name = &tree.array.name;
        let dev = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
        let mount = format!("30 1 {} / /switchover rw - ext4 /dev/{name} rw", dev.trim());
        tree.put("proc/self/mountinfo".into(), &mount);
        tree
    }

    fn md(&self, what: &str) -> String {
        format!("sys/block/{}/md/{what}", self.array.name)
    }

    fn put(&self, path: String, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn join(&self, disk: usize, slot: &str) {
        let dir = self.md(&format!("dev-{}", self.disks[disk].name));
        for (name, value) in [
            ("state", "in_sync"),
            ("offset", "2048"),
            ("new_offset", "2048"),
            ("size", "16384"),
            ("slot", slot),
        ] {
            self.put(format!("{dir}/{name}"), value);
        }
    }

    fn leave(&self, disk: usize) {
        let dir = self.md(&format!("dev-{}", self.disks[disk].name));
        fs::remove_dir_all(self.root.join(dir)).unwrap();
    }

    fn sys(&self) -> Sys {
        Sys::at(&self.root, Box::new(Ioctl))
    }

    fn targets(&self) -> Vec<String> {
        vec![self.array.name.clone()]
    }

    /// Writes the array's first block of 4 KiB, one request each time.
    fn write(&self, disk: usize, count: usize) {
        let mut options = OpenOptions::new();
        options.write(true);
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
        let file = options.open(self.disks[disk].device()).unwrap();
        let buffer = vec![0; 8192];
        let at = buffer.as_ptr().align_offset(4096);
        for _ in 0..count {
            file.write_all_at(&buffer[at..at + 4096], OFFSET * 512).unwrap();
        }
    }

    fn wait_idle(&self) {
        self.disks.iter().for_each(|d| {
            idle(&d.name);
        });
    }

    fn witnesses(&self) -> Vec<Witness> {
        let disks = self.disks.iter();
        disks.filter_map(|d| Witness::new(&d.name)).collect()
    }

    fn numbers(&self, wanted: &[u64]) -> BTreeMap<String, u64> {
        let disks = self.disks.iter().map(|d| d.name.clone());
        disks.zip(wanted.iter().copied()).filter(|(_, n)| *n > 0).collect()
    }
}

/// Requests with the origin `superblock`, by member.
fn written(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for member in snapshot.arrays.iter().flat_map(|a| &a.members) {
        for cell in &member.io {
            let name = format!("{:?} {:?}", cell.origin, cell.op);
            assert_eq!(name, "Superblock Write", "{}", member.name);
            *sums.entry(member.name.clone()).or_default() += cell.requests;
        }
    }
    sums
}

/// Sends md events to raidtrace until it has updated tracing in place.
fn wait_for_update(sampler: &mut Sampler, what: &str) {
    let begun = Instant::now();
    while !sampler.notes().iter().any(|n| n.contains(what)) {
        sampler.session().md_event();
        sampler.update().unwrap();
        assert!(begun.elapsed() < DEADLINE, "{:?}", sampler.notes());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let notes = sampler.notes();
    let note = notes.iter().find(|n| n.contains(what)).unwrap();
    assert!(note.contains("tracing updated in"), "{note}");
}

#[test]
fn a_member_that_joins_is_counted() {
    if tracing() && installed("mke2fs") {
        undisturbed(joins);
    }
}

fn joins() -> Option<()> {
    let tree = Tree::new(4);
    let witnesses = tree.witnesses();
    let mut sampler = Sampler::start(
        tree.sys(),
        &tree.targets(),
        false,
        raidtrace::probe::DirtiedCounting::Counted,
    )
    .unwrap();
    tree.wait_idle();
    sampler.interval().unwrap();
    // In one interval: one member stays, one fails, and one replaces it.
    tree.write(0, 3);
    tree.write(1, 5);
    tree.leave(1);
    tree.join(2, "1");
    wait_for_update(&mut sampler, &format!("{} joined", tree.disks[2].name));
    tree.write(0, 4);
    tree.write(1, 50);
    tree.write(2, 6);
    tree.wait_idle();
    let first = sampler.interval().unwrap();
    // A member whose slot changes gets a new member id in the BPF maps, but stays one member of the
    // snapshot.
    let slot = tree.md(&format!("dev-{}/slot", tree.disks[2].name));
    tree.put(slot, "0");
    tree.leave(0);
    tree.join(3, "1");
    tree.write(2, 10);
    wait_for_update(&mut sampler, &format!("{} joined", tree.disks[3].name));
    tree.write(2, 1);
    tree.write(3, 7);
    tree.wait_idle();
    let second = sampler.interval().unwrap();
    tree.write(2, 2);
    tree.write(3, 8);
    tree.wait_idle();
    let third = sampler.interval().unwrap();
    let found = [&first, &second, &third].map(written);
    let wanted = [[7, 5, 6, 0], [0, 0, 11, 7], [0, 0, 2, 8]].map(|n| tree.numbers(&n));
    if found != wanted && witnesses.iter().any(Witness::any_over_init) {
        return None;
    }
    assert_eq!(found, wanted);
    Some(())
}

/// The programs keep a member that fails until it returns.
#[test]
fn a_member_that_returns_is_counted_from_its_first_request() {
    if tracing() && installed("mke2fs") {
        undisturbed(returns);
    }
}

fn returns() -> Option<()> {
    let tree = Tree::new(3);
    let witnesses = tree.witnesses();
    let mut sampler = Sampler::start(
        tree.sys(),
        &tree.targets(),
        false,
        raidtrace::probe::DirtiedCounting::Counted,
    )
    .unwrap();
    tree.wait_idle();
    sampler.interval().unwrap();
    tree.leave(1);
    // Meanwhile a spare joins.
    tree.join(2, "none");
    wait_for_update(&mut sampler, &format!("{} joined", tree.disks[2].name));
    tree.join(1, "1");
    tree.write(1, 9);
    tree.wait_idle();
    let found = written(&sampler.interval().unwrap());
    let wanted = tree.numbers(&[0, 9, 0]);
    if found != wanted && witnesses.iter().any(Witness::any_over_init) {
        return None;
    }
    assert_eq!(found, wanted);
    Some(())
}

#[test]
fn a_recording_continues_across_a_member_change() {
    if tracing() && installed("mke2fs") {
        undisturbed(recorded);
    }
}

fn recorded() -> Option<()> {
    let tree = Tree::new(3);
    let witnesses = tree.witnesses();
    let dir = memory();
    let path = dir.path().join("a.rtrace");
    let files = OutputFiles::new(&path, false, None).unwrap();
    let options =
        RecorderOptions { targets: tree.targets(), buffer: 1 << 20, ..RecorderOptions::default() };
    tree.wait_idle();
    let mut recorder =
        RunningRecording::start(tree.sys(), files, &options, Limits::default()).unwrap();
    tree.write(0, 3);
    tree.write(1, 5);
    tree.leave(1);
    tree.join(2, "1");
    let begun = Instant::now();
    while !recorder.notes().iter().any(|n| n.contains("tracing updated")) {
        tree.write(0, 1);
        assert!(!recorder.drain().unwrap());
        recorder.session().md_event();
        recorder.update().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(begun.elapsed() < DEADLINE, "{:?}", recorder.notes());
    }
    tree.write(2, 6);
    tree.wait_idle();
    let Finished { summary, result, .. } = recorder.finish();
    result.unwrap();
    let out = raidtrace(&["export", path.to_str().unwrap(), "--format", "ndjson", "-o", "-"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let mut found = BTreeMap::new();
    for line in out.stdout.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if row["kind"] == "request" {
            let name = row["member"].as_str().unwrap().to_owned();
            *found.entry(name).or_default() += 1;
        }
    }
    let first: u64 = found.get(&tree.disks[0].name).copied().unwrap_or(0);
    let wanted = tree.numbers(&[summary.recorded.requests - 11, 5, 6]);
    if found != wanted && witnesses.iter().any(Witness::any_over_init) {
        return None;
    }
    assert_eq!(found, wanted, "{first} {}", summary.recorded.requests);
    Some(())
}
