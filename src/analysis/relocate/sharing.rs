//! Bitmaps that several flex groups share in one of the two filesystems.
//!
//! If a flex group is divided, its directories are in several, and each has its own bitmaps: a
//! write of today's bitmap becomes one for each, as far as there are directories. If flex groups
//! are merged, writes of their bitmaps become one if they belong to the same writeback.

use super::translate::Translation;

/// Writes of a planned block from different blocks of today within this time are one, µs: a
/// writeback of the block device.
const WRITEBACK_US: i64 = 1_000_000;
/// Slots for the latest writes.
const SLOTS: usize = 4096;
/// Maximum number of planned bitmaps that change with one of today's. Real filesystems have at most
/// 64.
const MAX_COPIES: u64 = 256;

/// Directories and recent writes. A fixed size, apart from a counter per flex group.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Directory blocks seen, by flex group of today.
    directories: Vec<u64>,
    /// Planned block, today's block and time of the last write.
    recent: Vec<(u64, u64, i64)>,
}

impl Sharing {
    /// Nothing seen; `flexes` is the number of today's flex groups.
    pub fn new(flexes: u64) -> Self {
        Self {
            directories: vec![0; usize::try_from(flexes).unwrap_or(0)],
            recent: vec![(u64::MAX, 0, 0); SLOTS],
        }
    }

    /// Learns from a directory's block.
    #[inline]
    pub fn learn(&mut self, translation: &Translation<'_>, block: u64) {
        let (flex, position) = translation.directory(block);
        if let Some(seen) = self.directories.get_mut(flex as usize) {
            *seen = (*seen).max(position.saturating_add(1));
        }
    }

    /// Number of planned bitmaps that change when today's bitmap `block` does; 1 for any other
    /// block.
    #[inline]
    pub fn copies(&self, translation: &Translation<'_>, block: u64) -> u64 {
        if translation.divided() == 1 {
            return 1;
        }
        let Some(flex) = translation.bitmap_of(block) else {
            return 1;
        };
        let seen = self.directories.get(flex as usize).copied();
        seen.unwrap_or(1).clamp(1, translation.divided().min(MAX_COPIES))
    }

    /// True if a write of `planned` for today's `block` is part of one that was counted for another
    /// block.
    #[inline]
    pub fn is_shared(&mut self, planned: u64, block: u64, time_us: i64) -> bool {
        let slot = &mut self.recent[planned as usize % SLOTS];
        let (last, from, at) = *slot;
        if last == planned && from != block && time_us.saturating_sub(at) < WRITEBACK_US {
            return true;
        }
        *slot = (planned, block, time_us);
        false
    }
}
