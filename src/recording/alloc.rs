//! An interval of `raidtrace alloc` as JSON (schema raidtrace.alloc/1): printed by `--json`, and
//! stored in `alloc` rows of a recording, with stacks. Unknown figures are `null`, never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::analysis::alloc::figures::{
    BITMAPS, DISCARDS, FIGURES, LATENCY, PREALLOCATED, READS, REQUESTS, SEARCHES, WAITS, has,
    has_given, has_groups, is_hooked, notes,
};
use crate::analysis::alloc::{
    AllocContext, AllocSnapshot, Counts, Cpu, FigureSource, Fragmentation, FsAlloc, MbCount,
    Reason, Searching,
};
use crate::analysis::hist::Hist;
use crate::analysis::item::Item;
use crate::analysis::overhead::OverheadLine;
use crate::analysis::profile::Profile;
use crate::analysis::units::round;
use crate::printable::hex;

mod quantiles;
mod searches;
mod shares;
mod stacks;
#[cfg(test)]
mod tests;

use super::interval::{self, clip, device, lossy, number, raw};
use super::limits::at_most;
use quantiles::QuantilesLine;
use searches::{GroupsLine, Searches};
use shares::{FileShareLine, TaskShareLine};
use stacks::Stacks;

/// Version of the JSON.
pub const SCHEMA: &str = "raidtrace.alloc/1";

/// Maximum number of threads written; threads in the allocator come first.
const THREADS: usize = 1024;
const FILESYSTEMS: usize = 256;
/// Maximum number of members of all filesystems in an interval.
const MEMBERS: usize = 4096;
/// Maximum number of tasks or files of a filesystem, of CPUs, of threads, and of stacks.
const ROWS: usize = 16_384;
/// Maximum number of criteria, and of notes.
const TEXTS: usize = 4096;

/// An interval read from a recording.
#[derive(Clone, Debug)]
pub struct RecordedAlloc {
    /// Figures of the interval.
    pub snapshot: AllocSnapshot,
    /// Kernel stacks sampled in the interval. CPUs and threads are in `snapshot` only.
    pub stacks: Profile,
}

