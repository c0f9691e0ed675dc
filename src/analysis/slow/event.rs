//! Operations, commits and flushes. Times are in ns (CLOCK_MONOTONIC).

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::asynchronous::Asynchronous;
use super::phase::plain;
use crate::analysis::files::FileId;
use crate::printable::show_as_in_json;

/// Functions of a kernel stack, innermost first. Empty if the kernel hides its symbols.
pub type Stack = Arc<[Arc<str>]>;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// fsync(2), msync(2) with MS_SYNC, and ext4_sync_file() or xfs_file_fsync() from within the
    /// kernel.
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// sync(2), syncfs(2), and the sync of an umount or a freeze.
    Sync,
    /// A read, buffered or direct.
    Read,
    /// A write, buffered or direct. A synchronous write includes its fsync.
    Write,
    /// fallocate(2).
    Fallocate,
    /// Truncation: truncate(2), open(2) with O_TRUNC, unlink(2) of the last link.
    Truncate,
    /// rename(2), reported for its old directory.
    Rename,
    /// unlink(2), reported for its directory.
    Unlink,
    /// Creation of a file or directory, reported for its parent directory.
    Create,
    /// sync_file_range(2): writes data only.
    SyncFileRange,
    /// Another system call, or a page fault; only of operations that have not ended.
    Other,
}

/// Properties of an operation that decide which locks it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationFlags {
    /// Direct IO.
    pub direct: bool,
    /// A write that ends after the end of the file; on XFS, one that begins after it.
    pub extends: bool,
    /// A write whose position or length is not a multiple of the filesystem's block size.
    pub unaligned: bool,
    /// A write with O_SYNC, O_DSYNC or RWF_SYNC.
    pub syncs: bool,
    /// A write to an inode without S_NOSEC: file_remove_privs() needs the lock exclusively.
    pub security: bool,
    /// On an XFS, whose locks have other rules.
    pub xfs: bool,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Task {
    /// Thread id in the initial pid namespace.
    pub pid: u32,
    /// Name; untrusted bytes, printable in JSON.
    #[serde(with = "crate::printable::text")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub comm: Vec<u8>,
}

/// All sleeps with the same stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSleeps {
    /// Stack of the sleeping task; `None` if the kernel did not report it.
    pub stack: Option<Stack>,
    /// Number of sleeps.
    pub count: u32,
    /// Time asleep, without the time on a run queue after the wake-up.
    pub ns: u64,
    /// Start of the first sleep.
    pub first_ns: u64,
    /// End of the last sleep.
    pub last_ns: u64,
}

/// Time off the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffCpu {
    /// Sleeps by stack.
    pub sleeps: Vec<StackSleeps>,
    /// Time on a run queue.
    pub queued_ns: u64,
    /// Time of sleeps with stacks for which there was no room.
    pub missed_ns: u64,
}

/// Waits for the inode's lock (i_rwsem).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockWait {
    /// Number of waits.
    pub waits: u32,
    /// Total time, without spinning.
    pub ns: u64,
    /// True if the operation wanted the lock exclusively.
    pub exclusive: bool,
    /// Holder at the start of the longest wait; `None` if unknown.
    pub holder: Option<Task>,
    /// True if readers held the lock. The holder is then one of the readers, or a writer that
    /// waited for them.
    pub readers: bool,
    /// Operation of the holder; `None` if it is not one of [`OperationKind`].
    pub kind: Option<OperationKind>,
    /// Properties of the holder's operation.
    pub flags: OperationFlags,
}

