//! Allocation groups of XFS. Group `a` starts at `a` times agsize, without padding, with its
//! superblock copy, AGF, AGI, AGFL, and at mkfs the roots of its btrees (xfs_format.h,
//! `XFS_AGF_DADDR` and others; libxfs/xfs_ag.c, `xfs_ag_init_headers`).

use crate::address::FsSector;
use crate::fs::SectorRange;
use crate::fs::xfs::{MIN_AG_BYTES, ag_count};
use crate::origin::Origin;

/// Smallest agsize that mkfs.xfs accepts, in sectors.
pub(super) const MIN_AG_SECTORS: u64 = MIN_AG_BYTES / 512;

/// Allocation groups, all of the same size except for the last, which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationGroups {
    /// Number of groups.
    pub count: u32,
    /// Blocks per group.
    pub blocks: u32,
    /// Sectors per group.
    pub sectors: u64,
    /// Sectors of a group's header, see [`crate::fs::xfs::XfsGeometry::header_sectors`].
    pub header: u64,
    /// Sectors before the first 64 inodes of a group without a log: XFS puts them into the first
    /// free blocks that are aligned to their size (`xfs_ialloc_ag_alloc`; measured on Linux 6.18
    /// for five block, sector and inode sizes).
    pub inodes_at: u64,
    /// Sectors of 64 inodes.
    pub inodes: u64,
}

impl AllocationGroups {
    /// First sector of each group.
    pub fn starts(&self) -> impl Iterator<Item = FsSector> + use<> {
        let Self { count, sectors, .. } = *self;
        (0..u64::from(count)).map(move |group| FsSector(group.saturating_mul(sectors)))
    }

    /// Number of groups of this size in a filesystem of `total` sectors.
    pub fn count_in(&self, total: u64) -> u32 {
        u32::try_from(count(self.sectors, total)).unwrap_or(u32::MAX)
    }

    /// The first 64 inodes of each group: in the group of the log after the log, if the log starts
    /// before them.
    pub fn first_inodes(&self, ranges: &[SectorRange]) -> Vec<SectorRange> {
        let journal = ranges.iter().find(|r| r.origin == Origin::Journal);
        let at = |start: FsSector| {
            let end = journal.map(|j| (j.first, j.first.saturating_add(j.count)));
            let mut first = start.saturating_add(self.inodes_at);
            // The free blocks after the log are as far from its end as those of other groups from
            // their start.
            if let Some((_, end)) =
                end.filter(|&(log, _)| log >= start && log < first.saturating_add(self.inodes))
            {
                first = start.saturating_add((end - start).saturating_add(1));
                first = start.saturating_add((first - start).next_multiple_of(self.inodes.max(1)));
            }
            first
        };
        self.starts()
            .map(|start| SectorRange {
                first: at(start),
                count: self.inodes,
                origin: Origin::InodeCluster,
            })
            .collect()
    }
}

/// Number of groups of a filesystem of `total` sectors.
pub(super) fn count(agsize: u64, total: u64) -> u64 {
    ag_count(total, agsize, MIN_AG_SECTORS)
}
