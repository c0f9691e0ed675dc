//! Plain data of the machine. No file access.
//!
//! A sector is 512 bytes everywhere in this module, as in the kernel's block layer.

use std::fmt;
use std::path::PathBuf;

use super::segment::Segment;
use crate::address::{DiskSector, MemberSector};

/// A block device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev {
    /// Major number: the driver.
    pub major: u32,
    /// Minor number: the device, or a partition of it.
    pub minor: u32,
}

impl Dev {
    /// Parses `9:127` from sysfs and mountinfo.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// A device number of stat(2).
    pub(crate) fn from_stat(dev: u64) -> Self {
        Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }

    /// The kernel's internal `dev_t` of tracepoints and `bd_dev` (include/linux/kdev_t.h, MKDEV).
    /// stat(2) returns another encoding.
    pub fn kernel(self) -> u32 {
        (self.major << 20) | (self.minor & 0xf_ffff)
    }

    /// Inverse of [`Dev::kernel`].
    pub fn from_kernel(dev: u32) -> Self {
        Self { major: dev >> 20, minor: dev & 0xf_ffff }
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
    /// Name in /dev/mapper of an array of device mapper's raid target (LVM RAID).
    pub mapper_name: Option<String>,
    /// Device number.
    pub dev: Dev,
    /// Size in sectors.
    pub sectors: u64,
    /// `raid0`, `raid5`, `linear`, ... (md/level), or `single` for a disk without md.
    pub level: String,
    /// md/layout; its meaning depends on the level. RAID 0: 1 original, 2 alternate, 0 not
    /// recorded (irrelevant, or the kernel's default is unreadable). During a reshape: the new
    /// layout.
    pub layout: u32,
    /// Chunk in sectors; 0 for levels without chunks (raid1, single). During a reshape: the new
    /// chunk.
    pub chunk_sectors: u32,
    /// Number of slots, including missing ones; 1 for `single`. During a reshape: the new number.
    pub raid_disks: u32,
    /// md/component_size: sectors used of each member; 0 for raid0, linear and single, whose
    /// members can differ ([`Member::data_sectors`]).
    pub component_sectors: u64,
    /// md/metadata_version: `0.90`, `1.2`, `external:imsm`; `None` without md or without metadata.
    pub metadata: Option<String>,
    /// md/array_state: `clean`, `active`, `readonly`, ... (Documentation/admin-guide/md.rst);
    /// `active` for single.
    pub array_state: String,
    /// md/degraded: slots without a working member; 0 if the level has no redundancy.
    pub degraded: u32,
    /// md/sync_action: `idle`, `resync`, `recover`, `check`, `repair`, `reshape`; `None` without
    /// redundancy.
    pub sync_action: Option<String>,
    /// md/sync_completed: sectors done and total sectors, of each member; `None` while idle or
    /// waiting.
    pub sync_completed: Option<(u64, u64)>,
    /// md/reshape_position: array sector that a running reshape has reached; `None` without a
    /// reshape.
    pub reshape_position: Option<u64>,
    /// Geometry of the part that is not yet reshaped.
    pub before_reshape: Option<BeforeReshape>,
    /// md/consistency_policy: `resync`, `bitmap`, `ppl`, `journal`, `none`; `None` without md.
    pub consistency_policy: Option<String>,
    /// Members by slot; members without a slot last.
    pub members: Vec<Member>,
    /// Mounted filesystems that lie on the array, wholly or in part.
    pub filesystems: Vec<Filesystem>,
    /// Devices on the array that are not mounted: the array itself, partitions, volumes. They may
    /// hold a filesystem.
    pub unmounted: Vec<Filesystem>,
}

/// The old geometry of a running reshape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeforeReshape {
    /// See [`Array::layout`].
    pub layout: u32,
    /// See [`Array::chunk_sectors`].
    pub chunk_sectors: u32,
    /// See [`Array::raid_disks`].
    pub raid_disks: u32,
    /// md/reshape_direction is `backwards`: the reshaped part follows [`Array::reshape_position`].
    pub backwards: bool,
}

