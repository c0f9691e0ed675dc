//! Requests on the members of a planned array.
//!
//! Assumed: reads of mirrors are spread evenly; md writes and reads as many blocks for parity as it
//! did when they were recorded, in the stripes where the data of the recorded stripes are now.

use super::side::Side;
use crate::address::ArraySector;
use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::traffic::IoSum;
use crate::origin::{Op, Origin};
use crate::raid::Geometry;

/// Requests on a member. Bytes count under their own origin, a request under that of its first
/// bio.
#[derive(Clone, Debug, Default)]
pub struct MemberLoad {
    pub io: Cube<(Origin, Op), IoSum>,
    /// Sum of the device times of the requests, µs.
    pub device_us: u64,
}

impl MemberLoad {
    /// Adds bytes of an origin, and a request that begins with them.
    pub fn add(&mut self, io: (Origin, Op), is_request: bool, bytes: u64, device_us: u64) {
        self.io.add(io, &IoSum { requests: is_request.into(), bytes });
        self.device_us.add(&device_us);
    }

    /// Sum of an origin and operation.
    pub fn sum(&self, io: (Origin, Op)) -> IoSum {
        self.io.sum(&io)
    }

    /// Requests of an operation.
    pub fn requests(&self, op: Op) -> u64 {
        self.io.group_by(|(_, own)| (*own == op).then_some(())).total().requests
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.io.total().bytes
    }
}

/// Sectors of one origin that follow each other, of a recorded request.
#[derive(Clone, Copy, Debug)]
pub struct RequestPiece {
    pub op: Op,
    pub origin: Origin,
    /// First sector in the filesystem; for `parity`, of data of the stripe.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u64,
    /// Distance of the member from the one with P in the stripe, in members; `None` for other data
    /// than parity and the reads for it.
    pub parity: Option<u32>,
    /// True if a request begins with the bytes of this origin.
    pub is_request: bool,
}

/// A planned filesystem on a planned array.
#[derive(Clone, Debug)]
pub struct Lane<'a> {
    today: &'a Side,
    planned: &'a Side,
    geometry: &'a Geometry,
    /// First sector of the filesystem on the array.
    start: u64,
    /// Number of the current request, and its device time that has no member yet, µs.
    request: u64,
    device_us: u64,
    /// Last request of each member, and the sector after it.
    ends: Vec<(u64, u64)>,
    pub members: Vec<MemberLoad>,
}

impl<'a> Lane<'a> {
    pub fn new(today: &'a Side, planned: &'a Side, geometry: &'a Geometry, start: u64) -> Self {
        let disks = geometry.disks() as usize;
        let ends = vec![(0, 0); disks];
        let members = vec![MemberLoad::default(); disks];
        Self { today, planned, geometry, start, request: 0, device_us: 0, ends, members }
    }

    /// Begins a request with this device time in µs, which counts where its first bytes go.
    pub fn begin(&mut self, device_us: u32) {
        self.request += 1;
        self.device_us = device_us.into();
    }

    /// Adds a piece of the current request. Returns the bytes that have no place.
    pub fn add(&mut self, piece: RequestPiece) -> u64 {
        let (mut at, end) = (piece.sector, piece.sector.saturating_add(piece.sectors));
        // Any order of turns that does not repeat with the groups.
        let turn = self.request.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut homeless = 0;
        while at < end {
            let (place, run) = self.today.place(self.planned, at, turn);
            let sector = place.map(|place| self.start.saturating_add(place));
            let run = run.min(end - at).min(self.geometry.run(ArraySector(sector.unwrap_or(0))));
            if !sector.is_some_and(|sector| self.put(piece, sector, run)) {
                homeless += run * 512;
            }
            at += run;
        }
        homeless
    }

    /// Adds sectors of a chunk. Returns false if they are after the end of the array.
    fn put(&mut self, piece: RequestPiece, sector: u64, sectors: u64) -> bool {
        let sector = ArraySector(sector);
        let mut places = self.geometry.copies(sector);
        if places.is_empty() {
            return false;
        }
        if let Some(after) = piece.parity {
            let Some(at) = self.geometry.parity(sector) else { return true };
            let q = at.q.filter(|_| after == 0);
            let slots = [Some((at.p + after) % self.geometry.disks()), q].into_iter().flatten();
            places = slots.map(|slot| (slot, at.sector)).collect();
        } else if piece.op == Op::Read {
            places = vec![places[(self.request % places.len() as u64) as usize]];
        }
        let device_us = std::mem::take(&mut self.device_us);
        for (slot, at) in places {
            let (end, member) = (&mut self.ends[slot as usize], &mut self.members[slot as usize]);
            // A request of several chunks remains one where they follow each other.
            let is_new = piece.is_request && *end != (self.request, at.0);
            *end = (self.request, at.0 + sectors);
            member.add((piece.origin, piece.op), is_new, sectors * 512, device_us);
        }
        true
    }
}
