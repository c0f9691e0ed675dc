//! `raidtrace layout` as a process, on images created with mke2fs: figures, kinds of input, exit
//! statuses, errors.

#![allow(clippy::unwrap_used)]

mod common;
mod e2fs;
#[path = "layout/xfs.rs"]
mod xfs;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use common::{EXE, Loop, MIB, Output, raidtrace, root, run, run_from, tool};
use e2fs::{Image, available};
use serde_json::Value;

const GIB: u64 = 1 << 30;
/// A RAID 0 of 12 disks with 100 GiB each, approximately.
const SEED: u64 = 1_257_492_480 << 10;

fn json(out: &Output) -> Value {
    assert_eq!(out.code(), Some(0), "{out:?}");
    serde_json::from_str(&out.stdout).unwrap()
}

/// `layout FILE` as JSON.
fn layout(image: &Path, args: &[&str]) -> Value {
    let image = image.to_str().unwrap();
    let out = raidtrace(&[&["layout", image, "--json"], args].concat());
    let object = json(&out);
    assert_eq!(object["schema"], "raidtrace.layout/1");
    object
}

/// Sum of figures, by member.
fn members(object: &Value, names: &[&str]) -> Vec<u64> {
    let of = |m: &Value| names.iter().map(|n| m[n].as_u64().unwrap()).sum();
    object["members"].as_array().unwrap().iter().map(of).collect()
}

const BITMAPS: [&str; 2] = ["block_bitmap", "inode_bitmap"];
const R0X12: [&str; 4] = ["--level", "0", "--disks", "12"];

/// Asserts one line on stderr that contains these words, and nothing on stdout.
fn fails(out: &Output, words: &[&str]) {
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert_eq!(out.stdout, "", "{out:?}");
    assert_eq!(out.stderr.lines().count(), 1, "{out:?}");
    for word in words {
        assert!(out.stderr.contains(word), "{word}: {out:?}");
    }
    assert!(!out.stderr.contains("panicked"), "{out:?}");
}

/// Blocks by member, counted independently.
#[test]
fn figures_of_an_image() {
    if !available() {
        return;
    }
    let image = Image::new(SEED, "-t ext4", None);
    let object = layout(&image.path, &R0X12);
    assert_eq!(members(&object, &BITMAPS), [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]);
    assert_eq!(object["groups"], 9594);
    assert_eq!(object["blocks_per_group"], 32768);
    assert_eq!(object["uneven"], true);
    let skew = object["skew"]["bitmaps"].as_f64().unwrap();
    assert!((skew - 4.0027).abs() < 1e-3, "{skew}");

    let image = Image::new(SEED, "-t ext4 -g 32744", None);
    let object = layout(&image.path, &R0X12);
    assert_eq!(
        members(&object, &BITMAPS),
        [1570, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1632, 1600, 1600]
    );
    assert_eq!(object["uneven"], false);
}

/// An image, an e2image of it, and the output of dumpe2fs give the same figures.
#[test]
fn kinds_of_input_agree() {
    if !available() {
        return;
    }
    for options in [
        "-t ext4",
        "-t ext4 -O meta_bg,^resize_inode",
        "-t ext3",
        "-t ext4 -b 1024 -O ^has_journal",
        "-t ext4 -g 32744 -G 4 -O sparse_super2",
        "-t ext4 -O bigalloc -C 32768",
        "-t ext4 -O ^flex_bg extended:stride=16",
    ] {
        let image = Image::new(20 * GIB, options, None);
        let array = ["--level", "6", "--disks", "5", "--chunk", "64K"];
        let whole = layout(&image.path, &array);
        let path = image.path.to_str().unwrap();

        let small = image.path.with_extension("e2i");
        tool("e2image", &[path, small.to_str().unwrap()]);
        let e2image = layout(&small, &array);

        let text = image.path.with_extension("txt");
        let dump = run(Command::new("dumpe2fs").arg(path).env("LC_ALL", "C"));
        fs::write(&text, &dump.stdout).unwrap();
        let from_file = layout(&text, &array);
        let piped = run_from(
            File::open(&text).unwrap().into(),
            Command::new(EXE).args([&["layout", "-", "--json"], &array[..]].concat()),
        );
        let piped: Value = serde_json::from_str(&piped.stdout).unwrap();
        // Without groups, the layout of mke2fs.
        let end = dump.stdout.as_bytes().windows(8).position(|w| w == b"Group 0:").unwrap();
        fs::write(&text, &dump.stdout[..end]).unwrap();
        let header = layout(&text, &array);
        assert!(header["notes"][0].as_str().unwrap().contains("dumpe2fs -h"));
        for other in [&e2image, &from_file, &piped, &header] {
            for name in [
                "block_bitmap",
                "inode_bitmap",
                "inode_table",
                "group_descriptors",
                "superblock",
                "inode_table_heads",
            ] {
                let of = |object| members(object, &[name]);
                assert_eq!(of(other), of(&whole), "{options}: {name}");
            }
        }
    }
}

