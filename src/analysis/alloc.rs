//! Counters of the ext4 block allocator (fs/ext4/mballoc.c) of a filesystem, and an interval of `raidtrace alloc`. Pure.

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

/// Why a group was refused, from its `struct ext4_group_info` at that moment.
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
    /// No free extent of the order of the goal (`bb_largest_free_order`).
    Order,
    /// Its average free extent (`bb_free / bb_fragments`) is shorter than the goal.
    Average,
    /// Fewer free blocks than the goal.
    Blocks,
    /// Another reason, or unknown.
    Other,
    /// Its buddy bitmap is not in memory (`EXT4_MB_GRP_NEED_INIT`): the first criteria read no bitmaps.
    NotLoaded,
}

impl Refused {
    /// All reasons in the order of their numbers.
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

    /// Name in JSON.
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
    /// Calls of `ext4_mb_new_blocks()` (tracepoint `ext4_request_blocks`).
    pub requests: u64,
    /// Blocks (clusters with bigalloc) requested.
    pub asked: u64,
    /// Requests that got blocks (tracepoint `ext4_allocate_blocks`).
    pub given: u64,
    /// Blocks (clusters) allocated.
    pub got: u64,
    /// Time from request to allocation, µs.
    pub latency: Hist,
    /// Sum of these times in nanoseconds.
    pub nanoseconds: u64,
    /// Requests served by a search (tracepoint `ext4_mballoc_alloc`). Searches without a result are in `looked` and `refused` only.
    pub searches: u64,
    /// Blocks (clusters) that searches were normalised to (`ac_g_ex.fe_len`).
    pub goal: u64,
    /// Requests served from preallocated space (tracepoint `ext4_mballoc_prealloc`).
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
    /// Groups refused, before or by `ext4_mb_good_group()`, by criterion.
    pub refused: [u64; CRITERIA],
    /// A random sample of the refusals (one in `RT_ALLOC_SAMPLED` on average), by reason.
    pub reasons: [u64; Refused::ALL.len()],
    /// Groups whose bitmap was brought into memory (tracepoint `ext4_mb_bitmap_load`).
    pub bitmaps: u64,
    /// Groups whose buddy was made of the bitmap (tracepoint `ext4_mb_buddy_bitmap_load`).
    pub buddies: u64,
    /// Bitmaps read from disk because they were needed (tracepoint `ext4_read_block_bitmap_load`).
    pub reads: u64,
    /// Bitmaps read ahead (its `prefetch`).
    pub prefetches: u64,
    /// Waits of 1 µs or more in `ext4_wait_block_bitmap()`, µs.
    pub waits: Hist,
    /// Files whose preallocated space was released (tracepoint `ext4_discard_preallocations`), as on close.
    pub discards: u64,
}

/// Share of one task, or of one inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Requests.
    pub requests: u64,
    /// Blocks (clusters) allocated.
    pub blocks: u64,
    /// Nanoseconds in the allocator, of requests that have ended.
    pub nanoseconds: u64,
    /// Groups considered, if known. A task's count grows during a request, an inode's when the request has ended.
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

/// Counters of the programs since they were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocCounters {
    /// By device number (major << 20 | minor).
    pub filesystems: BTreeMap<u32, Counts>,
    /// Share and comm (untrusted) by filesystem and task. When there are thousands, idle ones are removed, and start at 0 when
    /// they come back.
    pub tasks: BTreeMap<TaskOf, (Share, Vec<u8>)>,
    /// Share by inode. The table is an LRU: a count lower than before belongs to a new entry.
    pub files: BTreeMap<super::files::FileId, Share>,
    /// Searches in progress, and their duration.
    pub searching: BTreeMap<TaskOf, Duration>,
    /// Groups considered in all filesystems, for the limit on their rate.
    pub calls: u64,
    /// Events lost because a table was full.
    pub lost: u64,
    /// Cost of these programs.
    pub overhead: super::snapshot::Overhead,
}

/// Source of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A tracepoint.
    Tracepoint,
    /// A function's entry and exit.
    Fentry,
    /// A breakpoint, which is more expensive.
    Kprobe,
    /// Samples of what the CPUs do.
    Samples,
    /// `/proc/fs/ext4/*/mb_stats`.
    MbStats,
    /// `/proc/fs/ext4/*/mb_structs_summary`.
    MbStructs,
    /// `/proc/fs/ext4/*/mb_groups`.
    MbGroups,
    /// No source: a note has the reason.
    None,
}

/// Free extents of a filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fragmentation {
    /// Groups by the order of their largest free extent; the rest of `groups` has none. From mb_structs_summary: only groups in
    /// memory that have one.
    pub largest: Vec<u64>,
    /// Free extents by order; mb_groups only.
    pub extents: Option<Vec<u64>>,
    /// Groups by the order of their average free extent.
    pub average: Option<Vec<u64>>,
    /// Number of groups that were read.
    pub groups: u64,
    /// True if the kernel finds groups by these lists (mb_optimize_scan); `None` if it has none or does not report it.
    pub optimised: Option<bool>,
}

