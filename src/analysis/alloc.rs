//! Counters of the ext4 block allocator (fs/ext4/mballoc.c) per filesystem, and the snapshot of one
//! `raidtrace alloc` interval.

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

/// Number of allocation criteria, which the allocator relaxes one by one. Older kernels have four.
pub const CRITERIA: usize = crate::contract::ALLOC_CRITERIA as usize;

/// Number of buckets of [`GroupsConsidered`]: 0, 1, 2..3, 4..7, ... 2^22 and more. A filesystem of
/// 30 TiB has about 2^18 groups of 128 MiB.
pub const GROUPS_BUCKETS: usize = crate::contract::ALLOC_GROUP_BUCKETS as usize;

/// Reason why a group was refused, derived from its `struct ext4_group_info` at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum GroupRefusal {
    /// `bb_free` is 0.
    Full,
    /// The group's bitmap is corrupt.
    Corrupt,
    /// The group is the first one of a flex group, reserved for directories.
    ForDirectories,
    /// No free extent of the order of the goal (`bb_largest_free_order`).
    Order,
    /// The group's average free extent (`bb_free / bb_fragments`) is shorter than the goal.
    Average,
    /// Fewer free blocks than the goal.
    Blocks,
    /// Another reason, or unknown.
    Other,
    /// The group's buddy bitmap is not in memory (`EXT4_MB_GRP_NEED_INIT`): the first criteria do
    /// not read bitmaps.
    NotLoaded,
}

impl GroupRefusal {
    /// All reasons, in numeric order.
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
}

/// Histogram of searches by the number of groups considered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupsConsidered(pub [u64; GROUPS_BUCKETS]);

/// Counters of one filesystem: cumulative since the programs were attached, or for one interval
/// after [`Counts::since`].
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
    /// Sum of the times in `latency`, in nanoseconds.
    pub nanoseconds: u64,
    /// Requests served by a search (tracepoint `ext4_mballoc_alloc`). Failed searches are counted
    /// in `looked` and `refused` only.
    pub searches: u64,
    /// Sum of the normalised goal lengths of searches (`ac_g_ex.fe_len`), in blocks (clusters).
    pub goal: u64,
    /// Requests served from preallocated space (tracepoint `ext4_mballoc_prealloc`).
    pub preallocated: u64,
    /// Searches by the last criterion reached. A search that is satisfied at the goal itself
    /// reaches none.
    pub criteria: [u64; CRITERIA],
    /// Sum of `ac_groups_scanned`, the groups whose free extents were searched. The kernel's field
    /// has 16 bits and wraps at 65,536.
    pub scanned: u64,
    /// Searches that found blocks while ext4 itself counted `looked` (mb_stats); 0 if a hook
    /// counts `looked`.
    pub hits: u64,
    /// Searches for a locality group's preallocation (`EXT4_MB_HINT_GROUP_ALLOC`). Only these
    /// depend on mb_group_prealloc.
    pub locality: u64,
    /// Searches by number of groups considered; empty unless a hook counts groups.
    pub groups: GroupsConsidered,
    /// Groups considered, by criterion. Defined like `groups_considered` in mb_stats: counted once
    /// per call of `ext4_mb_good_group_nolock()`, and once more if a list of mb_optimize_scan
    /// proposed the group. Searches in progress are included.
    pub looked: [u64; CRITERIA],
    /// Groups refused by `ext4_mb_good_group()`, or before it is called, by criterion.
    pub refused: [u64; CRITERIA],
    /// A random sample of the refusals (one in `RT_ALLOC_SAMPLED` on average), by reason.
    pub reasons: [u64; GroupRefusal::ALL.len()],
    /// Groups whose bitmap was loaded into memory (tracepoint `ext4_mb_bitmap_load`).
    pub bitmaps: u64,
    /// Groups whose buddy bitmap was generated from the block bitmap (tracepoint
    /// `ext4_mb_buddy_bitmap_load`).
    pub buddies: u64,
    /// Bitmaps read from disk on demand (tracepoint `ext4_read_block_bitmap_load`).
    pub reads: u64,
    /// Bitmaps read ahead (the same tracepoint with `prefetch` set).
    pub prefetches: u64,
    /// Waits of 1 µs or more in `ext4_wait_block_bitmap()`, µs.
    pub waits: Hist,
    /// Files whose preallocated space was released (tracepoint `ext4_discard_preallocations`), for
    /// example on close.
    pub discards: u64,
}

