//! The log device and the realtime device of an XFS. Neither has a superblock of its own (a
//! realtime device has one only with realtime groups), so that only the filesystem's geometry
//! describes them.

use super::geometry::{XfsGeometry, XfsLog};
use crate::address::FsSector;
use crate::fs::{SectorRange, Uuid};
use crate::origin::Origin;

/// A log or realtime device.
#[derive(Clone, Debug)]
pub struct XfsDevice {
    /// Block size of the filesystem in bytes.
    pub block_size: u32,
    /// Blocks that the filesystem uses on this device, from its start.
    pub blocks: u64,
    /// The log; `None` for a realtime device.
    pub log: Option<SectorRange>,
    /// UUID of the filesystem.
    pub uuid: Uuid,
}

impl XfsGeometry {
    /// The device of an external log; `None` if the log is internal.
    pub fn log_device(&self) -> Option<XfsDevice> {
        let XfsLog::External { blocks } = self.log else {
            return None;
        };
        let blocks = u64::from(blocks);
        let log = SectorRange {
            first: FsSector(0),
            count: blocks * self.block_sectors(),
            origin: Origin::Journal,
        };
        Some(XfsDevice {
            block_size: self.block_size,
            blocks,
            log: (blocks > 0).then_some(log),
            uuid: self.uuid,
        })
    }

    /// The realtime device; `None` if no realtime blocks exist. It holds file data.
    pub fn realtime_device(&self) -> Option<XfsDevice> {
        (self.realtime_blocks > 0).then_some(XfsDevice {
            block_size: self.block_size,
            blocks: self.realtime_blocks,
            log: None,
            uuid: self.uuid,
        })
    }
}
