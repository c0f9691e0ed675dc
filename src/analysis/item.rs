//! What a recording is made of: what the recorder produces, what the reader yields, what the model adds up.

use crate::analysis::counters::CostCounters;
use crate::analysis::files::FileId;
use crate::analysis::fold::Subject;
use crate::analysis::snapshot::{Lost, Overhead};
use crate::origin::{Op, Origin};
use serde::{Deserialize, Serialize};

/// Reason of rows that are lost though they had reached the recorder.
pub const TOO_SLOW: &str = "the disk was too slow";

/// One thing that happened. Times are µs since 1970, UTC. Nearly in their order: none is more than 2 s older than one
/// before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A request of a member completed.
    Request(Request),
    /// More of a request: bytes of another origin than its first.
    Part(Part),
    /// A bio was submitted to an array.
    Submission(Submission),
    /// Metadata or file data that a task dirtied in an interval, and that others write later.
    Dirtied(Dirtied),
    /// What everything was like: first of all, about every second, after each restart and change of members, last of all.
    State(Box<State>),
    /// Something that should be known.
    Note {
        /// When.
        time_us: i64,
        /// A sentence.
        text: String,
    },
    /// Something is missing from here on back to the last [`State`].
    Lost {
        /// When it was found out.
        time_us: i64,
        /// Why: `ring full`.
        reason: String,
        /// How many events.
        count: u64,
    },
}

impl Item {
    /// When, µs since 1970.
    pub fn time_us(&self) -> i64 {
        match self {
            Self::Request(r) => r.time_us,
            Self::Part(p) => p.time_us,
            Self::Submission(s) => s.time_us,
            Self::Dirtied(d) => d.time_us,
            Self::State(s) => s.time_us,
            Self::Note { time_us, .. } | Self::Lost { time_us, .. } => *time_us,
        }
    }
}

/// A completed request of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it completed.
    pub time_us: i64,
    /// Number of the member, through all arrays in the order of the last [`State`].
    pub member: u32,
    /// What it did.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Of its first bio.
    pub origin: Origin,
    /// 512-byte sectors from the member's start.
    pub sector: u64,
    /// On the outermost array; `None`: it stands for none there (parity, md's own, a flush), or while reshaping.
    pub array_sector: Option<u64>,
    /// Bytes of all origins.
    pub length: u32,
    /// Bytes of `origin`; the rest are in [`Part`]s.
    pub bytes: u32,
    /// Allocation to issue; `None`: not known.
    pub queue_us: Option<u32>,
    /// Issue to completion; `None`: not known.
    pub device_us: Option<u32>,
    /// It failed.
    pub error: bool,
    /// Who submitted it, where that is known.
    pub pid: Option<u32>,
    /// Whose data it is, where that is known.
    pub file: Option<FileId>,
}

/// Bytes of a request that are of another origin than its first, or that completed before the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// When they completed.
    pub time_us: i64,
    /// As [`Request::member`].
    pub member: u32,
    /// What the request did.
    pub op: Op,
    /// What these bytes are.
    pub origin: Origin,
    /// As [`Request::sector`].
    pub sector: u64,
    /// How many.
    pub bytes: u32,
}

/// A bio that was submitted to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// When; of a read whose content had to tell what it is, when that was known.
    pub time_us: i64,
    /// Number of the array in the last [`State`].
    pub array: u32,
    /// What it does.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// What it is.
    pub origin: Origin,
    /// 512-byte sectors from the array's start.
    pub array_sector: u64,
    /// Bytes.
    pub length: u32,
    /// Thread id in the initial pid namespace.
    pub pid: u32,
    /// Of file data: whose; `None` where that could not be told.
    pub file: Option<FileId>,
}

/// Bytes that a task dirtied between one [`State`] and the next: the kernel side adds them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirtied {
    /// The end of the interval: a µs before the state that ends it.
    pub time_us: i64,
    /// As [`Submission::array`].
    pub array: u32,
    /// [`Origin::Unknown`]: metadata.
    pub origin: Origin,
    /// How many. Of more there are several rows.
    pub bytes: u32,
    /// As [`Submission::pid`].
    pub pid: u32,
    /// Of file data: whose; `None` where that was lost.
    pub file: Option<FileId>,
}

/// What everything was like at one moment. What is cumulative began at the start of the recording, or at the last restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// When.
    #[serde(skip)]
    pub time_us: i64,
    /// The programs were loaded anew, or members have changed: numbers of arrays and members and what is cumulative begin
    /// anew.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
    /// The arrays, in the order of their numbers.
    pub arrays: Vec<Subject>,
    /// What completing stripes cost, by number of the array and the origin that dirtied them; cumulative.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<(u32, Origin, CostCounters)>,
    /// What was not counted; cumulative.
    pub lost: Lost,
    /// What tracing cost; cumulative.
    pub overhead: Overhead,
    /// What this kernel or host cannot give, and what has changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How a request or bio was submitted: the kernel's flags beside its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// REQ_PREFLUSH.
    pub const PREFLUSH: Self = Self(1);
    /// REQ_FUA.
    pub const FUA: Self = Self(1 << 1);
    /// REQ_RAHEAD.
    pub const AHEAD: Self = Self(1 << 2);
    /// REQ_SYNC.
    pub const SYNC: Self = Self(1 << 3);
    /// REQ_META.
    pub const META: Self = Self(1 << 4);
    /// REQ_BACKGROUND.
    pub const BACKGROUND: Self = Self(1 << 5);
    /// Letters of the bits, lowest first, nearly as blktrace has them.
    const LETTERS: [char; 6] = ['P', 'F', 'A', 'S', 'M', 'B'];

    /// `FS`: FUA and sync. Bits that are no flag are left out.
    pub fn letters(self) -> String {
        let bits = Self::LETTERS.iter().enumerate();
        bits.filter(|(bit, _)| self.0 >> bit & 1 == 1)
            .map(|(_, &letter)| letter)
            .collect()
    }

    /// The inverse; letters that are none of ours are left out.
    pub fn parse(letters: &str) -> Self {
        let bit = |c| Self::LETTERS.iter().position(|&l| l == c);
        Self(letters.chars().filter_map(bit).fold(0, |f, b| f | 1 << b))
    }
}

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn flags_are_letters_and_back() {
        for bits in 0..1 << 6 {
            assert_eq!(Flags::parse(&Flags(bits).letters()), Flags(bits));
        }
        assert_eq!(Flags(Flags::FUA.0 | Flags::SYNC.0).letters(), "FS");
        assert_eq!(Flags(0).letters(), "");
        assert_eq!(Flags::parse("ZS"), Flags::SYNC);
    }
}
