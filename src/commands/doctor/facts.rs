//! What the rules judge: a machine's arrays, filesystems and kernel as plain data. Everything that could not be read is
//! `None` or empty, and a rule that needs it says nothing.

use crate::advice::kernel::Kernel;
use crate::advice::quote::{path_of, quote};
use std::collections::BTreeMap;

use crate::analysis::placement::{Report, Skews};
use crate::fs::ext4::{Journal, Superblock};
use crate::machine::mballoc::MbStats;
use crate::machine::{Array, Filesystem};

/// All of it.
#[derive(Default)]
pub struct Facts {
    /// The kernel, as far as rules on filesystems ask.
    pub kernel: Kernel,
    /// What the host does for its arrays.
    pub host: Host,
    /// The arrays, and disks as arrays of one.
    pub arrays: Vec<ArrayFacts>,
    /// Arrays that md does not run: name, and md's word for their state.
    pub stopped: Vec<(String, String)>,
    /// What could not be checked, one line each.
    pub notes: Vec<String>,
}

/// What the host does for its arrays. `None` where it is not known.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Days since boot (/proc/uptime).
    pub uptime_days: Option<u64>,
    /// An `mdadm --monitor` runs.
    pub monitored: Option<bool>,
    /// Above it writers are slowed down.
    pub dirty: Option<DirtyLimit>,
}

/// How much may wait in the page cache to be written.
#[derive(Clone, Debug)]
pub struct DirtyLimit {
    /// In bytes.
    pub bytes: u64,
    /// Where that comes from.
    pub how: String,
}

/// An array and all that is known of it.
#[derive(Default)]
pub struct ArrayFacts {
    /// As sysfs and superblocks have it.
    pub array: Array,
    /// As `array.members`, in the same order.
    pub disks: Vec<Disk>,
    /// What serves as write-intent bitmap.
    pub bitmap: Bitmap,
    /// md/mismatch_cnt: sectors that `last_sync` found to differ, so far if it is under way.
    pub mismatches: u64,
    /// md/last_sync_action: `check`, `repair`, `resync`, `recover`, ...; `none` (since Linux 6.11 `idle`) where there was none since
    /// the array was assembled.
    pub last_sync: Option<String>,
    /// Days since mdcheck was last at it.
    pub checked_days: Option<u64>,
    /// md/stripe_cache_size, stripes of a page a member; parity levels only.
    pub stripe_cache: Option<u64>,
    /// md/group_thread_cnt; 0: one thread for all. Parity levels only.
    pub threads: Option<u64>,
    /// queue/read_ahead_kb, KiB.
    pub read_ahead_kib: Option<u64>,
    /// It takes discards (queue/discard_max_bytes).
    pub discards: Option<bool>,
    /// raid456.devices_handle_discard_safely.
    pub discards_trusted: Option<bool>,
    /// md/resync_start: sector from which on copies or parity are not known to be right; `None` where all are.
    pub resync_from: Option<u64>,
    /// The array's own optimal_io_size in bytes: what mke2fs takes for the stripe.
    pub optimal_io: u64,
    /// The filesystems on it.
    pub filesystems: Vec<FsFacts>,
}

/// A member's disk, beyond what [`crate::machine::Member`] says. 0 and empty where the kernel does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// device/model, or what stands for it.
    pub model: String,
    /// queue/logical_block_size, bytes.
    pub logical_block: u64,
    /// queue/physical_block_size, bytes.
    pub physical_block: u64,
    /// alignment_offset, bytes: the physical blocks begin this much later than the device.
    pub alignment_offset: u64,
    /// queue/max_sectors_kb, KiB.
    pub max_kib: u64,
    /// queue/nr_requests.
    pub requests: u64,
    /// device/timeout: seconds that the kernel waits for a command (SCSI and ATA disks).
    pub timeout: Option<u64>,
    /// device/vendor is `ATA`: what the SCSI layer says of each ATA disk, whatever it is connected by (SAT-3).
    pub is_ata: bool,
    /// Whether it can limit the time that it takes for a bad sector (SCT Error Recovery Control); `None` where the kernel does not show it.
    pub recovery_control: Option<bool>,
    /// It takes discards (queue/discard_max_bytes).
    pub discards: bool,
    /// queue/write_cache: `write back`, `write through`.
    pub write_cache: String,
    /// md/dev-*/bad_blocks: first sector of the member's data and length.
    pub bad_blocks: Vec<(u64, u64)>,
    /// md/dev-*/errors: reads that failed and were mended from the other members.
    pub read_errors: u64,
}

/// md's write-intent bitmap, by md/bitmap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bitmap {
    /// There is none, or none is known of.
    #[default]
    None,
    /// On the members.
    Internal {
        /// Bytes that a bit stands for; 0 where unknown.
        chunk: u64,
        /// Seconds after which a bit is cleared, the first of two or three times.
        time_base: u64,
    },
    /// In a file of another filesystem.
    File {
        /// Its path by /proc/mdstat; empty where that does not say.
        path: String,
    },
    /// Kernel 6.18's, without a lock.
    Lockless,
}

