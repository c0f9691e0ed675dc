//! A range of sectors with an origin.

use crate::address::FsSector;
use crate::origin::Origin;

/// Sectors of a filesystem's device with one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorRange {
    /// First sector.
    pub first: FsSector,
    /// Number of 512-byte sectors, never 0.
    pub count: u64,
    /// Their content.
    pub origin: Origin,
}

impl SectorRange {
    /// First sector after the range.
    pub fn end(&self) -> FsSector {
        self.first + self.count
    }
}
