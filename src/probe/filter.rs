//! Keeps the filter of learned blocks (`rt_filter` in `bpf/maps.bpf.h`) sparse. The programs only
//! set lanes, also those of blocks that `rt_learned` evicts later, so a filter would fill and then
//! cost a lookup for each block of a request.

use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{io, iter, ptr, slice};

use anyhow::{Context as _, Result};
use libbpf_rs::MapCore;

use crate::contract::{
    FILTER_HASHES, FILTER_LANE, FILTER_LINE, FILTER_LINES, FILTER_WORD, FILTER_WORDS,
};

const WORDS: usize = FILTER_WORDS as usize;
/// Both copies.
const BYTES: usize = 2 * WORDS * size_of::<u64>();
/// The filter is rebuilt when this share of its lanes, 1 / GROWTH, has been set since the last
/// time: at the earliest after half as many blocks as `rt_learned` holds, so a rebuild costs little
/// for each learned block. At most 1 / 14 of the lanes are set then, and 1 / 2,900 of other blocks
/// need a lookup.
const GROWTH: u64 = 42;
/// Share of the words that are counted to estimate the number of lanes: 1 / SAMPLE. Hashing spreads
/// the lanes.
const SAMPLE: usize = 16;
/// Keys per system call.
const BATCH: usize = 4096;

/// The words of `rt_filter`, mapped into memory, because only atomic operations do not lose lanes
/// that the programs set meanwhile.
pub(super) struct Filter {
    words: ptr::NonNull<AtomicU64>,
    /// Lanes of the copy in use after the last rebuild.
    lanes: u64,
}

// SAFETY: the mapping is not bound to a thread, and all accesses are atomic.
unsafe impl Send for Filter {}

