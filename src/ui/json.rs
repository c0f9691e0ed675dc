//! `--json`: the contract `raidtrace.top/1`, one object per interval and line.
//!
//! Names and meanings of fields never change; fields may be added. The types of a snapshot that are
//! serialized as they are have the names in serde's attributes; the structs here add, join or leave
//! out figures. Figures cover the interval, except those of `hotspot` (`over_s`) and `slow`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::text::is_hidden;
use crate::analysis::amplification::{Amplification, OriginAmplification};
use crate::analysis::around::DeviceIo;
use crate::analysis::counters::TaskCounters;
use crate::analysis::figures;
use crate::analysis::files::{FileIo, FileSnapshot, Files};
use crate::analysis::hist::Quantiles;
use crate::analysis::hotspot::Hotspot;
use crate::analysis::lost::Lost;
use crate::analysis::overhead::OverheadLine;
use crate::analysis::snapshot::{
    ArraySnapshot, DiskUse, JournalStalls, MemberSnapshot, Snapshot, TaskIo, TaskSnapshot,
};
use crate::analysis::time;
use crate::analysis::units::{is_zero, round};
use crate::analysis::verdict::Verdict;
use crate::origin::{Op, Origin};
use crate::recording::file_json::FileJson;

/// Writes `snapshot` as one line and flushes it.
pub fn write(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    write_line(out, &JsonInterval::from(snapshot))
}

/// Writes any value as one line and flushes it.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = Vec::with_capacity(4096);
    write_value(&mut line, value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Writes any value as JSON that is safe on a terminal.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Printable))?;
    Ok(())
}

/// Formatter for compact JSON that also escapes DEL, C1 and bidi characters, so that a terminal
/// neither acts on nor hides any character. A parser restores them.
struct Printable;

impl serde_json::ser::Formatter for Printable {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (at, c) in fragment.char_indices() {
            if c.is_control() || is_hidden(c) {
                out.write_all(&fragment.as_bytes()[plain..at])?;
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
                plain = at + c.len_utf8();
            }
        }
        out.write_all(&fragment.as_bytes()[plain..])
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct JsonInterval<'a> {
    schema: &'static str,
    time: String,
    local_time: String,
    interval_s: f64,
    arrays: Vec<JsonArray<'a>>,
    lost: Losses,
    overhead: OverheadLine,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct JsonArray<'a> {
    name: &'a str,
    /// The volume `vg/lv` of an LVM RAID, or its name in /dev/mapper if LVM did not make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<&'a str>,
    level: &'a str,
    chunk_bytes: u64,
    bytes: u64,
    disks: u32,
    health: Option<&'a str>,
    filesystems: &'a [String],
    hotspot: Option<&'a Hotspot>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'a Verdict>,
    /// The longest slow operation of the last ten seconds; only with --slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    slow: Option<&'a str>,
    members: Vec<JsonMember<'a>>,
    tasks: Vec<JsonTask<'a>>,
    amplification: Vec<Amplified>,
    files: Vec<JsonFileIo>,
    files_rest: TaskCounters,
    files_unattributed: TaskCounters,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dirtied_files: Vec<DirtiedFile>,
    #[serde(skip_serializing_if = "<[JournalStalls]>::is_empty")]
    journal_stalls: &'a [JournalStalls],
    /// Statistics of the thin volumes whose pool has blocks on the array, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    thin_volumes: Option<&'a BTreeMap<String, DeviceIo>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonMember<'a> {
    name: &'a str,
    slot: Option<u32>,
    health: Option<&'a str>,
    disk: Option<DiskUse>,
    /// Statistics of the NVMe paths, by name, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<&'a BTreeMap<String, DeviceIo>>,
    io: Vec<JsonIo>,
    /// The other figures that are counted, by name and operation.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "crate::test_schema::CountedFields"))]
    counted: BTreeMap<String, BTreeMap<Op, u64>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonIo {
    origin: Origin,
    op: Op,
    requests: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    empty_writes: u64,
    queue_us: Quantiles,
    device_us: Quantiles,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonTask<'a> {
    pid: u32,
    comm: Cow<'a, str>,
    cgroup: Option<&'a str>,
    role: Option<&'a str>,
    io: &'a [TaskIo],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dirtied: Vec<DirtiedOrigin>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dirtied_files: Vec<DirtiedFile>,
}

/// Metadata and file data that jbd2 and writeback write later. `unknown`: metadata whose origin is
/// not traced.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DirtiedOrigin {
    origin: Origin,
    bytes: u64,
}

/// Amplification over the interval. The screen shows amplification over the last 10 s, in which
/// hotspots are found.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Amplified {
    #[serde(flatten)]
    row: OriginAmplification,
    factor: Option<f64>,
}

