//! Compares the mapping with measured histograms (tests/data/geometry-fixtures.txt): the number of
//! block and inode bitmaps that mke2fs placed on each member, counted on a real array or by an
//! independent program.

use crate::address::ArraySector;

use super::{Geometry, Level, Params};

pub const FIXTURES: &str = include_str!("../../tests/data/geometry-fixtures.txt");

/// The number after a word: `blocks 314373120`.
pub fn number(text: &str, word: &str) -> u64 {
    let mut words = text.split_whitespace().skip_while(|w| *w != word).skip(1);
    words.next().and_then(|n| n.parse().ok()).expect(word)
}

/// The list after a word: `both [1, 2]`.
pub fn list(text: &str, word: &str) -> Vec<u64> {
    let (_, rest) = text.split_once(&format!("{word} [")).expect(word);
    let (list, _) = rest.split_once(']').expect(word);
    list.split(", ").map(|n| n.parse().expect(word)).collect()
}

/// Parses `... R5x4 512K ...`; 512K is the default.
fn geometry(name: &str) -> Geometry {
    let words: Vec<&str> = name.split_whitespace().collect();
    let (level, disks) =
        words.iter().find_map(|w| w.strip_prefix('R')?.split_once('x')).expect("level and disks");
    let kib = if words.contains(&"64K") { 64 } else { 512 };
    Geometry::new(&Params {
        level: format!("raid{level}").parse().expect("level"),
        layout: if level == "0" { 0 } else { 2 },
        disks: disks.parse().expect("disks"),
        chunk_sectors: kib * 2,
        member_sectors: vec![1 << 40],
    })
    .expect("a valid array")
}

#[test]
fn ext4_bitmaps_are_on_the_measured_members() {
    for line in FIXTURES.lines() {
        let (name, facts) = line.split_once(": ").expect("name");
        let g = geometry(name);
        let (groups, flex) = (number(facts, "groups"), number(facts, "flex"));
        let mut block_bitmaps = vec![0; g.disks() as usize];
        let mut inode_bitmaps = block_bitmaps.clone();
        let count = |hits: &mut Vec<u64>, block: u64| {
            let copies = g.copies(ArraySector(block * 8));
            assert_eq!(copies.len(), 1);
            hits[copies[0].0 as usize] += 1;
        };
        for group in 0..groups {
            let (first, i) = (group - group % flex, group % flex);
            let start = match first {
                0 => number(facts, "bb0"),
                _ => first * number(facts, "bpg"),
            };
            // In a partial last flex group, mke2fs puts the inode bitmaps directly after the block
            // bitmaps of the existing groups, unless the flex group has only one group.
            let width = match groups - first {
                1 => flex,
                left => left.min(flex),
            };
            count(&mut block_bitmaps, start + i);
            count(&mut inode_bitmaps, start + width + i);
        }
        assert_eq!(block_bitmaps, list(facts, "block-bitmaps"), "{name}");
        assert_eq!(inode_bitmaps, list(facts, "inode-bitmaps"), "{name}");
    }
    assert_eq!(FIXTURES.lines().count(), 11);
}

/// For md's default layout the member of a data chunk is its number modulo the disks.
#[test]
fn left_symmetric_raid5_is_modulo_disks() {
    for disks in 2..=24 {
        let g = Geometry::new(&Params {
            level: Level::Raid5,
            layout: 2,
            disks,
            chunk_sectors: 1024,
            member_sectors: vec![1 << 40],
        })
        .expect("a valid array");
        for chunk in (0..1000).chain(1 << 28..(1 << 28) + 100) {
            let member = g.copies(ArraySector(chunk * 1024))[0].0;
            assert_eq!(u64::from(member), chunk % u64::from(disks));
        }
    }
}
