//! Ranges of blocks with an origin: collection, sorting, merging, and precedence of claims if a
//! damaged filesystem claims a block twice.

use crate::address::FsBlock;
use crate::origin::Origin;

/// A run of blocks with one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub first: FsBlock,
    /// Number of blocks, never 0.
    pub count: u64,
    /// Content of the blocks.
    pub origin: Origin,
}

impl Range {
    /// First block after the range.
    pub fn end(&self) -> FsBlock {
        self.first + self.count
    }
}

/// Precedence of overlapping claims, strongest first: claims of the superblock, then of group
/// descriptors, then of inodes; extent blocks before the blocks of less reliable inodes.
const PRECEDENCE: [Origin; 8] = [
    Origin::Superblock,
    Origin::GroupDescriptors,
    Origin::BlockBitmap,
    Origin::InodeBitmap,
    Origin::InodeTable,
    Origin::Journal,
    Origin::ExtentTree,
    Origin::OtherMetadata,
];
const RANKS: usize = PRECEDENCE.len();

fn rank(origin: Origin) -> usize {
    PRECEDENCE.iter().position(|&o| o == origin).unwrap_or(RANKS - 1)
}

/// Blocks with more than one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub blocks: u64,
    /// The first such block.
    pub first: FsBlock,
    /// Origin of the claim that took precedence at `first`.
    pub won: Origin,
}

impl Overlap {
    /// The note for [`Ext4Layout::notes`](super::Ext4Layout::notes).
    pub fn note(self) -> String {
        format!(
            "{} blocks are claimed more than once, the first is {} (counted as {}): check it \
             with: e2fsck -n",
            self.blocks, self.first, self.won
        )
    }
}

/// Maximum number of runs in a layout that is read: 48 MiB. A filesystem of 1 PiB made by mke2fs
/// has fewer.
const MAX_RUNS: usize = 1 << 21;

/// Collects ranges in any order. With flex_bg the descriptors of adjacent groups name adjacent
/// blocks, so the collector extends one open run for each origin. Its memory use depends on the
/// number of merged ranges, not on the number of groups.
#[derive(Default)]
pub(crate) struct Collector {
    open: [Option<Range>; RANKS],
    closed: Vec<Range>,
}

impl Collector {
    /// Adds `count` blocks; `origin` must be one of a fixed layout.
    pub fn push(&mut self, first: FsBlock, count: u64, origin: Origin) {
        debug_assert!(PRECEDENCE.contains(&origin));
        if count == 0 {
            return;
        }
        match &mut self.open[rank(origin)] {
            Some(open) if open.end() == first => open.count += count,
            slot => {
                let new = Range { first, count, origin };
                self.closed.extend(slot.replace(new));
            }
        }
    }

    /// True if there are more runs than a filesystem has that was not made to exhaust memory.
    pub fn is_full(&self) -> bool {
        self.closed.len() >= MAX_RUNS
    }

    /// Returns sorted, disjoint, merged ranges.
    pub fn finish(mut self) -> (Vec<Range>, Option<Overlap>) {
        self.closed.extend(self.open.into_iter().flatten());
        let mut raw = self.closed;
        raw.sort_unstable_by_key(|r| (r.first, rank(r.origin)));
        let mut out = Vec::new();
        let mut overlap = None;
        let mut rest = raw.as_slice();
        while let Some(head) = rest.first() {
            let mut end = head.end();
            let mut len = 1;
            while let Some(next) = rest.get(len).filter(|r| r.first < end) {
                end = end.max(next.end());
                len += 1;
            }
            let (cluster, after) = rest.split_at(len);
            if len == 1 {
                append(&mut out, *head);
            } else {
                sweep(cluster, &mut out, &mut overlap);
            }
            rest = after;
        }
        out.shrink_to_fit();
        (out, overlap)
    }
}

/// Appends a range that starts at or after the end of the last one.
fn append(out: &mut Vec<Range>, range: Range) {
    match out.last_mut() {
        Some(last) if last.end() == range.first && last.origin == range.origin => {
            last.count += range.count;
        }
        _ => out.push(range),
    }
}