/// An operation that took at least the threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub kind: OperationKind,
    /// Thread.
    pub task: Task,
    /// Process id.
    pub tgid: u32,
    /// File, or the directory of a rename, unlink or create; `None` for a sync.
    pub file: Option<FileId>,
    /// Device number of the filesystem, major << 20 | minor; 0 for a sync of all filesystems.
    pub dev: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Position in the file, in bytes, of a read, write or fallocate.
    pub position: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Properties.
    pub flags: OperationFlags,
    /// Waits for the inode's lock.
    pub lock: LockWait,
    /// Thread of XFS that frees space in the log (xfsaild), if the operation waited for space.
    pub pusher: Option<Task>,
    /// The part after its submission, if its task did not wait.
    pub asynchronous: Asynchronous,
    /// Time off the CPU.
    pub off: OffCpu,
}

impl Operation {
    /// Length.
    pub fn total_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Reason of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitReason {
    /// The journal's timer (`commit=`).
    Timer,
    /// A task, and its purpose if that is known.
    By(Task, Option<Purpose>),
    /// An unknown task.
    Unknown,
}

/// Why a task requested a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// fsync and similar calls on one file.
    Fsync,
    /// sync, syncfs and freezing of the filesystem.
    Sync,
    /// The journal had no room for another handle.
    LogSpace,
    /// The running transaction had no room for another handle.
    Credits,
    /// No free block was found; the commit releases the blocks that its transaction freed.
    FreeBlocks,
    /// A handle ended that must be on disk.
    SyncHandle,
    /// Another request for all data so far, such as a journal flush; and a purpose in a recording
    /// of a newer version.
    #[serde(other)]
    Force,
}

/// Functions and the purpose of a request with one of them in its stack. An earlier row wins: waits
/// for room in the journal begin in start_this_handle() too (fs/jbd2/transaction.c).
const PURPOSES: [(&str, Purpose); 16] = {
    use Purpose::*;
    [
        ("__jbd2_log_wait_for_space", LogSpace),
        ("jbd2_log_do_checkpoint", LogSpace),
        ("ext4_should_retry_alloc", FreeBlocks),
        ("jbd2_journal_force_commit_nested", FreeBlocks),
        ("add_transaction_credits", Credits),
        ("start_this_handle", Credits),
        ("jbd2__journal_restart", Credits),
        ("ext4_sync_fs", Sync),
        ("ext4_freeze", Sync),
        ("ext4_sync_file", Fsync),
        ("ext4_fsync_journal", Fsync),
        ("ext4_fc_commit", Fsync),
        ("jbd2_journal_stop", SyncHandle),
        ("jbd2_journal_flush", Force),
        ("jbd2_journal_force_commit", Force),
        ("ext4_force_commit", Force),
    ]
};

impl Purpose {
    /// Purpose of a request with this stack; `None` if no function in the stack identifies the
    /// purpose.
    pub fn from_stack(stack: &[Arc<str>]) -> Option<Self> {
        let calls = |function: &str| stack.iter().any(|f| plain(f) == function);
        PURPOSES.iter().find(|(function, _)| calls(function)).map(|(_, purpose)| *purpose)
    }
}

show_as_in_json!(OperationKind, Purpose);

/// A handle that ended while its transaction was locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Holder {
    /// Task of the handle.
    #[serde(flatten)]
    pub task: Task,
    /// Kind of handle: EXT4_HT_ of fs/ext4/ext4_jbd2.h.
    pub handle: Cow<'static, str>,
    /// End of the handle.
    #[serde(skip)]
    pub ns: u64,
}

/// A file whose ordered data a commit waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedFile {
    pub file: FileId,
    /// Time that the commit waited for the file's data.
    pub ns: u64,
    /// Pages or folios waited for.
    pub pages: u32,
    /// Number of bytes from the first to the last byte that had to be written; `None` if unknown.
    pub bytes: Option<u64>,
    /// Thread that last wrote to the file through the page cache; `None` if unknown.
    pub writer: Option<Task>,
}

