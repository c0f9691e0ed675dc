//! RAID 10: near, far and offset copies, in chunks and rows.
//!
//! Source: drivers/md/raid10.c, `setup_geo` (layout bits), `calc_sectors` (stride),
//! `__raid10_find_phys` (forward), `raid10_find_virt` (back).

use super::{GeometryError, Level};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raid10 {
    disks: u32,
    /// Near copies: adjacent members of one row.
    near: u32,
    /// Far copies: in later rows, each shifted by `near` members.
    far: u32,
    /// True for offset copies: far copies are in the next row instead of the next section.
    offset: bool,
    /// Members per far set. The last set also contains the remainder.
    set: u32,
    /// Rows of one section.
    rows: u64,
}

impl Raid10 {
    /// `member_rows` is the number of chunks of a member; `Ok(None)` if it is too small.
    pub(super) fn new(
        layout: u32,
        disks: u32,
        member_rows: u64,
    ) -> Result<Option<Self>, GeometryError> {
        let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
        let offset = layout & 1 << 16 != 0;
        let set = match layout >> 17 {
            0 => Some(disks),
            1 => disks.checked_div(far),
            2 => Some(near * far),
            _ => None,
        };
        let bad = GeometryError::Layout(Level::Raid10, layout, disks);
        let copies = near * far;
        let Some(set) = set.filter(|s| *s > 0 && copies >= 2 && copies <= disks) else {
            return Err(bad);
        };
        let this = Self { disks, near, far, offset, set, rows: member_rows / u64::from(far) };
        if !this.is_sound() {
            return Err(bad);
        }
        Ok((this.array_chunks() > 0).then_some(this))
    }

    /// True if no two chunks map to the same member chunk. `__raid10_find_phys` violates this for
    /// combinations of near and far copies, if the copies wrap at the end of an offset row (it
    /// steps one row, into the far copies) or of a far set before the larger last set (it treats
    /// that set as the last). mdadm does not create such arrays, and they would corrupt data.
    fn is_sound(&self) -> bool {
        let wraps = self.offset && self.far > 1 && !self.disks.is_multiple_of(self.near);
        let back = (0..self.disks).all(|first| {
            let mut slot = first;
            (1..self.far).all(|copy| {
                slot = self.next_far(slot);
                self.first(slot, copy) == first
            })
        });
        !wraps && back
    }

    pub(super) fn near(&self) -> u32 {
        self.near
    }

    pub(super) fn far(&self) -> u32 {
        self.far
    }

    /// True if far copies are in the next rows.
    pub(super) fn offset(&self) -> bool {
        self.offset
    }

    /// Rows of one section: the distance of far copies without offset.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of a member in all sections.
    pub(super) fn member_rows(&self) -> u64 {
        self.rows * u64::from(self.far)
    }

    pub(super) fn array_chunks(&self) -> u64 {
        self.rows * u64::from(self.disks) / u64::from(self.near)
    }

    /// First slot and size of the far set that contains `slot`.
    fn far_set(&self, slot: u32) -> (u32, u32) {
        let last = (self.disks / self.set - 1) * self.set;
        if slot >= last {
            (last, self.disks - last)
        } else {
            (slot / self.set * self.set, self.set)
        }
    }

    /// Slot of the next far copy after the one on `slot`, as in `__raid10_find_phys`.
    fn next_far(&self, slot: u32) -> u32 {
        let last = (self.disks / self.set - 1) * self.set;
        let next = slot + self.near;
        if !self.disks.is_multiple_of(self.set) && next > last {
            (next - last) % (self.disks - last) + last
        } else {
            next % self.set + slot / self.set * self.set
        }
    }

    /// Slot of the first copy of a chunk whose far copy number `copy` is on `slot`.
    pub(super) fn first(&self, slot: u32, copy: u32) -> u32 {
        let (start, size) = self.far_set(slot);
        let back = copy * self.near % size;
        start + (slot - start + size - back) % size
    }

    /// Slot and row of every copy of a chunk.
    pub(super) fn copies(&self, chunk: u64) -> Vec<(u32, u64)> {
        let disks = u64::from(self.disks);
        let mut copies = Vec::with_capacity((self.near * self.far) as usize);
        for n in 0..u64::from(self.near) {
            let at = chunk * u64::from(self.near) + n;
            let (mut row, mut slot) = (at / disks, (at % disks) as u32);
            if self.offset {
                row *= u64::from(self.far);
            }
            copies.push((slot, row));
            for _ in 1..self.far {
                slot = self.next_far(slot);
                row += if self.offset { 1 } else { self.rows };
                copies.push((slot, row));
            }
        }
        copies
    }

    /// Chunk in `row` of the slot. For unused chunks of the last row, the number is after the end
    /// of the array.
    pub(super) fn chunk_at(&self, slot: u32, row: u64) -> u64 {
        let far = u64::from(self.far);
        let (row, copy) =
            if self.offset { (row / far, row % far) } else { (row % self.rows, row / self.rows) };
        let first = u64::from(self.first(slot, copy as u32));
        (row * u64::from(self.disks) + first) / u64::from(self.near)
    }
}
