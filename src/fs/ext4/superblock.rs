//! The parsed superblock; `check` validates it. Field names are those of `struct ext4_super_block`
//! (fs/ext4/ext4.h; Documentation/filesystems/ext4/super.rst) without `s_`.

use super::features::{compat, incompat, ro_compat};
use super::identify::{EXT_MAGIC, EXT_SUPERBLOCK_AT, FsKind, ext_kind, identify};
use crate::fs::Error;
use crate::fs::read::{Fields, ReadAt};
use crate::fs::uuid::Uuid;

/// Bytes of the superblock.
const SIZE: usize = 1024;

/// Checksum state of the superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// No `metadata_csum`, or an unknown checksum type.
    #[default]
    None,
    /// `s_checksum` is correct.
    Valid,
    /// `s_checksum` is wrong. A mounted filesystem can still be intact: the kernel changes the
    /// buffer before it updates the checksum (`ext4_superblock_csum_set`), and the read can be
    /// between the two.
    Invalid {
        /// Value in the superblock.
        stored: u32,
        /// Value computed from the superblock.
        computed: u32,
    },
}

/// Error behaviour of the kernel, `s_errors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Continues (1, and any unknown value).
    #[default]
    Continue,
    /// Remounts read-only (2).
    ReadOnly,
    /// Panics (3).
    Panic,
}

/// The superblock's copy of the journal inode, `s_jnl_blocks` (when `s_jnl_backup_type` is 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalBackup {
    /// `i_block` of the journal inode: extents or block map.
    pub i_block: [u8; 60],
    /// Size of the journal in bytes.
    pub size: u64,
}

/// A superblock with a valid geometry. The default is empty, to be filled in by the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ext4Superblock {
    /// Block size in bytes: 1024 to 65536.
    pub block_size: u32,
    /// Blocks of the filesystem.
    pub blocks_count: u64,
    pub free_blocks_count: u64,
    /// First block of group 0: 1 with 1 KiB blocks (0 with bigalloc), else 0.
    pub first_data_block: u32,
    pub blocks_per_group: u32,
    /// Clusters per group; equal to blocks per group without bigalloc.
    pub clusters_per_group: u32,
    /// Blocks per cluster; 1 without bigalloc.
    pub cluster_ratio: u32,
    pub inodes_per_group: u32,
    /// Inodes of the filesystem.
    pub inodes_count: u32,
    pub free_inodes_count: u32,
    /// Inode size in bytes.
    pub inode_size: u16,
    /// Block groups.
    pub groups: u32,
    /// Size of a group descriptor in bytes: 32, or `s_desc_size` with 64bit.
    pub desc_size: u16,
    /// Bits of [`compat`].
    pub feature_compat: u32,
    /// Bits of [`incompat`].
    pub feature_incompat: u32,
    /// Bits of [`ro_compat`].
    pub feature_ro_compat: u32,
    /// Log2 of the groups in a flex group as stored; see [`Ext4Superblock::groups_per_flex`].
    pub log_groups_per_flex: u8,
    /// First meta group that contains its own descriptors (with meta_bg).
    pub first_meta_bg: u32,
    /// Blocks reserved for growth after each copy of the GDT.
    pub reserved_gdt_blocks: u16,
    /// The two groups with backups under sparse_super2; 0 for none.
    pub backup_bgs: [u32; 2],
    /// UUID of the filesystem.
    pub uuid: Uuid,
    /// Volume name, control characters replaced; empty for none.
    pub label: String,
    /// Inode of the internal journal, 0 for none.
    pub journal_inum: u32,
    /// UUID of the external journal.
    pub journal_uuid: Uuid,
    /// Copy of the journal inode's map; `None` if mkfs or the kernel has not stored one.
    pub journal_backup: Option<JournalBackup>,
    /// Block of multiple mount protection, 0 for none.
    pub mmp_block: u64,
    /// Inodes of user, group and project quota, 0 for none.
    pub quota_inums: [u32; 3],
    /// Inode of the orphan file, 0 for none.
    pub orphan_file_inum: u32,
    /// `-E stride`, blocks; 0 for none.
    pub raid_stride: u16,
    /// `-E stripe_width`, blocks; 0 for none.
    pub raid_stripe_width: u32,
    /// Error behaviour.
    pub errors: OnError,
    /// Errors recorded since the last fsck.
    pub error_count: u32,
    /// Bits of `s_state`: 1 cleanly unmounted, 2 errors detected, 4 orphans being recovered.
    pub state: u16,
    /// Bits of `s_default_mount_opts` (`EXT4_DEFM_*`).
    pub default_mount_opts: u32,
    /// Mount options kept by `tune2fs -E mount_opts`; empty for none.
    pub mount_opts: String,
    /// Creation time, seconds since 1970.
    pub mkfs_time: u32,
    /// The superblock's own checksum.
    pub checksum: Checksum,
}

