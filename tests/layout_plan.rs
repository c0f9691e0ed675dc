//! Compares the layout computed by `layout --plan` with images created by mke2fs, for a grid of
//! sizes and options.

#![allow(clippy::unwrap_used)]

mod e2fs;

use clap::Parser;
use e2fs::{Image, available};
use raidtrace::fs::ext4::Ext4Layout;
use raidtrace::mke2fs::{Conf, Options, plan};
use raidtrace::origin::Origin;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Parses options from words.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

fn options(words: &str) -> Options {
    // Images take -E as `extended:`.
    let words = words.replace("extended:", "-E ");
    let words = std::iter::once("mke2fs").chain(words.split_whitespace());
    CommandLine::try_parse_from(words).unwrap().options
}

/// Compares the superblock and all ranges, and reports the first difference.
fn compare(bytes: u64, words: &str, dir: Option<&str>) {
    // The default of mke2fs is ext2.
    let with_type =
        if words.contains("-t ") { words.to_owned() } else { format!("-t ext4 {words}") };
    let words = with_type.as_str();
    let image = Image::new(bytes, words, dir);
    let want = Ext4Layout::read(&image.open()).unwrap();
    drop(image);
    let got = plan(bytes, 0, &options(words), &Conf::from_machine())
        .unwrap_or_else(|e| panic!("{bytes} {words}: {e}"));
    let sb = |layout: &Ext4Layout| {
        let sb = layout.superblock.as_ref().unwrap();
        let groups = (sb.groups, sb.blocks_per_group, sb.groups_per_flex());
        let tables = (sb.inodes_per_group, sb.inode_table_blocks(), sb.desc_size);
        (sb.blocks_count, groups, tables, sb.reserved_gdt_blocks, sb.backup_bgs)
    };
    assert_eq!(sb(&got), sb(&want), "{bytes} {words}");
    for origin in Origin::ALL {
        let of = |layout: &Ext4Layout| -> Vec<(u64, u64)> {
            let own = layout.ranges.iter().filter(|r| r.origin == origin);
            own.map(|r| (r.first.0, r.count)).collect()
        };
        let (got, want) = (of(&got), of(&want));
        let first = got.iter().zip(&want).find(|(g, w)| g != w);
        assert!(
            got == want,
            "{bytes} {words}: {origin}: {} ranges, not {}; first that differs: {first:?}; last: \
             {:?}, not {:?}",
            got.len(),
            want.len(),
            got.last(),
            want.last(),
        );
    }
}

/// A tmpfs, if there is one: it needs no disk space, and supports files larger than 16 TiB.
fn memory() -> Option<&'static str> {
    std::path::Path::new("/dev/shm").is_dir().then_some("/dev/shm")
}

fn grid(cases: &[(u64, &str)]) {
    if !available() {
        return;
    }
    for &(bytes, words) in cases {
        compare(bytes, words, memory());
    }
}

#[test]
fn sizes() {
    grid(&[
        (2 * MIB, ""),
        (5 * MIB + 3000, ""),
        (100 * MIB, ""),
        (511 * MIB, ""),
        (512 * MIB, ""),
        (GIB, ""),
        (3 * GIB + 12_345_678, ""),
        (20 * GIB, ""),
        (100 * GIB - 4096, ""),
        (128 * GIB, ""),
        (1_257_492_480 << 10, ""),
        (2 * TIB, ""),
        (4 * TIB - 4096, ""),
        (4 * TIB, ""),
    ]);
}

#[test]
fn block_sizes_and_inodes() {
    grid(&[
        (GIB, "-b 1024"),
        (20 * GIB, "-b 1024"),
        (64 * MIB, "-b 2048"),
        (3 * GIB, "-b 2048"),
        (64 * MIB, "-b 4096"),
        (40 * GIB, "-b 65536"),
        (20 * GIB, "-i 65536"),
        (20 * GIB, "-i 4096"),
        (20 * GIB, "-i 1M"),
        (20 * GIB, "-I 128"),
        (20 * GIB, "-I 512"),
        (2 * GIB, "-N 1000"),
        (20 * GIB, "-N 4000000"),
        (20 * GIB, "-N 20"),
        (200 * GIB, "-T largefile4"),
        (200 * GIB, "-T news"),
        (20 * GIB, "-T small"),
    ]);
}

#[test]
fn groups() {
    grid(&[
        (64 * GIB, "-g 32744"),
        (64 * GIB, "-g 32640"),
        (700 * GIB, "-g 32744 -G 2"),
        (700 * GIB, "-G 4"),
        (64 * GIB, "-G 64"),
        (700 * GIB, "-G 256"),
        (700 * GIB, "-G 1024"),
        (700 * GIB, "-g 32736 -G 128"),
        (64 * GIB, "-g 8192"),
        (2 * GIB, "-g 256"),
        (20 * GIB, "-g 1024 -i 65536"),
        (20 * GIB, "-G 1"),
        (20 * GIB, "-O ^flex_bg"),
        (20 * GIB, "-O ^flex_bg extended:stride=128"),
        (200 * GIB, "-O ^flex_bg extended:stride=16,stripe_width=192"),
        (64 * GIB, "extended:stride=128,stripe_width=1536"),
        (20 * GIB + 2 * 128 * MIB, ""),
        (20 * GIB + 129 * MIB, ""),
        (64 * GIB + 128 * MIB, ""),
    ]);
}

