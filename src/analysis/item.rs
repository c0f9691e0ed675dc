//! Items of a recording: written by the recorder, returned by the reader, added up by
//! [`super::events`].

use super::cube::Amount as _;
use crate::analysis::counters::CostCounters;
use crate::analysis::figures::Counted;
use crate::analysis::files::FileId;
use crate::analysis::fold::ArrayNow;
use crate::analysis::lost::Lost;
use crate::analysis::snapshot::Overhead;
use crate::origin::{Op, Origin};
use bitflags::bitflags;
use serde::{Deserialize, Serialize};

/// Reason for rows that reached the recorder and were lost there.
pub const TOO_SLOW: &str = "the disk was too slow";

/// Start of the note with the reason why `raidtrace serve` wrote a recording.
pub const WRITTEN_BECAUSE: &str = "written because of ";

/// One event or state. Times are µs since 1970, UTC. Items are nearly in order: none is more than 2
/// s older than an item before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A request of a member completed.
    Request(Request),
    /// Bytes of a request with another origin than its first bio.
    Part(RequestPart),
    /// A bio was submitted to an array.
    Submission(Submission),
    /// Metadata or file data that a task dirtied in an interval and that jbd2 or writeback writes
    /// later.
    Dirtied(Dirtied),
    /// State of all arrays and counters: at the start, about every second, after each restart or
    /// change of members, at the end.
    State(Box<State>),
    /// An interval of the ext4 allocator.
    Alloc {
        /// End of the interval.
        time_us: i64,
        /// JSON, see `crate::recording::alloc::AllocInterval`.
        json: String,
    },
    /// An interval of slow operations.
    Slow {
        /// End of the interval.
        time_us: i64,
        /// JSON, see `crate::recording::slow::SlowInterval`.
        json: String,
    },
    /// A message for the user.
    Note {
        /// Time of the note.
        time_us: i64,
        /// Text, one sentence.
        text: String,
    },
    /// Events are missing between the last [`State`] and this item.
    Lost {
        /// Time of detection.
        time_us: i64,
        /// Reason: `ring full`.
        reason: String,
        /// Number of events.
        count: u64,
    },
}

impl Item {
    /// Time of the item, µs since 1970.
    pub fn time_us(&self) -> i64 {
        match self {
            Self::Request(r) => r.time_us,
            Self::Part(p) => p.time_us,
            Self::Submission(s) => s.time_us,
            Self::Dirtied(d) => d.time_us,
            Self::State(s) => s.time_us,
            Self::Alloc { time_us, .. }
            | Self::Slow { time_us, .. }
            | Self::Note { time_us, .. }
            | Self::Lost { time_us, .. } => *time_us,
        }
    }
}

/// A completed request of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time of completion.
    pub time_us: i64,
    /// Member number, counted through all arrays in the order of the last [`State`].
    pub member: u32,
    /// Operation.
    pub op: Op,
    /// Flags at submission.
    pub flags: RequestFlags,
    /// Origin of the request's first bio.
    pub origin: Origin,
    /// Start in 512-byte sectors on the member.
    pub sector: u64,
    /// Sector on the outermost array; `None` for requests without one (parity, md's own, flushes)
    /// and while reshaping.
    pub array_sector: Option<u64>,
    /// Length in bytes, all origins.
    pub length: u32,
    /// Bytes of `origin`; the rest are in [`RequestPart`]s.
    pub bytes: u32,
    /// Time from allocation to issue; `None` if unknown.
    pub queue_us: Option<u32>,
    /// Time from issue to completion; `None` if unknown.
    pub device_us: Option<u32>,
    /// True if the request failed.
    pub error: bool,
    /// Task that submitted the request, if known.
    pub pid: Option<u32>,
    /// File that the data belongs to, if known.
    pub file: Option<FileId>,
}

/// Bytes of a request that have another origin than its first bio, or that completed before the
/// rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPart {
    /// Time of completion.
    pub time_us: i64,
    /// Member number, see [`Request::member`].
    pub member: u32,
    /// Operation of the request.
    pub op: Op,
    /// Origin of these bytes.
    pub origin: Origin,
    /// Sector, see [`Request::sector`].
    pub sector: u64,
    /// Number of bytes.
    pub bytes: u32,
}

/// A bio that was submitted to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Time of submission; for a read classified by its content, time of the classification.
    pub time_us: i64,
    /// Array number in the last [`State`].
    pub array: u32,
    /// Operation.
    pub op: Op,
    /// Flags at submission.
    pub flags: RequestFlags,
    pub origin: Origin,
    /// Start in 512-byte sectors on the array.
    pub array_sector: u64,
    /// Bytes.
    pub length: u32,
    /// Thread id in the initial pid namespace.
    pub pid: u32,
    /// File, for file data; `None` if unknown.
    pub file: Option<FileId>,
}

