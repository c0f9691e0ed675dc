use proptest::prelude::*;

use super::{HEAD, Lists, SECTOR_BIAS, SLOTS, Tiles};
use crate::address::ArraySector;
use crate::origin::Origin;
use crate::probe::boundaries::{Boundary, block_sectors, dynamic};

/// A lookup as in `rt_array_origin()` (`bpf/lookup.bpf.h`). Returns the code, the sectors since the
/// boundary, and the sectors up to the next one.
fn look_up(tiles: &Tiles, indices: &[u32], words: &[u64], sector: u64) -> (u8, u64, u64) {
    let at = sector + tiles.lead;
    let tile = at / tiles.sectors;
    let at = at - tile * tiles.sectors;
    let slot = (at >> tiles.slot_shift()) as usize;
    assert!(slot < SLOTS, "{slot} in {tiles:?}");
    let at = at + SECTOR_BIAS;
    let first = indices[tile as usize] as usize;
    let number = words[first] as usize;
    let list = &words[first + HEAD..=first + HEAD + number];
    let found = halved(number, |found| list[found] >> 8 <= at);
    let tried = (words[first + 1 + slot / 8] >> (slot % 8 * 8)) as u8 as usize;
    assert!(tried < number);
    assert_eq!(found, list[..number].partition_point(|w| w >> 8 <= at) - 1);
    (list[found] as u8, at - (list[found] >> 8), (list[found + 1] >> 8) - at)
}

/// Branch-free binary search as in `rt_search()` (`bpf/lookup.bpf.c`): the last of `number`
/// boundaries for which `begins` holds. It must hold for the first.
fn halved(number: usize, begins: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut left) = (0, number);
    while left > 1 {
        let half = left / 2;
        low += if begins(low + half) { half } else { 0 };
        left -= half;
    }
    low
}

fn look_up_in(tiles: &Tiles, table: &[Boundary], sector: u64) -> (u8, u64, u64) {
    let mut lists = Lists::default();
    let indices = tiles.list_indices(table, &mut lists);
    assert_eq!(indices.len() as u64, tiles.number);
    look_up(tiles, &indices, &lists.into_words(), sector)
}

/// Boundaries of a filesystem that starts at `start`, with flex groups of `group` sectors. Every
/// fifth has a superblock backup.
fn flex_groups(start: u64, group: u64, groups: u64) -> Vec<Boundary> {
    let mut table = vec![Boundary { sector: ArraySector(0), code: Origin::Raw as u8 }];
    for g in 0..groups {
        let first = start + g * group;
        let mut put = |offset: u64, code: u8| {
            let sector = first + offset;
            if sector == 0 {
                table.clear();
            }
            let sector = ArraySector(sector);
            table.push(Boundary { sector, code });
        };
        put(0, Origin::BlockBitmap as u8);
        put(16, Origin::InodeTable as u8);
        put(64, dynamic(8, false));
        if g % 5 == 0 {
            put(group / 2, Origin::Superblock as u8);
            put(group / 2 + 8, dynamic(8, false));
        }
    }
    table
}

#[test]
fn equal_flex_groups_are_stored_once() {
    for (start, group) in [(0, 1 << 22), (2048, 1 << 22), (63, 16 * 32744 * 8)] {
        let table = flex_groups(start, group, 20_000);
        let sectors = start + 20_000 * group;
        let tiles = Tiles::new(&table, sectors);
        assert_eq!(tiles.sectors % group, 0, "{tiles:?}");
        assert!(tiles.number <= 20_001);
        let mut lists = Lists::default();
        tiles.list_indices(&table, &mut lists);
        let words = lists.into_words().len();
        assert!(words < 300, "{words} words for {} boundaries", table.len());
    }
}

#[test]
fn the_first_boundary_tried_is_right_for_99_percent_of_sectors() {
    let group = 16 * 32744 * 8;
    let table = flex_groups(63, group, 100);
    let tiles = Tiles::new(&table, 63 + 100 * group);
    let mut lists = Lists::default();
    let indices = tiles.list_indices(&table, &mut lists);
    let words = lists.into_words();
    let (mut right, mut all) = (0, 0);
    for sector in (0..63 + 100 * group).step_by(10_007) {
        let at = sector + tiles.lead;
        let tile = at / tiles.sectors;
        let at = at - tile * tiles.sectors;
        let slot = (at >> tiles.slot_shift()) as usize;
        let list = indices[tile as usize] as usize;
        let tried = (words[list + 1 + slot / 8] >> (slot % 8 * 8)) as u8 as usize;
        let stretch = &words[list + HEAD + tried..][..2];
        all += 1;
        right +=
            u32::from(stretch[0] >> 8 <= at + SECTOR_BIAS && at + SECTOR_BIAS < stretch[1] >> 8);
    }
    assert!(right * 100 > all * 99, "{right} of {all}");
}

#[test]
fn an_empty_table_is_one_tile() {
    let table = [Boundary { sector: ArraySector(0), code: Origin::Raw as u8 }];
    let tiles = Tiles::new(&table, 1000);
    assert_eq!(tiles.number, 1);
    let (code, distance, run) = look_up_in(&tiles, &table, 999);
    assert_eq!((code, distance), (Origin::Raw as u8, 999));
    assert!(run >= 1);
    assert_eq!(Tiles::new(&table, 0).number, 1);
}

#[test]
fn tiles_with_many_boundaries_are_searched() {
    let table: Vec<_> = (0..1000)
        .map(|i| Boundary { sector: ArraySector(i * 3), code: (i * i % 7) as u8 })
        .collect();
    let tiles = Tiles::new(&table, 1 << 40);
    assert!(tiles.number < 20_000, "{tiles:?}");
    assert_eq!(look_up_in(&tiles, &table, 3 * 700).0, (700 * 700 % 7) as u8);
}

proptest! {
    #[test]
    fn a_lookup_in_tiles_agrees_with_the_table(
        spans in prop::collection::vec((1u64..300, 0u8..8), 1..200),
        tile in 1u64..3000,
        lead in 0u64..3000,
        whole in any::<bool>(),
        probe in any::<prop::sample::Index>(),
    ) {
        let mut sector = 0;
        let mut table = Vec::new();
        for (sectors, kind) in spans {
            // Odd kinds: blocks of 2 to 128 sectors.
            let code = if kind % 2 == 1 { dynamic(1 << kind, kind == 3) } else { kind };
            table.push(Boundary { sector: ArraySector(sector), code });
            sector += sectors;
        }
        let tiles =
            if whole { Tiles::new(&table, sector) } else { Tiles::of(tile, lead % tile, sector) };
        let probe = probe.index(sector as usize) as u64;
        let at = table.partition_point(|b| b.sector.0 <= probe) - 1;
        let (code, distance, run) = look_up_in(&tiles, &table, probe);
        prop_assert_eq!(code, table[at].code);
        let block = block_sectors(code);
        prop_assert_eq!(distance % block, (ArraySector(probe) - table[at].sector) % block);
        let next = table.get(at + 1).map_or(u64::MAX, |b| b.sector.0);
        prop_assert!(run >= 1 && probe + run <= next.max(sector));
        // A run ends at the next boundary of the table or at the end of the tile, not earlier.
        let ends =
            (probe + tiles.lead) / tiles.sectors * tiles.sectors + tiles.sectors - tiles.lead;
        prop_assert_eq!(probe + run, next.min(ends));
    }
}
