//! Tables from which `bpf/geometry.bpf.h` computes the same mapping as [`Geometry::locate`].

use crate::contract::{GEOMETRY_TABLE, NO_SHIFT, TABLE_P, TABLE_Q, rt_geometry, rt_slot, rt_zone};

use super::{Chunk, Geometry, MAX_ZONES, Rule};

/// Log2 of `n`, with which the BPF programs avoid a division; [`NO_SHIFT`] if `n` is not a power of
/// two.
pub fn shift(n: u64) -> u32 {
    if n.is_power_of_two() { n.trailing_zeros() } else { NO_SHIFT }
}

/// Converts a slot, position or copy, all below [`super::MAX_DISKS`].
fn byte(n: u64) -> u8 {
    u8::try_from(n).expect("Geometry::new has limited the members")
}

impl Geometry {
    /// The table of the array.
    pub fn wire(&self) -> rt_geometry {
        let mut g = rt_geometry {
            array_sectors: self.array_sectors,
            far_rows: u64::MAX,
            level: self.level as u32,
            chunk_sectors: self.chunk as u32,
            chunk_shift: shift(self.chunk),
            period: 1,
            offset_copies: 1,
            near_copies: 1,
            zone: [rt_zone { end_row: u64::MAX, ..rt_zone::default() }; MAX_ZONES],
            ..rt_geometry::default()
        };
        match &self.rule {
            Rule::Equal | Rule::Linear(_) => {}
            Rule::Striped(r) => {
                for (wire, zone) in g.zone.iter_mut().zip(r.zones()) {
                    // Never negative: earlier rows have at least as many members.
                    let bias = zone.start_chunk - zone.start_row * zone.width();
                    *wire =
                        rt_zone { end_row: zone.end_row, bias, width: zone.width() as u32, pad: 0 };
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
        g
    }

    /// The table of a member; all zeros for a slot that does not exist.
    pub fn wire_slot(&self, slot: u32) -> rt_slot {
        let mut table = [0; GEOMETRY_TABLE as usize];
        if slot >= self.disks {
            return rt_slot::default();
        }
        match &self.rule {
            Rule::Equal | Rule::Linear(_) => {}
            Rule::Striped(r) => {
                for (entry, zone) in table.iter_mut().zip(r.zones()) {
                    *entry = byte(r.position(zone, slot).unwrap_or(0));
                }
            }
            Rule::Parity(r) => {
                for (entry, row) in table.iter_mut().zip(0..u64::from(r.period())) {
                    *entry = match r.chunk_at(slot, row) {
                        Chunk::Data(chunk) => byte(chunk % u64::from(r.data())),
                        Chunk::P => TABLE_P as u8,
                        Chunk::Q => TABLE_Q as u8,
                    };
                }
            }
            Rule::Mirrored(r) => {
                for (entry, copy) in table.iter_mut().zip(0..r.far()) {
                    *entry = byte(u64::from(r.first(slot, copy)));
                }
            }
        }
        rt_slot { sectors: self.used_sectors(slot), first: self.first(slot), slot, pad: 0, table }
    }
}
