//! An interval of `raidtrace slow` as JSON (schema raidtrace.slow/1): printed by `--json`, and
//! stored in `slow` rows of a recording.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::interval::{self, MAX_BYTES, clip, device, number};
use super::limits::at_most;
use crate::analysis::cube::Cube;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::item::Item;
use crate::analysis::slow::advice::PhaseAdvice;
use crate::analysis::slow::event::OperationKind;
use crate::analysis::slow::names::{Names, SlowOperation};
use crate::analysis::slow::snapshot::{KindSum, SlowLost, SlowSnapshot};
use crate::printable::escape;

mod commit;
mod operation;
#[cfg(test)]
mod tests;

use commit::CommitLine;
use operation::OperationLine;

/// Version of the JSON.
pub const SCHEMA: &str = "raidtrace.slow/1";

/// Maximum number of operations, commits, or texts of an interval.
const ROWS: usize = 16_384;
/// Maximum number of phases of an operation, functions of a stack, and holders or files of a
/// commit.
const PARTS: usize = 128;

/// Slow operations of an interval. Times without a unit in their names are RFC 3339.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SlowInterval {
    schema: String,
    time: String,
    interval_s: f64,
    threshold_us: u64,
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    operations: Vec<OperationLine>,
    /// Operations that have not ended, at most 256. `total_us` is their age.
    #[serde(default, deserialize_with = "at_most::<_, _, ROWS>")]
    unended: Vec<OperationLine>,
    /// Number of all operations that have not ended.
    #[serde(default)]
    unended_count: u64,
    /// All operations that ended, slow or not.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, KindLine>"))]
    kinds: BTreeMap<OperationKind, KindLine>,
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    commits: Vec<CommitLine>,
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    advice: Vec<PhaseAdvice>,
    lost: LostLine,
    /// Device numbers (`8:32`) of filesystems and members, by name.
    devices: BTreeMap<String, String>,
    /// Number of members of each array.
    members: BTreeMap<String, usize>,
    #[serde(
        default,
        deserialize_with = "at_most::<_, _, ROWS>",
        skip_serializing_if = "Vec::is_empty"
    )]
    notes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct KindLine {
    count: u64,
    slow: u64,
    total_us: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LostLine {
    events: u64,
    reasons: SlowLost,
}

/// A file, on the filesystem of the operation or commit that names it.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileLine {
    /// `None` if it could not be found.
    path: Option<String>,
    inode: u64,
    generation: u32,
}

impl FileLine {
    fn new(id: &FileId, names: &Names) -> Self {
        Self { path: names.path(id).map(escape), inode: id.inode, generation: id.generation }
    }

    fn read(self, dev: u32, reading: &mut SlowLineReader) -> FileId {
        let id = FileId { dev, inode: self.inode, generation: self.generation };
        if let Some(path) = self.path {
            let location =
                FileLocation { path: Some(path.into_bytes()), ..FileLocation::default() };
            reading.names.files.insert(id, location);
        }
        id
    }
}

/// State for reading an interval: the JSON has device names, a snapshot has device numbers.
#[derive(Default)]
struct SlowLineReader {
    names: Names,
    numbers: HashMap<String, u32>,
}

impl SlowLineReader {
    fn device(&self, name: &str) -> Result<u32, String> {
        let known = self.numbers.get(name).copied();
        // An unknown device was written with its number as its name.
        let dev = known.or_else(|| number(name).ok());
        dev.ok_or_else(|| format!("the device {:?} has no number", clip(name)))
    }
}

impl SlowInterval {
    /// Converts a snapshot.
    pub fn new(s: &SlowSnapshot) -> Self {
        let kind = |(kind, sum): (&OperationKind, &KindSum)| {
            let line = KindLine { count: sum.count, slow: sum.slow, total_us: sum.ns / 1000 };
            (*kind, line)
        };
        Self {
            schema: SCHEMA.to_owned(),
            time: s.time.to_string(),
            interval_s: s.interval.as_secs_f64(),
            threshold_us: u64::try_from(s.threshold.as_micros()).unwrap_or(u64::MAX),
            operations: s.operations.iter().map(|o| OperationLine::new(o, s)).collect(),
            unended: s.unended.iter().map(|o| OperationLine::new(o, s)).collect(),
            unended_count: s.unended_count,
            kinds: s.kinds.iter().map(kind).collect(),
            commits: s.commits.iter().map(|c| CommitLine::new(c, s)).collect(),
            advice: s.advice.clone(),
            lost: LostLine { events: s.lost.total(), reasons: s.lost },
            devices: s
                .names
                .devices
                .iter()
                .map(|(dev, name)| (name.clone(), device(*dev)))
                .collect(),
            members: s.names.members.clone().into_iter().collect(),
            notes: s.notes.clone(),
        }
    }

