//! RAID 4, 5 and 6: location of parity and order of data, in chunks and rows.
//!
//! Source: drivers/md/raid5.c, `raid5_compute_sector` (forward) and
//! `raid5_compute_blocknr` (back); layout numbers from raid5.h.

use super::{Chunk, GeometryError, Level};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raid456 {
    /// Data chunks per row.
    data: u32,
    /// Members over which P rotates: all, or all but the last if Q is always on the last.
    ring: u32,
    rows: u64,
    rotation: Rotation,
    order: DataOrder,
    q: Q,
}

/// Rotation of P over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rotation {
    /// Starts at the last member of the ring and moves to the left.
    Left,
    /// Like `Left`, one row ahead.
    LeftNext,
    /// Starts at the first member and moves to the right.
    Right,
    /// Always on this member.
    Fixed(u32),
}

/// Order of data chunks in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataOrder {
    /// Starts on member 0 in each row and skips parity.
    Asymmetric,
    /// Starts after parity and wraps.
    Symmetric,
}

/// Position of Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Q {
    None,
    /// After P, wrapping.
    Next,
    /// Before P, wrapping.
    Previous,
    /// Q is on the last member, outside the rotation: RAID 5 layouts with a second parity.
    Last,
}

impl Raid456 {
    /// `rows` is the number of chunks of a member.
    pub(super) fn new(
        level: Level,
        layout: u32,
        disks: u32,
        rows: u64,
    ) -> Result<Self, GeometryError> {
        use DataOrder::{Asymmetric, Symmetric};
        use Rotation::{Fixed, Left, LeftNext, Right};

        let q = if level == Level::Raid6 { Q::Next } else { Q::None };
        let data = disks - if q == Q::None { 1 } else { 2 };
        let (rotation, order, q) = match (level, layout) {
            (Level::Raid4, _) => (Fixed(data), Asymmetric, q),
            (_, 0) => (Left, Asymmetric, q),
            (_, 1) => (Right, Asymmetric, q),
            (_, 2) => (Left, Symmetric, q),
            (_, 3) => (Right, Symmetric, q),
            (_, 4) => (Fixed(0), Asymmetric, q),
            (_, 5) => (Fixed(data), Asymmetric, q),
            // DDF layouts: ROTATING_ZERO_RESTART, ROTATING_N_RESTART, ROTATING_N_CONTINUE
            (Level::Raid6, 8) => (Right, Asymmetric, q),
            (Level::Raid6, 9) => (LeftNext, Asymmetric, q),
            (Level::Raid6, 10) => (Left, Symmetric, Q::Previous),
            (Level::Raid6, 16) => (Left, Asymmetric, Q::Last),
            (Level::Raid6, 17) => (Right, Asymmetric, Q::Last),
            (Level::Raid6, 18) => (Left, Symmetric, Q::Last),
            (Level::Raid6, 19) => (Right, Symmetric, Q::Last),
            (Level::Raid6, 20) => (Fixed(0), Asymmetric, Q::Last),
            _ => return Err(GeometryError::Layout(level, layout, disks)),
        };
        let ring = disks - u32::from(q == Q::Last);
        Ok(Self { data, ring, rows, rotation, order, q })
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn data(&self) -> u32 {
        self.data
    }

    pub(super) fn array_chunks(&self) -> u64 {
        self.rows * u64::from(self.data)
    }

    /// Rows after which the layout repeats.
    pub(super) fn period(&self) -> u32 {
        match self.rotation {
            Rotation::Fixed(_) => 1,
            _ => self.ring,
        }
    }

    /// Slots of P and Q in a row.
    pub(super) fn parity(&self, row: u64) -> (u32, Option<u32>) {
        let ring = self.ring;
        let step = |row: u64| (row % u64::from(ring)) as u32;
        let p = match self.rotation {
            Rotation::Left => ring - 1 - step(row),
            Rotation::LeftNext => ring - 1 - step(row + 1),
            Rotation::Right => step(row),
            Rotation::Fixed(slot) => slot,
        };
        let q = match self.q {
            Q::None => None,
            Q::Next => Some((p + 1) % ring),
            Q::Previous => Some((p + ring - 1) % ring),
            Q::Last => Some(ring),
        };
        (p, q)
    }

    /// Members that data skips at P: P, and Q if it follows P.
    fn skip(&self) -> u32 {
        if self.q == Q::Next { 2 } else { 1 }
    }

    /// Slot and row of a chunk: `raid5_compute_sector`.
    pub(super) fn map_chunk(&self, chunk: u64) -> (u32, u64) {
        let data = u64::from(self.data);
        let (row, d) = (chunk / data, (chunk % data) as u32);
        let (p, _) = self.parity(row);
        let slot = match self.order {
            DataOrder::Symmetric => (p + self.skip() + d) % self.ring,
            // Q has wrapped to slot 0: Q D D P
            DataOrder::Asymmetric if self.q == Q::Next && p == self.ring - 1 => d + 1,
            DataOrder::Asymmetric if d >= p => d + self.skip(),
            DataOrder::Asymmetric => d,
        };
        (slot, row)
    }

    /// Content of `row` of the slot: `raid5_compute_blocknr`.
    pub(super) fn chunk_at(&self, slot: u32, row: u64) -> Chunk {
        let (p, q) = self.parity(row);
        if slot == p {
            return Chunk::P;
        }
        if Some(slot) == q {
            return Chunk::Q;
        }
        let d = match self.order {
            DataOrder::Symmetric => (slot + 2 * self.ring - p - self.skip()) % self.ring,
            DataOrder::Asymmetric if self.q == Q::Next && p == self.ring - 1 => slot - 1,
            DataOrder::Asymmetric if slot > p => slot - self.skip(),
            DataOrder::Asymmetric => slot,
        };
        Chunk::Data(row * u64::from(self.data) + u64::from(d))
    }
}
