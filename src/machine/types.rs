//! What this machine has, as plain data: no path, no file, no system call in here.
//!
//! A sector is 512 bytes everywhere in this module, whatever the disk's own block size, as in the kernel's block layer.

use std::fmt;
use std::path::PathBuf;

/// A block device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev {
    /// Major number: the driver.
    pub major: u32,
    /// Minor number: the device, or a partition of it.
    pub minor: u32,
}

impl Dev {
    /// From sysfs and mountinfo: `9:127`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// The kernel's own `dev_t`, what tracepoints and `bd_dev` hold (include/linux/kdev_t.h, MKDEV).
    /// Not what `stat` returns: that is another encoding.
    pub fn kernel(self) -> u32 {
        (self.major << 20) | (self.minor & 0xf_ffff)
    }

    /// The inverse.
    pub fn from_kernel(dev: u32) -> Self {
        Self {
            major: dev >> 20,
            minor: dev & 0xf_ffff,
        }
    }
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// An md array, or a disk without md as an array of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Array {
    /// Kernel name: `md127`, `sda`.
    pub name: String,
    /// Its device number.
    pub dev: Dev,
    /// Size in sectors.
    pub sectors: u64,
    /// `raid0`, `raid5`, `linear`, ... (md/level), or `single` for a disk without md.
    pub level: String,
    /// md/layout: meaning depends on the level. RAID 0: 1 original, 2 alternate, 0 not recorded (then it does not matter,
    /// or the kernel's default could not be read). While a reshape runs: the layout reshaped to.
    pub layout: u32,
    /// Chunk in sectors; 0 where the level has none (raid1, single). While a reshape runs: the chunk reshaped to.
    pub chunk_sectors: u32,
    /// Slots, missing ones included; 1 for `single`. While a reshape runs: the number reshaped to.
    pub raid_disks: u32,
    /// md/component_size: what the array uses of each member, sectors; 0 for raid0, linear and single, where it may differ
    /// by member ([`Member::data_sectors`]).
    pub component_sectors: u64,
    /// md/metadata_version: `0.90`, `1.2`, `external:imsm`; `None` without md or without metadata.
    pub metadata: Option<String>,
    /// md/array_state: `clean`, `active`, `readonly`, ... (Documentation/admin-guide/md.rst); `active` for single.
    pub array_state: String,
    /// md/degraded: slots without a working member; 0 where the level has no redundancy.
    pub degraded: u32,
    /// md/sync_action: `idle`, `resync`, `recover`, `check`, `repair`, `reshape`; `None` without redundancy.
    pub sync_action: Option<String>,
    /// md/sync_completed: sectors done and sectors to do, of each member; `None` while idle or waiting.
    pub sync_completed: Option<(u64, u64)>,
    /// md/reshape_position: array sector up to which a reshape has got; `None` when no reshape is under way.
    pub reshape_position: Option<u64>,
    /// What the not yet reshaped part still looks like.
    pub before_reshape: Option<BeforeReshape>,
    /// md/consistency_policy: `resync`, `bitmap`, `ppl`, `journal`, `none`; `None` without md.
    pub consistency_policy: Option<String>,
    /// By slot; those without a slot last.
    pub members: Vec<Member>,
    /// Filesystems that lie on it, wholly or in part, mounted ones only.
    pub filesystems: Vec<Filesystem>,
    /// Devices that lie on it and are not mounted: itself, its partitions, volumes on it. What is on them, a filesystem or
    /// nothing, only their content can tell.
    pub unmounted: Vec<Filesystem>,
}

/// The geometry that a running reshape comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeforeReshape {
    /// As [`Array::layout`].
    pub layout: u32,
    /// As [`Array::chunk_sectors`].
    pub chunk_sectors: u32,
    /// As [`Array::raid_disks`].
    pub raid_disks: u32,
    /// md/reshape_direction is `backwards`: the reshaped part is behind [`Array::reshape_position`], not before it.
    pub backwards: bool,
}