/// A disk or partition in an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Kernel name: `loop1`, `sda2`.
    pub name: String,
    /// Device number; 0:0 if md still lists a device that was removed from the machine.
    pub dev: Dev,
    /// The whole disk that gets the member's requests.
    pub disk: Dev,
    /// Kernel name of `disk`.
    pub disk_name: String,
    /// First sector of the member on `disk`; 0 for a whole disk.
    pub start: DiskSector,
    /// Sectors of the member: all of its device, or the range of a volume in a container.
    pub sectors: u64,
    /// Other volumes in the same container that have a range of the device.
    pub other_volumes: usize,
    /// md's raid_disk; `None` for a spare, a failed member or a journal device.
    pub slot: Option<u32>,
    /// Words of md/dev-*/state: `in_sync`, `faulty`, `spare`, `write_mostly`, `journal`,
    /// `replacement`, ...
    pub state: Vec<String>,
    /// First data sector of the member (md/dev-*/offset).
    pub data_offset: MemberSector,
    /// First data sector of the reshaped part (md/dev-*/new_offset); `data_offset` unless a
    /// reshape moves it.
    pub new_data_offset: MemberSector,
    /// Sectors usable for data (md/dev-*/size), which determine the zones of RAID 0.
    pub data_sectors: u64,
    /// First sector of the md superblock; `None` without native metadata.
    pub sb_offset: Option<MemberSector>,
    /// Sectors of the superblock as md writes it; 0 without native metadata.
    pub sb_sectors: u64,
    /// Write-intent bitmap: first sector and number of sectors.
    pub bitmap: Option<(MemberSector, u64)>,
    /// Bad-block log: first sector and number of sectors.
    pub bad_block_log: Option<(MemberSector, u64)>,
    /// Partial parity log: first sector and number of sectors.
    pub ppl: Option<(MemberSector, u64)>,
    /// The member is a device mapper device, whose statistics are of bios. `disk` is the disk below
    /// it that has all of it, in a few pieces, or else the same device.
    pub mapped: bool,
    /// Pieces of a mapped member after the one at `start`, in the member's order. A volume that
    /// `lvextend` enlarged has one where the space behind it was taken.
    pub later_pieces: Vec<MemberPiece>,
    /// dm-crypt is between the member and `disk`.
    pub encrypted: bool,
    /// Kernel names of the volumes on `disk` that are the member (dm-raid); else empty.
    pub volumes: Vec<String>,
    /// The metadata device of the slot (dm-raid). It follows the data in the sectors of the member:
    /// sector `sectors` is its first one.
    pub metadata_device: Option<MetadataDevice>,
    /// `disk`, if it is another array of this [`HostTopology`] (a nested array).
    pub nested_array: Option<Dev>,
    /// Request queue of `disk`; for the head of NVMe multipath that of a path, without its tags.
    pub queue: QueueFacts,
    /// Paths of `disk`, if it is the head of NVMe multipath; else empty.
    pub paths: Vec<NvmePath>,
}

/// A contiguous part of a member on its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberPiece {
    /// First sector in the member.
    pub sector: MemberSector,
    /// First sector on the disk.
    pub start: DiskSector,
    /// Number of sectors.
    pub sectors: u64,
}

impl MemberPiece {
    /// The sector of the member at a sector of the disk; `None` outside of this piece.
    pub fn member_sector(&self, at: DiskSector) -> Option<MemberSector> {
        let offset = at.0.checked_sub(self.start.0).filter(|offset| *offset < self.sectors)?;
        Some(MemberSector(self.sector.0.saturating_add(offset)))
    }
}

impl Member {
    /// Parts of the disk that are the member: its pieces, and the metadata device of its slot.
    pub fn pieces(&self) -> impl Iterator<Item = MemberPiece> + use<'_> {
        let sectors = self.later_pieces.first().map_or(self.sectors, |next| next.sector.0);
        let first = MemberPiece { sector: MemberSector(0), start: self.start, sectors };
        let metadata = self.metadata_device.map(|at| MemberPiece {
            sector: MemberSector(self.sectors),
            start: at.start,
            sectors: at.sectors,
        });
        [first].into_iter().chain(self.later_pieces.iter().copied()).chain(metadata)
    }
}

/// A device of device mapper with md's metadata of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataDevice {
    /// Device number.
    pub dev: Dev,
    /// First sector on the disk of the member.
    pub start: DiskSector,
    /// Number of sectors.
    pub sectors: u64,
}

/// A path of an NVMe drive: a hidden disk (`nvme0c1n1`) that gets requests of the head (`nvme0n1`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmePath {
    /// Kernel name.
    pub name: String,
    /// Device number, from /proc/diskstats; 0:0 if the kernel does not print it (5.10).
    pub dev: Dev,
    pub queue: QueueFacts,
}

