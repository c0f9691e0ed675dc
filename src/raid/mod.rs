//! The geometry: member address <-> array address, for every level and layout of md.
//!
//! Pure arithmetic. Knows neither BPF nor this machine: whoever calls reads sysfs or superblocks and
//! subtracts `data_offset`. The kernel side (`bpf/geometry.bpf.h`) does the same with the tables of
//! [`wire`]; tests compare the two.
//!
//! All addresses and sizes are in 512-byte sectors; a member address is relative to the member's data
//! area. A *row* is the chunks with one number on all members.

mod params;
mod raid0;
mod raid10;
mod raid456;
pub mod wire;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tables;

pub use params::{GeometryError, Level, Params};
use raid0::Raid0;
use raid10::Raid10;
use raid456::Raid456;

/// More members than this in one array are refused: slots and positions are bytes on the wire.
pub const MAX_DISKS: u32 = 255;
/// More strip zones than this in a RAID 0 (as many as its members have different sizes) are refused.
pub const MAX_ZONES: usize = crate::contract::GEOMETRY_ZONES as usize;
/// Larger members are refused, so that no product of addresses can overflow: 8 ZiB.
const MAX_MEMBER_SECTORS: u64 = 1 << 54;

/// Which parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parity {
    /// The XOR.
    P,
    /// RAID 6's second.
    Q,
}

/// What lies at a sector of a member's data area. `run`: for how many sectors, this one included, the
/// same rule goes on. Runs end with the chunk even where the next chunk happens to follow on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A copy of an array sector.
    Data {
        /// Array sector.
        sector: u64,
        /// Sectors; array address and member address grow together.
        run: u64,
    },
    /// Parity of the row.
    Parity {
        /// P or Q.
        which: Parity,
        /// Sectors.
        run: u64,
    },
    /// Nothing of the array: behind its end, or a tail lost to rounding.
    Unused {
        /// Sectors.
        run: u64,
    },
}

/// Where the parity of an array sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityAt {
    /// Slot with P.
    pub p: u32,
    /// Slot with Q; `None` but for RAID 6.
    pub q: Option<u32>,
    /// Sector in the data area of both, and of the data too.
    pub sector: u64,
}

/// One array's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    disks: u32,
    /// Sectors; 0 for [`Rule::Linear`].
    chunk: u64,
    array_sectors: u64,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Single and RAID 1: every member has every sector at its own place.
    Linear,
    Striped(Raid0),
    Parity(Raid456),
    Mirrored(Raid10),
}

/// What a chunk of a member is; the chunk number counts from the array's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Data(u64),
    P,
    Q,
}

