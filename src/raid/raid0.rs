//! RAID 0: strip zones of unequal members, in chunks and rows.
//!
//! Source: drivers/md/raid0.c, `create_strip_zones` (zones), `find_zone` and
//! `map_sector` (addresses), `raid0_map_submit_bio` (the chunk number that each layout divides).

use super::{GeometryError, MAX_ZONES, Params};

/// `RAID0_ORIG_LAYOUT`
const ORIGINAL: u32 = 1;
/// `RAID0_ALT_MULTIZONE_LAYOUT`
const ALTERNATE: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raid0 {
    zones: Vec<Zone>,
    /// Rows of each slot, up to the end of its last zone.
    rows: Vec<u64>,
    /// True if chunks count from the start of their zone, false from the start of the array.
    alternate: bool,
}

/// Rows shared by the same members. Each zone has fewer members than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    pub start_row: u64,
    pub end_row: u64,
    /// First array chunk.
    pub start_chunk: u64,
    /// Slots of the members of the zone, ascending.
    pub slots: Vec<u32>,
}

impl Zone {
    pub(super) fn width(&self) -> u64 {
        self.slots.len() as u64
    }

    fn end_chunk(&self) -> u64 {
        self.start_chunk + (self.end_row - self.start_row) * self.width()
    }
}

impl Raid0 {
    /// `chunk` is in sectors. `p` must have at least one member size, and each must be at least one
    /// chunk.
    pub(super) fn new(p: &Params, chunk: u64) -> Result<Self, GeometryError> {
        let mut rows: Vec<u64> = p.member_sectors.iter().map(|s| s / chunk).collect();
        if rows.len() == 1 {
            rows = vec![rows[0]; p.disks as usize];
        }
        let mut ends = rows.clone();
        ends.sort_unstable();
        ends.dedup();
        if ends.len() > MAX_ZONES {
            return Err(GeometryError::TooManyZones(ends.len()));
        }
        let mut zones: Vec<Zone> = Vec::with_capacity(ends.len());
        for end_row in ends {
            let (start_row, start_chunk) =
                zones.last().map_or((0, 0), |z| (z.end_row, z.end_chunk()));
            zones.push(Zone {
                start_row,
                end_row,
                start_chunk,
                slots: (0u32..)
                    .zip(&rows)
                    .filter_map(|(slot, &r)| (r > start_row).then_some(slot))
                    .collect(),
            });
        }
        // If at most one member has a second zone, both layouts are the same, and md does not
        // require one to be recorded.
        let alike = zones.get(1).is_none_or(|z| z.slots.len() == 1);
        let alternate = match p.layout {
            _ if alike => false,
            ORIGINAL => false,
            ALTERNATE => true,
            _ => return Err(GeometryError::NoZoneLayout),
        };
        Ok(Self { zones, rows, alternate })
    }

    pub(super) fn zones(&self) -> &[Zone] {
        &self.zones
    }

    pub(super) fn rows(&self, slot: u32) -> u64 {
        self.rows[slot as usize]
    }

    pub(super) fn array_chunks(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// Position of the slot's chunk in a row of the zone; `None` if the slot is not in the zone.
    ///
    /// The original layout selects the member by the chunk number from the start of the array,
    /// which rotates all rows of a zone by the same amount.
    pub(super) fn position(&self, zone: &Zone, slot: u32) -> Option<u64> {
        let index = zone.slots.binary_search(&slot).ok()? as u64;
        let first = if self.alternate { 0 } else { zone.start_chunk % zone.width() };
        Some((index + zone.width() - first) % zone.width())
    }

    /// Chunk in `row` of the slot. `row` must be below [`Self::rows`].
    pub(super) fn chunk_at(&self, slot: u32, row: u64) -> u64 {
        let zone = &self.zones[self.zones.partition_point(|z| z.end_row <= row)];
        let position = self.position(zone, slot).expect("a slot with this row is in its zone");
        zone.start_chunk + (row - zone.start_row) * zone.width() + position
    }

    /// Slot and row of `chunk`, which must be below [`Self::array_chunks`].
    pub(super) fn map_chunk(&self, chunk: u64) -> (u32, u64) {
        let zone = &self.zones[self.zones.partition_point(|z| z.end_chunk() <= chunk)];
        let in_zone = chunk - zone.start_chunk;
        let by = if self.alternate { in_zone } else { chunk };
        let slot = zone.slots[(by % zone.width()) as usize];
        (slot, zone.start_row + in_zone / zone.width())
    }
}
