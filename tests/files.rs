//! Files of the file data that was written and read.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Command;

use common::{
    Loop, MIB, Top, drop_caches, idle, installed, keep_caches, list, tracing, undisturbed,
};
use serde_json::Value;

const KIB: u64 = 1024;

/// Rows of files in all intervals, by inode: bytes read, bytes written, and the last row.
fn files(intervals: &[Value]) -> BTreeMap<u64, (u64, u64, Value)> {
    let mut files = BTreeMap::new();
    for array in intervals.iter().flat_map(|i| list(&i["arrays"])) {
        for row in list(&array["files"]) {
            let inode = row["inode"].as_u64().unwrap();
            let file: &mut (u64, u64, Value) = files.entry(inode).or_default();
            let bytes = row["bytes"].as_u64().unwrap();
            match row["op"].as_str() {
                Some("read") => file.0 += bytes,
                Some("write") => file.1 += bytes,
                op => panic!("{op:?}"),
            }
            file.2 = row.clone();
        }
    }
    files
}

/// Bytes of file data that tasks submitted, bytes attributed to a file, and bytes without a file.
fn shares(intervals: &[Value]) -> (u64, u64, u64) {
    let bytes = |v: &Value| v["bytes"].as_u64().unwrap();
    let (mut tasks, mut attributed, mut unattributed) = (0, 0, 0);
    for array in intervals.iter().flat_map(|i| list(&i["arrays"])) {
        for io in list(&array["tasks"]).iter().flat_map(|t| list(&t["io"])) {
            if io["origin"] == "file_data" {
                tasks += bytes(io);
            }
        }
        attributed += list(&array["files"]).iter().map(bytes).sum::<u64>();
        attributed += bytes(&array["files_rest"]);
        unattributed += bytes(&array["files_unattributed"]);
    }
    for interval in intervals {
        assert_eq!(interval["lost"]["events"], 0, "{}", interval["lost"]);
    }
    (tasks, attributed, unattributed)
}

/// A buffer aligned for direct IO.
fn aligned(bytes: u64) -> Vec<u8> {
    vec![b'd'; bytes as usize + 4096]
}

fn direct(file: &mut File, bytes: u64, write: bool) {
    let mut buffer = aligned(bytes);
    let at = buffer.as_ptr().align_offset(4096);
    let part = &mut buffer[at..at + bytes as usize];
    if write {
        file.write_all(part).unwrap();
    } else {
        file.read_exact(part).unwrap();
    }
}

fn opened(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    options.open(path).unwrap()
}

fn write(path: &Path, bytes: u64) -> u64 {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![b'b'; bytes as usize]).unwrap();
    file.sync_all().unwrap();
    file.metadata().unwrap().ino()
}

#[test]
fn every_byte_has_its_file() {
    if tracing() && installed("mke2fs") {
        undisturbed(written_and_read);
    }
}

/// `None` if a path is missing: raidtrace waits for a lookup for 250 ms only.
fn written_and_read() -> Option<()> {
    let disk = Loop::ext4(256 * MIB, &[]);
    let at = |name: &[u8]| disk.mount.join(OsStr::from_bytes(name));
    let path = |v: &Value| v["path"].as_str().map(str::to_owned);
    let named = |p: &Path| Some(p.to_str().unwrap().to_owned());
    disk.sync();
    idle(&disk.name);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);

    let straight = at(b"straight");
    let mut file = opened(&straight);
    direct(&mut file, MIB, true);
    let straight_inode = file.metadata().unwrap().ino();
    drop(file);
    fs::create_dir(at(b"dir")).unwrap();
    let odd = at(b"dir/a\nb\xff");
    let odd_inode = write(&odd, 300 * KIB);
    // Removed while open: it has no directory entry.
    let gone = at(b"gone");
    let mut open = File::create(&gone).unwrap();
    fs::remove_file(&gone).unwrap();
    open.write_all(&[b'g'; 200 * 1024]).unwrap();
    open.sync_all().unwrap();
    let gone_inode = open.metadata().unwrap().ino();
    // Deleted before its path can be looked up. The next file gets its inode.
    let brief = at(b"brief");
    let brief_inode = write(&brief, 100 * KIB);
    fs::remove_file(&brief).unwrap();
    idle(&disk.name);
    let written = top.intervals();

    let (tasks, attributed, unattributed) = shares(&written);
    assert_eq!((attributed, unattributed), (tasks, 0));
    let rows = files(&written);
    let row = |inode: u64| rows.get(&inode).unwrap_or_else(|| panic!("{inode}: {rows:#?}"));
    let is_late = |inode: u64| row(inode).2["path"].is_null();
    if [straight_inode, odd_inode, gone_inode].into_iter().any(is_late) {
        return None;
    }
    assert_eq!(row(straight_inode).1, MIB);
    assert_eq!(path(&row(straight_inode).2), named(&straight));
    // Whole blocks are written.
    assert_eq!(row(odd_inode).1, 300 * KIB);
    let bytes: String = odd.as_os_str().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(row(odd_inode).2["path_bytes"], bytes);
    assert_eq!(row(odd_inode).2["name_bytes"], "610a62ff");
    assert_eq!(row(gone_inode).1, 200 * KIB);
    assert_eq!(path(&row(gone_inode).2), named(&gone));
    assert_eq!(row(gone_inode).2["deleted"], true);
    assert_eq!(row(brief_inode).1, 100 * KIB);
    assert_eq!(row(brief_inode).2["name"], "brief");
    for inode in [straight_inode, odd_inode] {
        assert_eq!(row(inode).2["deleted"], false);
    }
    drop(open);

    // Read from the disk: nothing of the files is cached.
    fs::rename(&odd, at(b"dir/even")).unwrap();
    disk.sync();
    drop_caches("3");
    let _cached = keep_caches();
    idle(&disk.name);
    let (top, _) = Top::json(&[disk.mount.to_str().unwrap(), "-i0.3"]);
    assert_eq!(fs::read(at(b"dir/even")).unwrap().len() as u64, 300 * KIB);
    direct(&mut opened(&straight), MIB / 2, false);
    idle(&disk.name);
    let read = top.intervals();
    let (tasks, attributed, unattributed) = shares(&read);
    assert_eq!((attributed, unattributed), (tasks, 0));
    let rows = files(&read);
    if rows[&odd_inode].2["path"].is_null() {
        return None;
    }
    assert_eq!((rows[&odd_inode].0, rows[&odd_inode].1), (300 * KIB, 0));
    assert_eq!(path(&rows[&odd_inode].2), named(&at(b"dir/even")));
    assert_eq!(rows[&straight_inode].0, MIB / 2);
    Some(())
}

