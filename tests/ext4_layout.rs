//! The layout of real filesystems: every range is compared with dumpe2fs and debugfs, on sparse
//! images created with mke2fs.

#![allow(clippy::unwrap_used)]

mod e2fs;

use std::time::Instant;

use e2fs::{Image, Places, available, merged};
use raidtrace::fs::ext4::{Ext4Layout, FsKind, Journal, identify};
use raidtrace::origin::Origin;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

fn places(layout: &Ext4Layout) -> Places {
    let mut places = Places::new();
    for range in &layout.ranges {
        let run = (range.first.0, range.count);
        places.entry(range.origin).or_default().push(run);
    }
    places
}

/// Compares all ranges. Returns the layout for further checks.
fn compare(image: &Image, name: &str) -> Ext4Layout {
    let layout = Ext4Layout::read(&image.open()).unwrap();
    let (got, want) = (places(&layout), image.places());
    for origin in Origin::ALL {
        assert_eq!(got.get(&origin), want.get(&origin), "{name}: {origin}");
    }
    assert_eq!(layout.notes, [""; 0], "{name}");
    layout
}

fn grid(cases: &[(u64, &str)]) {
    if !available() {
        return;
    }
    for &(bytes, options) in cases {
        compare(&Image::new(bytes, options, None), options);
    }
}

#[test]
fn block_sizes() {
    grid(&[
        (8 * MIB, "-t ext4 -b 1024"),
        (GIB, "-t ext4 -b 1024"),
        (64 * MIB, "-t ext4 -b 2048"),
        (64 * MIB, "-t ext4 -b 4096"),
        (20 * GIB, "-t ext4"),
        (8 * GIB, "-t ext4 -b 65536"),
        (2 * TIB, "-t ext4"),
        (GIB, "-t ext4 -b 1024 -I 1024 -N 4096"),
        (10 * GIB, "-t ext4 -I 128"),
    ]);
}

#[test]
fn locations_of_bitmaps() {
    grid(&[
        (20 * GIB, "-t ext4 -O ^flex_bg"),
        (20 * GIB, "-t ext4 -O ^flex_bg extended:stride=128"),
        (20 * GIB, "-t ext4 -G 1"),
        (20 * GIB, "-t ext4 -G 64"),
        (64 * GIB, "-t ext4 -g 32744"),
        (64 * GIB, "-t ext4 extended:packed_meta_blocks=1"),
        (64 * GIB, "-t ext4 -O bigalloc -C 65536"),
        // ^resize_inode, because with 1 KiB blocks, bigalloc and a resize inode, mke2fs 1.47.0 is
        // off by one: the resize inode also owns the block after the reserved GDT blocks of each
        // backup. raidtrace uses the superblock's number of reserved GDT blocks.
        (4 * GIB, "-t ext4 -b 1024 -O bigalloc,^resize_inode -C 16384"),
        (20 * GIB, "-t ext4 -O ^64bit,^metadata_csum,uninit_bg"),
    ]);
}

#[test]
fn locations_of_descriptors_and_backups() {
    grid(&[
        (200 * GIB, "-t ext4 -O meta_bg,^resize_inode"),
        (GIB, "-t ext4 -b 1024 -O meta_bg,^resize_inode"),
        (GIB, "-t ext4 -b 1024 -O meta_bg,^resize_inode,bigalloc -C 8192"),
        (20 * GIB, "-t ext4 -O meta_bg,^resize_inode,^sparse_super,^64bit"),
        (20 * GIB, "-t ext4 -O sparse_super2"),
        (20 * GIB, "-t ext4 -O sparse_super2,^resize_inode"),
        (20 * GIB, "-t ext4 -O sparse_super2,^resize_inode extended:num_backup_sb=1"),
        (20 * GIB, "-t ext4 -O ^sparse_super,^resize_inode"),
        (20 * GIB, "-t ext4 -O ^resize_inode"),
        (20 * GIB, "-t ext4 extended:resize=100000000"),
        (20 * GIB + 5 * MIB, "-t ext4"),
    ]);
}