/// A filesystem on an array.
#[derive(Default)]
pub struct FsFacts {
    /// Where it is and where it is mounted.
    pub fs: Filesystem,
    /// `None` where the device could not be read.
    pub superblock: Option<Superblock>,
    /// Where its fixed places fall; `None` where unknown or on one disk.
    pub report: Option<Report>,
    /// The same figures on the array that a running reshape comes from.
    pub before: Option<Skews>,
    /// /proc/fs/ext4/DEV/options: every option in force, defaults too. Value empty for a flag.
    pub options: BTreeMap<String, String>,
    /// Mount options of /etc/fstab for it.
    pub fstab: Option<String>,
    /// Whether the allocator uses lists of groups by free space (`mb_optimize_scan`); `None` where nothing says so.
    pub optimised: Option<bool>,
    /// This kernel's ext4 has no such lists: it is mounted, and lacks every file of theirs.
    pub no_lists: bool,
    /// /proc/fs/ext4/DEV/mb_stats, where someone has turned it on.
    pub scanned: Option<MbStats>,
    /// /sys/fs/ext4/DEV/errors_count.
    pub errors: u64,
    /// What the kernel noted of the last one: `ext4_lookup:1705`.
    pub last_error: String,
    /// Inodes in use, by statfs; else by the superblock.
    pub inodes: Option<u64>,
    /// Share of its blocks in use, 0 to 1.
    pub used: Option<f64>,
    /// Where its journal is; `None` where the device could not be read.
    pub journal: Option<Journal>,
    /// Averages of jbd2 since the mount; `None` where it is not mounted or its journal is on another device.
    pub jbd2: Option<Jbd2>,
    /// Files of it that processes have open for writing with O_DIRECT.
    pub direct: Vec<Opener>,
}

/// /proc/fs/jbd2/DEV-INODE/info (fs/jbd2/journal.c, `jbd2_seq_info_show()`): since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jbd2 {
    /// Transactions committed.
    pub transactions: u64,
    /// Blocks that a transaction may have at most.
    pub largest: u64,
    /// Blocks that one has logged, on average.
    pub logged: u64,
    /// Milliseconds from the request of a commit to its begin, on average.
    pub request_delay_ms: u64,
}

/// A process with a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opener {
    /// Its command name, whatever it chose.
    pub comm: String,
    /// Process id.
    pub pid: u32,
    /// The file.
    pub path: String,
}

impl ArrayFacts {
    /// Chunks of data in a stripe: what a full-stripe write fills. `None` where the level has no chunk, or mdadm's figures
    /// make no sense.
    pub fn data_disks(&self) -> Option<u64> {
        let n = u64::from(self.array.raid_disks);
        match self.array.level.as_str() {
            "raid0" => Some(n),
            "raid4" | "raid5" => n.checked_sub(1),
            "raid6" => n.checked_sub(2),
            // raid10.c, raid10_set_io_opt: N / near copies where that is whole, else N.
            "raid10" => {
                let near = u64::from(self.array.layout & 0xff).max(1);
                Some(if n.is_multiple_of(near) { n / near } else { n })
            }
            _ => None,
        }
        .filter(|n| *n > 0 && self.array.chunk_sectors > 0)
    }

    /// Parity levels, where part of a stripe costs reads.
    pub fn has_parity(&self) -> bool {
        matches!(self.array.level.as_str(), "raid4" | "raid5" | "raid6")
    }

    /// Whether any member spins. What sysfs does not say counts as not spinning.
    pub fn rotational(&self) -> bool {
        self.array.members.iter().any(|m| m.queue.rotational)
    }

    /// `/dev/md0`.
    pub fn path(&self) -> String {
        path_of(&self.array.name)
    }
}

impl FsFacts {
    /// `/srv (md127)`; only the device where it is not mounted here.
    pub fn place(&self) -> String {
        match self.fs.mounts.first() {
            Some(m) => format!("{} ({})", m.path.display(), self.fs.name),
            None => self.fs.name.clone(),
        }
    }

    /// Where it is mounted, as a word of a command; `MOUNTPOINT` where it is not mounted here.
    pub fn mount_point(&self) -> String {
        let mount = self.fs.mounts.first();
        mount.map_or("MOUNTPOINT".to_owned(), |m| quote(&m.path))
    }

    /// `/dev/md127p1`.
    pub fn path(&self) -> String {
        path_of(&self.fs.name)
    }

    /// The stripe that the allocator goes by, in blocks, 0 for none; `None` when it is not mounted.
    pub fn stripe(&self) -> Option<u64> {
        self.options.get("stripe")?.parse().ok()
    }

    /// Whether an option is in force.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }
}

/// How often each value occurs, the most frequent first.
pub fn tally<T: Ord + Clone>(values: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<(T, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|c| std::cmp::Reverse(c.1));
    counts
}
