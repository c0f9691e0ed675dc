//! A translation for a filesystem of any kind, with the blocks that change together.

use super::groups::{GroupTranslation, Groups};
use super::sharing::Sharing;
use super::side::Side;
use super::translate::{Place, Translation};
use crate::origin::Origin;

/// A filesystem, prepared for look-ups.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// ext2, ext3 or ext4.
    Blocks(Side),
    /// XFS.
    Allocation(Groups),
}

/// A translation from today's filesystem to a planned one, with the writes that it has seen.
pub enum Relocation<'a> {
    /// ext2, ext3 or ext4.
    Blocks(Translation<'a>, Sharing),
    /// XFS.
    Allocation(GroupTranslation<'a>, Sharing),
}

impl<'a> Relocation<'a> {
    /// Translates between two filesystems of the same kind; `None` if they are not.
    pub fn new(today: &'a Prepared, planned: &'a Prepared) -> Option<Self> {
        match (today, planned) {
            (Prepared::Blocks(today), Prepared::Blocks(planned)) => {
                Some(Self::Blocks(Translation::new(today, planned), Sharing::new(today.flexes())))
            }
            (Prepared::Allocation(today), Prepared::Allocation(planned)) => {
                Some(Self::Allocation(GroupTranslation::new(today, planned), Sharing::new(0)))
            }
            _ => None,
        }
    }

    /// Number of places that change when `block` does.
    #[inline]
    pub fn copies(&mut self, block: u64, origin: Origin, is_write: bool) -> u64 {
        match self {
            Self::Blocks(translation, sharing) => {
                if origin == Origin::Directory {
                    sharing.learn(translation, block);
                }
                if is_write { sharing.copies(translation, block) } else { 1 }
            }
            Self::Allocation(translation, _) if is_write => translation.copies(block),
            Self::Allocation(..) => 1,
        }
    }

    /// Place of `block`, see [`Translation::place`], for one of `copies`.
    #[inline]
    pub fn place(
        &self,
        block: u64,
        origin: Origin,
        length: u64,
        (copy, copies): (u64, u64),
    ) -> Place {
        match self {
            Self::Blocks(translation, _) => {
                // One block has one place, also if its flex group is divided among several.
                let turn = if copies > 1 { copy } else { block };
                translation.place(block, origin, length, turn)
            }
            Self::Allocation(translation, _) => translation.place(block, origin, length, copy),
        }
    }

    /// True if a write to `planned` was counted already, for another block of today's filesystem
    /// that is there, too. The write begins `rest` sectors into `block`.
    #[inline]
    pub fn is_shared(&mut self, planned: u64, block: u64, rest: u64, time_us: i64) -> bool {
        match self {
            Self::Blocks(translation, sharing) => {
                translation.is_merged()
                    && translation.bitmap_of(block).is_some()
                    && sharing.is_shared(planned, block, time_us)
            }
            // Several headers share a block: `rest` distinguishes them.
            Self::Allocation(translation, sharing) => {
                translation.is_merged()
                    && translation.header(block).is_some()
                    && sharing.is_shared(planned * 31 + rest, block, time_us)
            }
        }
    }
}
