//! Array sectors to requests on members.
//!
//! Assumed: reads of mirrors are spread evenly; bios of one task that follow each other on a member
//! within [`PLUG_US`] are one request, as under a plug, up to a maximum.

use super::figures::{Direction, Figures};
use super::stripes::{self, Stripes, Work};
use crate::address::ArraySector;
use crate::origin::Origin;
use crate::raid::Geometry;

/// Bios of a task within this time are under one plug, µs.
const PLUG_US: i64 = 4_000;
/// Sectors of a page: the unit of the stripe cache.
const PAGE: u64 = 8;

/// A bio, or a part of one, on an array.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// Time of submission, µs.
    pub time_us: i64,
    /// Read or write.
    pub direction: Direction,
    pub origin: Origin,
    /// First sector on the array.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u64,
    /// Submitter.
    pub pid: u32,
    /// True for a flush before or after the data: no other bio joins it.
    pub is_flush: bool,
}

/// A request that may still grow.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// Sector after the request on the member.
    end: u64,
    sectors: u64,
    pid: u32,
    is_flush: bool,
    first_us: i64,
    last_us: i64,
}

/// Location of an array's chunks: a table for one period of the mapping.
#[derive(Clone, Debug)]
struct Table {
    chunk: u64,
    period: u64,
    /// Rows from one period to the next.
    rows: u64,
    copies: usize,
    /// Slot and row of each copy, by chunk.
    data: Vec<(u32, u64)>,
    /// Slots of P and Q by chunk; empty without parity.
    parity: Vec<(u32, Option<u32>)>,
}

impl Table {
    fn new(geometry: &Geometry) -> Option<Self> {
        let (chunk, period) = (geometry.chunk_sectors()?, geometry.period()?);
        let mut table = Self {
            chunk,
            period,
            rows: 0,
            copies: geometry.copies(ArraySector(0)).len(),
            data: Vec::new(),
            parity: Vec::new(),
        };
        for c in 0..period {
            let sector = ArraySector(c * chunk);
            let copies = geometry.copies(sector);
            // A small array may have less than a period.
            if copies.len() != table.copies || copies.is_empty() {
                return None;
            }
            let at = copies.iter().map(|(slot, at)| (*slot, at.0 / chunk));
            table.data.extend(at);
            table.parity.extend(geometry.parity(sector).map(|at| (at.p, at.q)));
        }
        let next = geometry.copies(ArraySector(period * chunk));
        table.rows = next.first()?.1.0 / chunk - table.data.first()?.1;
        Some(table)
    }

    /// Slot and first sector of a copy of a chunk.
    #[inline]
    fn at(&self, chunk: u64, copy: usize) -> (u32, u64) {
        let (slot, row) = self.data[(chunk % self.period) as usize * self.copies + copy];
        (slot, (row + chunk / self.period * self.rows) * self.chunk)
    }
}

/// The members of an array, and the requests on them.
#[derive(Clone, Debug)]
pub struct Disks {
    geometry: Geometry,
    table: Option<Table>,
    stripes: Option<Stripes>,
    /// Number of data members of a row; used only on arrays with parity.
    data: u64,
    /// Maximum size of a request in sectors.
    most: u64,
    /// By member and direction.
    open: Vec<[Open; 2]>,
    /// Mirror of the next read.
    turn: usize,
    figures: Figures,
    /// Sectors after the end of the array.
    outside: u64,
}

impl Disks {
    /// An idle array. Requests have at most `most` bytes; intervals start at `start_us`.
    ///
    /// # Errors
    /// If the model does not support the array.
    pub fn new(geometry: &Geometry, most: u64, start_us: i64) -> Result<Self, String> {
        let parities = geometry.level().parities();
        let data = geometry.disks().saturating_sub(parities);
        if parities > 0 && data > stripes::DATA {
            return Err(format!(
                "{} of {} disks: the model of stripes supports {} data disks",
                geometry.level(),
                geometry.disks(),
                stripes::DATA
            ));
        }
        let disks = geometry.disks() as usize;
        let table = Table::new(geometry);
        if parities > 0 && table.is_none() {
            return Err(format!(
                "{}: the array is too small for the model of stripes",
                geometry.level()
            ));
        }
        Ok(Self {
            table,
            stripes: (parities > 0).then(|| Stripes::new(data, parities)),
            data: data.max(1).into(),
            most: (most / 512).max(PAGE),
            open: vec![Default::default(); disks],
            turn: 0,
            figures: Figures::new(disks, start_us),
            outside: 0,
            geometry: geometry.clone(),
        })
    }

    #[inline]
    pub fn add(&mut self, bio: Bio) {
        let last = bio.sector.saturating_add(bio.sectors);
        let end = last.min(self.geometry.array_sectors());
        self.outside += last - end.max(bio.sector);
        let chunk = self.geometry.chunk_sectors().unwrap_or(u64::MAX);
        if bio.direction == Direction::Read {
            self.turn = self.turn.wrapping_add(1);
        }
        let mut at = bio.sector;
        while at < end {
            let sectors = (chunk - at % chunk).min(end - at);
            let part = Bio { sector: at, sectors, ..bio };
            self.part(part);
            at += sectors;
        }
    }