/// An interval as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AllocInterval {
    schema: String,
    time: String,
    interval_s: f64,
    #[serde(deserialize_with = "at_most::<_, _, FILESYSTEMS>")]
    filesystems: Vec<FilesystemLine>,
    #[serde(deserialize_with = "at_most::<_, _, TEXTS>")]
    criteria: Vec<String>,
    cpu: Option<Cpu>,
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    cpus: Vec<CpuLine>,
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    on_cpu: Vec<Thread>,
    /// Number of mounted ext4 filesystems that are not watched. Their samples are also in `cpu`.
    other_filesystems: u64,
    sources: BTreeMap<String, FigureSource>,
    lost: LostEvents,
    overhead: OverheadLine,
    #[serde(deserialize_with = "at_most::<_, _, TEXTS>")]
    notes: Vec<String>,
    /// Only in recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks: Option<Stacks>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct LostEvents {
    events: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct FilesystemLine {
    name: String,
    mount: Option<String>,
    dev: String,
    block_bytes: u32,
    groups: u32,
    stripe_blocks: u32,
    mb_group_prealloc: Option<u64>,
    mb_stream_req: Option<u64>,
    searching: Searching,
    reason: Option<Reason>,
    requests: Option<u64>,
    asked_blocks: Option<u64>,
    given: Option<u64>,
    got_blocks: Option<u64>,
    nanoseconds: Option<u64>,
    latency_us: Option<QuantilesLine>,
    searches: Option<Searches>,
    preallocated: Option<u64>,
    discards: Option<u64>,
    looked: Option<GroupsLine>,
    mb_stats: Option<MbCount>,
    bitmaps: Option<Bitmaps>,
    reads: Option<Reads>,
    waits_us: Option<QuantilesLine>,
    #[serde(deserialize_with = "at_most::<_, _, MEMBERS>")]
    members: Vec<MemberLine>,
    fragmentation: Option<Fragmentation>,
    known: AllocContext,
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    tasks: Vec<TaskShareLine>,
    #[serde(deserialize_with = "at_most::<_, _, ROWS>")]
    files: Vec<FileShareLine>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct Bitmaps {
    loaded: u64,
    buddies: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct Reads {
    needed: u64,
    prefetched: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct MemberLine {
    name: String,
    requests: u64,
    bytes: u64,
    device_us: QuantilesLine,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct CpuLine {
    cpu: u32,
    #[serde(flatten)]
    samples: Cpu,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct Thread {
    pid: u32,
    comm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm_bytes: Option<String>,
    #[serde(flatten)]
    samples: Cpu,
}

impl FilesystemLine {
    fn new(s: &AllocSnapshot, fs: &FsAlloc) -> Self {
        let c = &fs.counts;
        let (requested, given) = (has(s, REQUESTS, c.requests > 0), has_given(s, c));
        let hooked = is_hooked(s, c);
        let quantiles = |figure, hist: &Hist| has(s, figure, hist.count() > 0).then(|| hist.into());
        Self {
            name: fs.name.clone(),
            mount: fs.mount.clone(),
            dev: device(fs.dev),
            block_bytes: fs.block_bytes,
            groups: fs.groups,
            stripe_blocks: fs.stripe,
            mb_group_prealloc: fs.group_prealloc,
            mb_stream_req: fs.stream_req,
            searching: fs.searching,
            reason: fs.reason.clone(),
            requests: requested.then_some(c.requests),
            asked_blocks: requested.then_some(c.asked),
            given: given.then_some(c.given),
            got_blocks: given.then_some(c.got),
            nanoseconds: has(s, LATENCY, c.nanoseconds > 0).then_some(c.nanoseconds),
            latency_us: quantiles(LATENCY, &c.latency),
            searches: has(s, SEARCHES, c.searches > 0).then(|| Searches::new(s, c)),
            preallocated: has(s, PREALLOCATED, c.preallocated > 0).then_some(c.preallocated),
            discards: has(s, DISCARDS, c.discards > 0).then_some(c.discards),
            looked: has_groups(s, c).then(|| GroupsLine::new(s, c)),
            mb_stats: fs.mb_stats,
            bitmaps: has(s, BITMAPS, c.bitmaps | c.buddies > 0)
                .then_some(Bitmaps { loaded: c.bitmaps, buddies: c.buddies }),
            reads: has(s, READS, c.reads | c.prefetches > 0)
                .then_some(Reads { needed: c.reads, prefetched: c.prefetches }),
            waits_us: quantiles(WAITS, &c.waits),
            members: fs
                .members
                .iter()
                .filter(|m| m.1 > 0 || m.2 > 0)
                .map(|(name, requests, bytes, us)| MemberLine {
                    name: name.clone(),
                    requests: *requests,
                    bytes: *bytes,
                    device_us: us.into(),
                })
                .collect(),
            fragmentation: fs.fragmentation.clone(),
            known: fs.known.clone(),
            tasks: fs.tasks.iter().map(|t| TaskShareLine::new(t, hooked)).collect(),
            files: fs.files.iter().map(|f| FileShareLine::new(f, hooked)).collect(),
        }
    }

    fn counts(&mut self) -> Counts {
        let hist = |q: &mut Option<QuantilesLine>| {
            q.take().map_or_else(Hist::default, QuantilesLine::hist)
        };
        let mut c = Counts {
            requests: self.requests.unwrap_or(0),
            asked: self.asked_blocks.unwrap_or(0),
            given: self.given.unwrap_or(0),
            got: self.got_blocks.unwrap_or(0),
            nanoseconds: self.nanoseconds.unwrap_or(0),
            latency: hist(&mut self.latency_us),
            waits: hist(&mut self.waits_us),
            preallocated: self.preallocated.unwrap_or(0),
            discards: self.discards.unwrap_or(0),
            ..Counts::default()
        };
        if let Some(searches) = &self.searches {
            searches.read(&mut c);
        }
        if let Some(looked) = &self.looked {
            looked.read(&mut c);
        }
        if let Some(b) = &self.bitmaps {
            (c.bitmaps, c.buddies) = (b.loaded, b.buddies);
        }
        if let Some(r) = &self.reads {
            (c.reads, c.prefetches) = (r.needed, r.prefetched);
        }
        c
    }

    fn read(mut self) -> Result<FsAlloc, String> {
        let counts = self.counts();
        let dev = number(&self.dev)?;
        let files: Result<_, String> = self.files.into_iter().map(FileShareLine::read).collect();
        Ok(FsAlloc {
            name: self.name,
            mount: self.mount,
            dev,
            block_bytes: self.block_bytes,
            groups: self.groups,
            stripe: self.stripe_blocks,
            group_prealloc: self.mb_group_prealloc,
            stream_req: self.mb_stream_req,
            searching: self.searching,
            counts,
            tasks: self.tasks.into_iter().map(TaskShareLine::read).collect(),
            files: files?,
            members: self
                .members
                .into_iter()
                .map(|m| (m.name, m.requests, m.bytes, m.device_us.hist()))
                .collect(),
            fragmentation: self.fragmentation,
            mb_stats: self.mb_stats,
            known: self.known,
            reason: self.reason,
        })
    }
}

impl AllocInterval {
    /// Converts a snapshot, without stacks.
    pub fn new(s: &AllocSnapshot) -> Self {
        let sources = s.sources.iter().map(|(f, from)| ((*f).to_owned(), *from));
        let filesystems = s.filesystems.iter();
        let cpus = s.cpus.iter();
        let threads = s.on_cpu.iter().take(THREADS);
        Self {
            schema: SCHEMA.to_owned(),
            time: s.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            interval_s: round(s.interval.as_secs_f64()),
            filesystems: filesystems.map(|fs| FilesystemLine::new(s, fs)).collect(),
            criteria: s.criteria.clone(),
            cpu: s.cpu.clone(),
            cpus: cpus.map(|(&cpu, samples)| CpuLine { cpu, samples: samples.clone() }).collect(),
            on_cpu: threads
                .map(|(pid, comm, samples)| Thread {
                    pid: *pid,
                    comm: lossy(comm),
                    comm_bytes: hex(Some(comm)),
                    samples: samples.clone(),
                })
                .collect(),
            other_filesystems: s.others,
            sources: sources.collect(),
            lost: LostEvents { events: s.lost },
            overhead: s.overhead.into(),
            notes: notes(s),
            stacks: None,
        }
    }

    /// Creates the item for an `alloc` row of a recording.
    ///
    /// # Errors
    /// Never in practice: all types can be serialized.
    pub fn item(s: &AllocSnapshot, stacks: &Profile) -> serde_json::Result<Item> {
        let interval = Self { stacks: Some(Stacks::new(stacks)), ..Self::new(s) };
        Ok(Item::Alloc {
            time_us: s.time.as_microsecond(),
            json: serde_json::to_string(&interval)?,
        })
    }

    /// Parses the JSON of an `alloc` row.
    ///
    /// # Errors
    /// The text is too long or invalid.
    pub fn parse(time_us: i64, json: &str) -> Result<RecordedAlloc, String> {
        let interval = interval::parse(json, SCHEMA, |interval: &Self| &interval.schema)?;
        let mut recorded = interval.read()?;
        if let Ok(time) = jiff::Timestamp::from_microsecond(time_us) {
            recorded.snapshot.time = time;
        }
        Ok(recorded)
    }

    fn read(self) -> Result<RecordedAlloc, String> {
        let time = self.time.parse();
        let time = time.map_err(|_| format!("{:?} is not a time", clip(&self.time)))?;
        let interval = interval::length(self.interval_s)?;
        // Each member has a histogram.
        let members: usize = self.filesystems.iter().map(|fs| fs.members.len()).sum();
        if members > MEMBERS {
            return Err(format!("{members} members, more than {MEMBERS}"));
        }
        let filesystems = self.filesystems.into_iter().map(FilesystemLine::read);
        let sources = FIGURES.into_iter().filter_map(|f| Some((f, *self.sources.get(f)?)));
        let threads = self.on_cpu.into_iter();
        let mut snapshot = AllocSnapshot {
            time,
            interval,
            filesystems: filesystems.collect::<Result<_, _>>()?,
            criteria: self.criteria,
            cpu: self.cpu,
            cpus: self.cpus.into_iter().map(|c| (c.cpu, c.samples)).collect(),
            on_cpu: threads.map(|t| (t.pid, raw(t.comm, t.comm_bytes), t.samples)).collect(),
            others: self.other_filesystems,
            sources: sources.collect(),
            lost: self.lost.events,
            overhead: self.overhead.read(interval),
            notes: Vec::new(),
        };
        // Drop notes that are computed from the figures: the sum of several intervals gets its own.
        let computed = notes(&snapshot);
        snapshot.notes = self.notes;
        snapshot.notes.retain(|note| !computed.contains(note));
        Ok(RecordedAlloc { snapshot, stacks: self.stacks.unwrap_or_default().read() })
    }
}
