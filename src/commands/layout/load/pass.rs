//! One pass over a recording: its requests, and the same requests on the planned layout.

use super::plan::LoadPlan;
use crate::address::DataSector;
use crate::analysis::item::{Item, State};
use crate::analysis::relocate::{Lane, MemberLoad, RequestPiece, Side};
use crate::analysis::units;
use crate::origin::{Op, Origin};
use crate::raid::{Mapping, Parity};
use crate::recording::described::Described;
use crate::recording::reader::Reader;

/// Operations that are laid out.
pub const OPS: [Op; 2] = [Op::Read, Op::Write];
/// Bytes of a request that are laid out: more than a request has, because a recording is untrusted.
const MAX_REQUEST_BYTES: u32 = 64 << 20;
/// IO that md makes for itself.
const OWN: [Origin; 4] =
    [Origin::Resync, Origin::MdSuperblock, Origin::MdBitmap, Origin::MdJournal];

pub struct LoadPass<'a> {
    pub source: &'a Described,
    /// The requests in the recording, by member.
    pub recorded: Vec<MemberLoad>,
    /// The same on the planned layout.
    pub lane: Lane<'a>,
    /// By the recorder's member number: slot on the array of `source`.
    slots: Vec<Option<usize>>,
    /// First and last request, µs.
    span_us: (i64, i64),
    /// Bytes outside the filesystem, and of structures that a planned filesystem does not have.
    outside: u64,
    homeless: u64,
    lost: u64,
}

impl<'a> LoadPass<'a> {
    /// Reads a recording. Also returns notes on what is missing in it.
    ///
    /// # Errors
    /// It has no requests of the filesystem.
    pub fn read(
        mut reader: Reader,
        source: &'a Described,
        today: &'a Side,
        plan: &'a LoadPlan,
    ) -> Result<(Self, Vec<String>), String> {
        let mut pass = Self {
            source,
            recorded: vec![MemberLoad::default(); source.data_offsets.len()],
            lane: Lane::new(today, &plan.side, &plan.target.array.geometry, plan.start),
            slots: Vec::new(),
            span_us: (i64::MAX, i64::MIN),
            outside: 0,
            homeless: 0,
            lost: 0,
        };
        while let Some(item) = reader.next_item() {
            match item {
                Item::Request(r) => {
                    let device_us = r.device_us.unwrap_or(0);
                    pass.lane.begin(device_us);
                    if pass.add((r.member, r.sector, r.bytes), (r.origin, r.op), Some(device_us)) {
                        let (first, last) = pass.span_us;
                        pass.span_us = (first.min(r.time_us), last.max(r.time_us));
                    }
                }
                Item::Part(p) => {
                    pass.add((p.member, p.sector, p.bytes), (p.origin, p.op), None);
                }
                Item::State(state) => pass.state(&state),
                Item::Lost { count, .. } => pass.lost = pass.lost.saturating_add(count),
                _ => {}
            }
        }
        if pass.span_us.0 > pass.span_us.1 {
            return Err(format!("it has no reads or writes of {}", source.target.name));
        }
        let mut notes = source.target.notes.clone();
        notes.extend(Some(reader.ending()).filter(|e| e.is_cut()).map(ToString::to_string));
        let bytes = |bytes: u64| units::bytes(bytes as f64);
        let (outside, homeless) = (bytes(pass.outside), bytes(pass.homeless));
        for (n, note) in [
            (pass.lost, format!("{} events were lost, so all figures are too low", pass.lost)),
            (pass.outside, format!("{outside} outside the filesystem are not in \"planned\"")),
            (pass.homeless, format!("{homeless} have no place in the planned filesystem")),
        ] {
            notes.extend(Some(note).filter(|_| n > 0));
        }
        Ok((pass, notes))
    }

    fn state(&mut self, state: &State) {
        let array = self.source.target.array.name.as_deref();
        let members = state.arrays.iter().flat_map(|subject| {
            let is_it = Some(subject.info.name.as_str()) == array;
            subject.members.iter().map(move |m| m.slot.filter(|_| is_it).map(|slot| slot as usize))
        });
        self.slots = members.collect();
    }

    /// Adds bytes of one origin that begin at a sector of a member; with its device time if a
    /// request begins with them. False if they are not of the load.
    fn add(
        &mut self,
        (member, sector, bytes): (u32, u64, u32),
        (origin, op): (Origin, Op),
        device_us: Option<u32>,
    ) -> bool {
        let Some(&Some(slot)) = self.slots.get(member as usize) else { return false };
        let Some(&Some(data_offset)) = self.source.data_offsets.get(slot) else { return false };
        // An empty write is a flush.
        if bytes == 0 || !OPS.contains(&op) || OWN.contains(&origin) {
            return false;
        }
        let is_request = device_us.is_some();
        let recorded = &mut self.recorded[slot];
        recorded.add((origin, op), is_request, bytes.into(), device_us.unwrap_or(0).into());
        let mut at = sector.saturating_sub(data_offset);
        let end = at.saturating_add(u64::from(bytes.min(MAX_REQUEST_BYTES)) / 512);
        let limit = self.source.target.fs.bytes() / 512;
        while at < end {
            let (found, run) = self.array_sector(slot, at, (origin, op));
            let sectors = run.min(end - at);
            at += sectors;
            let Some((sector, parity)) = found else { continue };
            let sector = sector.checked_sub(self.source.start);
            let Some(sector) = sector.filter(|sector| *sector < limit) else {
                self.outside += sectors * 512;
                continue;
            };
            let piece = RequestPiece { op, origin, sector, sectors, parity, is_request };
            self.homeless += self.lane.add(piece);
        }
        true
    }

    /// Array sector of a sector of a member's data, and [`RequestPiece::parity`]; `None` for a
    /// second copy of what another member has. And the number of sectors with the same mapping.
    fn array_sector(
        &self,
        slot: usize,
        at: u64,
        (origin, op): (Origin, Op),
    ) -> (Option<(u64, Option<u32>)>, u64) {
        let geometry = &self.source.target.array.geometry;
        let locate = |slot| geometry.locate(slot, DataSector(at));
        match locate(slot as u32) {
            Mapping::Data { sector, run } if origin == Origin::RmwRead => {
                let disks = geometry.disks();
                let after = geometry.parity(sector).map(|at| (slot as u32 + disks - at.p) % disks);
                (Some((sector.0, after)), run)
            }
            Mapping::Data { sector, run } => {
                let has = |slot| self.source.data_offsets.get(slot).is_some_and(Option::is_some);
                let mut slots = geometry.copies(sector).into_iter().map(|copy| copy.0 as usize);
                let is_first = op == Op::Read || slots.find(|slot| has(*slot)) == Some(slot);
                (is_first.then_some((sector.0, None)), run)
            }
            Mapping::Parity { which: Parity::P, run } => {
                let data = (0..geometry.disks()).find_map(|slot| match locate(slot) {
                    Mapping::Data { sector, .. } => Some((sector.0, Some(0))),
                    _ => None,
                });
                (data, run)
            }
            Mapping::Parity { run, .. } => (None, run),
            Mapping::Unused { run } => (Some((u64::MAX, None)), run),
        }
    }

    /// Seconds between the first and the last request.
    pub fn seconds(&self) -> f64 {
        self.span_us.1.saturating_sub(self.span_us.0) as f64 / 1e6
    }
}
