//! Origins of requests on real filesystems, compared with debugfs and the kernel's disk statistics.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Instant;

use common::{
    Counted, Loop, MIB, Top, Watch, default_writeback, idle, installed, keep_caches,
    mount_namespaces, sum, table, tool, tracing, undisturbed,
};
use rustix::fs::{XattrFlags, setxattr};
use serde_json::Value;

const DIRS: u64 = 40;
const XATTRS: u64 = 30;

/// Creates directories with files, one of them large; a fragmented file; attributes too large for
/// the inode.
fn plant(root: &Path, block: u64) {
    for d in 0..DIRS {
        let dir = root.join(format!("d{d}"));
        fs::create_dir(&dir).unwrap();
        for f in 0..5 {
            fs::write(dir.join(format!("f{f}")), vec![b'x'; 5000]).unwrap();
        }
    }
    let large = root.join("large");
    fs::create_dir(&large).unwrap();
    for f in 0..1500 {
        File::create(large.join(format!("a file with a long name, number {f}"))).unwrap();
    }
    let pieces = File::create(root.join("pieces")).unwrap();
    for i in 0..1200 {
        // Write every other block, so that no two are adjacent.
        pieces.write_all_at(&vec![b'p'; block as usize], 2 * i * block).unwrap();
    }
    for x in 0..XATTRS {
        let path = root.join(format!("x{x}"));
        File::create(&path).unwrap();
        // Equal attributes would share a block; small ones would be stored in the inode.
        let mut value = vec![b'v'; (block as usize - 200).min(3000)];
        write!(&mut value[..], "{x:04}").unwrap();
        setxattr(&path, "user.test", &value, XattrFlags::empty()).unwrap();
    }
}

/// Reads everything: names, inodes, attributes, contents.
fn walk(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path);
        } else {
            fs::read(&path).unwrap();
            let _ = rustix::fs::getxattr(&path, "user.test", &mut [0u8; 4096][..]);
        }
    }
}

/// Number of blocks of each kind without a fixed location, from debugfs.
#[derive(Debug, Default)]
struct Truth {
    directory: u64,
    maps: u64,
    xattr: u64,
    data: u64,
}

fn truth(device: &str, root: &Path) -> Truth {
    let mut script = tempfile::NamedTempFile::new().unwrap();
    let mut directories = Vec::new();
    let mut paths = vec![root.to_path_buf()];
    while let Some(path) = paths.pop() {
        let meta = path.symlink_metadata().unwrap();
        writeln!(script, "stat <{}>", meta.ino()).unwrap();
        directories.push(meta.is_dir());
        if meta.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
    }
    let said = tool("debugfs", &["-f", script.path().to_str().unwrap(), device]);
    let mut truth = Truth::default();
    let inodes = said.split("debugfs: stat ").skip(1);
    assert_eq!(inodes.clone().count(), directories.len());
    for (text, directory) in inodes.zip(directories) {
        let (head, blocks) = text
            .split_once("EXTENTS:")
            .or_else(|| text.split_once("BLOCKS:"))
            .unwrap_or((text, ""));
        truth.xattr += u64::from(!head.contains("File ACL: 0\n"));
        for piece in blocks.split([',', '\n']) {
            let Some((what, at)) = piece.trim().rsplit_once(':') else {
                continue;
            };
            let number = |n: &str| n.parse::<u64>().unwrap();
            let n = at.split_once('-').map_or(1, |(first, last)| number(last) - number(first) + 1);
            match what {
                _ if what.contains("ETB") || what.contains("IND") => truth.maps += n,
                _ if !what.starts_with('(') => {}
                _ if directory => truth.directory += n,
                _ => truth.data += n,
            }
        }
    }
    truth
}

/// Writes a filesystem created with these options, and then reads it without cached data. Both are
/// traced.
fn a_filesystem(options: &[&str], block: u64) {
    if tracing() && installed("mke2fs") && installed("debugfs") {
        undisturbed(|| written_and_read(options, block));
    }
}