#[test]
fn check_sets_the_exit_status() {
    if !available() {
        return;
    }
    let image = Image::new(SEED, "-t ext4", None);
    let path = image.path.to_str().unwrap();
    let check = |disks: &str, max: &str| {
        let args = ["layout", path, "--level", "0", "--check", "--max-skew", max, "--disks", disks];
        raidtrace(&args)
    };
    let bad = check("12", "1.5");
    assert_eq!(bad.code(), Some(3), "{bad:?}");
    assert!(bad.stderr.contains("above --max-skew 1.5"), "{bad:?}");
    assert_eq!(check("12", "6").code(), Some(0));
    // The load on 13 disks is even with chunks of 512 KiB, except for the 4 chunks of an inode
    // table of this size.
    assert_eq!(check("13", "1.2").code(), Some(0));
}

/// The same figures as from an image.
#[test]
fn figures_of_a_plan() {
    let plan = |args: &[&str]| {
        let words = [&["layout", "--plan", "1257492480K", "--json"], &R0X12[..], args].concat();
        json(&raidtrace(&words))
    };
    let defaults = plan(&[]);
    assert_eq!(members(&defaults, &BITMAPS), [6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0]);
    let advice = defaults["advice"].as_str().unwrap();
    assert!(advice.contains("mkfs.ext4 -g 32744"), "{advice}");
    let odd = plan(&["-g", "32744", "--grow-to", "13"]);
    assert_eq!(
        members(&odd, &BITMAPS),
        [1570, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1600, 1632, 1600, 1600]
    );
    assert_eq!(odd["grown"]["disks"], 13);
    assert!(odd["grown"]["skew"]["worst"].as_f64().unwrap() < 1.1);
    // A group of -g 32640 has 255 chunks, so a flex group of 16 is a multiple of 12 chunks.
    let worse = plan(&["-g", "32640"]);
    assert!(worse["skew"]["bitmaps"].as_f64().unwrap() > 11.9);
}

#[test]
fn search() {
    let search =
        |args: &[&str]| raidtrace(&[&["layout", "--plan", "200G", "--search"], args].concat());
    let found = json(&search(&[&R0X12[..], &["--json", "--grow-to", "16"]].concat()));
    assert_eq!(found["schema"], "raidtrace.layout-search/1");
    assert_eq!(found["command"], "mkfs.ext4 -g 32744 DEVICE");
    let candidates = found["candidates"].as_array().unwrap();
    assert!(candidates[0]["recommended"].as_bool().unwrap());
    assert!(candidates[0]["skew_grown"]["worst"].as_f64().unwrap() < 1.3);
    let base = candidates.iter().find(|c| c["base"] == true).unwrap();
    assert!(base["skew"]["bitmaps"].as_f64().unwrap() > 3.5, "{base}");
    assert_eq!(search(&[&R0X12[..], &["--check"]].concat()).code(), Some(0));
    fails(&search(&["--level", "1", "--disks", "2"]), &["--search", "raid1"]);
    fails(&search(&[&R0X12[..], &["--grow-to", "12"]].concat()), &["--grow-to 12"]);
    fails(&search(&[&R0X12[..], &["-g", "1000", "-G", "3"]].concat()), &["-G 3"]);
}

