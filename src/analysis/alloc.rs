//! What the ext4 block allocator (fs/ext4/mballoc.c) did: counters of one filesystem, and one interval as the renderings of
//! `raidtrace alloc` see it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hist::Hist;

pub mod figures;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fold;
pub mod reason;
mod sums;
pub mod window;

/// Criteria that the allocator relaxes one after the other; older kernels have four.
pub const CRITERIA: usize = crate::contract::ALLOC_CRITERIA as usize;

/// Buckets of [`Groups`]: 0, 1, 2..3, 4..7, ... 2^22 and more (30 TiB with groups of 128 MiB are 2^18).
pub const GROUPS_BUCKETS: usize = crate::contract::ALLOC_GROUPS as usize;

/// Why a group was refused, by what `struct ext4_group_info` says of it when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Refused {
    /// `bb_free` is 0.
    Full,
    /// Its bitmap is corrupt.
    Corrupt,
    /// First group of a flex group, kept for directories.
    ForDirectories,
    /// No free extent of the order that is looked for (`bb_largest_free_order`).
    Order,
    /// Its average free extent (`bb_free / bb_fragments`) is shorter than the goal.
    Average,
    /// Fewer free blocks than the goal.
    Blocks,
    /// Something else, or not known.
    Other,
    /// Its buddy bitmap is not in memory (`EXT4_MB_GRP_NEED_INIT`): the first criteria read no bitmaps.
    NotLoaded,
}

impl Refused {
    /// Every one, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Full,
        Self::Corrupt,
        Self::ForDirectories,
        Self::Order,
        Self::Average,
        Self::Blocks,
        Self::Other,
        Self::NotLoaded,
    ];

    /// As JSON spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Corrupt => "corrupt",
            Self::ForDirectories => "for_directories",
            Self::Order => "order",
            Self::Average => "average",
            Self::Blocks => "blocks",
            Self::Other => "other",
            Self::NotLoaded => "not_loaded",
        }
    }
}

/// Allocations by how many groups each considered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Groups(pub [u64; GROUPS_BUCKETS]);

/// Counters of one filesystem since the programs were attached; or, after [`Counts::since`], of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `ext4_mb_new_blocks()` was entered (tracepoint `ext4_request_blocks`).
    pub requests: u64,
    /// Blocks (clusters with bigalloc) that these asked for.
    pub asked: u64,
    /// It gave blocks (tracepoint `ext4_allocate_blocks`).
    pub given: u64,
    /// Blocks (clusters) that it gave.
    pub got: u64,
    /// From one to the other, µs.
    pub latency: Hist,
    /// Nanoseconds of the same, added up.
    pub nanoseconds: u64,
    /// Served by a search (tracepoint `ext4_mballoc_alloc`); one that found nothing is in `looked` and `refused` only.
    pub searches: u64,
    /// Blocks (clusters) that these were normalised to (`ac_g_ex.fe_len`).
    pub goal: u64,
    /// Served from space that was preallocated (tracepoint `ext4_mballoc_prealloc`).
    pub preallocated: u64,
    /// Searches by the criterion that they reached; those that found what they wanted right at the goal reached none.
    pub criteria: [u64; CRITERIA],
    /// Searches by `ac_groups_scanned`: groups whose free extents were searched. 16 bits in the kernel: it wraps at 65,536.
    pub scanned: u64,
    /// Searches that found blocks while ext4 counted `looked` (mb_stats); 0 where a hook counts it.
    pub hits: u64,
    /// Searches for a locality group's preallocation (`EXT4_MB_HINT_GROUP_ALLOC`): what mb_group_prealloc concerns.
    pub locality: u64,
    /// Searches by groups considered; empty where these are not counted by a hook.
    pub groups: Groups,
    /// Groups considered, by criterion, as `groups_considered` of mb_stats counts them: once for each that
    /// `ext4_mb_good_group_nolock()` is asked about, and once more where a list of mb_optimize_scan proposed it. Those of
    /// searches that still go on too.
    pub looked: [u64; CRITERIA],
    /// ... and refused, before or by `ext4_mb_good_group()`.
    pub refused: [u64; CRITERIA],
    /// Some of those (one in `RT_ALLOC_SAMPLED` on average, at random), by reason.
    pub reasons: [u64; Refused::ALL.len()],
    /// Groups whose bitmap was brought into memory (tracepoint `ext4_mb_bitmap_load`).
    pub bitmaps: u64,
    /// ... and whose buddy was made of it (tracepoint `ext4_mb_buddy_bitmap_load`).
    pub buddies: u64,
    /// Bitmaps that were asked of the disk because they were needed (tracepoint `ext4_read_block_bitmap_load`).
    pub reads: u64,
    /// ... or will be (its `prefetch`).
    pub prefetches: u64,
    /// How long callers of `ext4_wait_block_bitmap()` waited for one, µs; those that waited 1 µs at least.
    pub waits: Hist,
    /// Files whose preallocated space was given back (tracepoint `ext4_discard_preallocations`), as when they are closed.
    pub discards: u64,
}

