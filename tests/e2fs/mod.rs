//! e2fsprogs for tests: creates images with mke2fs, and reads the locations of all structures with
//! dumpe2fs and debugfs.

#![allow(dead_code)] // each test program uses a part

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use raidtrace::origin::Origin;

/// Runs of blocks: first block and count.
pub type Runs = Vec<(u64, u64)>;
/// The runs of each origin, sorted and merged.
pub type Places = BTreeMap<Origin, Runs>;

/// True if e2fsprogs is installed. Prints a message if it is not.
pub fn available() -> bool {
    let found = Command::new("mke2fs").arg("-V").stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("\n*** skipped: mke2fs not installed (apt install e2fsprogs) ***\n");
    }
    found
}

/// Blocks of an inode.
#[derive(Default)]
pub struct Inode {
    pub data: Runs,
    /// Extent and indirect blocks.
    pub maps: Runs,
    /// The double indirect block of the resize inode.
    pub double: Runs,
}

/// A sparse image, removed with its directory.
pub struct Image {
    _dir: tempfile::TempDir,
    pub path: PathBuf,
}

/// Runs a program of e2fsprogs and returns its output.
fn run(program: &str, args: &[&str], path: &Path) -> String {
    let out = Command::new(program).args(args).arg(path).env("LC_ALL", "C").output().unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {args:?}: {errors}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

impl Image {
    /// Creates an image with these mke2fs options (those of -E as `extended:NAME=VALUE`) in `dir`,
    /// or in the directory for temporary files of tests.
    pub fn new(bytes: u64, options: &str, dir: Option<&str>) -> Self {
        let dir = match dir {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")),
        }
        .unwrap();
        let path = dir.path().join("image");
        File::create(&path).unwrap().set_len(bytes).unwrap();
        // Zero as little as possible, so that an image of 2 TiB takes a few MB.
        let mut args = vec!["-q", "-F", "-E"];
        let lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
        let (extended, rest): (Vec<&str>, Vec<&str>) =
            options.split_whitespace().partition(|word| word.starts_with("extended:"));
        let extended = extended
            .iter()
            .fold(lazy.to_owned(), |all, one| all + "," + one.trim_start_matches("extended:"));
        args.push(&extended);
        args.extend(rest);
        run("mke2fs", &args, &path);
        Self { _dir: dir, path }
    }

    pub fn open(&self) -> File {
        File::open(&self.path).unwrap()
    }

    pub fn debugfs(&self, request: &str) -> String {
        // -c: do not read all bitmaps first.
        run("debugfs", &["-c", "-R", request], &self.path)
    }

    /// Runs a script of debugfs commands that write.
    pub fn debugfs_write(&self, script: &str) {
        let file = self.path.with_extension("script");
        std::fs::write(&file, script).unwrap();
        run("debugfs", &["-w", "-f", file.to_str().unwrap()], &self.path);
    }

    pub fn tune2fs(&self, args: &[&str]) {
        run("tune2fs", args, &self.path);
    }

    /// Locations of all structures according to dumpe2fs and debugfs.
    pub fn places(&self) -> Places {
        let dump = run("dumpe2fs", &[], &self.path);
        let mut places = groups(&dump);
        let header = |name: &str| -> Option<&str> {
            let line = dump.lines().find_map(|l| l.strip_prefix(name))?;
            Some(line.trim())
        };
        let mut other = Vec::new();
        if header("Block size:") == Some("1024") {
            other.push((0, 1));
        }
        if let Some(block) = header("MMP block number:") {
            other.push((block.parse().unwrap(), 1));
        }
        let mut tree = Vec::new();
        let mut journal = Vec::new();
        for name in [
            "Journal inode:",
            "User quota inode:",
            "Group quota inode:",
            "Project quota inode:",
            "Orphan file inode:",
        ] {
            if let Some(ino) = header(name) {
                let inode = self.inode(ino);
                let is_journal = name.starts_with("Journal");
                if is_journal { &mut journal } else { &mut other }.extend(inode.data);
                tree.extend(inode.maps);
            }
        }
        if header("Filesystem features:").unwrap().contains("resize_inode") {
            let inode = self.inode("7");
            let gdt = &merged(places[&Origin::GroupDescriptors].clone());
            for (first, count) in merged([inode.data, inode.maps].concat()) {
                assert!(covers(gdt, first, count), "resize inode: {first}+{count}");
            }
            other.extend(inode.double);
        }
        places.insert(Origin::Journal, journal);
        places.insert(Origin::ExtentTree, tree);
        places.insert(Origin::OtherMetadata, other);
        places.retain(|_, runs| !runs.is_empty());
        for runs in places.values_mut() {
            *runs = merged(std::mem::take(runs));
        }
        places
    }

    /// The blocks of an inode, as `stat` of debugfs lists them.
    pub fn inode(&self, ino: &str) -> Inode {
        let mut inode = Inode::default();
        let stat = self.debugfs(&format!("stat <{ino}>"));
        let list = stat.split_once("BLOCKS:\n").or_else(|| stat.split_once("EXTENTS:\n"));
        for item in list.map_or("", |l| l.1).split([',', '\n']) {
            let Some((what, at)) = item.trim().rsplit_once(':').filter(|i| i.0.starts_with('('))
            else {
                continue;
            };
            let into = match what.get(1..4).unwrap_or_default() {
                // Special only for the resize inode. For other inodes, it is a map block like any
                // other.
                "DIN" if ino == "7" => &mut inode.double,
                "IND" | "DIN" | "TIN" | "ETB" => &mut inode.maps,
                _ => &mut inode.data,
            };
            into.push(span(at));
        }
        inode
    }
}

/// `12-15` or `12` as (first, count).
fn span(text: &str) -> (u64, u64) {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
    (first, last - first + 1)
}

/// Locations from the lines about groups in the output of dumpe2fs.
fn groups(dump: &str) -> Places {
    let mut places = Places::new();
    for line in dump.lines().filter(|l| l.starts_with("  ")) {
        for (what, origin) in [
            ("superblock at ", Origin::Superblock),
            ("Group descriptors at ", Origin::GroupDescriptors),
            ("Group descriptor at ", Origin::GroupDescriptors),
            ("Reserved GDT blocks at ", Origin::GroupDescriptors),
            ("Block bitmap at ", Origin::BlockBitmap),
            ("Inode bitmap at ", Origin::InodeBitmap),
            ("Inode table at ", Origin::InodeTable),
        ] {
            if let Some((_, rest)) = line.split_once(what) {
                let end =
                    rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
                places.entry(origin).or_default().push(span(&rest[..end]));
            }
        }
    }
    places
}

fn covers(runs: &[(u64, u64)], first: u64, count: u64) -> bool {
    runs.iter().any(|&(at, len)| at <= first && first + count <= at + len)
}

/// Sorts runs, and merges adjacent and overlapping ones.
pub fn merged(mut runs: Runs) -> Runs {
    runs.sort_unstable();
    let mut out = Runs::new();
    for (first, count) in runs {
        match out.last_mut() {
            Some((at, len)) if first <= *at + *len => *len = (*len).max(first + count - *at),
            _ => out.push((first, count)),
        }
    }
    out
}

/// An image mounted read-only, until dropped.
pub struct Mounted(tempfile::TempDir);

impl Mounted {
    /// `None` if mounting is not permitted.
    pub fn new(image: &Image) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let done = Command::new("mount")
            .args(["-t", "ext4", "-o", "loop,ro,noload"])
            .args([image.path.as_path(), dir.path()])
            .output();
        done.is_ok_and(|o| o.status.success()).then_some(Self(dir))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