    /// Creates the item for a `slow` row of a recording. If it is too long, the shortest operations
    /// are left out and counted as lost.
    ///
    /// # Errors
    /// Never in practice: all types can be serialized.
    pub fn item(s: &SlowSnapshot) -> serde_json::Result<Item> {
        let mut json = serde_json::to_string(&Self::new(s))?;
        if json.len() > MAX_BYTES {
            let mut less = s.clone();
            while json.len() > MAX_BYTES && !less.operations.is_empty() {
                let keep = less.operations.len() / 2;
                less.lost.tables += (less.operations.len() - keep) as u64;
                less.operations.truncate(keep);
                json = serde_json::to_string(&Self::new(&less))?;
            }
        }
        Ok(Item::Slow { time_us: s.time.as_microsecond(), json })
    }

    /// Parses the JSON of a `slow` row.
    ///
    /// # Errors
    /// The text is too long or invalid.
    pub fn parse(time_us: i64, json: &str) -> Result<SlowSnapshot, String> {
        interval::parse(json, SCHEMA, |interval: &Self| &interval.schema)?.read(time_us)
    }

    fn read(self, time_us: i64) -> Result<SlowSnapshot, String> {
        let time = jiff::Timestamp::from_microsecond(time_us);
        let interval = interval::length(self.interval_s)?;
        let mut reading = SlowLineReader::default();
        for (name, dev) in self.devices {
            let dev = number(&dev)?;
            reading.names.devices.insert(dev, name.clone());
            reading.numbers.insert(name, dev);
        }
        let mut operations =
            |lines: Vec<OperationLine>, unended| -> Result<Vec<SlowOperation>, String> {
                lines.into_iter().map(|line| line.read(unended, &mut reading)).collect()
            };
        let unended = operations(self.unended, true)?;
        let operations = operations(self.operations, false)?;
        let commits: Result<_, String> =
            self.commits.into_iter().map(|c| c.read(&mut reading)).collect();
        let mut kinds = Cube::default();
        for (kind, sum) in self.kinds {
            let sum =
                KindSum { count: sum.count, ns: sum.total_us.saturating_mul(1000), slow: sum.slow };
            kinds.insert(kind, sum);
        }
        reading.names.members = self.members.into_iter().collect();
        Ok(SlowSnapshot {
            time: time.map_err(|_| format!("{time_us} is not a time"))?,
            // The clock of a snapshot read from a recording is UTC.
            clock_ns: u64::try_from(time_us).unwrap_or(0).saturating_mul(1000),
            interval,
            threshold: Duration::from_micros(self.threshold_us),
            operations,
            unended,
            unended_count: self.unended_count,
            kinds,
            commits: commits?,
            advice: self.advice,
            lost: self.lost.reasons,
            names: reading.names,
            notes: self.notes,
            ..SlowSnapshot::default()
        })
    }
}

/// Serializes kinds in the order of their names.
fn by_name<S: Serializer>(
    kinds: &BTreeMap<OperationKind, KindLine>,
    out: S,
) -> Result<S::Ok, S::Error> {
    let named: BTreeMap<_, _> = kinds.iter().map(|(kind, line)| (kind.to_string(), line)).collect();
    named.serialize(out)
}

/// Parses a time to ns since 1970, UTC.
fn nanoseconds(time: &str) -> Result<u64, String> {
    let parsed: Option<jiff::Timestamp> = time.parse().ok();
    let ns = parsed.and_then(|t| u64::try_from(t.as_nanosecond()).ok());
    ns.ok_or_else(|| format!("{:?} is not a time", clip(time)))
}