/// A commit of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Device number of the filesystem.
    pub dev: u32,
    /// Number of the transaction.
    pub tid: u32,
    /// Reason of the commit.
    pub request: CommitReason,
    /// Time of the request; `None` if unknown.
    pub requested_ns: Option<u64>,
    /// Time at which each state of `enum rt_slow_states` was reached; `None` if the state was not
    /// seen.
    pub state_ns: [Option<u64>; STATES],
    /// Time at which the commit record, or the flush before it, was submitted.
    pub record_ns: Option<u64>,
    /// Number of handles of the transaction.
    pub handles: u32,
    /// Metadata blocks of the transaction.
    pub blocks: u32,
    /// Blocks written to the journal.
    pub logged: u32,
    /// Handles that ended while the transaction was locked, oldest first. The last handle released
    /// the transaction.
    pub holders: Vec<Holder>,
    /// Files whose ordered data the commit waited for longest.
    pub ordered: Vec<OrderedFile>,
    /// Time that the commit waited for ordered data of other files, in ns.
    pub others_ns: u64,
    /// Device number of an external journal.
    pub journal: Option<u32>,
    /// Sleeps of the journal's thread.
    pub off: OffCpu,
    /// Longest flush, or FUA write, of each member that had one of a millisecond or more for the
    /// commit record: device number and length in ns, longest first. Empty until the commit is
    /// listed.
    pub flushes: Vec<(u32, u64)>,
}

/// Number of states of a commit: `enum rt_slow_states`.
pub const STATES: usize = crate::contract::SLOW_STATES as usize;

/// State of a commit, an index of [`Commit::state_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitState {
    /// The journal's thread has started.
    Started = crate::contract::SLOW_STARTED as isize,
    /// The transaction is locked. Open handles may end.
    Locked = crate::contract::SLOW_LOCKED as isize,
    /// No handle is open. Ordered data is submitted.
    Flushing = crate::contract::SLOW_FLUSHING as isize,
    /// Metadata is submitted to the journal. Then the thread waits for ordered data.
    Logging = crate::contract::SLOW_LOGGING as isize,
    /// The thread waits for the journal's blocks.
    Blocks = crate::contract::SLOW_BLOCKS as isize,
    /// The commit record is written.
    Record = crate::contract::SLOW_RECORD as isize,
    /// The record is on disk.
    Tail = crate::contract::SLOW_TAIL as isize,
    /// The commit has ended.
    Ended = crate::contract::SLOW_ENDED as isize,
}

impl Commit {
    /// Time at which a state was reached. A state that was not seen begins with the next state that
    /// was seen.
    pub fn reached(&self, state: CommitState) -> Option<u64> {
        self.state_ns.iter().skip(state as usize).find_map(|t| *t)
    }

    /// Start; `None` for a commit without any time.
    pub fn start_ns(&self) -> Option<u64> {
        self.reached(CommitState::Started)
    }

    pub fn end_ns(&self) -> Option<u64> {
        self.state_ns.iter().rev().find_map(|t| *t)
    }
}

/// A slow IO of a member: a flush, FUA write or read for parity that took at least 1 ms, or other
/// IO that took at least 1 ms and an eighth of the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// Device number of the member, or of its disk.
    pub dev: u32,
    /// Submission.
    pub start_ns: u64,
    /// Completion.
    pub end_ns: u64,
    /// True for an empty flush, or a write preceded by a flush (REQ_PREFLUSH).
    pub flush: bool,
    /// True for a write with FUA.
    pub fua: bool,
    /// True for a write or a flush, false for a read.
    pub write: bool,
    /// Bytes read or written; 0 for an empty flush.
    pub bytes: u32,
    /// True for a block that RAID 4/5/6 reads to compute parity.
    pub pre_read: bool,
}

impl MemberIo {
    /// Length.
    pub fn total_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// True if the IO was in flight between two times, in ns.
    pub fn overlaps(&self, (from, to): (u64, u64)) -> bool {
        self.end_ns > from && self.start_ns < to
    }
}

/// An event of the BPF programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowEvent {
    /// An operation has ended.
    Operation(Box<Operation>),
    /// A commit has ended.
    Commit(Box<Commit>),
    /// A slow IO of a member has ended.
    MemberIo(MemberIo),
}