/// An interval with more files than a CPU has slots for, and more than are listed; then inodes that
/// are reused by another file immediately.
#[test]
fn many_files_add_up() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = Loop::ext4(256 * MIB, &["-b", "4096", "-N", "8192"]);
    disk.sync();
    idle(&disk.name);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    for n in 0..2000 {
        fs::write(disk.mount.join(format!("f{n}")), [b'm'; 5000]).unwrap();
    }
    disk.sync();
    let mut generations = BTreeMap::<u64, u64>::new();
    for n in 0..20 {
        let path = disk.mount.join("again");
        *generations.entry(write(&path, (n + 1) * 4 * KIB)).or_default() += 1;
        fs::remove_file(path).unwrap();
    }
    idle(&disk.name);
    let all = top.intervals();
    let (tasks, attributed, unattributed) = shares(&all);
    assert_eq!((attributed, unattributed), (tasks, 0));
    assert!(attributed >= 2000 * 8 * KIB);
    let mut again: Vec<(u64, u64)> = Vec::new();
    for array in all.iter().flat_map(|i| list(&i["arrays"])) {
        let rows = list(&array["files"]).iter().filter(|f| f["name"] == "again");
        again.extend(
            rows.map(|f| (f["generation"].as_u64().unwrap(), f["bytes"].as_u64().unwrap())),
        );
    }
    let inodes = generations.len();
    again.sort_unstable();
    again.dedup_by_key(|g| g.0);
    // One inode or a few; every generation is a separate file.
    assert!(inodes < 20, "{generations:?}");
    assert!(again.len() > inodes, "{again:?}");
}

/// Shared memory is a file of tmpfs. As the buffer of direct IO, it is not the file that is read.
#[test]
fn a_buffer_in_shared_memory_is_not_the_file() {
    if !tracing() || !installed("mke2fs") || !installed("fio") {
        return;
    }
    let disk = Loop::ext4(256 * MIB, &[]);
    let data = disk.mount.join("data");
    let inode = write(&data, MIB);
    idle(&disk.name);
    let (top, _) = Top::json(&[&disk.device(), "-i0.3"]);
    for (path, at) in [(data.to_str().unwrap(), "0"), (&*disk.device(), "200M")] {
        let mut fio = Command::new("fio");
        fio.args(["--name=shared", "--direct=1", "--rw=read", "--mem=shm", "--bs=64k"]);
        fio.args([&format!("--filename={path}"), &format!("--offset={at}"), "--size=1M"]);
        let out = fio.current_dir(&disk.mount).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    idle(&disk.name);
    let read = top.intervals();
    let rows = files(&read);
    assert_eq!(rows.keys().collect::<Vec<_>>(), [&inode], "{rows:#?}");
    assert_eq!(rows[&inode].0, MIB);
    let (_, _, unattributed) = shares(&read);
    assert!(unattributed >= MIB / 2, "{unattributed}");
}
