//! Compares plans with real mke2fs runs, counted by independent programs
//! (tests/data/geometry-fixtures.txt): groups, locations and members.

use super::filesystem::FsMetadata;
use super::geometry::ArrayOptions;
use super::spread::Spread;
use super::target::whole;
use crate::address::ArraySector;
use crate::mke2fs::{Conf, Options, plan};
use crate::origin::Origin;
use crate::raid::fixtures::{FIXTURES, list, number};

/// Parses array and mke2fs options from a name like `seed -g 32744 R0x12 512K`.
fn named(name: &str) -> (ArrayOptions, Options) {
    let words: Vec<&str> = name.split_whitespace().collect();
    let shape = words.iter().find_map(|w| w.strip_prefix('R')?.split_once('x'));
    let (level, disks) = shape.expect("level and disks");
    let after = |option| {
        let at = words.iter().position(|w| *w == option)?;
        words.get(at + 1)
    };
    let array = ArrayOptions {
        level: Some(format!("raid{level}").parse().expect("level")),
        disks: Some(disks.parse().expect("disks")),
        chunk: Some(if words.contains(&"64K") { 64 << 10 } else { 512 << 10 }),
        ..ArrayOptions::default()
    };
    let options = Options {
        group: after("-g").map(|n| n.parse().expect("-g")),
        flex: after("-G").map(|n| n.parse().expect("-G")),
        usage: after("-T").map(|t| (*t).to_owned()),
        ..Options::default()
    };
    (array, options)
}

#[test]
fn plans_match_real_mke2fs_runs() {
    for line in FIXTURES.lines() {
        let (name, facts) = line.split_once(": ").expect("name");
        let (array, options) = named(name);
        let bytes = number(facts, "blocks") * 4096;
        let layout = plan(bytes, 512 << 10, &options, &Conf::compiled_in()).expect(name);
        let sb = layout.superblock.clone().expect("planned");
        let found = [
            u64::from(sb.groups),
            sb.blocks_per_group.into(),
            sb.groups_per_flex().into(),
            sb.inodes_per_group.into(),
            sb.inode_table_blocks().into(),
            sb.gdt_blocks().into(),
            sb.reserved_gdt_blocks.into(),
        ];
        let facts_of = ["groups", "bpg", "flex", "ipg", "itb", "gdt", "rsv"];
        assert_eq!(found, facts_of.map(|word| number(facts, word)), "{name}");
        let first = |origin| layout.ranges.iter().find(|r| r.origin == origin).map(|r| r.first.0);
        for (origin, word) in [
            (Origin::BlockBitmap, "bb0"),
            (Origin::InodeBitmap, "ib0"),
            (Origin::InodeTable, "it0"),
        ] {
            assert_eq!(first(origin), Some(number(facts, word)), "{name}: {word}");
        }
        let fs = FsMetadata::new(layout);
        let spread = Spread::new(&fs, &array.geometry().expect(name), &whole(ArraySector(0)));
        let blocks = |origin| -> Vec<u64> {
            spread.members.iter().map(|m| m.sectors_of(origin) / 8).collect()
        };
        let both: Vec<u64> = spread.members.iter().map(|m| m.bitmaps() / 8).collect();
        assert_eq!(blocks(Origin::BlockBitmap), list(facts, "block-bitmaps"), "{name}");
        assert_eq!(blocks(Origin::InodeBitmap), list(facts, "inode-bitmaps"), "{name}");
        assert_eq!(both, list(facts, "both"), "{name}");
    }
    assert_eq!(FIXTURES.lines().count(), 11);
}
