//! Input of the rules: arrays, filesystems, kernel and host as plain data. A value that could not
//! be read is `None` or empty, and rules that depend on it report nothing.

use std::collections::BTreeMap;

use crate::advice::kernel::Kernel;
use crate::advice::quote::{path_of, quote};
use crate::analysis::placement::{PlacementReport, Skews};
use crate::fs::ext4::{Ext4Superblock, Journal};
use crate::machine::mballoc::MbStats;
use crate::machine::{Array, Filesystem, Member, NotRunning, PoolStatus, container_of};

/// Input of the rules.
#[derive(Default)]
pub struct Facts {
    pub kernel: Kernel,
    /// Properties of the host that affect all arrays.
    pub host: Host,
    /// Running arrays. A disk without md is an array of one.
    pub arrays: Vec<ArrayFacts>,
    pub not_running: NotRunning,
    /// Checks that were not possible, one line each.
    pub notes: Vec<String>,
}

/// Properties of the host that affect all arrays; `None` if unknown.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Days since boot (/proc/uptime).
    pub uptime_days: Option<u64>,
    /// True if an `mdadm --monitor` process is running.
    pub monitored: Option<bool>,
    pub dirty: Option<DirtyLimit>,
}

/// Limit on dirty pages: writers are throttled before it is reached.
#[derive(Clone, Debug)]
pub struct DirtyLimit {
    pub bytes: u64,
    /// The setting that the limit is from, as a line of evidence.
    pub setting: String,
}

/// An array and its members.
#[derive(Default)]
pub struct ArrayFacts {
    /// Properties from sysfs and superblocks.
    pub array: Array,
    /// Disks of `array.members`, in the same order.
    pub disks: Vec<DiskFacts>,
    pub bitmap: BitmapFacts,
    /// md/mismatch_cnt: sectors found to differ by `last_sync`, or so far while it is running.
    pub mismatches: u64,
    /// md/last_sync_action: `check`, `repair`, `resync`, `recover`, ...; `none` (`idle` since
    /// Linux 6.11) if there was none since assembly.
    pub last_sync: Option<String>,
    /// Days since mdcheck last worked on this array.
    pub checked_days: Option<u64>,
    /// md/stripe_cache_size, in stripes of one page per member; parity levels only.
    pub stripe_cache: Option<u64>,
    /// md/group_thread_cnt, 0 for a single thread; parity levels only.
    pub threads: Option<u64>,
    /// queue/read_ahead_kb, KiB.
    pub read_ahead_kib: Option<u64>,
    /// True if the array accepts discards (queue/discard_max_bytes).
    pub discards: Option<bool>,
    /// Module parameter devices_handle_discard_safely of raid456.
    pub discards_trusted: Option<bool>,
    /// True while md/sync_completed is `delayed`: another array on one of the disks comes first.
    pub waits_to_sync: bool,
    /// md/resync_start: sector from which copies or parity may be wrong; `None` if all are right.
    pub resync_from: Option<u64>,
    /// Thin pools with blocks on the array: name in /dev/mapper, and status.
    pub pools: Vec<(String, PoolStatus)>,
    /// optimal_io_size of the array in bytes, which mke2fs uses as the stripe.
    pub optimal_io: u64,
    pub filesystems: Vec<FsFacts>,
}

/// Disk of a member: properties beyond those of [`Member`]; 0 or empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFacts {
    /// device/model.
    pub model: String,
    /// device/rev (SCSI, ATA), device/firmware_rev (NVMe) or device/fwrev (MMC).
    pub firmware: String,
    /// queue/logical_block_size, bytes.
    pub logical_block: u64,
    /// queue/physical_block_size, bytes.
    pub physical_block: u64,
    /// alignment_offset, bytes: offset of the first physical block from the start of the device.
    pub alignment_offset: u64,
    /// queue/max_sectors_kb, KiB.
    pub max_kib: u64,
    /// queue/nr_requests.
    pub requests: u64,
    /// device/timeout: seconds until the kernel aborts a command (SCSI and ATA disks).
    pub timeout: Option<u64>,
    /// True if device/vendor is `ATA`, which the SCSI layer reports for every ATA disk (SAT-3).
    pub is_ata: bool,
    /// True if the disk supports SCT Error Recovery Control, which limits the time spent on a bad
    /// sector; `None` if unknown.
    pub recovery_control: Option<bool>,
    /// True if the disk accepts discards (queue/discard_max_bytes).
    pub discards: bool,
    /// queue/write_cache: `write back`, `write through`.
    pub write_cache: String,
    /// md/dev-*/bad_blocks: first sector in the member's data, and length.
    pub bad_blocks: Vec<(u64, u64)>,
    /// md/dev-*/errors: failed reads that md corrected from other members.
    pub read_errors: u64,
}

