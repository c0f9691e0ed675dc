//! Geometry of arrays: mapping between member and array addresses, for RAID 0, 1, 4, 5, 6 and 10
//! with every layout of md, and for linear arrays.
//!
//! Pure arithmetic. The caller reads sysfs or superblocks and subtracts `data_offset`. The BPF
//! programs (`bpf/geometry.bpf.h`) compute the same mapping from the tables of [`wire`]; tests
//! compare the two.
//!
//! All addresses and sizes are in 512-byte sectors. A *row* consists of the chunks with the same
//! number on all members.

mod params;
mod raid0;
mod raid10;
mod raid456;
pub mod wire;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod properties_tests;
#[cfg(test)]
mod tables_tests;

use crate::address::{ArraySector, DataSector};
pub use params::{GeometryError, Level, Params};
use raid0::Raid0;
use raid10::Raid10;
use raid456::Raid456;

/// Maximum number of members of an array: slots and positions are bytes in the tables.
pub const MAX_DISKS: u32 = 255;
/// Maximum number of strip zones of a RAID 0: one for each distinct member size.
pub const MAX_ZONES: usize = crate::contract::GEOMETRY_ZONES as usize;
/// Maximum size of a member (8 EiB), so that no product of addresses can overflow.
const MAX_MEMBER_SECTORS: u64 = 1 << 54;

/// Kind of parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parity {
    /// XOR parity.
    P,
    /// The second parity of RAID 6.
    Q,
}

/// Content of a sector of a member's data area. `run` is the number of sectors, this one included,
/// with the same mapping. A run ends with its chunk even if the next chunk is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// A copy of an array sector.
    Data {
        sector: ArraySector,
        /// Sectors, contiguous on the array and on the member.
        run: u64,
    },
    /// Parity of the row.
    Parity {
        /// P or Q.
        which: Parity,
        /// Sectors.
        run: u64,
    },
    /// A sector that the array does not use: after its end, or in a tail lost to rounding.
    Unused {
        /// Sectors.
        run: u64,
    },
}

/// Location of the parity of an array sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityAt {
    /// Slot with P.
    pub p: u32,
    /// Slot with Q; RAID 6 only.
    pub q: Option<u32>,
    /// Sector, the same for P, Q and data.
    pub sector: DataSector,
}

/// Address mapping of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    disks: u32,
    /// Chunk in sectors; 0 for [`Rule::Equal`] and [`Rule::Linear`].
    chunk: u64,
    array_sectors: u64,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Single and RAID 1: array and member addresses are equal.
    Equal,
    /// First array sector of each slot, and after them the array's size.
    Linear(Vec<u64>),
    Striped(Raid0),
    Parity(Raid456),
    Mirrored(Raid10),
}

/// Content of a member's chunk. Chunk numbers count from the start of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Data(u64),
    P,
    Q,
}

