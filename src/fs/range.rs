//! A range of sectors with an origin.

use super::ext4::Range;
use crate::address::FsSector;
use crate::origin::Origin;

/// Sectors of a filesystem's device with one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorRange {
    pub first: FsSector,
    /// Number of 512-byte sectors, never 0.
    pub count: u64,
    /// Kind of data in them.
    pub origin: Origin,
}

impl SectorRange {
    /// A range of blocks of `block_size` bytes.
    pub fn from_blocks(range: Range, block_size: u32) -> Self {
        let block_sectors = u64::from(block_size / 512);
        Self {
            first: range.first.sector(block_sectors),
            count: range.count.saturating_mul(block_sectors),
            origin: range.origin,
        }
    }

    /// First sector after the range.
    pub fn end(&self) -> FsSector {
        self.first + self.count
    }
}