/// Bytes that a task dirtied between one [`State`] and the next, added up by the BPF programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirtied {
    /// End of the interval: one µs before the state that ends it.
    pub time_us: i64,
    /// Array number, see [`Submission::array`].
    pub array: u32,
    /// Origin; [`Origin::Unknown`] for all metadata if its origins are not traced.
    pub origin: Origin,
    /// Number of bytes; larger amounts are split into several rows.
    pub bytes: u32,
    /// Thread id, see [`Submission::pid`].
    pub pid: u32,
    /// File, for file data; `None` if that was lost.
    pub file: Option<FileId>,
}

/// State of all arrays and counters at one moment. Cumulative counters start with the recording, or
/// at the last restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    #[serde(skip)]
    pub time_us: i64,
    /// True if programs were reloaded or members have changed: numbers of arrays and members, and
    /// cumulative counters, start again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
    /// Arrays in the order of their numbers.
    pub arrays: Vec<ArrayNow>,
    /// Parity written, and blocks read to compute it, by array number and the origin of the writes
    /// that caused it; cumulative.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<(u32, Origin, CostCounters)>,
    /// The figures of [`COUNTED`](crate::analysis::figures::COUNTED), by member number and
    /// operation; cumulative.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<(u32, Op, Counted)>,
    /// Events that were not counted; cumulative.
    pub lost: Lost,
    /// Time spent tracing; cumulative.
    pub overhead: Overhead,
    /// Data that this kernel or host cannot provide, and changes of the topology.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl State {
    /// Increase of `costs` since `before`.
    pub fn costs_since(&self, before: &Self) -> impl Iterator<Item = (u32, Origin, CostCounters)> {
        self.costs.iter().map(|&(array, origin, cost)| {
            let same = |c: &&(u32, Origin, CostCounters)| (c.0, c.1) == (array, origin);
            let old = before.costs.iter().find(same).map(|c| c.2);
            (array, origin, cost.since(&old.unwrap_or_default()))
        })
    }

    /// Increase of `counted` since `before`.
    pub fn counted_since(&self, before: &Self) -> impl Iterator<Item = (u32, Op, Counted)> {
        self.counted.iter().map(|(member, op, counted)| {
            let same = |c: &&(u32, Op, Counted)| (c.0, c.1) == (*member, *op);
            let old = before.counted.iter().find(same).map(|c| c.2);
            (*member, *op, counted.since(&old.unwrap_or_default()))
        })
    }
}

bitflags! {
    /// Kernel flags of a request or bio, without its operation.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RequestFlags: u8 {
        /// REQ_PREFLUSH.
        const PREFLUSH = 1;
        /// REQ_FUA.
        const FUA = 1 << 1;
        /// REQ_RAHEAD.
        const AHEAD = 1 << 2;
        /// REQ_SYNC.
        const SYNC = 1 << 3;
        /// REQ_META.
        const META = 1 << 4;
        /// REQ_BACKGROUND.
        const BACKGROUND = 1 << 5;
    }
}

impl RequestFlags {
    /// Letters of the bits, lowest first, similar to blktrace.
    const LETTERS: [char; 6] = ['P', 'F', 'A', 'S', 'M', 'B'];

    /// Letters of the flags; `FS` is FUA and sync.
    pub fn letters(self) -> String {
        let all = Self::all().iter().zip(Self::LETTERS);
        all.filter(|(flag, _)| self.contains(*flag)).map(|(_, letter)| letter).collect()
    }

    /// Inverse of [`RequestFlags::letters`]; ignores unknown letters.
    pub fn parse(letters: &str) -> Self {
        let all = Self::all().iter().zip(Self::LETTERS);
        all.filter(|(_, letter)| letters.contains(*letter)).map(|(flag, _)| flag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::RequestFlags;

    #[test]
    fn letters_parse_back_to_flags() {
        for bits in 0..=RequestFlags::all().bits() {
            let flags = RequestFlags::from_bits_retain(bits);
            assert_eq!(RequestFlags::parse(&flags.letters()), flags);
        }
        assert_eq!((RequestFlags::FUA | RequestFlags::SYNC).letters(), "FS");
        assert_eq!(RequestFlags::empty().letters(), "");
        assert_eq!(RequestFlags::parse("ZS"), RequestFlags::SYNC);
    }
}