impl Geometry {
    /// Checks that md supports the array, and prepares the arithmetic.
    pub fn new(p: &Params) -> Result<Self, GeometryError> {
        let Params { level, disks, .. } = *p;
        let least = match level {
            Level::Single | Level::Raid0 | Level::Raid1 | Level::Linear => 1,
            Level::Raid4 | Level::Raid5 | Level::Raid10 => 2,
            Level::Raid6 => 4,
        };
        if disks < least || (level == Level::Single && disks != 1) {
            return Err(GeometryError::Disks(level, disks));
        }
        if disks > MAX_DISKS {
            return Err(GeometryError::TooManyDisks(disks));
        }
        let sizes = p.member_sectors.len();
        if sizes != 1 && sizes != disks as usize {
            return Err(GeometryError::Sizes(sizes, disks));
        }
        let smallest = p.member_sectors.iter().copied().min().unwrap_or(0);
        let has_chunks = !matches!(level, Level::Single | Level::Raid1 | Level::Linear);
        // Only raid0.c supports a chunk that is not a power of two.
        let odd_chunk = level != Level::Raid0 && !p.chunk_sectors.is_power_of_two();
        if has_chunks && (p.chunk_sectors == 0 || odd_chunk) {
            return Err(GeometryError::Chunk(level, p.chunk_sectors));
        }
        let chunk = if has_chunks { u64::from(p.chunk_sectors) } else { 0 };
        for &sectors in &p.member_sectors {
            if sectors < chunk.max(1) || sectors > MAX_MEMBER_SECTORS {
                return Err(GeometryError::MemberSectors(sectors));
            }
        }
        let rows = smallest.checked_div(chunk).unwrap_or(0);
        let rule = match level {
            Level::Single | Level::Raid1 => Rule::Equal,
            Level::Linear => Rule::Linear(starts(p)),
            Level::Raid0 => Rule::Striped(Raid0::new(p, chunk)?),
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                Rule::Parity(Raid456::new(level, p.layout, disks, rows)?)
            }
            Level::Raid10 => {
                let raid10 = Raid10::new(p.layout, disks, rows)?;
                Rule::Mirrored(raid10.ok_or(GeometryError::MemberSectors(smallest))?)
            }
        };
        let array_sectors = match &rule {
            Rule::Equal => smallest,
            Rule::Linear(starts) => starts[disks as usize],
            Rule::Striped(r) => r.array_chunks() * chunk,
            Rule::Parity(r) => r.array_chunks() * chunk,
            Rule::Mirrored(r) => r.array_chunks() * chunk,
        };
        Ok(Self { level, disks, chunk, array_sectors, rule })
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// Members, missing ones included.
    pub fn disks(&self) -> u32 {
        self.disks
    }

    /// Chunk in sectors; `None` for single, RAID 1 and linear.
    pub fn chunk_sectors(&self) -> Option<u64> {
        (self.chunk != 0).then_some(self.chunk)
    }

    /// Size of the array in sectors, as md computes it when it starts (`raid0_size`, `raid5_size`,
    /// `raid10_size`); sysfs `md/array_size` can set less.
    pub fn array_sectors(&self) -> u64 {
        self.array_sectors
    }

    /// Period of the mapping in array chunks: chunks `c` and `c + period` have their copies and
    /// their parity on the same slots. `None` without chunks, and for a RAID 0 of unequal members.
    pub fn period(&self) -> Option<u64> {
        let disks = u64::from(self.disks);
        match &self.rule {
            Rule::Equal | Rule::Linear(_) => None,
            Rule::Striped(r) => (r.zones().len() == 1).then_some(disks),
            Rule::Parity(r) => Some(u64::from(r.period()) * u64::from(r.data())),
            Rule::Mirrored(_) => Some(disks),
        }
    }

    /// Sectors of the slot's data area that the level uses, parity and unused chunks of the last
    /// row included; 0 for a slot that does not exist.
    pub fn used_sectors(&self, slot: u32) -> u64 {
        if slot >= self.disks {
            return 0;
        }
        match &self.rule {
            Rule::Equal => self.array_sectors,
            Rule::Linear(starts) => starts[slot as usize + 1] - starts[slot as usize],
            Rule::Striped(r) => r.rows(slot) * self.chunk,
            Rule::Parity(r) => r.rows() * self.chunk,
            Rule::Mirrored(r) => r.member_rows() * self.chunk,
        }
    }

