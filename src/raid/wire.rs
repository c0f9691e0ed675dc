//! Geometry tables for the BPF programs: the structs of `bpf/shared/geometry.h` in Rust.
//!
//! A test compares every size and offset with C.

use bytemuck::{Pod, Zeroable};

use crate::contract;

use super::{Chunk, Geometry, Level, MAX_ZONES, Rule};

/// Entries of [`RtSlot::table`].
pub const TABLE: usize = contract::GEOMETRY_TABLE as usize;
/// Table entry for P instead of a position.
pub const TABLE_P: u8 = contract::TABLE_P as u8;
/// Table entry for Q instead of a position.
pub const TABLE_Q: u8 = contract::TABLE_Q as u8;
/// Shift of a divisor that is not a power of two.
pub const NO_SHIFT: u32 = contract::NO_SHIFT;

/// `struct rt_zone`: one strip zone of a RAID 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RtZone {
    /// First row after the zone; all ones for an unused entry.
    pub end_row: u64,
    /// Array chunk = row * width + bias + position.
    pub bias: u64,
    /// Members in the zone.
    pub width: u32,
    /// Zero.
    pub pad: u32,
}

/// `struct rt_geometry`: one array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RtGeometry {
    /// Size of the array in sectors.
    pub array_sectors: u64,
    /// RAID 10: rows to the next far copy; all ones without far copies.
    pub far_rows: u64,
    /// `enum rt_level`.
    pub level: u32,
    /// Chunk in sectors; 0 for single and RAID 1.
    pub chunk_sectors: u32,
    /// Its log2, or [`NO_SHIFT`].
    pub chunk_shift: u32,
    /// Array chunks (RAID 10: copies) per row; 0 for other levels.
    pub width: u32,
    /// RAID 4, 5, 6: rows after which parity repeats; else 1.
    pub period: u32,
    /// RAID 10 offset: rows of a stripe; else 1.
    pub offset_copies: u32,
    /// RAID 10; else 1.
    pub near_copies: u32,
    /// Its log2, or [`NO_SHIFT`].
    pub near_shift: u32,
    /// RAID 0.
    pub zone: [RtZone; MAX_ZONES],
}

/// `struct rt_slot`: one member.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RtSlot {
    /// Sectors of the data area that the level uses.
    pub sectors: u64,
    /// `raid_disk`.
    pub slot: u32,
    /// Zero.
    pub pad: u32,
    /// RAID 0: position per zone; RAID 4, 5, 6: position or parity per row of the period; RAID 10:
    /// slot of the first copy per far copy.
    pub table: [u8; TABLE],
}

/// Tables of an array and its members by slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Table of the array.
    pub geometry: RtGeometry,
    /// Tables of its members.
    pub slots: Vec<RtSlot>,
}

const fn level(level: Level) -> u32 {
    match level {
        Level::Single => contract::LEVEL_SINGLE,
        Level::Raid0 => contract::LEVEL_RAID0,
        Level::Raid1 => contract::LEVEL_RAID1,
        Level::Raid4 => contract::LEVEL_RAID4,
        Level::Raid5 => contract::LEVEL_RAID5,
        Level::Raid6 => contract::LEVEL_RAID6,
        Level::Raid10 => contract::LEVEL_RAID10,
    }
}

/// Log2, which saves the BPF programs a division; [`NO_SHIFT`] if it is not a whole number.
pub fn shift(n: u64) -> u32 {
    if n.is_power_of_two() {
        n.trailing_zeros()
    } else {
        NO_SHIFT
    }
}

/// Converts a slot, position or copy, all below [`super::MAX_DISKS`].
fn byte(n: u64) -> u8 {
    u8::try_from(n).expect("Geometry::new has limited the members")
}

impl Geometry {
    /// Tables with which `rt_locate` returns the same results as [`Geometry::locate`].
    pub fn wire(&self) -> Wire {
        let chunk_sectors = self.chunk as u32;
        let mut g = RtGeometry {
            array_sectors: self.array_sectors,
            far_rows: u64::MAX,
            level: level(self.level),
            chunk_sectors,
            chunk_shift: shift(u64::from(chunk_sectors)),
            width: 0,
            period: 1,
            offset_copies: 1,
            near_copies: 1,
            near_shift: 0,
            zone: [RtZone {
                end_row: u64::MAX,
                ..Zeroable::zeroed()
            }; MAX_ZONES],
        };
        match &self.rule {
            Rule::Linear => {}
            Rule::Striped(r) => {
                for (wire, zone) in g.zone.iter_mut().zip(r.zones()) {
                    // Never negative: the rows above have at least as many members.
                    let bias = zone.start_chunk - zone.start_row * zone.width();
                    *wire = RtZone {
                        end_row: zone.end_row,
                        bias,
                        width: zone.width() as u32,
                        pad: 0,
                    };
                }
            }
            Rule::Parity(r) => {
                g.width = r.data();
                g.period = r.period();
            }
            Rule::Mirrored(r) => {
                g.width = self.disks;
                g.near_copies = r.near();
                g.near_shift = shift(u64::from(r.near()));
                if r.offset() {
                    g.offset_copies = r.far();
                } else if r.far() > 1 {
                    g.far_rows = r.rows();
                }
            }
        }
        let slots = (0..self.disks).map(|slot| self.wire_slot(slot)).collect();
        Wire { geometry: g, slots }
    }

    fn wire_slot(&self, slot: u32) -> RtSlot {
        let mut table = [0; TABLE];
        match &self.rule {
            Rule::Linear => {}
            Rule::Striped(r) => {
                for (entry, zone) in table.iter_mut().zip(r.zones()) {
                    *entry = byte(r.position(zone, slot).unwrap_or(0));
                }
            }
            Rule::Parity(r) => {
                for (entry, row) in table.iter_mut().zip(0..u64::from(r.period())) {
                    *entry = match r.chunk_at(slot, row) {
                        Chunk::Data(chunk) => byte(chunk % u64::from(r.data())),
                        Chunk::P => TABLE_P,
                        Chunk::Q => TABLE_Q,
                    };
                }
            }
            Rule::Mirrored(r) => {
                for (entry, copy) in table.iter_mut().zip(0..r.far()) {
                    *entry = byte(u64::from(r.first(slot, copy)));
                }
            }
        }
        RtSlot {
            sectors: self.used_sectors(slot),
            slot,
            pad: 0,
            table,
        }
    }
}