fn written_and_read(options: &[&str], block: u64) -> Option<()> {
    let mut disk = Loop::ext4(256 * MIB, options);
    // mke2fs wrote the blocks of lost+found, which may never be written again.
    fs::remove_dir(disk.mount.join("lost+found")).unwrap();
    disk.sync();
    idle(&disk.name);

    let (top, _) = Top::json(&[&disk.device(), "-i0.2"]);
    let watch = Watch::new(top, &disk.name);
    let writeback = default_writeback();
    let begun = Instant::now();
    plant(&disk.mount, block);
    disk.sync();
    let written = check_sums(watch.end()?, &format!("{options:?} written"));

    let truth = truth(&disk.device(), &disk.mount);
    println!("{truth:?}");
    let bytes = |of: &[Value], origin: &str, op: &str| sum(of, origin, op, "bytes");
    assert!(bytes(&written, "journal", "write") > 0);
    assert!(bytes(&written, "inode_table", "write") >= (DIRS * 6 + 1500) * 256);
    for fixed in ["block_bitmap", "inode_bitmap", "group_descriptors"] {
        assert!(bytes(&written, fixed, "write") >= block, "{fixed}");
    }
    assert!(bytes(&written, "file_data", "write") >= truth.data * block);
    // Each block is written at least once, and again if it changes after an early writeback. The
    // kernel's flusher writes every 5 s.
    let writes = 3 + begun.elapsed().as_secs() / 5;
    drop(writeback);
    for (origin, blocks) in
        [("directory", truth.directory), ("extent_tree", truth.maps), ("xattr", truth.xattr)]
    {
        let got = bytes(&written, origin, "write") / block;
        assert!(got >= blocks && got <= blocks * writes, "{origin}: {got} of {blocks} blocks");
    }
    for never in ["unknown", "raw", "parity", "md_superblock"] {
        assert_eq!(sum(&written, never, "*", "requests"), 0, "{never}");
    }

    let alone = mount_namespaces();
    disk.umount();
    disk.mount();
    idle(&disk.name);
    drop(alone);
    let (top, _) = Top::json(&[disk.mount.to_str().unwrap(), "-i0.2"]);
    let watch = Watch::new(top, &disk.name);
    let cached = keep_caches();
    walk(&disk.mount);
    drop(cached);
    let read = check_sums(watch.end()?, &format!("{options:?} read"));
    let blocks = |origin: &str| bytes(&read, origin, "read") / block;
    assert_eq!(blocks("xattr"), truth.xattr, "xattr blocks read");
    assert_eq!(blocks("extent_tree"), truth.maps, "map blocks read");
    // Mounting has already read the block of the root directory.
    let directory = truth.directory;
    assert!((directory - 1..=directory).contains(&blocks("directory")));
    assert_eq!(blocks("file_data"), truth.data, "data blocks read");
    assert_eq!(sum(&read, "unknown", "*", "requests"), 0);

    // Blocks that only mounting and unmounting write, on a filesystem that raidtrace traces while
    // it changes.
    let (top, _) = Top::json(&[&disk.name, "-i0.2"]);
    let watch = Watch::new(top, &disk.name);
    let _alone = mount_namespaces();
    disk.umount();
    let last = check_sums(watch.end()?, &format!("{options:?} unmounted"));
    assert!(bytes(&last, "superblock", "write") > 0);
    Some(())
}

/// Asserts that requests are neither lost nor counted twice. Returns the intervals for further
/// checks.
fn check_sums(counted: Counted, what: &str) -> Vec<Value> {
    let Counted { intervals, kernel } = counted;
    println!("{what}:\n{}", table(&intervals));
    let ours = sum(&intervals, "*", "*", "requests");
    let disk = |i: &Value| i["arrays"][0]["members"][0]["disk"]["requests"].as_u64();
    let disk: u64 = intervals.iter().map(|i| disk(i).unwrap()).sum();
    let notes: Vec<_> = intervals.iter().map(|i| &i["notes"]).collect();
    assert_eq!(
        (ours, disk),
        (kernel, kernel),
        "{what}: requests counted by raidtrace, and the disk statistics it shows; {notes:?}"
    );
    for interval in &intervals {
        assert_eq!(interval["lost"]["events"], 0, "{}", interval["lost"]);
    }
    intervals
}

#[test]
fn ext4() {
    a_filesystem(&["-b", "4096"], 4096);
}

#[test]
fn ext4_with_blocks_of_1_kib() {
    a_filesystem(&["-b", "1024"], 1024);
}

#[test]
fn ext3() {
    a_filesystem(&["-t", "ext3", "-b", "4096"], 4096);
}

#[test]
fn ext4_without_flex_bg_or_checksums() {
    a_filesystem(&["-b", "4096", "-O", "^flex_bg,^metadata_csum"], 4096);
}

/// A journal on its own disk, which is not a filesystem: all writes to that disk have the origin
/// `journal`.
#[test]
fn an_external_journal_is_journal() {
    if !(tracing() && installed("mke2fs")) {
        return;
    }
    let _one = mount_namespaces();
    let journal = Loop::new(64 * MIB);
    tool("mke2fs", &["-q", "-F", "-b", "4096", "-O", "journal_dev", &journal.device()]);
    let place = format!("device={}", journal.device());
    let mut device = Loop::ext4(64 * MIB, &["-b", "4096", "-J", &place]);
    idle(&device.name);
    idle(&journal.name);
    let (top, first) = Top::json(&["-i", "0.2", &device.name, &journal.name]);
    let about = first["arrays"].to_string();
    assert!(about.contains("external ext4 journal"), "{about}");
    for n in 0..20 {
        let file = File::create(device.mount.join(format!("f{n}"))).unwrap();
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_all().unwrap();
    }
    device.umount();
    idle(&device.name);
    idle(&journal.name);
    let intervals = top.intervals();
    let on_journal: Vec<&Value> = common::cells(&intervals)
        .into_iter()
        .filter(|(member, _)| *member == journal.name)
        .map(|(_, cell)| cell)
        .collect();
    let bytes = |origin: &str| -> u64 {
        let cells = on_journal.iter().filter(|c| c["origin"] == origin && c["op"] == "write");
        cells.map(|c| c["bytes"].as_u64().unwrap()).sum()
    };
    assert!(bytes("journal") >= 20 * 3 * 4096, "{}", table(&intervals));
    assert_eq!(
        (bytes("raw"), bytes("file_data"), bytes("unknown")),
        (0, 0, 0),
        "{}",
        table(&intervals)
    );
}