/// A disk or partition in an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Kernel name: `loop1`, `sda2`.
    pub name: String,
    /// Its device number; 0:0 when the device has gone from the machine but md still lists it.
    pub dev: Dev,
    /// The whole disk that carries its requests.
    pub disk: Dev,
    /// That disk's kernel name.
    pub disk_name: String,
    /// Where the member begins on that disk, in sectors; 0 for a whole disk.
    pub start: u64,
    /// Size of the member device, in sectors.
    pub sectors: u64,
    /// md's raid_disk; `None` for a spare, a failed member or a journal device.
    pub slot: Option<u32>,
    /// md's words (md/dev-*/state): `in_sync`, `faulty`, `spare`, `write_mostly`, `journal`, `replacement`, ...
    pub state: Vec<String>,
    /// First data sector of the member (md/dev-*/offset).
    pub data_offset: u64,
    /// The same for the reshaped part (md/dev-*/new_offset); equals `data_offset` unless a reshape moves it.
    pub new_data_offset: u64,
    /// Sectors usable for data (md/dev-*/size); RAID 0 zones come from it.
    pub data_sectors: u64,
    /// Member sector of the md superblock; `None` without native metadata.
    pub sb_offset: Option<u64>,
    /// Length of the superblock in sectors as md writes it; 0 without.
    pub sb_sectors: u64,
    /// Write-intent bitmap: first member sector and number of sectors.
    pub bitmap: Option<(u64, u64)>,
    /// Bad-block log: first member sector and number of sectors.
    pub bad_block_log: Option<(u64, u64)>,
    /// Partial parity log: first member sector and number of sectors.
    pub ppl: Option<(u64, u64)>,
    /// The array that it is, or is a part of: `disk`, where that is an array of this [`HostTopology`], below this one.
    pub inner: Option<Dev>,
    /// The whole disk's queue.
    pub queue: QueueFacts,
}

/// What a disk's request queue looks like (/sys/block/X/queue, /sys/block/X/mq; Documentation/ABI/stable/sysfs-block).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFacts {
    /// Hardware queues; 0 when bio based.
    pub nr_hw_queues: u32,
    /// Tags of a hardware queue (the largest, should they differ); 0 when bio based.
    pub nr_tags: u32,
    /// Whether the kernel keeps statistics (queue/iostats).
    pub iostats: bool,
    /// The scheduler in use; `none` included; `None` when there is no such file.
    pub scheduler: Option<String>,
    /// Whether it spins (queue/rotational).
    pub rotational: bool,
    /// It takes bios and makes no requests (zram, brd, md, most of device mapper, NVMe multipath heads): no request
    /// tracepoint ever fires for it.
    pub bio_based: bool,
}

/// A mounted filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filesystem {
    /// Kernel name of the block device that it is on: `md127`, `md127p1`, `dm-3`. Also its name in /sys/fs/ext4 and /proc/fs/ext4.
    pub name: String,
    /// That block device.
    pub dev: Dev,
    /// Where its sectors lie on *this* array, by `fs_sector`. Empty when that could not be found out: `note` says why.
    pub segments: Vec<Segment>,
    /// Where it is mounted; empty when it is mounted in another mount namespace only.
    pub mounts: Vec<Mount>,
    /// What is between it and the array, from the top: `LVM vg-lv`, `dm-crypt secret`, `partition 1`. Empty: nothing.
    pub stack: Vec<String>,
    /// Why `segments` is empty.
    pub note: Option<String>,
}

/// A run of filesystem sectors that are contiguous on the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First sector, counted from the start of the filesystem's block device.
    pub fs_sector: u64,
    /// Where that one lies on the array.
    pub array_sector: u64,
    /// Number of sectors.
    pub sectors: u64,
}

/// A mount of a filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub path: PathBuf,
    /// `ext4`, `xfs`, ...
    pub fstype: String,
    /// Those of the mount, then those of the filesystem: `rw,relatime,stripe=6144`.
    pub options: String,
}

/// What a command was asked to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTopology {
    /// In the order of their names. An array whose members are arrays is here with all of them.
    pub arrays: Vec<Array>,
    /// What could not be found out, one line each.
    pub notes: Vec<String>,
}

impl Array {
    /// Whether md runs it; else it is a disk as an array of one.
    pub fn is_md(&self) -> bool {
        self.level != "single"
    }

    /// Whether it is a RAID 4, 5 or 6 without one of its members: what was on that one has to be rebuilt.
    pub fn rebuilds(&self) -> bool {
        matches!(self.level.as_str(), "raid4" | "raid5" | "raid6")
            && !self.missing_slots().is_empty()
    }

    /// Slots that no working member fills.
    pub fn missing_slots(&self) -> Vec<u32> {
        // md takes a failed member's slot away a little later than it marks it.
        let fills =
            |m: &Member, slot| m.slot == Some(slot) && !m.state.iter().any(|w| w == "faulty");
        // raid_disks comes from a file: a superblock has room for 1920 roles.
        (0..self.raid_disks.min(1920))
            .filter(|slot| !self.members.iter().any(|m| fills(m, *slot)))
            .collect()
    }
}
