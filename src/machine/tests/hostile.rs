//! Arbitrary file contents: no panic, no endless loop.

use std::fs;
use std::path::{Path, PathBuf};

use super::tree::{Tree, raid0};
use crate::machine::{ArrayState, Cgroups};

const GARBAGE: [&[u8]; 12] = [
    b"",
    b"\n",
    b"\xff\xfe\x80",
    b"-1\n",
    b"18446744073709551615\n",
    b"99999999999999999999999999\n",
    b"9223372036854775807 (-9223372036854775808)\n",
    b"+9223372036854775807\n",
    b"4294967295:4294967295\n",
    b"9:127\n",
    b"/ / / - - \\777 \\0\n",
    b"none,,faulty,\0,[]\n",
];

fn everything() -> Tree {
    let mut tree = raid0(2);
    tree.add(
        "part md127p1 259:1 1000 disk=md127 number=1 start=8
        dm dm-0 253:0 1000 name=vg-lv uuid=LVM-1 slaves=md127p1
        target 253:0 0 18446744073709551615 linear 259:1 18446744073709551615
        mount 253:0 /lv ext4 /dev/mapper/vg-lv rw
        file sys/block/md127/md/bitmap/location +8
        file sys/block/md127/md/bitmap/space 8
        file sys/block/md127/md/bitmap/chunksize 512
        file sys/block/md127/md/degraded 0
        file sys/block/md127/md/sync_completed 1 / 2
        file sys/block/md127/md/sync_action idle",
    );
    tree
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

fn look(tree: &Tree) {
    for targets in [&[][..], &["loop2"], &["/lv"]] {
        for array in tree.resolve(targets).into_iter().flat_map(|t| t.arrays) {
            array.missing_slots();
            let _ = ArrayState::read(&tree.sys(), &array).map(|s| s.health());
        }
    }
}

#[test]
fn garbage_in_each_file() {
    let tree = everything();
    let mut paths = Vec::new();
    files(&tree.path(""), &mut paths);
    for path in &paths {
        let good = fs::read(path).unwrap();
        for bad in GARBAGE {
            tree.write(path, bad);
            look(&tree);
        }
        fs::remove_file(path).unwrap();
        look(&tree);
        fs::create_dir(path).unwrap();
        look(&tree);
        fs::remove_dir(path).unwrap();
        tree.write(path, good);
    }
    assert_eq!(tree.names(&[]).as_deref(), Ok("md127"));
}

#[test]
fn garbage_in_all_files_at_once() {
    for bad in GARBAGE {
        let tree = everything();
        let mut paths = Vec::new();
        files(&tree.path("sys"), &mut paths);
        for path in paths.iter().filter(|p| !p.ends_with("dev")) {
            tree.write(path, bad);
        }
        look(&tree);
    }
}

#[test]
fn cycles_of_devices() {
    let tree = Tree::new(
        "disk sda 8:0 1000
        dm dm-0 253:0 1000 name=a uuid=LVM-a slaves=dm-1
        dm dm-1 253:1 1000 name=b uuid=LVM-b slaves=dm-0,sda
        target 253:0 0 1000 linear 253:1 0
        target 253:1 0 1000 linear 253:0 0
        target 253:1 0 1000 linear 253:0 0
        mount 253:0 /loop ext4 /dev/mapper/a rw",
    );
    let topology = tree.resolve(&["/loop"]).unwrap();
    assert_eq!(topology.arrays[0].name, "sda");
    assert!(topology.notes[0].contains("layers"), "{:?}", topology.notes);
}

#[test]
fn cgroups_by_inode() {
    use std::os::unix::fs::MetadataExt;
    let mut tree = Tree::new("mount 0:38 /sys/fs/cgroup/unified cgroup2 cgroup2 rw");
    tree.add("file sys/fs/cgroup/unified/system.slice/pg.service/cgroup.procs 1");
    let top = tree.path("sys/fs/cgroup/unified");
    let ino = |p: &str| fs::metadata(top.join(p)).unwrap().ino();
    let mut cgroups = Cgroups::new(&tree.sys());
    assert_eq!(cgroups.path(ino("system.slice/pg.service")), Some("/system.slice/pg.service"));
    assert_eq!(cgroups.path(ino("")), Some("/"));
    assert_eq!(cgroups.path(u64::MAX), None);
    // The path of a removed cgroup stays known.
    let id = ino("system.slice/pg.service");
    fs::remove_dir_all(top.join("system.slice")).unwrap();
    assert_eq!(cgroups.path(id), Some("/system.slice/pg.service"));
    assert_eq!(Cgroups::new(&Tree::new("").sys()).path(1), None);
}