/// What one task, or what was allocated for one inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Requests.
    pub requests: u64,
    /// Blocks (clusters) that it got.
    pub blocks: u64,
    /// Nanoseconds in the allocator, of requests that have ended.
    pub nanoseconds: u64,
    /// Groups looked at, where known; a task's while it goes on, an inode's when the request has ended.
    pub looked: u64,
}

/// A task of a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskOf {
    /// Device number of the filesystem as the kernel has it: major << 20 | minor.
    pub dev: u32,
    /// Thread id in the initial pid namespace.
    pub pid: u32,
}

/// What the programs have counted since they were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocCounters {
    /// By device number (major << 20 | minor).
    pub filesystems: BTreeMap<u32, Counts>,
    /// By filesystem and task; comm is the kernel's, untrusted. Where there are thousands, idle ones are taken out, and begin
    /// anew when they come back.
    pub tasks: BTreeMap<TaskOf, (Share, Vec<u8>)>,
    /// By inode. The table is an LRU: a count that is lower than before is of a new entry.
    pub files: BTreeMap<super::files::FileId, Share>,
    /// Searches that go on, and for how long.
    pub searching: BTreeMap<TaskOf, Duration>,
    /// Groups considered, all filesystems: what backing off goes by.
    pub calls: u64,
    /// What the tables had no room for.
    pub lost: u64,
    /// Nanoseconds in these programs, all CPUs, and how often they ran.
    pub overhead: super::snapshot::Overhead,
}

/// Where a figure comes from, for the reader to weigh it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A tracepoint.
    Tracepoint,
    /// A function's entry and exit.
    Fentry,
    /// The same by a breakpoint: dearer.
    Kprobe,
    /// Samples of what the CPUs do.
    Samples,
    /// `/proc/fs/ext4/*/mb_stats`.
    MbStats,
    /// `/proc/fs/ext4/*/mb_structs_summary`.
    MbStructs,
    /// `/proc/fs/ext4/*/mb_groups`.
    MbGroups,
    /// None: why is in the notes.
    None,
}

/// Free extents of a filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fragmentation {
    /// Groups by the order of their largest free extent; what these lack of `groups` has none. mb_structs_summary: only
    /// groups that are in memory and have one.
    pub largest: Vec<u64>,
    /// Free extents by order; mb_groups only.
    pub extents: Option<Vec<u64>>,
    /// Groups by the order of their average free extent.
    pub average: Option<Vec<u64>>,
    /// Groups these speak of.
    pub groups: u64,
    /// Whether the kernel looks groups up by these (mb_optimize_scan); `None`: it has no such thing, or does not say.
    pub optimised: Option<bool>,
}

/// One filesystem in one interval.
#[derive(Clone, Debug, Default)]
pub struct FsAlloc {
    /// Kernel name of its device: `md127`, `sda1`.
    pub name: String,
    /// Where it is mounted.
    pub mount: Option<String>,
    /// major << 20 | minor.
    pub dev: u32,
    /// Of a block, bytes.
    pub block_bytes: u32,
    /// Block groups.
    pub groups: u32,
    /// stripe= as it is in effect, blocks; 0: none.
    pub stripe: u32,
    /// Current mb_group_prealloc (blocks that a locality group preallocates) and mb_stream_req (blocks of the largest file
    /// that is allocated from one); `None`: not known.
    pub group_prealloc: Option<u64>,
    /// See [`FsAlloc::group_prealloc`].
    pub stream_req: Option<u64>,
    /// Of the interval.
    pub counts: Counts,
    /// Searches that go on at the interval's end.
    pub searching: Searching,
    /// Of the interval, busiest first: who, and for which inode.
    pub tasks: Vec<TaskAlloc>,
    /// ... with the path as far as it is known.
    pub files: Vec<FileAlloc>,
    /// Bitmap reads that completed on each member in the interval: name, requests, bytes, µs from issue to completion.
    pub members: Vec<(String, u64, u64, Hist)>,
    /// Free extents.
    pub fragmentation: Option<Fragmentation>,
    /// What ext4 itself counted (mb_stats) in the whole interval, where a hook counted groups too; `None`: one of them did not.
    pub mb_stats: Option<MbCount>,
    /// What the figures are judged by.
    pub known: Known,
    /// CPU time in the allocator for this filesystem cannot be told apart: see [`AllocSnapshot::cpu`].
    pub reason: Option<Reason>,
}