impl Geometry {
    /// Checks that md could run such an array and prepares its arithmetic.
    pub fn new(p: &Params) -> Result<Self, GeometryError> {
        let Params { level, disks, .. } = *p;
        let least = match level {
            Level::Single | Level::Raid0 | Level::Raid1 => 1,
            Level::Raid4 | Level::Raid5 | Level::Raid10 => 2,
            Level::Raid6 => 4,
        };
        if disks < least || (level == Level::Single && disks != 1) {
            return Err(GeometryError::Disks { level, disks });
        }
        if disks > MAX_DISKS {
            return Err(GeometryError::TooManyDisks(disks));
        }
        let sizes = p.member_sectors.len();
        if sizes != 1 && sizes != disks as usize {
            return Err(GeometryError::Sizes { sizes, disks });
        }
        let smallest = p.member_sectors.iter().copied().min().unwrap_or(0);
        let linear = matches!(level, Level::Single | Level::Raid1);
        // Only raid0.c divides by a chunk that is no power of two; the others shift.
        let odd_chunk = level != Level::Raid0 && !p.chunk_sectors.is_power_of_two();
        if !linear && (p.chunk_sectors == 0 || odd_chunk) {
            let chunk = p.chunk_sectors;
            return Err(GeometryError::Chunk { level, chunk });
        }
        let chunk = if linear {
            0
        } else {
            u64::from(p.chunk_sectors)
        };
        for &sectors in &p.member_sectors {
            if sectors < chunk.max(1) || sectors > MAX_MEMBER_SECTORS {
                return Err(GeometryError::MemberSectors(sectors));
            }
        }
        let rows = smallest.checked_div(chunk).unwrap_or(0);
        let rule = match level {
            Level::Single | Level::Raid1 => Rule::Linear,
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
            Rule::Linear => smallest,
            Rule::Striped(r) => r.array_chunks() * chunk,
            Rule::Parity(r) => r.array_chunks() * chunk,
            Rule::Mirrored(r) => r.array_chunks() * chunk,
        };
        Ok(Self {
            level,
            disks,
            chunk,
            array_sectors,
            rule,
        })
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Members, missing ones included.
    pub fn disks(&self) -> u32 {
        self.disks
    }

    /// Chunk in sectors; `None` for single and RAID 1, which have none.
    pub fn chunk_sectors(&self) -> Option<u64> {
        (self.chunk != 0).then_some(self.chunk)
    }

    /// Size of the array in sectors, as md computes it when it starts (`raid0_size`, `raid5_size`,
    /// `raid10_size`); sysfs `md/array_size` can set less.
    pub fn array_sectors(&self) -> u64 {
        self.array_sectors
    }

    /// Chunks of the array after which members repeat: chunk `c` and chunk `c + period` have their copies, and their
    /// parity, on the same slots. `None` where there is no chunk, and for a RAID 0 of unequal members.
    pub fn period(&self) -> Option<u64> {
        let disks = u64::from(self.disks);
        match &self.rule {
            Rule::Linear => None,
            Rule::Striped(r) => (r.zones().len() == 1).then_some(disks),
            Rule::Parity(r) => Some(u64::from(r.period()) * u64::from(r.data())),
            Rule::Mirrored(_) => Some(disks),
        }
    }

    /// Sectors of the slot's data area that the level uses, parity and spare chunks of the last row
    /// included; 0 for a slot that does not exist.
    pub fn used_sectors(&self, slot: u32) -> u64 {
        if slot >= self.disks {
            return 0;
        }
        match &self.rule {
            Rule::Linear => self.array_sectors,
            Rule::Striped(r) => r.rows(slot) * self.chunk,
            Rule::Parity(r) => r.rows() * self.chunk,
            Rule::Mirrored(r) => r.member_rows() * self.chunk,
        }
    }

    /// What lies at `sector` of this slot's data area; [`Place::Unused`] without end behind what the
    /// level uses and for a slot that does not exist.
    pub fn locate(&self, slot: u32, sector: u64) -> Place {
        let used = self.used_sectors(slot);
        if sector >= used {
            let run = u64::MAX - sector;
            return Place::Unused { run };
        }
        if self.chunk == 0 {
            let run = used - sector;
            return Place::Data { sector, run };
        }
        let (row, rest) = (sector / self.chunk, sector % self.chunk);
        let run = self.chunk - rest;
        let chunk = match &self.rule {
            Rule::Linear => Chunk::Data(row),
            Rule::Striped(r) => Chunk::Data(r.chunk_at(slot, row)),
            Rule::Parity(r) => r.chunk_at(slot, row),
            Rule::Mirrored(r) => Chunk::Data(r.chunk_at(slot, row)),
        };
        let which = match chunk {
            Chunk::Data(c) if c * self.chunk >= self.array_sectors => return Place::Unused { run },
            Chunk::Data(c) => {
                let sector = c * self.chunk + rest;
                return Place::Data { sector, run };
            }
            Chunk::P => Parity::P,
            Chunk::Q => Parity::Q,
        };
        Place::Parity { which, run }
    }

    /// Every place of an array sector: slot and sector in its data area. One but for RAID 1 and 10,
    /// none behind the array's end.
    pub fn copies(&self, array_sector: u64) -> Vec<(u32, u64)> {
        if array_sector >= self.array_sectors {
            return Vec::new();
        }
        if self.chunk == 0 {
            return (0..self.disks).map(|slot| (slot, array_sector)).collect();
        }
        let (chunk, rest) = (array_sector / self.chunk, array_sector % self.chunk);
        let rows = match &self.rule {
            Rule::Linear => Vec::new(),
            Rule::Striped(r) => vec![r.place(chunk)],
            Rule::Parity(r) => vec![r.place(chunk)],
            Rule::Mirrored(r) => r.places(chunk),
        };
        rows.into_iter()
            .map(|(slot, row)| (slot, row * self.chunk + rest))
            .collect()
    }

    /// Where the parity of an array sector lies; `None` for levels without parity and behind the
    /// array's end.
    pub fn parity(&self, array_sector: u64) -> Option<ParityAt> {
        match &self.rule {
            Rule::Parity(r) if array_sector < self.array_sectors => {
                let row = r.place(array_sector / self.chunk).1;
                let (p, q) = r.parity(row);
                let sector = row * self.chunk + array_sector % self.chunk;
                Some(ParityAt { p, q, sector })
            }
            _ => None,
        }
    }
}
