//! Parameters decided by the options of mke2fs and mke2fs.conf before groups are counted, and `-E`,
//! which changes them (misc/mke2fs.c:parse_extended_opts).

use super::features::Features;
use crate::fs::ext4::features::compat;

/// Location of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalAt {
    /// Near the middle of the filesystem.
    Middle,
    Block(u64),
    /// On another device.
    Elsewhere,
}

/// Parameters known before groups are counted.
#[derive(Clone, Debug)]
pub struct Decided {
    /// Features of the filesystem type (ext4, ext3 or ext2), changed by `-O`.
    pub features: Features,
    pub block_size: u32,
    /// Size of the filesystem, including a last group that is too small and will be dropped.
    pub blocks: u64,
    /// `-g`; 0 for the default.
    pub group: u32,
    /// log2 of the groups in a flex group.
    pub log_flex: u8,
    pub inode_size: u16,
    pub inodes: u32,
    pub cluster: u64,
    pub desc_size: u16,
    /// `resize=`; 0 for the default.
    pub reserved_gdt: u32,
    pub stride: u32,
    pub stripe_width: u32,
    pub packed: bool,
    /// Number of backups with sparse_super2: 0 to 2.
    pub backups: u64,
    /// Journal size in MiB; 0 for the default.
    pub journal_mib: u64,
    /// Fast commit area in KiB; 0 for the default.
    pub fast_commit_kib: u64,
    pub journal_at: JournalAt,
}

/// Parses a number of blocks, or a size with K, M, G, T or s (lib/e2p/parse_num.c).
pub(super) fn blocks(text: &str, block_size: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => return Some(number),
        "s" => 512,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    u64::try_from(u128::from(number) * unit / u128::from(block_size)).ok()
}

/// Returns the error `message()` unless `ok`.
pub(super) fn must(ok: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if ok { Ok(()) } else { Err(message()) }
}

impl Decided {
    /// Applies `-E` (mke2fs.c:parse_extended_opts).
    pub(super) fn extended(&mut self, list: &str) -> Result<(), String> {
        for word in list.split(',').filter(|w| !w.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number =
                || value.parse::<u32>().map_err(|_| format!("-E {word}: expected {name}=NUMBER"));
            match name {
                "stride" => self.stride = number()?,
                "stripe_width" | "stripe-width" => self.stripe_width = number()?,
                "packed_meta_blocks" => self.packed = value != "0",
                "num_backup_sb" => {
                    self.backups = number()?.into();
                    must(self.backups <= 2, || format!("-E {word}: must be 0, 1 or 2"))?;
                }
                "desc_size" | "desc-size" => {
                    let size = number()?;
                    must(
                        self.desc_size >= 64
                            && size.is_power_of_two()
                            && (64..=1024).contains(&size),
                        || {
                            format!(
                                "-E {word}: must be a power of two from 64 to 1024, with -O 64bit"
                            )
                        },
                    )?;
                    self.desc_size = size as u16;
                }
                "resize" => self.resize(value).map_err(|e| format!("-E {word}: {e}"))?,
                "lazy_itable_init"
                | "lazy_journal_init"
                | "discard"
                | "nodiscard"
                | "test_fs"
                | "root_owner"
                | "root_perms"
                | "root_selinux"
                | "hash_seed"
                | "quotatype"
                | "encoding"
                | "encoding_flags"
                | "mmp_update_interval"
                | "no_copy_xattrs"
                | "assume_storage_prezeroed"
                | "orphan_file_size" => {}
                _ => return Err(format!("-E {word}: raidtrace does not support this option")),
            }
        }
        Ok(())
    }

    /// Reserves as many GDT blocks as the filesystem needs to grow to `value`, a size or a number
    /// of blocks.
    fn resize(&mut self, value: &str) -> Result<(), String> {
        let to =
            blocks(value, self.block_size.into()).ok_or("must be a size or a number of blocks")?;
        must(to > self.blocks, || "must be larger than the filesystem".to_owned())?;
        let group = match self.group {
            0 => u64::from(self.block_size) * 8,
            n => n.into(),
        };
        let per_block = u64::from(self.block_size / u32::from(self.desc_size));
        let gdt = |blocks: u64| blocks.div_ceil(group).div_ceil(per_block);
        let more = (gdt(to) - gdt(self.blocks)).min(u64::from(self.block_size) / 4);
        if more > 0 {
            self.features.compat |= compat::RESIZE_INODE;
            self.reserved_gdt = more as u32;
        }
        Ok(())
    }
}
