//! RAID 0: strip zones of unequal members. Knows only chunks and rows.
//!
//! Facts from the kernel's drivers/md/raid0.c: `create_strip_zones` (zones), `find_zone` and
//! `map_sector` (addresses), `raid0_map_submit_bio` (which chunk number each layout divides).

use super::{GeometryError, MAX_ZONES, Params};

/// `RAID0_ORIG_LAYOUT`
const ORIGINAL: u32 = 1;
/// `RAID0_ALT_MULTIZONE_LAYOUT`
const ALTERNATE: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raid0 {
    zones: Vec<Zone>,
    /// Rows of each slot: where its last zone ends.
    rows: Vec<u64>,
    /// Whether chunks count from the start of their zone instead of the array's.
    alternate: bool,
}

/// Rows that the same members share; the further down, the fewer are large enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    pub start_row: u64,
    pub end_row: u64,
    /// Array chunk at its start.
    pub start_chunk: u64,
    /// Its members, ascending.
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
    /// `chunk` in sectors; at least one member size, each at least a chunk.
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
        // Both layouts are the same where at most one member has a second zone, and md then asks for
        // none.
        let alike = zones.get(1).is_none_or(|z| z.slots.len() == 1);
        let alternate = match p.layout {
            _ if alike => false,
            ORIGINAL => false,
            ALTERNATE => true,
            _ => return Err(GeometryError::NoZoneLayout),
        };
        Ok(Self {
            zones,
            rows,
            alternate,
        })
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

    /// Position of the slot's chunk in a row of the zone; `None` where it is too small for the zone.
    ///
    /// The original layout takes the member by the chunk number from the array's start, so a zone
    /// begins with whatever member is due, and that shifts all its rows alike.
    pub(super) fn position(&self, zone: &Zone, slot: u32) -> Option<u64> {
        let index = zone.slots.binary_search(&slot).ok()? as u64;
        let first = if self.alternate {
            0
        } else {
            zone.start_chunk % zone.width()
        };
        Some((index + zone.width() - first) % zone.width())
    }

    /// The chunk in this row of the slot, which must be below [`Self::rows`].
    pub(super) fn chunk_at(&self, slot: u32, row: u64) -> u64 {
        let zone = &self.zones[self.zones.partition_point(|z| z.end_row <= row)];
        let position = self
            .position(zone, slot)
            .expect("a slot with this row is in its zone");
        zone.start_chunk + (row - zone.start_row) * zone.width() + position
    }

    /// Slot and row of a chunk, which must be below [`Self::array_chunks`].
    pub(super) fn place(&self, chunk: u64) -> (u32, u64) {
        let zone = &self.zones[self.zones.partition_point(|z| z.end_chunk() <= chunk)];
        let in_zone = chunk - zone.start_chunk;
        let by = if self.alternate { in_zone } else { chunk };
        let slot = zone.slots[(by % zone.width()) as usize];
        (slot, zone.start_row + in_zone / zone.width())
    }
}