/// Allocator work for one task or one inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocShare {
    pub requests: u64,
    /// Blocks (clusters) allocated.
    pub blocks: u64,
    /// Nanoseconds that completed requests spent in the allocator.
    pub nanoseconds: u64,
    /// Groups considered, if known. A task's count grows during a request, an inode's count when
    /// the request ends.
    pub looked: u64,
}

/// Key of a task's counters for one filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocTaskKey {
    /// Kernel device number of the filesystem: major << 20 | minor.
    pub dev: u32,
    /// Thread id in the initial pid namespace.
    pub pid: u32,
}

/// Counters of the programs since they were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocCounters {
    /// Counters by device number (major << 20 | minor).
    pub filesystems: BTreeMap<u32, Counts>,
    /// Share and comm (untrusted) by filesystem and task. With thousands of tasks, idle ones are
    /// removed; a removed task that allocates again starts at 0.
    pub tasks: BTreeMap<AllocTaskKey, (AllocShare, Vec<u8>)>,
    /// Share by inode. The table is an LRU: if a count goes down, the entry was evicted and added
    /// again.
    pub files: BTreeMap<super::files::FileId, AllocShare>,
    /// Duration so far of each search in progress.
    pub searching: BTreeMap<AllocTaskKey, Duration>,
    /// Groups considered in all filesystems, checked against a rate limit.
    pub calls: u64,
    /// Events lost because a table was full.
    pub lost: u64,
    /// Cost of the programs.
    pub overhead: super::snapshot::Overhead,
}

/// Source of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FigureSource {
    Tracepoint,
    /// BPF programs at function entry and exit.
    Fentry,
    /// A kprobe (breakpoint), more expensive than fentry.
    Kprobe,
    /// CPU samples.
    Samples,
    /// `/proc/fs/ext4/*/mb_stats`.
    MbStats,
    /// `/proc/fs/ext4/*/mb_structs_summary`.
    MbStructs,
    /// `/proc/fs/ext4/*/mb_groups`.
    MbGroups,
    /// No source; a note gives the reason.
    None,
}

/// Free extents of a filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Fragmentation {
    /// Groups by the order of their largest free extent; the rest of `groups` have no free extent.
    /// mb_structs_summary lists only groups that are in memory and have a free extent.
    pub largest: Vec<u64>,
    /// Free extents by order; only from mb_groups.
    pub extents: Option<Vec<u64>>,
    /// Groups by the order of their average free extent.
    pub average: Option<Vec<u64>>,
    /// Number of groups that were read.
    pub groups: u64,
    /// True if the kernel finds groups with lists by free extent (mb_optimize_scan); `None` if it
    /// has no lists or does not report the setting.
    pub optimised: Option<bool>,
}

/// One filesystem in one interval.
#[derive(Clone, Debug, Default)]
pub struct FsAlloc {
    /// Kernel name of the block device: `md127`, `sda1`.
    pub name: String,
    /// Mount point.
    pub mount: Option<String>,
    /// Kernel device number: major << 20 | minor.
    pub dev: u32,
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Number of block groups.
    pub groups: u32,
    /// Effective stripe= option, in blocks; 0 for none.
    pub stripe: u32,
    /// Current mb_group_prealloc: number of blocks that a locality group preallocates; `None` if
    /// unknown.
    pub group_prealloc: Option<u64>,
    /// Current mb_stream_req: blocks of the largest file that is allocated from a locality group;
    /// `None` if unknown.
    pub stream_req: Option<u64>,
    /// Counters of the interval.
    pub counts: Counts,
    /// Searches in progress at the end of the interval.
    pub searching: Searching,
    /// Tasks that allocated in the interval, busiest first.
    pub tasks: Vec<TaskAlloc>,
    /// Files that blocks were allocated for, busiest first.
    pub files: Vec<FileAlloc>,
    /// Bitmap reads that completed on each member in the interval: name, requests, bytes, µs from
    /// issue to completion.
    pub members: Vec<(String, u64, u64, Hist)>,
    /// Free extents.
    pub fragmentation: Option<Fragmentation>,
    /// ext4's own counts (mb_stats) for the interval; `None` unless a hook counted groups as well.
    pub mb_stats: Option<MbCount>,
    /// Facts that the reason depends on.
    pub known: AllocContext,
    /// Reason why the allocator is busy. CPU time is known only for all filesystems together, see
    /// [`AllocSnapshot::cpu`].
    pub reason: Option<Reason>,
}