/// A file and operation.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonFileIo {
    #[serde(flatten)]
    file: FileJson,
    #[serde(flatten)]
    io: FileIo,
}

/// File data that was dirtied.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DirtiedFile {
    #[serde(flatten)]
    file: FileJson,
    bytes: u64,
}

/// Events that were not counted, by reason; `events` is their sum.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Losses {
    events: u64,
    #[serde(flatten)]
    by_reason: Lost,
}

impl<'a> From<&'a Snapshot> for JsonInterval<'a> {
    fn from(s: &'a Snapshot) -> Self {
        Self {
            schema: "raidtrace.top/1",
            time: s.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            local_time: s.time.to_zoned(time::local()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            interval_s: round(s.interval.as_secs_f64()),
            arrays: s.arrays.iter().map(|a| JsonArray::new(a, s.interval)).collect(),
            lost: Losses::from(s.lost),
            overhead: s.overhead.into(),
            notes: &s.notes,
        }
    }
}

impl From<Lost> for Losses {
    fn from(lost: Lost) -> Self {
        Self { events: lost.events(), by_reason: lost }
    }
}

impl<'a> JsonArray<'a> {
    pub(crate) fn new(a: &'a ArraySnapshot, interval: Duration) -> Self {
        let amplification = Amplification::new(a, interval);
        Self {
            name: &a.info.name,
            volume: a.info.volume.as_deref(),
            level: &a.info.level,
            chunk_bytes: a.info.chunk_bytes,
            bytes: a.info.bytes,
            disks: a.info.disks,
            health: a.info.health.as_deref(),
            filesystems: &a.info.filesystems,
            hotspot: a.hotspot.as_ref(),
            verdict: a.verdict.as_ref(),
            slow: a.slow.as_deref(),
            members: a.members.iter().map(|m| JsonMember::new(m, a)).collect(),
            tasks: a.tasks.iter().map(JsonTask::from).collect(),
            amplification: (amplification.rows.into_iter())
                .map(|row| Amplified { row, factor: row.factor().map(round) })
                .collect(),
            files: a.files.busiest.iter().flat_map(JsonFileIo::for_each_op).collect(),
            files_rest: a.files.rest,
            files_unattributed: a.files.unattributed,
            dirtied_files: DirtiedFile::all(&a.dirtied_files),
            journal_stalls: &a.journal_stalls,
            thin_volumes: (a.around.as_ref().map(|around| &around.thin_volumes))
                .filter(|volumes| !volumes.is_empty()),
        }
    }
}

impl<'a> JsonMember<'a> {
    fn new(m: &'a MemberSnapshot, array: &'a ArraySnapshot) -> Self {
        let io = m.io.iter().filter(|c| c.requests > 0 || c.bytes > 0).map(|c| JsonIo {
            origin: c.origin,
            op: c.op,
            requests: c.requests,
            bytes: c.bytes,
            empty_writes: c.empty_writes(),
            queue_us: Quantiles::from(&c.queue),
            device_us: Quantiles::from(&c.device),
        });
        Self {
            name: &m.name,
            slot: m.slot,
            health: m.health.as_deref(),
            disk: m.disk,
            paths: array.around.as_ref().and_then(|around| around.paths.get(&m.name)),
            io: io.collect(),
            counted: figures::by_name(&m.counted),
        }
    }
}

impl<'a> From<&'a TaskSnapshot> for JsonTask<'a> {
    fn from(t: &'a TaskSnapshot) -> Self {
        Self {
            pid: t.pid,
            comm: String::from_utf8_lossy(&t.comm),
            cgroup: t.cgroup.as_deref(),
            role: t.role.as_deref(),
            io: &t.io,
            dirtied: t
                .dirtied
                .iter()
                .map(|i| DirtiedOrigin { origin: i.origin, bytes: i.bytes })
                .collect(),
            dirtied_files: DirtiedFile::all(&t.dirtied_files),
        }
    }
}

impl JsonFileIo {
    fn for_each_op(file: &FileSnapshot) -> impl Iterator<Item = Self> {
        file.io.iter().map(|io| Self { file: line(file), io: *io })
    }
}

impl DirtiedFile {
    fn all<const MAX: usize>(files: &Files<MAX>) -> Vec<Self> {
        let one = |file: &FileSnapshot| Self { file: line(file), bytes: file.bytes() };
        files.busiest.iter().map(one).collect()
    }
}

fn line(file: &FileSnapshot) -> FileJson {
    FileJson::new(&file.id, &file.location)
}

#[cfg(test)]
mod tests;
