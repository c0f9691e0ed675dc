//! Compares the layout of real images, and of a mounted filesystem, with what xfs_db reads from
//! them.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use common::{Loop, MIB, installed, memory, root, skipped, tool};
use raidtrace::address::FsBlock;
use raidtrace::fs::SectorRange;
use raidtrace::fs::xfs::{XfsLayout, XfsLog};
use raidtrace::origin::Origin;

/// Fields of a structure, `name = value` in the output of `xfs_db -c print`.
fn fields(image: &Path, structure: &str) -> HashMap<String, u64> {
    let image = image.to_str().unwrap();
    let text = tool("xfs_db", &["-r", "-c", structure, "-c", "print", image]);
    let pairs = text.lines().filter_map(|line| line.split_once(" = "));
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    pairs.filter_map(|(name, value)| Some((name.to_owned(), number(value)?))).collect()
}

/// Makes an image of `size` and compares all of it. options: those of mkfs.xfs.
fn compare(size: &str, options: &str) {
    let dir = memory();
    let image = dir.path().join("image");
    File::create(&image).unwrap();
    tool("truncate", &["-s", size, image.to_str().unwrap()]);
    let mut arguments: Vec<&str> = options.split_whitespace().collect();
    let log = dir.path().join("log");
    let with_log = format!("-llogdev={},size=64m", log.display());
    if options.contains("EXTERNAL") {
        arguments.retain(|a| *a != "EXTERNAL");
        tool("truncate", &["-s", "64m", log.to_str().unwrap()]);
        arguments.push(&with_log);
    }
    arguments.extend(["-q", image.to_str().unwrap()]);
    tool("mkfs.xfs", &arguments);

    let layout = XfsLayout::read(&File::open(&image).unwrap()).unwrap();
    let geometry = &layout.geometry;
    let sb = fields(&image, "sb 0");
    for (name, value) in [
        ("blocksize", u64::from(geometry.block_size)),
        ("sectsize", geometry.sector_size.into()),
        ("inodesize", geometry.inode_size.into()),
        ("dblocks", geometry.blocks),
        ("agblocks", geometry.ag_blocks.into()),
        ("agcount", geometry.ag_count.into()),
        ("unit", geometry.stripe_unit.into()),
        ("width", geometry.stripe_width.into()),
        ("inoalignmt", geometry.inode_align.into()),
        ("versionnum", 0),
    ] {
        match name {
            "versionnum" => assert_eq!(sb[name] & 15, u64::from(geometry.version), "{options}"),
            _ => assert_eq!(sb[name], value, "{options}: {name}"),
        }
    }
    match geometry.log {
        XfsLog::External { blocks } => {
            assert_eq!((sb["logstart"], sb["logblocks"]), (0, blocks.into()));
            assert!(layout.notes[0].contains("logdev="), "{:?}", layout.notes);
        }
        XfsLog::Internal { first, blocks } => {
            assert_eq!(sb["logblocks"], u64::from(blocks), "{options}");
            let convert = format!("convert fsblock {} daddr", sb["logstart"]);
            let daddr = tool("xfs_db", &["-r", "-c", &convert, image.to_str().unwrap()]);
            let sector = daddr.split(['(', ')']).nth(1).unwrap().parse::<u64>().unwrap();
            assert_eq!(first.sector(geometry.block_sectors()).0, sector, "{options}");
            assert!(layout.notes.is_empty(), "{options}: {:?}", layout.notes);
        }
    }
    let mut want = Vec::new();
    for ag in 0..geometry.ag_count {
        let agf = fields(&image, &format!("agf {ag}"));
        let agi = fields(&image, &format!("agi {ag}"));
        let has = geometry.features;
        let roots = [
            (true, agf["bnoroot"], Origin::FreeSpaceBtree),
            (true, agf["cntroot"], Origin::FreeSpaceBtree),
            (has.rmapbt, agf.get("rmaproot").copied().unwrap_or(0), Origin::RmapBtree),
            (has.reflink, agf.get("refcntroot").copied().unwrap_or(0), Origin::RefcountBtree),
            (true, agi["root"], Origin::InodeBtree),
            (has.finobt, agi.get("free_root").copied().unwrap_or(0), Origin::InodeBtree),
        ];
        for (_, block, origin) in roots.into_iter().filter(|r| r.0) {
            let block = FsBlock(u64::from(ag) * u64::from(geometry.ag_blocks) + block);
            want.push((block.sector(geometry.block_sectors()).0, origin));
        }
    }
    want.sort_unstable();
    let places = |ranges: &[SectorRange]| -> Vec<(u64, Origin)> {
        let places = ranges.iter().map(|r| (r.first.0, r.origin));
        places.filter(|r| r.1 != Origin::InodeCluster).collect()
    };
    assert_eq!(places(&layout.roots), want, "{options}");
    // The image is new.
    let planned = XfsLayout::from_geometry(geometry.clone());
    assert_eq!(places(&planned.roots), want, "{options}: after mkfs");
}

#[test]
fn images_of_mkfs_xfs() {
    if !installed("mkfs.xfs") || !installed("xfs_db") {
        return skipped("mkfs.xfs or xfs_db is missing: tools/setup --lab installs them");
    }
    for (size, options) in [
        ("320m", ""),
        ("1g", "-d su=64k,sw=3"),
        ("3g", "-b size=1k -m rmapbt=1"),
        ("3g", "-b size=64k -s size=4k"),
        ("2g", "-s size=4k -m rmapbt=1,reflink=1"),
        ("2g", "-m crc=0,finobt=0"),
        ("2g", "-m crc=0 -b size=512 -i size=256"),
        ("2g", "-m reflink=0,finobt=0 -i size=1024"),
        ("40g", "-d agcount=17 -l agnum=3,size=100m"),
        ("700g", "-d su=512k,sw=6 -l su=32k"),
        ("2g", "EXTERNAL"),
    ] {
        compare(size, options);
    }
}

/// Device number of /proc.
fn proc() -> (u32, u32) {
    let dev = std::fs::metadata("/proc").unwrap().dev();
    (rustix::fs::major(dev), rustix::fs::minor(dev))
}

#[test]
fn a_mounted_filesystem_without_reading_its_device() {
    if !root() || !installed("mkfs.xfs") {
        return skipped("root and mkfs.xfs are required");
    }
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap();
    if !kinds.contains("\txfs") {
        return skipped("this kernel has no XFS");
    }
    let disk = Loop::new(400 * MIB);
    tool("mkfs.xfs", &["-q", &disk.device()]);
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().to_str().unwrap();
    tool("mount", &[&disk.device(), mount]);
    let stat = std::fs::metadata(dir.path()).unwrap();
    let device = (rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
    let asked = XfsLayout::from_mount(dir.path(), device);
    let covered = XfsLayout::from_mount(dir.path(), (device.0, device.1 + 1));
    let read = XfsLayout::read(&File::open(disk.device()).unwrap());
    tool("umount", &[mount]);
    let covered = covered.unwrap_err().to_string();
    assert!(covered.contains("mounted over"), "{covered}");
    let (asked, mut read) = (asked.unwrap(), read.unwrap());
    assert_eq!(asked.ranges, read.ranges);
    read.geometry.inode_align = 0; // XFS_IOC_FSGEOMETRY does not have it
    assert_eq!(asked.geometry, read.geometry);
    let other = XfsLayout::from_mount(Path::new("/proc"), proc()).unwrap_err().to_string();
    assert!(other.contains("not XFS"), "{other}");
}