/// Searches and groups as ext4 itself counts them (`/proc/fs/ext4/DEV/mb_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MbCount {
    /// Searches that found blocks, except at the goal itself (sum of `hits` over all criteria).
    pub searches: u64,
    /// Groups considered (sum of `groups_considered` over all criteria).
    pub groups: u64,
}

/// Facts about a filesystem's allocator in addition to its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AllocContext {
    /// Kernel release; empty if unknown.
    pub kernel: String,
    /// True if the symbols of ext4 are those of the allocator of 6.17.
    pub new_allocator: bool,
    /// True if ext4 has lists of groups by free space (since 5.13); `None` if unknown.
    pub has_lists: Option<bool>,
    /// Reason why groups are not counted, as a clause: `fentry and kprobes are refused`.
    pub unhooked: Option<String>,
    /// True if no other ext4 is mounted, so that all samples in the allocator belong to this
    /// filesystem.
    pub alone: bool,
}

/// Searches in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Searching {
    pub tasks: u64,
    /// Duration of the longest search, µs.
    pub longest_us: u64,
}

/// A task in the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAlloc {
    /// Thread id.
    pub pid: u32,
    /// `comm`: untrusted bytes.
    pub comm: Vec<u8>,
    /// Role of a kernel thread, such as `writeback`.
    pub role: Option<String>,
    pub share: AllocShare,
}

/// An inode that blocks were allocated for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAlloc {
    pub id: super::files::FileId,
    /// Path or name.
    pub location: super::files::FileLocation,
    /// Share of the inode.
    pub share: AllocShare,
}

/// Reason why the allocator is busy, and how to fix it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Reason {
    /// `linear_scan`, `stripe_livelock`, `cold_bitmaps`, `fragmented`, ...
    pub id: String,
    /// Explanation in one sentence.
    pub sentence: String,
    /// Commands that fix the problem, one per element. raidtrace never runs them.
    pub commands: Vec<String>,
    /// Cost or risk of the commands.
    pub risk: Option<String>,
    /// Rule of `raidtrace doctor` for the same problem (`alloc-linear`).
    pub rule: Option<String>,
}

/// Number of CPU samples by activity, for all CPUs, one CPU or one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Cpu {
    /// Possible samples: CPUs * hertz * interval, including idle time.
    pub possible: u64,
    /// Samples of busy CPUs.
    pub busy: u64,
    /// Samples with the allocator on the stack and no tracing hook running on top of it.
    pub allocator: u64,
    /// Samples in hooks: BPF programs, kprobes and tracepoint handlers, including raidtrace's own.
    pub hooks: u64,
    /// Innermost function of most allocator samples, and the number of its samples.
    pub hottest: Option<(String, u64)>,
}

/// Allocator data of one interval.
#[derive(Clone, Debug)]
pub struct AllocSnapshot {
    /// End of the interval.
    pub time: jiff::Timestamp,
    /// Length of the interval.
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
    pub sources: BTreeMap<&'static str, FigureSource>,
    /// Events lost: full tables, dropped samples.
    pub lost: u64,
    /// Cost of tracing.
    pub overhead: super::snapshot::Overhead,
    /// Limits of this kernel, one line each.
    pub notes: Vec<String>,
}
