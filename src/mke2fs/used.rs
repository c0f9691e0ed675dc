//! Blocks in use, as runs, and the searches of libext2fs over them (lib/ext2fs/alloc.c).

use std::collections::BTreeMap;

/// Blocks in use in a filesystem.
pub struct Used {
    /// First block of each run and the first block after it. Runs are not adjacent.
    runs: BTreeMap<u64, u64>,
    /// First block that can be allocated.
    first: u64,
    /// Blocks of the filesystem.
    blocks: u64,
    /// Blocks per cluster, once blocks are allocated by clusters.
    cluster: u64,
}

impl Used {
    /// Creates a map with no block in use. `first` is `s_first_data_block`.
    pub fn new(first: u64, blocks: u64) -> Self {
        Self { runs: BTreeMap::new(), first, blocks, cluster: 1 }
    }

    /// Switches to clusters (`ext2fs_convert_subcluster_bitmap`): a cluster with a used block is in
    /// use.
    pub fn by_clusters(&mut self, cluster: u64) {
        if cluster > 1 {
            self.cluster = cluster;
            for (first, end) in std::mem::take(&mut self.runs) {
                self.take(first, end - first);
            }
        }
    }

    /// Marks blocks as used, whether they are free or not.
    pub fn take(&mut self, first: u64, count: u64) {
        if count == 0 {
            return;
        }
        let mut end = (first + count).next_multiple_of(self.cluster);
        let mut first = first / self.cluster * self.cluster;
        if let Some((&at, &run_end)) = self.runs.range(..=first).next_back()
            && run_end >= first
        {
            first = at;
            end = end.max(run_end);
        }
        while let Some((&at, &run_end)) = self.runs.range(first..=end).next() {
            self.runs.remove(&at);
            end = end.max(run_end);
        }
        self.runs.insert(first, end);
    }

    /// The run that contains `block`, or the next one.
    fn run_from(&self, block: u64) -> Option<(u64, u64)> {
        if let Some((&at, &run_end)) = self.runs.range(..=block).next_back()
            && run_end > block
        {
            return Some((at, run_end));
        }
        self.runs.range(block..).next().map(|(&at, &run_end)| (at, run_end))
    }

    /// True if `count` blocks from `first` are free.
    pub fn is_free(&self, first: u64, count: u64) -> bool {
        self.run_from(first).is_none_or(|(at, _)| at >= first + count)
    }

    /// Number of used blocks from `first` up to `end`.
    pub fn count(&self, first: u64, end: u64) -> u64 {
        let mut sum = 0;
        let mut at = first;
        while let Some((from, run_end)) = self.run_from(at).filter(|r| r.0 < end) {
            sum += run_end.min(end) - from.max(at);
            at = run_end;
        }
        sum
    }

    /// First block and length of the first free run from `block` on.
    pub fn free_run(&self, mut block: u64) -> Option<(u64, u64)> {
        block = block.max(self.first);
        while block < self.blocks {
            match self.run_from(block) {
                Some((at, run_end)) if at <= block => block = run_end,
                Some((at, _)) => return Some((block, at.min(self.blocks) - block)),
                None => return Some((block, self.blocks - block)),
            }
        }
        None
    }

    /// The first free block from `goal` on, or else from the start (`ext2fs_new_block2`).
    pub fn new_block(&self, goal: u64) -> Option<u64> {
        let goal = if goal == 0 || goal >= self.blocks { self.first } else { goal };
        let goal = goal / self.cluster * self.cluster;
        self.free_run(goal).or_else(|| self.free_run(self.first)).map(|(block, _)| block)
    }

    /// Marks the block of [`Used::new_block`] as used and returns it.
    pub fn take_new(&mut self, goal: u64) -> Option<u64> {
        let block = self.new_block(goal)?;
        self.take(block, 1);
        Some(block)
    }

    /// First of `count` contiguous free blocks, from `start` up to `finish` (exclusive). If
    /// `finish` is not after `start`, the search wraps at the end (`ext2fs_get_free_blocks2`).
    pub fn find(&self, start: u64, finish: u64, count: u64) -> Option<u64> {
        let count = count.max(1);
        let mut at = if start == 0 { self.first } else { start };
        let finish = if finish == 0 { start } else { finish };
        let mut wrapped = false;
        loop {
            if at + count > self.blocks {
                if finish > start || wrapped {
                    return None;
                }
                wrapped = true;
                at = self.first;
                continue;
            }
            let next = match self.run_from(at) {
                Some((from, run_end)) if from < at + count => run_end,
                _ => return Some(at),
            };
            // All blocks up to `next` are in use; the search of libext2fs would have ended at
            // `finish`.
            if at < finish && next >= finish {
                return None;
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Used;
    use proptest::prelude::*;

    const BLOCKS: u64 = 200;

    /// Reference implementation of the search, block by block.
    fn slowly(taken: &[bool], start: u64, finish: u64, count: u64, first: u64) -> Option<u64> {
        let free = |at: u64| (at..at + count).all(|b| !taken[b as usize]);
        let mut at = if start == 0 { first } else { start };
        let finish = if finish == 0 { start } else { finish };
        for _ in 0..3 * BLOCKS {
            if at + count > BLOCKS {
                if finish > start {
                    return None;
                }
                at = first;
            }
            if free(at) {
                return Some(at);
            }
            at += 1;
            if at == finish {
                return None;
            }
        }
        None
    }

    proptest! {
        #[test]
        fn searches_match_those_of_a_bitmap(
            runs in prop::collection::vec((0..BLOCKS, 1u64..20), 0..20),
            start in 0..BLOCKS,
            finish in 0..BLOCKS,
            count in 1u64..12,
            first in 0u64..2,
        ) {
            let mut used = Used::new(first, BLOCKS);
            let mut taken = [false; BLOCKS as usize];
            for (at, n) in runs {
                let n = n.min(BLOCKS - at);
                used.take(at, n);
                taken[at as usize..(at + n) as usize].fill(true);
            }
            let sum = taken[start as usize..].iter().filter(|t| **t).count() as u64;
            prop_assert_eq!(used.count(start, BLOCKS), sum);
            let begin = start.max(first);
            let free = (begin..BLOCKS).find(|&b| !taken[b as usize]);
            prop_assert_eq!(used.free_run(start).map(|r| r.0), free);
            if start + count <= BLOCKS {
                let all = taken[start as usize..(start + count) as usize].iter().all(|t| !t);
                prop_assert_eq!(used.is_free(start, count), all);
            }
            let found = used.find(start, finish, count);
            prop_assert_eq!(found, slowly(&taken, start, finish, count, first));
        }
    }

    #[test]
    fn whole_clusters_are_used() {
        let mut used = Used::new(0, 64);
        used.take(31, 2);
        used.by_clusters(16);
        assert_eq!(used.free_run(0), Some((0, 16)));
        assert_eq!(used.free_run(16), Some((48, 16)));
        used.take(0, 1);
        assert_eq!(used.free_run(0), Some((48, 16)));
        assert_eq!(used.new_block(60), Some(48));
    }
}
