//! Makes the cost of a lookup in a boundary table independent of the size of the filesystem. A
//! boundary table lists the sectors at which the origin of the data changes (see `boundaries`).
//!
//! mke2fs gives all flex groups the same layout, so the table of a filesystem of 100 TiB repeats
//! itself fifty thousand times. It is divided into tiles of equal size, and equal tiles share one
//! list of boundaries. A BPF program then reads one number per lookup: the index of the list of its
//! tile. These numbers take 200 KiB, instead of 1.6 MiB for the whole table, and fit into the CPU's
//! caches. Pure.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::boundaries::{Boundary, block_sectors};
use crate::address::ArraySector;
use crate::contract::{self, BOUNDARY_SHIFT};
use crate::origin::Origin;

/// Added to every sector in a tile's list, so that a boundary before the tile, at the start of a
/// block that reaches into the tile, is not negative. The maximum number of sectors per block.
pub const SECTOR_BIAS: u64 = contract::TILE_SECTOR_BIAS as u64;
/// Number of words before the boundaries of a list.
const HEAD: usize = contract::LIST_HEAD as usize;
/// Number of parts of a tile. For each part, the list names one boundary, the one with the most
/// sectors there. A lookup first tries the boundary named for its part. 16, as many as mke2fs puts
/// groups into a flex group, so that a part is a group, most of which is one contiguous range of
/// data.
const SLOTS: usize = contract::LIST_SLOTS as usize;
/// Alignment of lists in words, so that most lists are in one cache line.
const ALIGNED: usize = 8;
/// Tiles with more boundaries than this are avoided: a lookup in them is slower, but not wrong.
const MAX_PREFERRED_BOUNDARIES: usize = 48;
/// Maximum number of tiles of an array: 64 MiB of kernel memory.
const MAX_TILES: u64 = 1 << 24;

/// Lists of boundaries, each stored once: the content of the map `rt_boundaries`.
#[derive(Debug, Default)]
pub struct Lists {
    words: Vec<u64>,
    indices: HashMap<Box<[u64]>, u32>,
}

impl Lists {
    /// Index of a list. Adds the list if it is new.
    fn put(&mut self, list: Vec<u64>) -> u32 {
        let next = self.words.len().next_multiple_of(ALIGNED);
        match self.indices.entry(list.into_boxed_slice()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.words.resize(next, 0);
                self.words.extend_from_slice(new.key());
                *new.insert(next as u32)
            }
        }
    }

    /// The content of the map.
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }
}

/// An array's tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Sectors per tile.
    pub sectors: u64,
    /// Number of sectors by which the first tile begins before the array.
    pub lead: u64,
    pub number: u64,
}

impl Tiles {
    /// Tiles for the `table` of an array of `sectors` sectors. Selects the tiles that need the
    /// least memory among those with short lists.
    pub fn new(table: &[Boundary], sectors: u64) -> Self {
        let plain = |tile: u64| Self::of(tile, 0, sectors);
        let whole = sectors.max(1).next_power_of_two();
        // First candidate, for a table that does not repeat: up to 8 boundaries per tile on
        // average; smaller tiles while one has too many.
        let mut tile = (whole / (table.len() as u64 / 8).max(1).next_power_of_two()).max(1);
        let mut best = plain(tile);
        let max_number = (16 * table.len() as u64).min(MAX_TILES);
        while best.cost(table).is_none() && tile > 1 && plain(tile / 2).number <= max_number {
            tile /= 2;
            best = plain(tile);
        }
        for other in [period(table, sectors), Some(plain(whole))] {
            let Some(other) = other.filter(|o| o.number <= MAX_TILES) else {
                continue;
            };
            let (was, now) = (best.cost(table), other.cost(table));
            if now.is_some() && (was.is_none() || now < was) {
                best = other;
            }
        }
        best
    }

    fn of(tile: u64, lead: u64, sectors: u64) -> Self {
        Self { sectors: tile, lead, number: (sectors + lead).div_ceil(tile).max(1) }
    }

    /// Log2 of the sectors of a part of a tile (`rt_array.slot_shift`). The last part may be
    /// smaller or missing.
    pub fn slot_shift(&self) -> u32 {
        let bits = u64::BITS - (self.sectors - 1).leading_zeros();
        bits.saturating_sub(SLOTS.ilog2())
    }