impl Filter {
    pub(super) fn new(map: &impl MapCore) -> Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = map.as_fd().as_raw_fd();
        // SAFETY: a new mapping; the result is checked.
        let at = unsafe { libc::mmap(ptr::null_mut(), BYTES, access, libc::MAP_SHARED, fd, 0) };
        let words = (at != libc::MAP_FAILED).then(|| ptr::NonNull::new(at.cast())).flatten();
        let words = words.ok_or_else(io::Error::last_os_error);
        Ok(Self { words: words.context("mapping the map rt_filter")?, lanes: 0 })
    }

    /// Rebuilds the filter if many of its lanes may be obsolete. `current`: the copy in use.
    pub(super) fn maintain(&mut self, learned: &impl MapCore, current: &mut u32) {
        let lanes = lanes(self.copy(*current));
        if is_due(self.lanes, lanes) {
            self.lanes = lanes;
            // After an error, for example because a bucket is locked, the old copy stays in use.
            self.rebuild(learned, current).ok();
        }
    }

    /// Replaces the filter by one that has only the lanes of blocks that are still learned.
    pub(super) fn rebuild(&mut self, learned: &impl MapCore, current: &mut u32) -> io::Result<()> {
        let next = 1 - *current;
        rebuild(self.copy(next), batches(learned.as_fd().as_raw_fd()))?;
        *current = next;
        self.lanes = lanes(self.copy(next));
        Ok(())
    }

    fn copy(&self, copy: u32) -> &[AtomicU64] {
        // SAFETY: the mapping has this size and lives as long as `self`.
        let words = unsafe { slice::from_raw_parts(self.words.as_ptr(), 2 * WORDS) };
        &words[copy as usize * WORDS..][..WORDS]
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

fn is_due(before: u64, now: u64) -> bool {
    now.saturating_sub(before) > (WORDS * 32) as u64 / GROWTH
}

/// Estimated number of lanes that are set.
fn lanes(copy: &[AtomicU64]) -> u64 {
    let set = |word: &AtomicU64| {
        let word = word.load(Relaxed);
        u64::from(((word | (word >> 1)) & (u64::MAX / 3)).count_ones())
    };
    copy[..WORDS / SAMPLE].iter().map(set).sum::<u64>() * SAMPLE as u64
}

/// Clears a copy that is not in use, and sets the lanes of `keys`. A lane that a program sets
/// meanwhile is not lost: a program first adds the key to `rt_learned`. If it sets the lane before
/// the copy is cleared, `keys`, read afterwards, have the key.
fn rebuild(
    copy: &[AtomicU64],
    batches: impl Iterator<Item = io::Result<Vec<u64>>>,
) -> io::Result<()> {
    for word in copy {
        word.store(0, Relaxed);
    }
    for keys in batches {
        for key in keys? {
            for which in 0..FILTER_HASHES {
                copy[word(key, which)].fetch_or(1 << (((key >> FILTER_LANE) & 31) * 2), Relaxed);
            }
        }
    }
    Ok(())
}

/// All keys of a hash. Not by libbpf-rs, whose iterator ends at an error as it does at the end.
fn batches(map: RawFd) -> impl Iterator<Item = io::Result<Vec<u64>>> {
    let (mut keys, mut values) = (vec![0u64; BATCH], vec![0u64; BATCH]);
    let (mut position, mut begun, mut ended) = (0u64, false, false);
    iter::from_fn(move || {
        if ended {
            return None;
        }
        let at: *mut u64 = &mut position;
        let (from, mut count) = (if begun { at } else { ptr::null_mut() }, BATCH as u32);
        // SAFETY: the buffers have room for `count` keys and values, and a position has 32 bits.
        let result = unsafe {
            libbpf_rs::libbpf_sys::bpf_map_lookup_batch(
                map,
                from.cast(),
                at.cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                ptr::null(),
            )
        };
        begun = true;
        ended = result != 0;
        match -result {
            0 | libc::ENOENT => Some(Ok(keys[..count as usize].to_vec())),
            error => Some(Err(io::Error::from_raw_os_error(error))),
        }
    })
}

/// `rt_filter_word()` of `bpf/lookup.bpf.h`.
fn word(key: u64, which: u32) -> usize {
    let hash = (key >> FILTER_LINE).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let both = hash ^ (hash >> 32);
    let line = (both >> (64 - FILTER_LINES * (1 + which))) & ((1 << FILTER_LINES) - 1);
    (line * 8 + ((key >> FILTER_WORD) & 7)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    fn empty() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn has(copy: &[AtomicU64], key: u64) -> bool {
        let shift = ((key >> FILTER_LANE) & 31) * 2;
        (0..FILTER_HASHES).all(|which| copy[word(key, which)].load(Relaxed) >> shift & 3 != 0)
    }

    /// Blocks of 4 KiB, 340 KiB apart, on array 3.
    fn keys() -> impl Iterator<Item = u64> {
        (0..200_000u64).map(|n| (3 << 48) | (n * 680))
    }

    #[test]
    fn a_rebuild_has_the_learned_blocks_and_no_others() {
        let copy = empty();
        rebuild(&copy, iter::once(Ok(vec![3 << 48 | 7_777_776]))).unwrap();
        let batches = keys().collect::<Vec<_>>();
        rebuild(&copy, batches.chunks(1000).map(|keys| Ok(keys.to_vec()))).unwrap();
        assert!(keys().all(|key| has(&copy, key)));
        assert!(!has(&copy, 3 << 48 | 7_777_776));
        // 0.004 % of the blocks between them are found by chance.
        assert!(keys().filter(|key| has(&copy, key + 320)).count() < 50);
        assert!(keys().filter(|key| has(&copy, key + (1 << 48))).count() < 50);
        let set = lanes(&copy);
        assert!((570_000..=600_000).contains(&set), "{set}");
    }

    #[test]
    fn a_lane_that_a_program_sets_during_a_rebuild_is_kept() {
        let copy = empty();
        let shift = ((8000u64 >> FILTER_LANE) & 31) * 2;
        let set = || {
            // The program has added the key after its bucket was read.
            (0..FILTER_HASHES).for_each(|which| {
                copy[word(8000, which)].fetch_add(1 << shift, Relaxed);
            });
            Ok(vec![8000 + 8, 8000])
        };
        rebuild(&copy, iter::once_with(set)).unwrap();
        assert!(has(&copy, 8000) && has(&copy, 8008));
        assert!(!has(&copy, 8016));
    }

    #[test]
    fn an_incomplete_reading_is_an_error() {
        let busy = || Err(io::Error::from_raw_os_error(libc::EBUSY));
        let batches = [Ok(vec![8]), busy(), Ok(vec![16])];
        assert!(rebuild(&empty(), batches.into_iter()).is_err());
    }

    /// A large request looks up few of its blocks in vain when the filter is as full as it gets.
    #[test]
    fn a_full_filter_finds_few_blocks_by_chance() {
        let mut random = 1u64;
        let mut key = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) << FILTER_LANE
        };
        let learned: Vec<u64> = (0..contract::LEARNED_MAX).map(|_| key()).collect();
        let copy = empty();
        rebuild(&copy, iter::once(Ok(learned))).unwrap();
        let before = lanes(&copy);
        while !is_due(before, lanes(&copy)) {
            // Looking at the number of lanes costs more than setting some.
            for key in (0..1000).map(|_| key()) {
                for which in 0..FILTER_HASHES {
                    let shift = ((key >> FILTER_LANE) & 31) * 2;
                    copy[word(key, which)].fetch_or(1 << shift, Relaxed);
                }
            }
        }
        let found = (0..100_000).filter(|_| has(&copy, key())).count();
        assert!(found < 60, "{found}");
    }

    #[test]
    fn a_rebuild_is_due_when_many_lanes_were_set_since_the_last() {
        let lanes = (WORDS * 32) as u64;
        assert!(
            !is_due(0, 0) && !is_due(500_000, 500_000) && !is_due(500_000, 500_000 + lanes / 50)
        );
        assert!(is_due(500_000, 500_000 + lanes / 40) && !is_due(500_000, 0));
    }
}