/// md's write-intent bitmap, from md/bitmap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BitmapFacts {
    /// No bitmap, or unknown.
    #[default]
    None,
    /// On the members.
    Internal {
        /// Bytes that a bit covers; 0 if unknown.
        chunk: u64,
        /// Seconds between the two or three passes that clear a bit.
        time_base: u64,
    },
    /// In a file of another filesystem.
    File {
        /// Path from /proc/mdstat; empty if it has none.
        path: String,
    },
    /// The lockless bitmap of kernel 6.18.
    Lockless,
}

/// Free space of a mounted filesystem, from statfs(2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// Size in bytes.
    pub bytes: u64,
    /// Free bytes, those reserved for root included.
    pub free: u64,
    /// Free bytes available to all users.
    pub available: u64,
    /// Free inodes; `None` if the filesystem reports no inodes.
    pub inodes: Option<u64>,
}

/// A filesystem on an array.
#[derive(Default)]
pub struct FsFacts {
    pub fs: Filesystem,
    /// `None` if the device could not be read.
    pub superblock: Option<Ext4Superblock>,
    /// Placement of fixed metadata on the members; `None` if unknown, or on a single disk.
    pub report: Option<PlacementReport>,
    /// Skews with the geometry before the running reshape.
    pub before: Option<Skews>,
    /// /proc/fs/ext4/DEV/options: every option in force, including defaults. The value of a flag
    /// is empty.
    pub options: BTreeMap<String, String>,
    /// Mount options in /etc/fstab.
    pub fstab: Option<String>,
    /// True if the allocator uses lists of groups by free space (`mb_optimize_scan`); `None` if
    /// unknown.
    pub optimised: Option<bool>,
    /// True if the filesystem is mounted and this kernel's ext4 has no such lists.
    pub no_lists: bool,
    /// /proc/fs/ext4/DEV/mb_stats, if enabled.
    pub mb_stats: Option<MbStats>,
    /// /sys/fs/ext4/DEV/errors_count.
    pub errors: u64,
    /// Function and line of the last error: `ext4_lookup:1705`.
    pub last_error: String,
    /// Inodes in use, from statfs or else from the superblock.
    pub inodes: Option<u64>,
    /// Used share of the blocks, 0 to 1.
    pub used: Option<f64>,
    /// Free space; `None` if unmounted.
    pub space: Option<Space>,
    /// Journal location; `None` if the device could not be read.
    pub journal: Option<Journal>,
    /// jbd2 averages since the mount; `None` if unmounted or if the journal is external.
    pub jbd2: Option<Jbd2>,
    /// Files that processes have open for writing with O_DIRECT.
    pub direct: Vec<Opener>,
}

/// /proc/fs/jbd2/DEV-INODE/info since the mount (fs/jbd2/journal.c, `jbd2_seq_info_show()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jbd2 {
    pub transactions: u64,
    /// Maximum number of blocks in a transaction.
    pub largest: u64,
    /// Blocks logged per transaction, on average.
    pub logged: u64,
    /// Milliseconds from the request of a commit until it starts, on average.
    pub request_delay_ms: u64,
}

/// A process with a file open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opener {
    /// Command name, untrusted.
    pub comm: String,
    pub pid: u32,
    pub path: String,
}

impl ArrayFacts {
    /// Data chunks in a stripe. `None` if the level has no chunks, or the figures are inconsistent.
    pub fn data_disks(&self) -> Option<u64> {
        let n = u64::from(self.array.raid_disks);
        match self.array.level.as_str() {
            "raid0" => Some(n),
            "raid4" | "raid5" => n.checked_sub(1),
            "raid6" => n.checked_sub(2),
            // raid10.c, raid10_set_io_opt(): N / near copies if that is whole, else N.
            "raid10" => {
                let near = u64::from(self.array.layout & 0xff).max(1);
                Some(if n.is_multiple_of(near) { n / near } else { n })
            }
            _ => None,
        }
        .filter(|n| *n > 0 && self.array.chunk_sectors > 0)
    }