    /// Kernel memory of the tiles in bytes; `None` if a tile has too many boundaries.
    fn cost(&self, table: &[Boundary]) -> Option<u64> {
        let mut lists = Lists::default();
        let mut most = 0;
        self.each(table, |list| {
            most = most.max(list.len());
            lists.put(list);
        });
        (most <= MAX_PREFERRED_BOUNDARIES + HEAD + 1)
            .then(|| self.number * 4 + lists.words.len() as u64 * 8)
    }

    /// Index of each tile's list.
    pub fn list_indices(&self, table: &[Boundary], lists: &mut Lists) -> Vec<u32> {
        let mut indices = Vec::new();
        self.each(table, |list| indices.push(lists.put(list)));
        indices
    }

    fn each(&self, table: &[Boundary], mut take: impl FnMut(Vec<u64>)) {
        let mut at = 0;
        for tile in 0..self.number {
            // The first tile can begin before the array.
            let begin = ArraySector((tile * self.sectors).saturating_sub(self.lead));
            let end = ArraySector((tile + 1) * self.sectors - self.lead);
            while table.get(at + 1).is_some_and(|b| b.sector <= begin) {
                at += 1;
            }
            let inside = |b: &&Boundary| b.sector < end;
            let mut list = Vec::new();
            for boundary in table[at..].iter().take_while(inside) {
                let sector = if boundary.sector < begin {
                    let block = block_sectors(boundary.code);
                    begin.0 - (begin - boundary.sector) % block
                } else {
                    boundary.sector.0
                };
                let in_tile = sector + self.lead + SECTOR_BIAS - tile * self.sectors;
                list.push(word(in_tile, boundary.code));
            }
            list.push(word(self.sectors + SECTOR_BIAS, 0));
            take(listed(&list, self.slot_shift()));
        }
    }
}

/// A boundary (`enum rt_boundary`). `sector` is relative to the tile's first sector, plus
/// [`SECTOR_BIAS`].
fn word(sector: u64, code: u8) -> u64 {
    sector << BOUNDARY_SHIFT | u64::from(code)
}

/// A list (`enum rt_list`) of boundaries. The last boundary is the tile's end.
fn listed(boundaries: &[u64], slot_shift: u32) -> Vec<u64> {
    let sector = |word: u64| word >> BOUNDARY_SHIFT;
    // For each part: the length of its longest run of sectors, and the index of that run.
    let mut first = [(0, 0u8); SLOTS];
    for (number, pair) in boundaries.windows(2).enumerate() {
        // A boundary whose index does not fit into a byte cannot be named here; the programs find
        // it by searching the list.
        let Ok(number) = u8::try_from(number) else {
            break;
        };
        let (begin, end) =
            (sector(pair[0]).max(SECTOR_BIAS) - SECTOR_BIAS, sector(pair[1]) - SECTOR_BIAS);
        for slot in begin >> slot_shift..=(end - 1) >> slot_shift {
            let here = end.min((slot + 1) << slot_shift) - begin.max(slot << slot_shift);
            if let Some(best) = first.get_mut(slot as usize)
                && here > best.0
            {
                *best = (here, number);
            }
        }
    }
    let bytes = first.map(|(_, number)| number);
    let half = |at: usize| (0..8).fold(0, |word, n| word | u64::from(bytes[at + n]) << (8 * n));
    let head: [u64; HEAD] = [boundaries.len() as u64 - 1, half(0), half(8)];
    [&head[..], boundaries].concat()
}

/// Tiles aligned to flex groups (or groups); `None` if the table shows no groups. The tile size is
/// the most frequent distance between the block bitmaps of two groups.
fn period(table: &[Boundary], sectors: u64) -> Option<Tiles> {
    let mut bitmaps =
        table.iter().filter(|b| b.code == Origin::BlockBitmap as u8).map(|b| b.sector);
    let mut distances: HashMap<(u64, u64), u32> = HashMap::new();
    let mut last = bitmaps.next()?;
    for next in bitmaps {
        let distance = next - last;
        *distances.entry((distance, next.0 % distance)).or_default() += 1;
        last = next;
    }
    // Among equally frequent distances the smallest is selected, so that the same table always
    // gives the same tiles.
    let (&(tile, phase), _) =
        distances.iter().max_by_key(|&(&(tile, phase), &n)| (n, u64::MAX - tile, phase))?;
    Some(Tiles::of(tile, (tile - phase) % tile, sectors))
}

#[cfg(test)]
mod tests;