#[test]
fn features() {
    grid(&[
        (64 * GIB, "extended:packed_meta_blocks=1"),
        (700 * GIB, "extended:packed_meta_blocks=1 -g 32744"),
        (64 * GIB, "extended:packed_meta_blocks=1 -O ^flex_bg"),
        (64 * GIB, "extended:resize=100000000"),
        (64 * GIB, "extended:resize=1T"),
        (64 * GIB, "-O meta_bg,^resize_inode"),
        (700 * GIB, "-O meta_bg,^resize_inode -G 32"),
        (GIB, "-b 1024 -O meta_bg,^resize_inode"),
        (64 * GIB, "-O ^64bit"),
        (64 * GIB, "-O ^resize_inode"),
        (64 * GIB, "-O ^sparse_super,^resize_inode"),
        (64 * GIB, "-O sparse_super2"),
        (64 * GIB, "-O sparse_super2,^resize_inode"),
        (64 * GIB, "-O sparse_super2,^resize_inode extended:num_backup_sb=1"),
        (64 * GIB, "-O sparse_super2,^resize_inode extended:num_backup_sb=0"),
        (200 * MIB, "-b 4096 -O sparse_super2,^resize_inode"),
        (64 * GIB, "-O bigalloc -C 65536"),
        (64 * GIB, "-O bigalloc -C 16384"),
        (700 * GIB, "-O bigalloc -C 65536 -g 16384 -G 4"),
        (4 * GIB, "-b 1024 -O bigalloc,^resize_inode -C 16384"),
        (777 * MIB, "-O bigalloc"),
        (64 * GIB, "-O mmp"),
        (64 * GIB, "-O orphan_file"),
        (3 * GIB, "-O orphan_file"),
        (64 * GIB, "-O orphan_file,mmp,bigalloc -C 32768"),
        (64 * GIB, "-O ^metadata_csum,uninit_bg"),
    ]);
}

#[test]
fn journals() {
    grid(&[
        (20 * GIB, "-O ^has_journal"),
        (20 * GIB, "-J size=512"),
        (20 * GIB, "-J size=64,location=1000000"),
        (20 * GIB, "-J size=64,location=0"),
        (20 * GIB, "-J size=64,location=2G"),
        (20 * GIB, "-O fast_commit"),
        (20 * GIB, "-g 2048 -J size=256"),
        (8 * GIB, "-b 1024 -g 1024"),
        (20 * GIB, "-t ext3"),
        (400 * MIB, "-t ext3 -b 1024 -J size=100"),
        (2 * GIB, "-t ext3 -b 1024 -J size=300"),
        (20 * GIB, "-t ext2"),
    ]);
}

#[test]
fn beyond_16_tib() {
    if !available() {
        return;
    }
    let Some(dir) = memory() else {
        eprintln!("skipped: no /dev/shm for images of over 16 TiB");
        return;
    };
    for (bytes, words) in
        [(14 * TIB + 512 * GIB, ""), (17 * TIB, "-g 32744 -G 64"), (28_991_029_248 << 10, "")]
    {
        compare(bytes, words, Some(dir));
    }
}

/// A few random cases with a fixed seed; RAIDTRACE_PLAN_CASES=200 runs that many others.
#[test]
fn random() {
    if !available() {
        return;
    }
    let more = std::env::var("RAIDTRACE_PLAN_CASES").ok();
    let cases: u64 = more.as_ref().map_or(10, |n| n.parse().unwrap());
    let seed = more.map_or(1, |_| std::process::id());
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    for _ in 0..cases {
        let mut bytes = (20 + next(1 << 12)) << (20 + next(5));
        let mut words = String::new();
        let block: u64 = [1024, 2048, 4096, 4096, 4096, 65536][next(6) as usize];
        if block == 1024 {
            bytes = bytes.min(8 * GIB);
        }
        if next(2) == 0 {
            words.push_str(&format!("-b {block} "));
        }
        if next(2) == 0 {
            words.push_str(&format!("-G {} ", 1 << next(9)));
        }
        let small = [1024, 8192, 8184, 7000][next(4) as usize];
        if next(2) == 0 {
            words.push_str(&format!("-g {small} "));
        }
        if next(3) == 0 {
            words.push_str(&format!("-i {} ", 4096 << next(8)));
        }
        let feature = [
            "meta_bg,^resize_inode",
            "^resize_inode",
            "sparse_super2",
            "bigalloc",
            "orphan_file",
            "mmp",
            "^64bit",
        ];
        if next(2) == 0 {
            words.push_str(&format!("-O {} ", feature[next(7) as usize]));
        }
        if next(4) == 0 {
            words.push_str("extended:packed_meta_blocks=1 ");
        }
        eprintln!("{bytes} {words}");
        let image =
            std::panic::catch_unwind(|| Image::new(bytes, &format!("-t ext4 {words}"), memory()));
        match plan(bytes, 0, &options(&words), &Conf::from_machine()) {
            _ if image.is_ok() => compare(bytes, &words, memory()),
            Ok(_) => panic!("{bytes} {words}: mke2fs refuses that"),
            Err(why) => eprintln!("both refuse: {why}"),
        }
    }
}