    /// True for RAID 4, 5 and 6, which read before they write part of a stripe.
    pub fn has_parity(&self) -> bool {
        self.array.has_parity()
    }

    /// True for levels that survive the loss of a member.
    pub fn is_redundant(&self) -> bool {
        self.has_parity() || matches!(self.array.level.as_str(), "raid1" | "raid10")
    }

    /// True if any member is rotational. A member without the attribute counts as not rotational.
    pub fn rotational(&self) -> bool {
        self.array.members.iter().any(|m| m.queue.rotational)
    }

    /// True if md is running no resync, check, rebuild or reshape.
    pub fn is_idle(&self) -> bool {
        matches!(self.array.sync_action.as_deref(), None | Some("idle"))
    }

    pub fn members(&self) -> impl Iterator<Item = (&Member, &DiskFacts)> + Clone {
        self.array.members.iter().zip(&self.disks)
    }

    /// Names of the disks with a property.
    pub fn disks_with(&self, property: impl Fn(&Member, &DiskFacts) -> bool) -> Vec<&str> {
        self.members().filter(|(m, d)| property(m, d)).map(|(m, _)| m.disk_name.as_str()).collect()
    }

    /// `/dev/md0`, quoted.
    pub fn path(&self) -> String {
        path_of(&self.array.name)
    }

    /// Path of the container, quoted, of an array with external metadata (IMSM, DDF). mdadm refuses
    /// to add disks to the array itself.
    pub fn container(&self) -> Option<String> {
        self.array.metadata.as_deref().and_then(container_of).map(path_of)
    }

    /// `/sys/block/md0/FILE`, quoted.
    pub fn sysfs(&self, file: &str) -> String {
        quote(format!("/sys/block/{}/{file}", self.array.name))
    }
}

impl FsFacts {
    /// `/srv (md127)`, or only the device if it is not mounted.
    pub fn label(&self) -> String {
        match self.fs.mounts.first() {
            Some(m) => format!("{} ({})", m.path.display(), self.fs.name),
            None => self.fs.name.clone(),
        }
    }

    /// Mount point, quoted; `MOUNTPOINT` if it is not mounted.
    pub fn mount_point(&self) -> String {
        self.fs.mounts.first().map_or("MOUNTPOINT".to_owned(), |m| quote(&m.path))
    }

    /// `/dev/md127p1`, quoted.
    pub fn path(&self) -> String {
        path_of(&self.fs.name)
    }

    /// Stripe in force, in blocks, 0 for none; `None` if it is not mounted.
    pub fn stripe(&self) -> Option<u64> {
        self.options.get("stripe")?.parse().ok()
    }

    /// True if a mount option is in force.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// `/proc/fs/ext4/md0/options: TEXT`, a line of evidence.
    pub fn option_seen(&self, text: impl std::fmt::Display) -> String {
        format!("/proc/fs/ext4/{}/options: {text}", self.fs.name)
    }

    /// Commands that mount the filesystem again with more options. With the mount point alone,
    /// mount(8) also reads the options in /etc/fstab; with device and mount point it does not.
    pub fn mount_again(&self, options: &str) -> [String; 2] {
        let mount = self.mount_point();
        let subject = match self.fstab {
            Some(_) => mount.clone(),
            None => format!("{} {mount}", self.path()),
        };
        [format!("umount {mount}"), format!("mount -o {options} {subject}")]
    }

    /// Commands that change the superblock by `tune2fs`, and the mount options by a remount if it
    /// is mounted.
    pub fn change(&self, tune2fs: &str, remount: &str) -> Vec<String> {
        let mut commands = vec![format!("tune2fs {tune2fs} {}", self.path())];
        if !self.fs.mounts.is_empty() {
            let mount = self.mount_point();
            commands.push(format!("mount -o remount,{remount} {mount}"));
        }
        commands
    }
}
