//! Header of dumpe2fs output: fields by name, and the superblock that they describe.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::fs::ext4::features::{incompat, ro_compat};
use crate::fs::ext4::{Error, Ext4Superblock};
use crate::mke2fs::Features;

/// Maximum number of fields: far more than dumpe2fs prints, for text quoted in a long mail.
const MAX_FIELDS: usize = 4096;
/// Range of a 32-bit field.
const U32: RangeInclusive<u64> = 0..=u32::MAX as u64;

/// Fields of the header by name.
#[derive(Default)]
pub struct Dumpe2fsHeader(BTreeMap<String, String>);

/// Parses a decimal or, as from `dumpe2fs -x`, hexadecimal number.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Dumpe2fsHeader {
    /// Reads a line. Ignores lines that are not fields.
    pub fn read(&mut self, line: &str) {
        if let Some((name, value)) = line.split_once(':')
            && self.0.len() < MAX_FIELDS
        {
            self.0.insert(name.to_owned(), value.trim().to_owned());
        }
    }

    /// Text of a field, empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Number in a field; `None` if the field is missing.
    ///
    /// # Errors
    /// If the field is not a number in `range`.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, String> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        let (low, high) = (range.start(), range.end());
        match number(text).filter(|n| range.contains(n)) {
            Some(n) => Ok(Some(n)),
            None => Err(format!("'{name}' is '{text}', not a number from {low} to {high}")),
        }
    }

    /// Number in a field.
    ///
    /// # Errors
    /// If the field is missing, or is not a number in `range`.
    pub fn required(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
        let missing =
            || format!("no line '{name}:'; expected the output of: LC_ALL=C dumpe2fs DEVICE");
        self.number(name, range)?.ok_or_else(missing)
    }

    /// The superblock that the header describes, with the checks of a superblock read from a disk.
    ///
    /// # Errors
    /// Names the field that is missing or invalid.
    pub fn superblock(&self) -> Result<Ext4Superblock, String> {
        let mut features = Features::default();
        let names = self
            .text("Filesystem features")
            .replace("needs_recovery", "")
            .replace("orphan_present", "");
        features.edit(&names).map_err(|e| format!("'Filesystem features': {e}"))?;
        let optional = |name: &str, default: u64, most: u64| -> Result<u64, String> {
            Ok(self.number(name, 0..=most)?.unwrap_or(default))
        };
        let block = self.required("Block size", 1024..=65536)?;
        let blocks = self.required("Block count", 1..=1 << 53)?;
        let first = self.required("First block", 0..=1)?;
        let per_group = self.required("Blocks per group", 1..=*U32.end())?;
        let bigalloc = features.has_ro(ro_compat::BIGALLOC);
        let (cluster, clusters) = if bigalloc {
            let cluster = self.number("Cluster size", block..=1 << 30)?;
            (cluster.unwrap_or(block), optional("Clusters per group", 0, *U32.end())?)
        } else {
            (block, per_group)
        };
        if !cluster.is_power_of_two() {
            return Err(format!("'Cluster size' is {cluster}, not a power of two"));
        }
        let groups = blocks.saturating_sub(first).div_ceil(per_group);
        let bit64 = features.has_incompat(incompat::BIT64);
        let flex = optional("Flex block group size", 1, 1 << 31)?;
        let mut backups =
            self.text("Backup block groups").split_whitespace().filter_map(|w| w.parse().ok());
        // All casts are within the ranges above.
        let sb = Ext4Superblock {
            block_size: block as u32,
            blocks_count: blocks,
            first_data_block: first as u32,
            blocks_per_group: per_group as u32,
            inodes_count: self.required("Inode count", U32)? as u32,
            log_groups_per_flex: flex.max(1).ilog2() as u8,
            raid_stride: optional("RAID stride", 0, u16::MAX.into())? as u16,
            raid_stripe_width: optional("RAID stripe width", 0, *U32.end())? as u32,
            cluster_ratio: (cluster / block) as u32,
            clusters_per_group: clusters as u32,
            inodes_per_group: optional("Inodes per group", 0, 1 << 20)? as u32,
            inode_size: optional("Inode size", 128, 1 << 15)? as u16,
            desc_size: optional("Group descriptor size", if bit64 { 64 } else { 32 }, 1024)? as u16,
            reserved_gdt_blocks: optional("Reserved GDT blocks", 0, 1 << 15)? as u16,
            first_meta_bg: optional("First meta block group", 0, *U32.end())? as u32,
            groups: u32::try_from(groups)
                .map_err(|_| format!("'Block count' makes {groups} groups"))?,
            backup_bgs: [backups.next().unwrap_or(0), backups.next().unwrap_or(0)],
            feature_compat: features.compat,
            feature_incompat: features.incompat,
            feature_ro_compat: features.ro_compat,
            ..Ext4Superblock::default()
        };
        match sb.check_geometry() {
            Ok(()) => Ok(sb),
            Err(Error::Field { field, value, rule, .. }) => {
                Err(format!("{field} is {value}, {rule}"))
            }
            Err(other) => Err(other.to_string()),
        }
    }
}
