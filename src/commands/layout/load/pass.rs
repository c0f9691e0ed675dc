//! One pass over a recording: what was recorded, and the same load on today's layout and on each
//! planned one.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};

use super::plan::Plan;
use super::source::Source;
use crate::analysis::item::{Flags, Item, Request, State, Submission};
use crate::analysis::relocate::{Bio, Direction, Disks, Figures, Relocation, Service};
use crate::origin::{Op, Origin};
use crate::raid::Geometry;
use crate::recording::reader::Reader;

/// Largest request: `max_sectors_kb` of most disks.
const LARGEST: u64 = 1280 << 10;
/// Maximum number of reasons of losses that are kept apart.
const REASONS: usize = 20;

struct Lane<'a> {
    geometry: &'a Geometry,
    /// `None` for today's layout.
    relocation: Option<Relocation<'a>>,
    start: u64,
    disks: Disks,
}

pub struct Pass<'a> {
    source: &'a Source,
    block_sectors: u64,
    /// First today's layout, then the planned ones.
    lanes: Vec<Lane<'a>>,
    recorded: Option<Figures>,
    service: Service,
    /// By the recorder's member number: slot on the array of `source`.
    slots: Vec<Option<usize>>,
    /// The recorder's number of the array.
    array: Option<u32>,
    /// First and last submission, µs.
    span_us: (i64, i64),
    /// Submissions that were laid out, by direction, with their bytes.
    pub submissions: [(u64, u64); 2],
    /// Submissions of other operations than read and write, except flushes without data.
    others: u64,
    /// Bytes outside the filesystem.
    outside: u64,
    /// Bytes of structures that a planned filesystem does not have.
    homeless: u64,
    /// Bytes of requests that md made for itself: resync, superblock, bitmap, journal.
    own: u64,
    lost: BTreeMap<String, u64>,
}

pub struct Laid {
    /// Requests in the recording.
    pub recorded: Figures,
    /// The load on today's layout, by the model.
    pub today: Figures,
    /// The load on each planned layout.
    pub planned: Vec<Figures>,
    pub service: Service,
}