/// Searches and groups as ext4 itself counts them (`/proc/fs/ext4/DEV/mb_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MbCount {
    /// Searches that found blocks, other than right at the goal (`hits` of all criteria).
    pub searches: u64,
    /// Groups considered (`groups_considered` of all criteria).
    pub groups: u64,
}

/// What is known of a filesystem's allocator from elsewhere than its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// The running kernel, `uname -r`; empty: not known.
    pub kernel: String,
    /// ext4's allocator is that of 6.17, by its symbols.
    pub new_allocator: bool,
    /// Whether this kernel's ext4 has lists of groups by free space (5.13); `None`: not known.
    pub has_lists: Option<bool>,
    /// Why groups are not counted, as a clause: `fentry and kprobes are refused`.
    pub unhooked: Option<String>,
    /// No other ext4 is mounted on this machine: samples in the allocator, which are the whole machine's, are then of this one.
    pub alone: bool,
}

/// Searches that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Searching {
    /// Tasks in one.
    pub tasks: u64,
    /// The longest has gone on for so many µs.
    pub longest_us: u64,
}

/// A task in the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAlloc {
    /// Thread id.
    pub pid: u32,
    /// Untrusted bytes.
    pub comm: Vec<u8>,
    /// `writeback` and the like.
    pub role: Option<String>,
    /// What it did.
    pub share: Share,
}

/// An inode that blocks were allocated for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAlloc {
    /// Which.
    pub id: super::files::FileId,
    /// Where it is.
    pub location: super::files::FileLocation,
    /// What it got.
    pub share: Share,
}

/// What stands out, in a sentence with numbers, and what mends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reason {
    /// `linear_scan`, `stripe_livelock`, `cold_bitmaps`, `fragmented`, ...
    pub id: String,
    /// The sentence.
    pub sentence: String,
    /// What to do, a command a line; nothing is ever run.
    pub commands: Vec<String>,
    /// What that costs or risks.
    pub risk: Option<String>,
    /// The doctor's rule of the same (`alloc-linear`).
    pub rule: Option<String>,
}

/// A share of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Samples that could have been taken: CPUs * hertz * interval, idle ones too.
    pub possible: u64,
    /// Taken on a CPU that was busy.
    pub busy: u64,
    /// ... with the allocator on the stack, and no hook at work below it.
    pub allocator: u64,
    /// ... in hooks: BPF programs, kprobes and tracepoint handlers, those of raidtrace among them.
    pub hooks: u64,
    /// The function at the top of the stack of most of those, and how many.
    pub hottest: Option<(String, u64)>,
}

/// One interval.
#[derive(Clone, Debug)]
pub struct AllocSnapshot {
    /// The interval's end.
    pub time: jiff::Timestamp,
    /// Its real length.
    pub interval: Duration,
    /// Filesystems, in the order of their names.
    pub filesystems: Vec<FsAlloc>,
    /// The criteria's names, as this kernel has them: `CR_GOAL_LEN_FAST`, or `cr1`.
    pub criteria: Vec<String>,
    /// Samples of all CPUs; `None`: no sampling.
    pub cpu: Option<Cpu>,
    /// By CPU number, those that were busy.
    pub cpus: BTreeMap<u32, Cpu>,
    /// By thread: comm (untrusted) and samples, those in the allocator first.
    pub on_cpu: Vec<(u32, Vec<u8>, Cpu)>,
    /// Mounted ext4 filesystems that are not watched: samples do not tell them from those that are.
    pub others: u64,
    /// Which source gives which figure.
    pub sources: BTreeMap<&'static str, Source>,
    /// What was missed: table full, samples dropped.
    pub lost: u64,
    /// What tracing itself cost.
    pub overhead: super::snapshot::Overhead,
    /// What this kernel cannot give, one line each.
    pub notes: Vec<String>,
}