/// Text up to the first NUL, sanitized for printing.
fn text(raw: &[u8]) -> String {
    let end = raw.iter().position(|&b| b == 0).unwrap_or(raw.len());
    String::from_utf8_lossy(&raw[..end])
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Returns the error of a field unless `ok`. `rule` continues the sentence "s_field is 3, ...".
pub(super) fn check(
    ok: bool,
    field: &'static str,
    value: impl Into<u64>,
    rule: &str,
) -> Result<(), Error> {
    if ok {
        return Ok(());
    }
    Err(Error::Field {
        field,
        value: value.into(),
        rule: rule.to_owned(),
        tool: "e2fsck -n, and a backup with: e2fsck -n -b 32768",
    })
}

impl Ext4Superblock {
    /// Reads and checks the primary superblock.
    pub fn read(dev: &dyn ReadAt) -> Result<Self, Error> {
        let failed = |source| Error::Read { what: "superblock", offset: EXT_SUPERBLOCK_AT, source };
        let device = dev.size().map_err(failed)?;
        let mut raw = [0; SIZE];
        if device >= EXT_SUPERBLOCK_AT + SIZE as u64 {
            dev.read_at(EXT_SUPERBLOCK_AT, &mut raw).map_err(failed)?;
        }
        let f = Fields(&raw);
        if f.u16(0x38) != EXT_MAGIC {
            let found = identify(dev).map_err(failed)?;
            return Err(Error::Unusable(format!(
                "s_magic at byte 1080 is {:#06x}, not 0xef53: this is {}, not ext2, ext3 or ext4; \
                 name the device that holds the filesystem",
                f.u16(0x38),
                found.map_or("unknown data".to_owned(), |kind| kind.to_string())
            )));
        }
        if f.u32(0x60) & incompat::JOURNAL_DEV != 0 {
            return Err(Error::Unusable(format!(
                "s_feature_incompat has journal_dev: this is an external journal (UUID {}), not a \
                 filesystem; name the filesystem that uses it (blkid shows which)",
                Uuid(f.bytes(0x68))
            )));
        }
        let sb = Self::parse(f)?;
        sb.check_geometry()?;
        if sb.blocks_count > device / u64::from(sb.block_size) {
            return Err(Error::Unusable(format!(
                "s_blocks_count is {} blocks of {} bytes, more than the device's {device} bytes: \
                 the image is truncated, or the device is only a part of the array; name the \
                 whole array",
                sb.blocks_count, sb.block_size
            )));
        }
        Ok(sb)
    }

    /// Parses the fields. Checks only those that its arithmetic depends on.
    fn parse(f: Fields<'_>) -> Result<Self, Error> {
        let (has, inc, ro) = (f.u32(0x5c), f.u32(0x60), f.u32(0x64));
        let log_block = f.u32(0x18);
        check(log_block <= 6, "s_log_block_size", log_block, "but must be at most 6 (64 KiB)")?;
        let log_cluster = if ro & ro_compat::BIGALLOC != 0 { f.u32(0x1c) } else { log_block };
        // EXT4_MAX_CLUSTER_LOG_SIZE is 30; s_log_cluster_size counts from 1 KiB.
        check(
            (log_block..=20).contains(&log_cluster),
            "s_log_cluster_size",
            log_cluster,
            "but must be from s_log_block_size to 20 (1 GiB)",
        )?;
        let blocks_per_group = f.u32(0x20);
        check(blocks_per_group > 0, "s_blocks_per_group", 0_u32, "but must be greater than 0")?;
        let blocks_count = f.split(0x4, Some(0x150));
        let first_data_block = f.u32(0x14);
        let groups =
            blocks_count.saturating_sub(first_data_block.into()).div_ceil(blocks_per_group.into());
        check(
            (1..=u64::from(u32::MAX)).contains(&groups),
            "s_blocks_count",
            blocks_count,
            "which with s_first_data_block and s_blocks_per_group makes 0 groups or more than \
             2^32 - 1",
        )?;
        // Before the dynamic revision s_inode_size was reserved (EXT4_GOOD_OLD_INODE_SIZE).
        let old = f.u32(0x4c) == 0;
        let checksum = if ro & ro_compat::METADATA_CSUM != 0 && f.u8(0x175) == 1 {
            // The kernel's crc32c neither inverts the seed nor the result.
            let (stored, computed) = (f.u32(0x3fc), !crc32c::crc32c(&f.0[..0x3fc]));
            if stored == computed {
                Checksum::Valid
            } else {
                Checksum::Invalid { stored, computed }
            }
        } else {
            Checksum::None
        };
        let present = |bit: bool, value: u32| if bit { value } else { 0 };
        let quota = ro & ro_compat::QUOTA != 0;
        Ok(Self {
            block_size: 1024 << log_block,
            blocks_count,
            free_blocks_count: f.split(0xc, Some(0x158)),
            first_data_block,
            blocks_per_group,
            clusters_per_group: if ro & ro_compat::BIGALLOC != 0 {
                f.u32(0x24)
            } else {
                blocks_per_group
            },
            cluster_ratio: 1 << (log_cluster - log_block),
            inodes_per_group: f.u32(0x28),
            inodes_count: f.u32(0),
            free_inodes_count: f.u32(0x10),
            inode_size: if old { 128 } else { f.u16(0x58) },
            groups: u32::try_from(groups).unwrap_or(u32::MAX),
            desc_size: if inc & incompat::BIT64 != 0 { f.u16(0xfe) } else { 32 },
            feature_compat: has,
            feature_incompat: inc,
            feature_ro_compat: ro,
            log_groups_per_flex: f.u8(0x174),
            first_meta_bg: f.u32(0x104),
            reserved_gdt_blocks: f.u16(0xce),
            backup_bgs: [f.u32(0x24c), f.u32(0x250)],
            uuid: Uuid(f.bytes(0x68)),
            label: text(&f.0[0x78..0x88]),
            journal_inum: f.u32(0xe0),
            journal_uuid: Uuid(f.bytes(0xd0)),
            journal_backup: (f.u8(0xfd) == 1).then(|| JournalBackup {
                i_block: f.bytes(0x10c),
                size: f.split(0x14c, Some(0x148)),
            }),
            mmp_block: if inc & incompat::MMP != 0 { f.u64(0x168) } else { 0 },
            quota_inums: [
                present(quota, f.u32(0x240)),
                present(quota, f.u32(0x244)),
                present(quota && ro & ro_compat::PROJECT != 0, f.u32(0x26c)),
            ],
            orphan_file_inum: present(has & compat::ORPHAN_FILE != 0, f.u32(0x280)),
            raid_stride: f.u16(0x164),
            raid_stripe_width: f.u32(0x170),
            errors: match f.u16(0x3c) {
                2 => OnError::ReadOnly,
                3 => OnError::Panic,
                _ => OnError::Continue,
            },
            error_count: f.u32(0x194),
            state: f.u16(0x3a),
            default_mount_opts: f.u32(0x100),
            mount_opts: text(&f.0[0x200..0x240]),
            mkfs_time: f.u32(0x108),
            checksum,
        })
    }

    /// ext2, ext3 or ext4.
    pub fn kind(&self) -> FsKind {
        ext_kind(self.feature_compat, self.feature_incompat, self.feature_ro_compat)
    }

    /// True if all of these [`compat`] bits are set.
    pub fn has_compat(&self, bits: u32) -> bool {
        self.feature_compat & bits == bits
    }

    /// True if all of these [`incompat`] bits are set.
    pub fn has_incompat(&self, bits: u32) -> bool {
        self.feature_incompat & bits == bits
    }

    /// True if all of these [`ro_compat`] bits are set.
    pub fn has_ro_compat(&self, bits: u32) -> bool {
        self.feature_ro_compat & bits == bits
    }
}