/// Resolves overlapping ranges: walks all edges and assigns each piece to the strongest claim.
fn sweep(cluster: &[Range], out: &mut Vec<Range>, overlap: &mut Option<Overlap>) {
    let mut edges: Vec<(FsBlock, usize, bool)> = cluster
        .iter()
        .flat_map(|r| {
            let rank = rank(r.origin);
            [(r.first, rank, true), (r.end(), rank, false)]
        })
        .collect();
    edges.sort_unstable();
    let mut claims = [0_usize; RANKS];
    let mut from = FsBlock(0);
    for (at, rank, opens) in edges {
        if let Some(won) = claims.iter().position(|&n| n > 0).filter(|_| at > from) {
            let (count, origin) = (at - from, PRECEDENCE[won]);
            append(out, Range { first: from, count, origin });
            if claims.iter().sum::<usize>() > 1 {
                overlap.get_or_insert(Overlap { blocks: 0, first: from, won: origin }).blocks +=
                    count;
            }
        }
        from = at;
        if opens {
            claims[rank] += 1;
        } else {
            claims[rank] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{Collector, FsBlock, PRECEDENCE, Range, rank};
    use crate::origin::Origin;

    #[test]
    fn neighbours_of_one_origin_merge_across_others() {
        let mut c = Collector::default();
        for group in 0..16 {
            c.push(FsBlock(100 + group), 1, Origin::BlockBitmap);
            c.push(FsBlock(116 + group), 1, Origin::InodeBitmap);
            c.push(FsBlock(132 + 512 * group), 512, Origin::InodeTable);
        }
        assert_eq!(c.closed.len(), 0, "only the open runs are kept");
        let (ranges, overlap) = c.finish();
        assert_eq!(overlap, None);
        let want = [(100, 16), (116, 16), (132, 8192)];
        assert_eq!(ranges.iter().map(|r| (r.first.0, r.count)).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_stronger_claim_cuts_a_weaker_one() {
        let mut c = Collector::default();
        c.push(FsBlock(0), 100, Origin::Journal);
        c.push(FsBlock(40), 10, Origin::Superblock);
        let (ranges, overlap) = c.finish();
        let (first, second, third) = (ranges[0], ranges[1], ranges[2]);
        assert_eq!((first.first, first.count), (FsBlock(0), 40));
        assert_eq!((second.count, second.origin), (10, Origin::Superblock));
        assert_eq!((third.first, third.count), (FsBlock(50), 50));
        let overlap = overlap.unwrap();
        assert_eq!((overlap.blocks, overlap.first), (10, FsBlock(40)));
        assert_eq!(overlap.won, Origin::Superblock);
    }

    proptest! {
        #[test]
        fn ranges_equal_claims_block_by_block(
            claims in prop::collection::vec((0_u64..300, 0_u64..40, 0_usize..8), 0..60),
        ) {
            let mut collector = Collector::default();
            let mut painted: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
            for &(first, count, rank) in &claims {
                collector.push(FsBlock(first), count, PRECEDENCE[rank]);
                for block in first..first + count {
                    painted.entry(block).or_default().push(rank);
                }
            }
            let (ranges, overlap) = collector.finish();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].first);
                prop_assert!(pair[0].end() < pair[1].first || pair[0].origin != pair[1].origin);
            }
            let got: BTreeMap<u64, usize> = ranges
                .iter()
                .flat_map(|r: &Range| (r.first.0..r.end().0).map(|b| (b, rank(r.origin))))
                .collect();
            let want = painted.iter().filter_map(|(&b, r)| Some((b, *r.iter().min()?))).collect();
            prop_assert_eq!(got, want);
            // Blocks of an open run that are claimed again count as claimed twice.
            let twice = painted.values().filter(|r| r.len() > 1).count() as u64;
            prop_assert_eq!(overlap.map_or(0, |o| o.blocks), twice);
            prop_assert_eq!(
                overlap.map(|o| o.first.0),
                painted.iter().find(|(_, r)| r.len() > 1).map(|(&b, _)| b)
            );
        }
    }
}
