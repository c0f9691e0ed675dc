//! Translation between two XFS. No allocation, and arithmetic per block run.
//!
//! XFS puts each new directory into the next allocation group (AG), whatever its parent
//! (`xfs_dialloc`, `m_agirotor`), its files and their data into the same one, near their inodes
//! (`xfs_bmap_adjacent`), and fills a group from its start. So a block keeps its group and its
//! distance from the start of the group, and the headers and roots of a group are its own.
//!
//! If the numbers of groups differ, directories rotate over another number: the n-th part of the
//! contents of today's groups, taken in turns, is the n-th of the planned ones. A header changes
//! with the directories of its group. Those of today's group a are in the same share of the planned
//! groups.

use super::translate::Place;
use crate::fs::xfs::{Geometry, Log};
use crate::origin::Origin;

/// Largest bio, in blocks, of a file that lies among others.
const SMALL: u64 = 16;
/// Part of a group that a larger file fills at once, in blocks.
const LARGE_PART: u64 = 512;

/// An XFS, prepared for look-ups. All addresses and lengths are in blocks.
#[derive(Clone, Debug)]
pub struct Groups {
    blocks: u64,
    /// Blocks of a group.
    size: u64,
    count: u64,
    /// Blocks of headers and roots at the start of each group.
    fixed: u64,
    /// Blocks of 64 inodes.
    chunk: u64,
    /// First block and length; `None` if the log is on another device.
    log: Option<(u64, u64)>,
}

impl Groups {
    /// Prepares a filesystem.
    pub fn new(geometry: &Geometry) -> Self {
        let roots = geometry.roots_at_mkfs();
        let log = match geometry.log {
            Log::Internal { first, blocks } => Some((first.0, u64::from(blocks))),
            Log::External { .. } => None,
        };
        Self {
            blocks: geometry.blocks,
            size: u64::from(geometry.ag_blocks).max(1),
            count: u64::from(geometry.ag_count).max(1),
            fixed: roots.last().map_or(1, |root| u64::from(root.0) + 1),
            chunk: u64::from(64 * geometry.inode_size / geometry.block_size).max(1),
            log: log.filter(|log| log.1 > 0),
        }
    }

    /// Number of allocation groups.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The log in a group: its first block there and its length. Empty at the end of other groups.
    fn log_in(&self, group: u64) -> (u64, u64) {
        match self.log {
            Some((first, blocks)) if first / self.size == group => (first % self.size, blocks),
            _ => (self.size, 0),
        }
    }

    /// Blocks of a group without its log.
    fn room(&self, group: u64) -> u64 {
        let length = self.blocks.saturating_sub(group * self.size);
        length.min(self.size).saturating_sub(self.log_in(group).1)
    }
}

/// Translation from today's XFS to a planned one with blocks, sectors, inodes and btrees of the
/// same kinds.
#[derive(Clone, Copy, Debug)]
pub struct GroupTranslation<'a> {
    today: &'a Groups,
    planned: &'a Groups,
}

impl<'a> GroupTranslation<'a> {
    /// Translates between two filesystems.
    pub fn new(today: &'a Groups, planned: &'a Groups) -> Self {
        Self { today, planned }
    }

    /// True if several of today's headers share a planned one.
    pub fn is_merged(&self) -> bool {
        self.planned.count < self.today.count
    }

    /// Today's group whose header or root `block` is.
    pub fn header(&self, block: u64) -> Option<u64> {
        (block % self.today.size < self.today.fixed).then_some(block / self.today.size)
    }

    /// First planned group that has a share of today's group, and the number of them.
    fn share(&self, group: u64) -> (u64, u64) {
        let (now, then) = (self.today.count, self.planned.count);
        let first = group * then / now;
        let end = (group + 1) * then / now;
        (first.min(then - 1), end.saturating_sub(first).max(1))
    }

    /// Number of planned headers that change when today's header `block` does; 1 for any other
    /// block.
    pub fn copies(&self, block: u64) -> u64 {
        // The first superblock is not one of a group.
        match self.header(block) {
            Some(group) if block > 0 => self.share(group).1,
            _ => 1,
        }
    }

    /// Place of `block`, which holds data of `origin`, in a bio of `length` blocks. `copy` is one
    /// of [`Self::copies`].
    #[inline]
    pub fn place(&self, block: u64, origin: Origin, length: u64, copy: u64) -> Place {
        let (today, planned) = (self.today, self.planned);
        if block >= today.blocks {
            return Place::NONE;
        }
        if let Some((first, blocks)) = today.log
            && (first..first + blocks).contains(&block)
        {
            let offset = block - first;
            return match planned.log {
                // The log is a ring.
                Some((to, size)) => Place {
                    block: Some(to + offset % size),
                    run: (blocks - offset).min(size - offset % size),
                },
                None => Place { block: None, run: blocks - offset },
            };
        }
        let (group, at) = (block / today.size, block % today.size);
        if at < today.fixed {
            let (first, shares) = self.share(group);
            let group = first + copy.min(shares - 1);
            return Place {
                block: Some((group * planned.size + at).min(planned.blocks - 1)),
                run: today.fixed - at,
            };
        }
        // Position in the group without its log.
        let (log, blocks) = today.log_in(group);
        let (position, end) = if at < log { (at, log) } else { (at - blocks, today.size) };
        let (group, position, part) = self.content(group, position, origin, length);
        let room = planned.room(group).max(planned.fixed + 1);
        let position = match position {
            p if p < room => p,
            p => planned.fixed + (p - planned.fixed) % (room - planned.fixed),
        };
        let (log, blocks) = planned.log_in(group);
        let (to, planned_end) = if position < log {
            (position, log.min(room))
        } else {
            (position + blocks, room + blocks)
        };
        Place {
            block: Some((group * planned.size + to).min(planned.blocks - 1)),
            run: part.min(end - at).min(planned_end.saturating_sub(to)).max(1),
        }
    }

    /// Planned group and position there of a position in a group, and the length of the run.
    fn content(&self, group: u64, position: u64, origin: Origin, length: u64) -> (u64, u64, u64) {
        let (now, then) = (self.today.count, self.planned.count);
        if now == then {
            return (group, position, u64::MAX);
        }
        let part = if origin == Origin::FileData && length > SMALL {
            LARGE_PART.next_multiple_of(self.today.chunk)
        } else {
            self.today.chunk
        };
        let turn = position / part * now + group;
        let rest = position % part;
        let position = (turn / then * part + rest).max(self.planned.fixed);
        (turn % then, position, part - rest)
    }
}
