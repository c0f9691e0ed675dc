//! `raidtrace layout` on XFS, on images that the real mkfs.xfs makes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::{self, EXE, raidtrace, root, run, skipped};
use super::{GIB, fails, json, members};
use tempfile::TempDir;

const SIZE: u64 = 200 * GIB;
const SIZE_WORD: &str = "200G";
const R5X7: [&str; 4] = ["--level", "5", "--disks", "7"];
/// As md reports them for this array with chunks of 512 KiB.
const STRIPE: &str = "su=512k,sw=6";

/// A sparse image with an XFS on it.
struct Image {
    path: PathBuf,
    _dir: TempDir,
}

/// True if xfsprogs are installed; otherwise the test is skipped.
fn available() -> bool {
    let found = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    let all = found("mkfs.xfs") && found("xfs_db");
    if !all {
        skipped("xfsprogs are not installed");
    }
    all
}

fn mkfs(image: &Path, options: &str) -> String {
    let mut command = Command::new("mkfs.xfs");
    command.args(options.split_whitespace()).arg(image);
    let out = run(&mut command);
    assert_eq!(out.code(), Some(0), "{options}: {out:?}");
    out.stdout
}

fn sparse() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("xfs.img");
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    (dir, path)
}

impl Image {
    fn new(options: &str) -> Self {
        let (dir, path) = sparse();
        mkfs(&path, options);
        Self { path, _dir: dir }
    }

    fn layout(&self, args: &[&str]) -> super::Output {
        let path = self.path.to_str().unwrap();
        raidtrace(&[&["layout", path], &R5X7[..], args].concat())
    }

    /// A field of the superblock, by xfs_db.
    fn field(&self, name: &str) -> u64 {
        let mut command = Command::new("xfs_db");
        let print = format!("p {name}");
        let out = run(command.args(["-r", "-c", "sb 0", "-c", &print]).arg(&self.path));
        out.stdout.trim().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// Groups that start on each member of a RAID 5 of 7 disks with chunks of 512 KiB: chunk c is on
/// member c modulo 7.
fn starts(count: u64, agsize: u64) -> Vec<u64> {
    let mut members: BTreeMap<u64, u64> = (0..7).map(|slot| (slot, 0)).collect();
    for group in 0..count {
        *members.get_mut(&(group * agsize / (512 << 10) % 7)).unwrap() += 1;
    }
    members.into_values().collect()
}

/// agsize in bytes that mkfs.xfs prints.
fn printed_agsize(text: &str) -> u64 {
    let after = text.split("agsize=").nth(1).unwrap();
    let blocks: u64 = after.split(' ').next().unwrap().parse().unwrap();
    blocks * 4096
}

#[test]
fn images_and_plans_agree_with_mkfs() {
    if !available() {
        return;
    }
    for more in ["", "-s size=4096", "-m rmapbt=1", "-i size=1024"] {
        let image = Image::new(&format!("-d {STRIPE} {more}"));
        let (count, blocks) = (image.field("agcount"), image.field("agblocks"));
        let object = json(&image.layout(&["--json"]));
        assert_eq!(object["filesystem"], "xfs");
        assert_eq!(object["allocation_groups"], count, "{more}");
        assert_eq!(object["agsize_bytes"], blocks * 4096, "{more}");
        let want = starts(count, blocks * 4096);
        assert_eq!(members(&object, &["ag_headers"]), want, "{more}");
        let plan = ["layout", "--plan", SIZE_WORD, "--fs", "xfs", "--json"];
        let option = format!("--mkfs={more}");
        let plan = json(&raidtrace(&[&plan, &R5X7[..], &[&option]].concat()));
        assert_eq!(plan["agsize_bytes"], blocks * 4096, "{more}");
        assert_eq!(members(&plan, &["ag_headers"]), want, "{more}");
        assert_eq!(
            members(&plan, &["first_inodes"]),
            members(&object, &["first_inodes"]),
            "{more}"
        );
    }
}

/// All groups start on the first member; mkfs.xfs accepts the suggested agsize, which is even.
#[test]
fn the_suggested_agsize() {
    if !available() {
        return;
    }
    let agsize = 7 * 3600 * (512_u64 << 10);
    let image = Image::new(&format!("-d {STRIPE},agsize={agsize}"));
    let object = json(&image.layout(&["--json"]));
    assert_eq!(members(&object, &["ag_headers"]), [17, 0, 0, 0, 0, 0, 0]);
    let headline = object["headline"].as_str().unwrap();
    assert!(headline.starts_with("all 17 allocation group headers"), "{headline}");
    let why = object["why"].as_str().unwrap();
    assert!(why.contains("25200 modulo 7 is 0"), "{why}");
    let advice = object["advice"].as_str().unwrap();
    assert!(advice.contains("agsize cannot be changed"), "{advice}");
    let word = advice.split_whitespace().find(|w| w.starts_with("agsize=")).unwrap();
    assert_eq!(word, format!("agsize={}", agsize - (512 << 10)));
    let (_dir, path) = sparse();
    let text = mkfs(&path, &format!("-N -d {STRIPE},{word}"));
    assert_eq!(word, format!("agsize={}", printed_agsize(&text)));
    let check = image.layout(&["--check"]);
    assert_eq!(check.code(), Some(3), "{check:?}");
    let even = Image::new(&format!("-d {STRIPE},{word}"));
    assert_eq!(even.layout(&["--check"]).code(), Some(0));
    let found =
        json(&image.layout(&["--search", "--json", "--mkfs", &format!("-d agsize={agsize}")]));
    let command = found["command"].as_str().unwrap();
    assert_eq!(command, format!("mkfs.xfs -d {word} DEVICE"));
}

#[test]
fn options_of_the_other_filesystem_are_refused() {
    let plan = |args: &[&str]| raidtrace(&[&["layout", "--plan", "1T"], &R5X7[..], args].concat());
    for (args, says) in [
        (&["--fs", "xfs", "-g", "32744"][..], "--mkfs"),
        (&["--mkfs", "-d agsize=1g"], "--fs xfs"),
        (&["--fs", "btrfs"], "ext4"),
    ] {
        let out = plan(args);
        assert_eq!(out.code(), Some(2), "{out:?}");
        assert!(out.stderr.contains(says), "{out:?}");
    }
    fails(&plan(&["--fs", "xfs", "--mkfs", "-d agsize=1"]), &["agsize"]);
    fails(&plan(&["--fs", "xfs", "--mkfs", "-g 32744"]), &["-g"]);
}

/// `layout` as root runs no program from PATH, and no mkfs.xfs for an existing filesystem.
#[test]
fn programs_of_path_are_not_run_as_root() {
    if !root() {
        return;
    }
    let dir = common::memory();
    let (fake, marker) = (dir.path().join("mkfs.xfs"), dir.path().join("ran"));
    fs::write(&fake, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.path().display());
    let mut plan = Command::new(EXE);
    plan.args(["layout", "--plan", "10T", "--fs", "xfs", "--level", "0", "--disks", "8"]);
    let out = run(plan.env("PATH", path));
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(!marker.exists());
}