/// Properties of a disk's request queue (/sys/block/X/queue, /sys/block/X/mq;
/// Documentation/ABI/stable/sysfs-block).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFacts {
    /// Hardware queues; 0 when bio based.
    pub nr_hw_queues: u32,
    /// Tags of the largest hardware queue; 0 when bio based.
    pub nr_tags: u32,
    /// True if the kernel keeps statistics (queue/iostats).
    pub iostats: bool,
    /// The active scheduler, or `none`; `None` without the sysfs file.
    pub scheduler: Option<String>,
    /// True for a rotating disk (queue/rotational).
    pub rotational: bool,
    /// True for a driver that takes bios and makes no requests (zram, brd, md, most of device
    /// mapper, NVMe multipath heads whose paths have no number): request tracepoints never fire.
    pub bio_based: bool,
}

/// A filesystem, or an unmounted device that may hold one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filesystem {
    /// Kernel name of the block device: `md127`, `md127p1`, `dm-3`. Also the name in /sys/fs/ext4
    /// and /proc/fs/ext4.
    pub name: String,
    /// Number of the block device.
    pub dev: Dev,
    /// Mapping of the filesystem's sectors to *this* array, by `fs_sector`. Empty if unknown;
    /// `note` has the reason.
    pub segments: Vec<Segment>,
    /// Mounts in this mount namespace.
    pub mounts: Vec<Mount>,
    /// Layers between the filesystem and the array, top first: `LVM vg-lv`, `dm-crypt secret`,
    /// `partition 1`.
    pub stack: Vec<String>,
    /// Reason why `segments` is empty.
    pub note: Option<String>,
    pub role: DeviceRole,
}

/// Role of a block device. Only XFS uses several devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceRole {
    /// It holds the filesystem, or all of it but its log or realtime blocks.
    #[default]
    Main,
    /// The external log (`logdev=`) of an XFS.
    Log(MainDevice),
    /// The realtime device (`rtdev=`) of an XFS.
    Realtime(MainDevice),
    /// Swap space in use (/proc/swaps).
    Swap,
}

impl DeviceRole {
    /// The main device, for the device of a log or of realtime blocks.
    pub fn main(&self) -> Option<&MainDevice> {
        match self {
            Self::Main | Self::Swap => None,
            Self::Log(main) | Self::Realtime(main) => Some(main),
        }
    }
}

/// The device that a filesystem with several devices is mounted by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MainDevice {
    /// Kernel name.
    pub name: String,
    /// Number of the block device.
    pub dev: Dev,
}

/// A mount of a filesystem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub path: PathBuf,
    /// `ext4`, `xfs`, ...
    pub fstype: String,
    /// Mount options, then filesystem options: `rw,relatime,stripe=6144`.
    pub options: String,
}

impl Mount {
    /// Value of an option: `/dev/sda1` of `logdev=/dev/sda1`.
    pub fn option(&self, name: &str) -> Option<&str> {
        let mut options = self.options.split(',');
        options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Arrays selected by the targets of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTopology {
    /// Arrays by name, including nested and outer arrays.
    pub arrays: Vec<Array>,
    /// Missing information, one line each.
    pub notes: Vec<String>,
}

impl Array {
    /// False for a disk without md.
    pub fn is_md(&self) -> bool {
        self.level != "single"
    }

    /// True for RAID 4, 5 and 6.
    pub fn has_parity(&self) -> bool {
        matches!(self.level.as_str(), "raid4" | "raid5" | "raid6")
    }

    /// True for a RAID 4, 5 or 6 with a missing member, whose blocks must be rebuilt from parity.
    pub fn rebuilds(&self) -> bool {
        self.has_parity() && !self.missing_slots().is_empty()
    }

    /// Slots that no working member fills.
    pub fn missing_slots(&self) -> Vec<u32> {
        // md marks a member as faulty shortly before it removes its slot.
        let fills =
            |m: &Member, slot| m.slot == Some(slot) && !m.state.iter().any(|w| w == "faulty");
        // raid_disks comes from a file and is not trusted: a superblock has room for 1920 roles.
        (0..self.raid_disks.min(1920))
            .filter(|slot| !self.members.iter().any(|m| fills(m, *slot)))
            .collect()
    }
}