#[test]
fn invalid_plans() {
    let plan = |size: &str, args: &[&str]| {
        raidtrace(&[&["layout", "--plan", size], &R0X12[..], args].concat())
    };
    for (size, args, says) in [
        ("1K", &[][..], "less than one block"),
        ("0", &[], "less than one block"),
        ("8E", &[], "groups"),
        ("1T", &["-g", "32743"], "-g 32743"),
        ("1T", &["-g", "40000"], "-g 40000"),
        ("1T", &["-b", "3000"], "-b 3000"),
        ("1T", &["-O", "nonsense"], "nonsense"),
        ("1T", &["-O", "meta_bg"], "resize_inode"),
        ("1T", &["-E", "resize=1G"], "resize=1G"),
        ("1T", &["-E", "bogus"], "bogus"),
        ("1T", &["-C", "64K"], "-O bigalloc"),
        ("1T", &["-I", "100"], "-I 100"),
        ("1T", &["-N", "5000000000"], "-N 5000000000"),
        ("1T", &["-J", "size=1"], "size=1"),
        ("20T", &["-O", "^64bit"], "64bit"),
        ("1T", &["-b", "65536", "--chunk", "4K"], "--chunk"),
    ] {
        fails(&plan(size, args), &[says]);
    }
    for usage in [
        &["--plan", "1T", "image"][..],
        &["image", "-g", "32744"],
        &["--plan", "12"],
        &["--plan", "1T", "--search", "--all"],
    ] {
        let out = raidtrace(&[&["layout"], usage].concat());
        assert_eq!(out.code(), Some(2), "{usage:?} {out:?}");
    }
}