#[test]
fn ext2_and_ext3() {
    grid(&[
        (8 * MIB, "-t ext2"),
        (20 * GIB, "-t ext2"),
        (20 * GIB, "-t ext2 -r 0"),
        (20 * GIB, "-t ext3"),
        // Large enough for triple indirect blocks: with 1 KiB blocks, double indirect blocks reach
        // 64 MiB.
        (400 * MIB, "-t ext3 -b 1024 -J size=100"),
    ]);
}

#[test]
fn inodes_created_by_mkfs() {
    grid(&[
        (20 * GIB, "-t ext4 -O quota"),
        (20 * GIB, "-t ext4 -O quota,project"),
        (20 * GIB, "-t ext4 -O mmp"),
        (20 * GIB, "-t ext4 -O orphan_file"),
        (20 * GIB, "-t ext4 -J size=512"),
        (20 * GIB, "-t ext4 -J size=64,location=1000000"),
        (20 * GIB, "-t ext4 -O ^has_journal"),
    ]);
}

/// If all free space is single blocks, the journal has one extent per block: an extent tree of
/// depth 2, or a block map without adjacent blocks.
#[test]
fn a_fragmented_journal() {
    if !available() {
        return;
    }
    for (options, runs) in [("-t ext4 -b 1024 -O ^has_journal", 1024), ("-t ext2 -b 1024", 1024)] {
        let image = Image::new(16 * MIB, options, None);
        let script = (1..8192).fold(String::new(), |s, i| s + &format!("setb {}\n", 2 * i));
        image.debugfs_write(&script);
        image.tune2fs(&["-j", "-J", "size=1"]);
        let layout = compare(&image, options);
        assert_eq!(layout.journal, Journal::Internal { blocks: 1024 });
        let count = |origin| layout.ranges.iter().filter(|r| r.origin == origin).count();
        assert!(count(Origin::Journal) >= runs / 2, "{options}: not fragmented");
        assert!(count(Origin::ExtentTree) > 1, "{options}: no tree");
    }
}

/// Directory for images of 16 TiB and more, on tmpfs: files of ext4 cannot be larger than 16 TiB.
fn large_dir() -> Option<&'static str> {
    let found = std::path::Path::new("/dev/shm").is_dir();
    if !found {
        eprintln!("\n*** skipped: no /dev/shm for an image of over 16 TiB ***\n");
    }
    found.then_some("/dev/shm")
}

/// Block numbers of more than 32 bits in extents and in pointers to extent nodes.
#[test]
fn a_journal_beyond_16_tib() {
    let Some(dir) = large_dir().filter(|_| available()) else {
        return;
    };
    let options = "-t ext4 -J size=1024,location=4400000000";
    let image = Image::new(17 * TIB, options, Some(dir));
    let layout = Ext4Layout::read(&image.open()).unwrap();
    assert_eq!(layout.notes, [""; 0]);
    let journal = image.inode("8");
    assert!(journal.data[0].0 >= 4_400_000_000 && journal.maps[0].0 > u64::from(u32::MAX));
    let got = places(&layout);
    assert_eq!(got[&Origin::Journal], merged(journal.data));
    assert_eq!(got[&Origin::ExtentTree], merged(journal.maps));
}

#[test]
fn content_of_a_device() {
    if !available() {
        return;
    }
    for (options, kind) in [
        ("-t ext2", FsKind::Ext2),
        ("-t ext3", FsKind::Ext3),
        ("-t ext4", FsKind::Ext4),
        ("-t ext4 -O ^has_journal", FsKind::Ext4),
        ("-O journal_dev", FsKind::JournalDevice),
    ] {
        let image = Image::new(16 * MIB, options, None);
        assert_eq!(identify(&image.open()).unwrap(), Some(kind), "{options}");
        if kind == FsKind::JournalDevice {
            let message = Ext4Layout::read(&image.open()).unwrap_err().to_string();
            assert!(message.contains("external journal"), "{message}");
        }
    }
}

