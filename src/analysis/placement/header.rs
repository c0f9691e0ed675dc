//! The lines of dumpe2fs's header that the places of groups follow from, and the superblock that they make.

use super::dumpe2fs::number;
use crate::fs::ext4::features::{incompat, ro_compat};
use crate::fs::ext4::{Error, Superblock};
use crate::mke2fs::Features;

/// What such lines say, as far as they are there.
#[derive(Default)]
pub struct Shape {
    cluster_size: Option<u64>,
    per_group: Option<u64>,
    inodes_per_group: Option<u64>,
    inode_size: Option<u64>,
    desc_size: Option<u64>,
    reserved_gdt: Option<u64>,
    first_meta_bg: Option<u64>,
    backups: Option<String>,
}

impl Shape {
    /// Takes a line of the header; one that is of no interest is none.
    pub fn read(&mut self, name: &str, value: &str) -> Result<(), String> {
        let into = match name {
            "Cluster size" => &mut self.cluster_size,
            "Clusters per group" => &mut self.per_group,
            "Inodes per group" => &mut self.inodes_per_group,
            "Inode size" => &mut self.inode_size,
            "Group descriptor size" => &mut self.desc_size,
            "Reserved GDT blocks" => &mut self.reserved_gdt,
            "First meta block group" => &mut self.first_meta_bg,
            "Backup block groups" => {
                self.backups = Some(value.to_owned());
                return Ok(());
            }
            _ => return Ok(()),
        };
        let known = number(value).ok_or_else(|| format!("'{name}' is '{value}', not a number"))?;
        *into = Some(known);
        Ok(())
    }

    /// `base` with what these lines add, checked as one from a disk is.
    pub fn superblock(&self, base: Superblock, features: &str) -> Result<Superblock, String> {
        let words = features
            .replace("needs_recovery", "")
            .replace("orphan_present", "");
        let mut f = Features::default();
        f.edit(&words)
            .map_err(|e| format!("'Filesystem features': {e}"))?;
        let limited = |name: &str, value: Option<u64>, default: u64, most: u64| {
            let value = value.unwrap_or(default);
            if value <= most {
                Ok(value)
            } else {
                Err(format!(
                    "'{name}' is {value}, which cannot be (at most {most})"
                ))
            }
        };
        let block = u64::from(base.block_size);
        if !(1024..=65536).contains(&block) || !block.is_power_of_two() {
            return Err(format!("'Block size' is {block}, which cannot be"));
        }
        let bigalloc = f.has_ro(ro_compat::BIGALLOC);
        let cluster = if bigalloc {
            self.cluster_size.unwrap_or(block)
        } else {
            block
        };
        if !cluster.is_power_of_two() || !(block..=1 << 30).contains(&cluster) {
            return Err(format!("'Cluster size' is {cluster}, which cannot be"));
        }
        if base.blocks_per_group == 0 {
            return Err("'Blocks per group' is 0".to_owned());
        }
        let blocks = base
            .blocks_count
            .saturating_sub(base.first_data_block.into());
        let groups = blocks.div_ceil(base.blocks_per_group.into());
        let own = u64::from(base.blocks_per_group);
        let sized = if f.has_incompat(incompat::BIT64) {
            64
        } else {
            32
        };
        let backups = self.backups.as_deref().unwrap_or("");
        let mut at = backups.split_whitespace().filter_map(|w| w.parse().ok());
        let sb = Superblock {
            cluster_ratio: (cluster / block) as u32,
            clusters_per_group: if bigalloc {
                limited("Clusters per group", self.per_group, 0, u32::MAX.into())? as u32
            } else {
                own as u32
            },
            inodes_per_group: limited("Inodes per group", self.inodes_per_group, 0, 1 << 20)?
                as u32,
            inode_size: limited("Inode size", self.inode_size, 128, 1 << 15)? as u16,
            desc_size: limited("Group descriptor size", self.desc_size, sized, 1024)? as u16,
            reserved_gdt_blocks: limited("Reserved GDT blocks", self.reserved_gdt, 0, 1 << 15)?
                as u16,
            first_meta_bg: limited(
                "First meta block group",
                self.first_meta_bg,
                0,
                u32::MAX.into(),
            )? as u32,
            groups: u32::try_from(groups)
                .map_err(|_| format!("'Block count' makes {groups} groups"))?,
            backup_bgs: [at.next().unwrap_or(0), at.next().unwrap_or(0)],
            feature_compat: f.compat,
            feature_incompat: f.incompat,
            feature_ro_compat: f.ro_compat,
            ..base
        };
        match sb.check_geometry() {
            Ok(()) => Ok(sb),
            Err(Error::Field { field, value, rule }) => Err(format!("{field} is {value}, {rule}")),
            Err(other) => Err(other.to_string()),
        }
    }
}