impl<'a> Pass<'a> {
    /// Prepares a pass with these plans.
    ///
    /// # Errors
    /// The model does not support an array.
    pub fn new(source: &'a Source, plans: &'a [Plan]) -> Result<Self> {
        let lane = |geometry, relocation, start| -> Result<Lane<'a>> {
            let disks = Disks::new(geometry, LARGEST, 0).map_err(|e| anyhow!(e))?;
            Ok(Lane { geometry, relocation, start, disks })
        };
        let mut lanes = vec![lane(&source.geometry, None, source.start)?];
        for plan in plans {
            let relocation = Relocation::new(&source.side, &plan.side);
            let planned = lane(&plan.geometry, relocation, plan.start)?;
            lanes.extend(Some(planned).filter(|lane| lane.relocation.is_some()));
        }
        Ok(Self {
            source,
            block_sectors: u64::from(source.fs.block_size / 512).max(1),
            lanes,
            recorded: None,
            service: Service::default(),
            slots: Vec::new(),
            array: None,
            span_us: (i64::MAX, i64::MIN),
            submissions: [(0, 0); 2],
            others: 0,
            outside: 0,
            homeless: 0,
            own: 0,
            lost: BTreeMap::new(),
        })
    }

    /// Reads the recording. Returns notes on what is missing in it.
    ///
    /// # Errors
    /// It has no submissions to the filesystem.
    pub fn read(&mut self, mut reader: Reader) -> Result<Vec<String>, String> {
        while let Some(item) = reader.next_item() {
            match item {
                Item::Submission(submission) => self.submission(&submission),
                Item::Request(request) => self.request(&request),
                Item::Part(part) => {
                    if let (Some(slot), Some(direction)) =
                        (self.slot(part.member), Direction::from_op(part.op))
                        && self.is_load(part.origin, part.bytes)
                        && let Some(recorded) = &mut self.recorded
                    {
                        recorded.add(slot, part.origin, direction, 0, part.bytes.into());
                    }
                }
                Item::State(state) => self.state(&state),
                Item::Lost { reason, count, .. } => self.lose(reason, count),
                _ => {}
            }
        }
        let submissions = self.submissions[0].0 + self.submissions[1].0;
        if submissions == 0 {
            return Err(format!(
                "it has no reads or writes submitted to {}: nothing to lay out",
                crate::ui::text::clean(&self.source.name)
            ));
        }
        let ending = reader.ending();
        let mut notes = self.notes();
        if ending.is_cut() {
            notes.push(ending.to_string());
        }
        Ok(notes)
    }

    fn lose(&mut self, reason: String, count: u64) {
        let is_known = self.lost.len() < REASONS || self.lost.contains_key(&reason);
        let reason = if is_known { reason } else { "others".to_owned() };
        let sum = self.lost.entry(reason).or_default();
        *sum = sum.saturating_add(count);
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.source.notes.clone();
        let lost = self.lost.values().fold(0_u64, |n, m| n.saturating_add(*m));
        if lost > 0 {
            let reasons: Vec<&str> = self.lost.keys().map(String::as_str).collect();
            notes.push(format!(
                "the recording has gaps: {lost} events were lost ({}), so all figures are too low",
                reasons.join(", ")
            ));
        }
        let size = |bytes: u64| crate::analysis::units::bytes(bytes as f64);
        for (bytes, what) in [
            (
                self.outside,
                "submitted outside the filesystem are in the recorded column only, and so in the \
                 check",
            ),
            (self.homeless, "are of structures that the planned filesystem does not have"),
            (self.own, "of md itself (resync, superblock, bitmap, journal) are in no column"),
        ] {
            if bytes > 0 {
                notes.push(format!("{} {what}", size(bytes)));
            }
        }
        if self.others > 0 {
            notes.push(format!("{} discards and the like are not laid out", self.others));
        }
        notes
    }

    fn state(&mut self, state: &State) {
        let array = &self.source.array;
        self.slots.clear();
        self.array = None;
        for (number, subject) in state.arrays.iter().enumerate() {
            let is_it = subject.info.name == *array;
            if is_it {
                self.array = u32::try_from(number).ok();
            }
            for member in &subject.members {
                let slot = member.slot.filter(|_| is_it).map(|slot| slot as usize);
                self.slots.push(slot);
            }
        }
        if self.recorded.is_none() {
            self.begin(state.time_us);
        }
    }

    fn begin(&mut self, time_us: i64) {
        let members = self.source.geometry.disks() as usize;
        self.recorded = Some(Figures::new(members, time_us));
        for lane in &mut self.lanes {
            if let Ok(disks) = Disks::new(lane.geometry, LARGEST, time_us) {
                lane.disks = disks;
            }
        }
    }

    fn slot(&self, member: u32) -> Option<usize> {
        *self.slots.get(member as usize)?
    }

    /// False for requests that md makes for itself; counts their bytes.
    fn is_load(&mut self, origin: Origin, bytes: u32) -> bool {
        let own = matches!(
            origin,
            Origin::Resync | Origin::MdSuperblock | Origin::MdBitmap | Origin::MdJournal
        );
        if own {
            self.own = self.own.saturating_add(bytes.into());
        }
        !own
    }

    fn request(&mut self, request: &Request) {
        let (Some(slot), Some(direction)) =
            (self.slot(request.member), Direction::from_op(request.op))
        else {
            return;
        };
        // An empty write is a flush.
        if request.length == 0 || !self.is_load(request.origin, request.bytes) {
            return;
        }
        let Some(recorded) = &mut self.recorded else {
            return;
        };
        recorded.add(slot, request.origin, direction, 1, request.bytes.into());
        let bytes = u64::from(request.length);
        recorded.count(slot, direction, bytes, request.time_us);
        if let Some(us) = request.device_us {
            self.service.add(direction, bytes, us);
        }
    }

    fn submission(&mut self, submission: &Submission) {
        if Some(submission.array) != self.array {
            return;
        }
        let Some(direction) = Direction::from_op(submission.op) else {
            self.others += u64::from(submission.op != Op::Flush || submission.length > 0);
            return;
        };
        let sectors = u64::from(submission.length / 512);
        let first = submission.array_sector.checked_sub(self.source.start);
        let limit = self.source.fs.blocks.saturating_mul(self.block_sectors);
        let inside = first.filter(|f| f.saturating_add(sectors) <= limit);
        let Some(first) = inside.filter(|_| sectors > 0) else {
            self.outside = self.outside.saturating_add(sectors * 512);
            return;
        };
        let laid = &mut self.submissions[direction as usize];
        laid.0 += 1;
        laid.1 += sectors * 512;
        self.span_us.0 = self.span_us.0.min(submission.time_us);
        self.span_us.1 = self.span_us.1.max(submission.time_us);
        let bio = Bio {
            time_us: submission.time_us,
            direction,
            origin: submission.origin,
            sector: first,
            sectors,
            pid: submission.pid,
            is_flush: submission.flags.intersects(Flags::PREFLUSH | Flags::FUA),
        };
        let homeless = self.lanes.iter_mut().map(|lane| lane.add(bio, self.block_sectors));
        // Of the plan with the most: a search has several.
        let most = homeless.fold(0, u64::max);
        self.homeless = self.homeless.saturating_add(most);
    }

    /// Seconds between the first and the last submission.
    pub fn seconds(&self) -> f64 {
        self.span_us.1.saturating_sub(self.span_us.0).max(0) as f64 / 1e6
    }

    /// Completes all requests.
    pub fn finish(self) -> Laid {
        let mut lanes = self.lanes.into_iter().map(|lane| lane.disks.finish().0);
        let members = self.source.geometry.disks() as usize;
        let today = lanes.next().unwrap_or_else(|| Figures::new(members, 0));
        Laid {
            recorded: self.recorded.unwrap_or_else(|| Figures::new(members, 0)),
            today,
            planned: lanes.collect(),
            service: self.service,
        }
    }
}

impl Lane<'_> {
    /// Adds a bio at a sector of the filesystem. Returns the bytes that have no place.
    #[inline]
    fn add(&mut self, bio: Bio, block_sectors: u64) -> u64 {
        let Some(relocation) = &mut self.relocation else {
            let sector = self.start.saturating_add(bio.sector);
            self.disks.add(Bio { sector, ..bio });
            return 0;
        };
        let (mut at, end) = (bio.sector, bio.sector + bio.sectors);
        let length = bio.sectors.div_ceil(block_sectors);
        let is_write = bio.direction == Direction::Write;
        let mut homeless = 0;
        while at < end {
            let (today, rest) = (at / block_sectors, at % block_sectors);
            let copies = relocation.copies(today, bio.origin, is_write);
            let mut sectors = end - at;
            for copy in 0..copies {
                let place = relocation.place(today, bio.origin, length, (copy, copies));
                sectors = sectors.min(place.run.saturating_mul(block_sectors) - rest);
                let Some(block) = place.block else {
                    homeless += sectors * 512;
                    continue;
                };
                if is_write && relocation.is_shared(block, today, rest, bio.time_us) {
                    continue;
                }
                let offset = block.saturating_mul(block_sectors).saturating_add(rest);
                let sector = self.start.saturating_add(offset);
                self.disks.add(Bio { sector, sectors, ..bio });
            }
            at += sectors;
        }
        homeless
    }
}