#[test]
fn svg() {
    if !available() {
        return;
    }
    let image = Image::new(2 * GIB, "-t ext4", None);
    let svg = image.path.with_extension("svg");
    let path = image.path.to_str().unwrap();
    let out = raidtrace(&[
        "layout",
        path,
        "--level",
        "0",
        "--disks",
        "3",
        "--svg",
        svg.to_str().unwrap(),
    ]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let picture = fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(picture.matches("stroke-dasharray").count(), 2);
    fails(
        &raidtrace(&["layout", path, "--svg", "/no/such/dir/x.svg"]),
        &["x.svg", "cannot be created in /no/such/dir"],
    );
}

/// Errors name the invalid field or option.
#[test]
fn invalid_input() {
    if !available() {
        return;
    }
    let image = Image::new(64 * MIB, "-t ext4 -b 4096", None);
    let path = image.path.to_str().unwrap();
    let with = |args: &[&str]| raidtrace(&[&["layout", path], args].concat());
    fails(&with(&["--level", "0", "--disks", "0"]), &["--disks"]);
    fails(&with(&["--level", "0"]), &["--disks is missing"]);
    fails(&with(&["--disks", "3"]), &["--level is missing"]);
    fails(
        &with(&["--level", "0", "--disks", "3", "--chunk", "2K"]),
        &["--chunk", "not a multiple of the filesystem's block"],
    );
    fails(
        &with(&["--level", "5", "--disks", "3", "--chunk", "512KB"]),
        &["--chunk", "power of two"],
    );
    fails(&with(&["--level", "10", "--disks", "3", "--layout", "x2"]), &["--layout x2"]);
    for usage in [
        &["--level", "7", "--disks", "3"][..],
        &["--level", "0", "--disks", "3", "--chunk", "524288"],
        &["--level", "0", "--disks", "-3"],
        &["--max-skew", "2"],
        &["--check", "--max-skew", "0"],
        &["--check", "--max-skew", "NaN"],
    ] {
        assert_eq!(with(usage).code(), Some(2), "{usage:?}");
    }
    assert_eq!(raidtrace(&["layout"]).code(), Some(2));

    let cut = image.path.with_extension("cut");
    fs::copy(&image.path, &cut).unwrap();
    File::options().write(true).open(&cut).unwrap().set_len(32 * MIB).unwrap();
    let of = |path: &Path| raidtrace(&["layout", path.to_str().unwrap()]);
    fails(&of(&cut), &["s_blocks_count", "truncated"]);
    fs::write(&cut, b"nothing").unwrap();
    fails(&of(&cut), &["s_magic"]);
    fs::write(&cut, b"").unwrap();
    fails(&of(&cut), &["s_magic"]);
    // e2image makes version 2, QEMU version 3.
    for (version, command) in [(2, "e2image -r FILE RAW"), (3, "qemu-img convert -O raw FILE RAW")]
    {
        fs::write(&cut, [b"QFI\xfb\0\0\0", &[version][..], &[0; 4096][..]].concat()).unwrap();
        fails(&of(&cut), &[command]);
    }
    fs::write(&cut, [b"\0\0\0\0Ext2 Image 1.0\0", &[0; 100][..]].concat()).unwrap();
    fails(&of(&cut), &["e2image"]);
    fails(&of(Path::new("/no/such/image")), &["no such device"]);
    fails(&of(cut.parent().unwrap()), &["neither a block device nor a mount point"]);
    let none = run(Command::new(EXE).args(["layout", "-"]));
    fails(&none, &["standard input", "Block size"]);
}

/// A disk without md, named by name and by path.
#[test]
fn device() {
    if !available() || !root() {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    for name in [disk.name.as_str(), &format!("/dev/{}", disk.name)] {
        let object = json(&raidtrace(&["layout", name, "--json"]));
        assert_eq!(object["level"], "single");
        assert_eq!(object["array"], disk.name.as_str());
        assert_eq!(object["disks"], 1);
        assert_eq!(object["skew"]["worst"], 1.0);
    }
    let twelve = json(&raidtrace(&[&["layout", &disk.name, "--json"], &R0X12[..]].concat()));
    assert_eq!(twelve["members"].as_array().unwrap().len(), 12);
}

#[test]
fn invalid_loads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.rtrace");
    let name = path.to_str().unwrap();
    fails(&raidtrace(&["layout", "--load", name]), &[name, "No such file"]);
    fs::write(&path, "not a recording").unwrap();
    fails(
        &raidtrace(&["layout", "--load", name, "-g", "32744"]),
        &[name, "not a raidtrace recording"],
    );
    for with in [&["--plan", "1T"][..], &["--all"], &["--check"], &["--grow-to", "9"]] {
        let out = raidtrace(&[&["layout", "--load", name], with].concat());
        assert_eq!(out.code(), Some(2), "{out:?}");
        assert!(out.stderr.contains("cannot be used with"), "{out:?}");
    }
}

/// Sparse images whose superblocks describe 2^24 and more groups: refused before they take memory.
#[test]
fn absurd_superblocks_are_refused() {
    let dir = common::memory();
    let path = dir.path().join("image");
    // Groups of 8 blocks of 4 KiB, without sparse_super.
    let image = |groups: u32, incompat: u32, desc_size: u16| {
        let mut sb = vec![0; 1024];
        let blocks = u64::from(groups) * 8;
        for (at, value) in [
            (0x00, groups.wrapping_mul(8)), // s_inodes_count
            (0x04, blocks as u32),          // s_blocks_count_lo
            (0x18, 2),                      // s_log_block_size
            (0x1c, 2),                      // s_log_cluster_size
            (0x20, 8),                      // s_blocks_per_group
            (0x24, 8),                      // s_clusters_per_group
            (0x28, 8),                      // s_inodes_per_group
            (0x4c, 1),                      // s_rev_level
            (0x60, incompat),
            (0x150, (blocks >> 32) as u32), // s_blocks_count_hi
        ] {
            sb[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        sb[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        sb[0x58..0x5a].copy_from_slice(&512_u16.to_le_bytes());
        sb[0xfe..0x100].copy_from_slice(&desc_size.to_le_bytes());
        fs::write(&path, [&[0; 1024][..], &sb].concat()).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(blocks * 4096).unwrap();
        // Memory is limited to 1 GiB.
        let limited = "ulimit -v 1048576 && exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", EXE, "layout"]).arg(&path);
        run(&mut command)
    };
    let (bit64, meta_bg) = (0x80, 0x10);
    fails(&image(1 << 28, bit64, 64), &["s_blocks_per_group is 8, but a copy"]);
    fails(&image(1 << 28, bit64 | meta_bg, 64), &["s_blocks_count", "16384 MiB"]);
    fails(&image(1 << 22, bit64 | meta_bg, 1024), &["s_blocks_count", "4096 MiB"]);
    fails(&image(1 << 24, bit64 | meta_bg, 64), &["in more pieces than raidtrace reads"]);
}