    /// A bio within a chunk.
    #[inline]
    fn part(&mut self, bio: Bio) {
        let copies = self.table.as_ref().map(|t| t.copies);
        if let (Some(copies), Some(table)) = (copies, &self.table) {
            let (chunk, rest) = (bio.sector / table.chunk, bio.sector % table.chunk);
            if bio.direction == Direction::Read {
                let (slot, first) = table.at(chunk, self.turn % copies.max(1));
                self.request(slot, first + rest, bio);
                return;
            }
            for copy in 0..copies {
                let Some(table) = &self.table else { return };
                let (slot, first) = table.at(chunk, copy);
                self.request(slot, first + rest, bio);
                if self.stripes.is_some() {
                    self.write_stripes(chunk, first + rest, bio);
                }
            }
            return;
        }
        // RAID 1, a single disk, and RAID 0 of unequal members.
        let linear = self.geometry.chunk_sectors().is_none();
        if linear {
            let disks = self.open.len();
            if bio.direction == Direction::Read {
                self.request((self.turn % disks) as u32, bio.sector, bio);
            } else {
                (0..disks as u32).for_each(|slot| self.request(slot, bio.sector, bio));
            }
            return;
        }
        for (slot, sector) in self.geometry.copies(ArraySector(bio.sector)) {
            self.request(slot, sector.0, bio);
        }
    }

    /// The pages of a write within a chunk: `first` is its sector on the member.
    fn write_stripes(&mut self, chunk: u64, first: u64, bio: Bio) {
        let member = (chunk % self.data) as u32;
        let end = first + bio.sectors;
        for page in first / PAGE..end.div_ceil(PAGE) {
            let is_full = page * PAGE >= first && (page + 1) * PAGE <= end;
            let Some(stripes) = &mut self.stripes else {
                return;
            };
            if let Some(work) = stripes.write(page, member, is_full, bio.time_us) {
                self.work(work);
            }
        }
    }

    /// Pre-reads and parity of a stripe.
    fn work(&mut self, work: Work) {
        let sector = work.stripe * PAGE;
        let Some(table) = &self.table else { return };
        let chunk = sector / table.chunk * self.data;
        let (p, q) = table.parity[(chunk % table.period) as usize];
        let bio = |direction, origin| Bio {
            time_us: work.time_us,
            direction,
            origin,
            sector,
            sectors: PAGE,
            pid: 0,
            is_flush: false,
        };
        let read = bio(Direction::Read, Origin::RmwRead);
        let mut reads = work.reads;
        while reads != 0 {
            let member = u64::from(reads.trailing_zeros());
            reads &= reads - 1;
            if let Some(table) = &self.table {
                let slot = table.at(chunk + member, 0).0;
                self.request(slot, sector, read);
            }
        }
        for slot in [Some(p), q].into_iter().flatten() {
            if work.reads_parity {
                self.request(slot, sector, read);
            }
            self.request(slot, sector, bio(Direction::Write, Origin::Parity));
        }
    }

    /// Adds sectors of a bio to a member, in its open request if they continue it.
    #[inline]
    fn request(&mut self, slot: u32, sector: u64, bio: Bio) {
        let member = slot as usize;
        let Some(open) = self.open.get_mut(member) else {
            return;
        };
        let open = &mut open[bio.direction as usize];
        let joins = open.sectors > 0
            && open.end == sector
            && open.pid == bio.pid
            && !open.is_flush
            && !bio.is_flush
            && open.sectors + bio.sectors <= self.most
            && bio.time_us.saturating_sub(open.last_us) <= PLUG_US;
        let done = *open;
        if joins {
            open.end += bio.sectors;
            open.sectors += bio.sectors;
            open.last_us = bio.time_us;
        } else {
            *open = Open {
                end: sector + bio.sectors,
                sectors: bio.sectors,
                pid: bio.pid,
                is_flush: bio.is_flush,
                first_us: bio.time_us,
                last_us: bio.time_us,
            };
            self.close(member, bio.direction, done);
        }
        let requests = if joins { 0 } else { bio.sectors.div_ceil(self.most) };
        self.figures.add(member, bio.origin, bio.direction, requests, bio.sectors * 512);
    }

    fn close(&mut self, member: usize, direction: Direction, open: Open) {
        let mut rest = open.sectors;
        while rest > 0 {
            let sectors = rest.min(self.most);
            self.figures.count(member, direction, sectors * 512, open.first_us);
            rest -= sectors;
        }
    }

    /// Completes all requests. Returns the figures, and the bytes that were after the end of the
    /// array.
    pub fn finish(mut self) -> (Figures, u64) {
        if let Some(mut stripes) = self.stripes.take() {
            let mut rest: Vec<Work> = stripes.finish().collect();
            rest.sort_unstable_by_key(|work| (work.time_us, work.stripe));
            rest.into_iter().for_each(|work| self.work(work));
        }
        for member in 0..self.open.len() {
            for direction in Direction::BOTH {
                let open = std::mem::take(&mut self.open[member][direction as usize]);
                self.close(member, direction, open);
            }
        }
        (self.figures, self.outside.saturating_mul(512))
    }
}