/// One filesystem in one interval.
#[derive(Clone, Debug, Default)]
pub struct FsAlloc {
    /// Kernel name of its device: `md127`, `sda1`.
    pub name: String,
    /// Mount point.
    pub mount: Option<String>,
    /// major << 20 | minor.
    pub dev: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Block groups.
    pub groups: u32,
    /// Effective stripe=, blocks; 0 for none.
    pub stripe: u32,
    /// Current mb_group_prealloc (blocks that a locality group preallocates) and mb_stream_req (blocks of the largest file
    /// that is allocated from one); `None` if unknown.
    pub group_prealloc: Option<u64>,
    /// See [`FsAlloc::group_prealloc`].
    pub stream_req: Option<u64>,
    /// Counters of the interval.
    pub counts: Counts,
    /// Searches in progress at the end of the interval.
    pub searching: Searching,
    /// Tasks of the interval, busiest first.
    pub tasks: Vec<TaskAlloc>,
    /// Files that blocks were allocated for, busiest first.
    pub files: Vec<FileAlloc>,
    /// Bitmap reads that completed on each member in the interval: name, requests, bytes, µs from issue to completion.
    pub members: Vec<(String, u64, u64, Hist)>,
    /// Free extents.
    pub fragmentation: Option<Fragmentation>,
    /// ext4's own counts (mb_stats) of the interval; `None` unless a hook counted groups, too.
    pub mb_stats: Option<MbCount>,
    /// Facts that the reason depends on.
    pub known: Known,
    /// Why the allocator is busy. CPU time is known for all filesystems together only, see [`AllocSnapshot::cpu`].
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

/// Facts about a filesystem's allocator beside its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Kernel release; empty if unknown.
    pub kernel: String,
    /// True if ext4 has the allocator of 6.17, by its symbols.
    pub new_allocator: bool,
    /// True if ext4 has lists of groups by free space (5.13); `None` if unknown.
    pub has_lists: Option<bool>,
    /// Why groups are not counted, as a clause: `fentry and kprobes are refused`.
    pub unhooked: Option<String>,
    /// True if no other ext4 is mounted, so that all samples in the allocator belong to this one.
    pub alone: bool,
}

/// Searches in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Searching {
    /// Tasks in a search.
    pub tasks: u64,
    /// Duration of the longest search, µs.
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
    /// Share of the task.
    pub share: Share,
}

/// An inode that blocks were allocated for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAlloc {
    /// File id.
    pub id: super::files::FileId,
    /// Path or name.
    pub location: super::files::FileLocation,
    /// Share of the inode.
    pub share: Share,
}

/// Why the allocator is busy, and how to fix it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reason {
    /// `linear_scan`, `stripe_livelock`, `cold_bitmaps`, `fragmented`, ...
    pub id: String,
    /// The sentence.
    pub sentence: String,
    /// Commands that fix it, one each; never run by raidtrace.
    pub commands: Vec<String>,
    /// Cost or risk of the commands.
    pub risk: Option<String>,
    /// Rule of `raidtrace doctor` for the same problem (`alloc-linear`).
    pub rule: Option<String>,
}

/// A share of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Possible samples: CPUs * hertz * interval, idle ones included.
    pub possible: u64,
    /// Samples of busy CPUs.
    pub busy: u64,
    /// Samples with the allocator on the stack, and no hook running below it.
    pub allocator: u64,
    /// Samples in hooks: BPF programs, kprobes and tracepoint handlers, those of raidtrace among them.
    pub hooks: u64,
    /// Function at the top of most allocator stacks, and its samples.
    pub hottest: Option<(String, u64)>,
}

/// One interval.
#[derive(Clone, Debug)]
pub struct AllocSnapshot {
    /// The interval's end.
    pub time: jiff::Timestamp,
    /// Length.
    pub interval: Duration,
    /// Filesystems, in the order of their names.
    pub filesystems: Vec<FsAlloc>,
    /// Names of the criteria on this kernel: `CR_GOAL_LEN_FAST`, or `cr1`.
    pub criteria: Vec<String>,
    /// Samples of all CPUs; `None` without sampling.
    pub cpu: Option<Cpu>,
    /// Busy CPUs by number.
    pub cpus: BTreeMap<u32, Cpu>,
    /// Threads: pid, comm (untrusted) and samples, those in the allocator first.
    pub on_cpu: Vec<(u32, Vec<u8>, Cpu)>,
    /// Number of mounted ext4 filesystems that are not watched; samples include them.
    pub others: u64,
    /// Source of each figure.
    pub sources: BTreeMap<&'static str, Source>,
    /// Events lost: full tables, dropped samples.
    pub lost: u64,
    /// Cost of tracing.
    pub overhead: super::snapshot::Overhead,
    /// Limits of this kernel, one line each.
    pub notes: Vec<String>,
}