#[test]
fn superblock_fields_match_the_mkfs_options() {
    if !available() {
        return;
    }
    let options = "-t ext4 -L db -e remount-ro -U 01234567-89ab-cdef-0123-456789abcdef \
                   extended:stride=128,stripe_width=1536";
    let image = Image::new(20 * GIB, options, None);
    image.tune2fs(&["-E", "mount_opts=discard"]);
    let sb = Ext4Layout::read(&image.open()).unwrap().superblock.unwrap();
    assert_eq!(sb.label, "db");
    assert_eq!(sb.uuid.to_string(), "01234567-89ab-cdef-0123-456789abcdef");
    assert_eq!((sb.raid_stride, sb.raid_stripe_width), (128, 1536));
    assert_eq!(sb.errors, raidtrace::fs::ext4::OnError::ReadOnly);
    assert_eq!(sb.mount_opts, "discard");
    assert_eq!(sb.state, 1);
    assert_eq!(sb.checksum, raidtrace::fs::ext4::Checksum::Valid);
    assert!(sb.journal_backup.is_some());
}

/// Counts the bitmaps on each member of a striped array, and compares them with
/// `tests/data/ext4_bitmaps.txt` (filesystems of up to 27 TiB).
#[test]
fn bitmaps_per_member() {
    if !available() {
        return;
    }
    for line in include_str!("data/ext4_bitmaps.txt").lines() {
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split(" | ").collect();
        let number = |i: usize| fields[i].parse::<u64>().unwrap();
        let (kib, chunk_blocks, members) = (number(0), number(2) / 4, number(3));
        let want: Vec<u64> = fields[4].split(' ').map(|n| n.parse().unwrap()).collect();
        let dir = if kib * 1024 >= 16 * TIB {
            let Some(dir) = large_dir() else { continue };
            Some(dir)
        } else {
            None
        };
        let image = Image::new(kib * 1024, fields[1], dir);
        let start = Instant::now();
        let layout = Ext4Layout::read(&image.open()).unwrap();
        eprintln!("{line}: {} ranges in {:?}", layout.ranges.len(), start.elapsed());
        assert_eq!(layout.notes, [""; 0]);
        for origin in [Origin::BlockBitmap, Origin::InodeBitmap] {
            let mut got = vec![0; members as usize];
            for range in layout.ranges.iter().filter(|r| r.origin == origin) {
                for block in range.first.0..range.end().0 {
                    got[(block / chunk_blocks % members) as usize] += 1;
                }
            }
            assert_eq!(got, want, "{line}: {origin}");
        }
    }
}

/// Compares `Ext4Layout::from_mount` on a mounted image with `Ext4Layout::read` of the image,
/// except for information that only inodes and the superblock have. Needs root and a loop device.
#[test]
fn layout_from_a_mount_matches_the_device() {
    if !available() {
        return;
    }
    for (bytes, options) in [
        (8 * MIB, "-t ext4 -b 1024"),
        (200 * MIB, "-t ext4 -b 2048 -O quota"),
        (GIB, "-t ext4 -O ^flex_bg,^resize_inode"),
        (GIB, "-t ext4 -O meta_bg,^resize_inode"),
        (4 * GIB, "-t ext4 -O sparse_super2"),
        (20 * GIB, "-t ext4 -b 1024"),
        (200 * MIB, "-t ext2"),
    ] {
        let image = Image::new(bytes, options, None);
        let Some(mount) = e2fs::Mounted::new(&image) else {
            eprintln!(
                "\n*** skipped: no permission to mount an image, or no loop device: {options} \
                 ***\n"
            );
            continue;
        };
        let dev = rustix::fs::stat(mount.path()).unwrap().st_dev;
        let device = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let got = Ext4Layout::from_mount(mount.path(), device).unwrap();
        let want = Ext4Layout::read(&image.open()).unwrap();
        let only_inodes = [Origin::Journal, Origin::ExtentTree, Origin::OtherMetadata];
        let boot_block = want.block_size == 1024;
        assert_eq!(
            got.ranges.first().map(|range| range.origin),
            boot_block.then_some(Origin::OtherMetadata).or(Some(Origin::Superblock))
        );
        let (got_places, want_places) = (places(&got), places(&want));
        for origin in Origin::ALL.iter().filter(|o| !only_inodes.contains(o)) {
            let (got, want) = (got_places.get(origin), want_places.get(origin));
            assert_eq!(got, want, "{options}: {origin}");
        }
        assert_eq!(
            (got.block_size, got.blocks, got.groups),
            (want.block_size, want.blocks, want.groups),
            "{options}"
        );
        assert_eq!(got.journal, Journal::Unknown, "{options}");
        assert_eq!(got.notes.len(), 1, "{options}: {:?}", got.notes);
    }
}