    /// Content of `sector` of this slot's data area. [`Mapping::Unused`] with an unlimited run
    /// after the sectors that the level uses, and for a slot that does not exist.
    pub fn locate(&self, slot: u32, DataSector(sector): DataSector) -> Mapping {
        let used = self.used_sectors(slot);
        if sector >= used {
            let run = u64::MAX - sector;
            return Mapping::Unused { run };
        }
        if self.chunk == 0 {
            let run = used - sector;
            let sector = ArraySector(self.first(slot) + sector);
            return Mapping::Data { sector, run };
        }
        let (row, rest) = (sector / self.chunk, sector % self.chunk);
        let run = self.chunk - rest;
        let chunk = match &self.rule {
            Rule::Equal | Rule::Linear(_) => Chunk::Data(row),
            Rule::Striped(r) => Chunk::Data(r.chunk_at(slot, row)),
            Rule::Parity(r) => r.chunk_at(slot, row),
            Rule::Mirrored(r) => Chunk::Data(r.chunk_at(slot, row)),
        };
        let which = match chunk {
            Chunk::Data(c) if c * self.chunk >= self.array_sectors => {
                return Mapping::Unused { run };
            }
            Chunk::Data(c) => {
                let sector = ArraySector(c * self.chunk + rest);
                return Mapping::Data { sector, run };
            }
            Chunk::P => Parity::P,
            Chunk::Q => Parity::Q,
        };
        Mapping::Parity { which, run }
    }

    /// Slot of every copy of an array sector, and sector on that slot. There is one copy except for
    /// RAID 1 and 10, and none after the end of the array.
    pub fn copies(&self, ArraySector(sector): ArraySector) -> Vec<(u32, DataSector)> {
        if sector >= self.array_sectors {
            return Vec::new();
        }
        if let Rule::Linear(starts) = &self.rule {
            let slot = starts.partition_point(|start| *start <= sector) - 1;
            return vec![(slot as u32, DataSector(sector - starts[slot]))];
        }
        if self.chunk == 0 {
            let sector = DataSector(sector);
            return (0..self.disks).map(|slot| (slot, sector)).collect();
        }
        let (chunk, rest) = (sector / self.chunk, sector % self.chunk);
        let rows = match &self.rule {
            Rule::Equal | Rule::Linear(_) => Vec::new(),
            Rule::Striped(r) => vec![r.map_chunk(chunk)],
            Rule::Parity(r) => vec![r.map_chunk(chunk)],
            Rule::Mirrored(r) => r.copies(chunk),
        };
        rows.into_iter().map(|(slot, row)| (slot, DataSector(row * self.chunk + rest))).collect()
    }

    /// Sectors from this one that are on the same slots, one after the other: to the end of the
    /// chunk, or of the member.
    pub fn run(&self, ArraySector(sector): ArraySector) -> u64 {
        match &self.rule {
            Rule::Equal => u64::MAX,
            Rule::Linear(starts) => {
                let next = starts.get(starts.partition_point(|start| *start <= sector));
                next.map_or(u64::MAX, |next| next - sector)
            }
            _ => self.chunk - sector % self.chunk,
        }
    }

    /// First array sector of a slot of a linear array; 0 for other levels.
    fn first(&self, slot: u32) -> u64 {
        match &self.rule {
            Rule::Linear(starts) => starts[slot as usize],
            _ => 0,
        }
    }

    /// Location of the parity of an array sector; `None` for levels without parity and after the
    /// end of the array.
    pub fn parity(&self, ArraySector(sector): ArraySector) -> Option<ParityAt> {
        match &self.rule {
            Rule::Parity(r) if sector < self.array_sectors => {
                let row = r.map_chunk(sector / self.chunk).1;
                let (p, q) = r.parity(row);
                let sector = DataSector(row * self.chunk + sector % self.chunk);
                Some(ParityAt { p, q, sector })
            }
            _ => None,
        }
    }
}

/// First array sector of each slot of a linear array, and the array's size (linear.c,
/// linear_conf).
fn starts(p: &Params) -> Vec<u64> {
    let of_slot = |slot: usize| *p.member_sectors.get(slot).unwrap_or(&p.member_sectors[0]);
    let round = u64::from(p.chunk_sectors).max(1);
    let mut end = 0;
    let slots = (0..p.disks as usize).map(|slot| {
        end += of_slot(slot) / round * round;
        end
    });
    std::iter::once(0).chain(slots).collect()
}
