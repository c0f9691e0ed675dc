//! Arrays that are not running: assembled without enough members, or refused by this kernel.
//!
//! Linux 6.19 and later note the logical block size of a new array in its superblocks, in bytes
//! that were padding before; a kernel without that field finds padding that is not zero and refuses
//! the members (drivers/md/md.c, super_1_load and mddev_stack_rdev_limits).

use std::collections::BTreeMap;

use super::blocks::{Block, BlockKind, Blocks};
use super::privileges::raised;
use super::superblock::{self, MdSuperblock, Version};
use super::sys::{Sys, names};

/// Arrays that are not running.
#[derive(Clone, Debug, Default)]
pub struct NotRunning {
    pub stopped: Vec<StoppedArray>,
    pub refused: Vec<RefusedArray>,
}

impl NotRunning {
    pub fn is_empty(&self) -> bool {
        self.stopped.is_empty() && self.refused.is_empty()
    }
}

/// An array that has members and is not running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedArray {
    /// Kernel name.
    pub name: String,
    /// md/array_state.
    pub state: String,
    /// Kernel names of the members.
    pub members: Vec<String>,
    /// Slots of the array, from a member's superblock; md shows them only while it runs.
    pub slots: Option<u32>,
}

/// An array that is not assembled, because a newer kernel made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedArray {
    /// The name in the superblocks, with the host that made it: `nas:0`.
    pub name: String,
    /// Kernel names of the members, in the order of their device numbers.
    pub members: Vec<String>,
    /// Logical block size in the superblocks, bytes.
    pub logical_block: u32,
}

/// An array that is not running, and its members.
pub(super) fn stopped(
    sys: &Sys,
    blocks: &Blocks,
    array: &Block,
    state: String,
    members: &[&Block],
) -> StoppedArray {
    StoppedArray {
        name: array.name.clone(),
        state,
        slots: members.iter().find_map(|member| Some(read(sys, blocks, member)?.slots)),
        members: members.iter().map(|member| member.name.clone()).collect(),
    }
}

/// Finds refused arrays by the superblocks of devices that nothing uses, sorted by UUID. A device
/// that cannot be read is left out.
pub(super) fn refused(sys: &Sys, blocks: &Blocks) -> Vec<RefusedArray> {
    if knows_logical_block(sys, blocks) {
        return Vec::new();
    }
    let mut arrays: BTreeMap<[u8; 16], RefusedArray> = BTreeMap::new();
    for block in blocks.iter().filter(|block| is_unused(block, blocks)) {
        let Some(sb) = read(sys, blocks, block).filter(|sb| sb.logical_block > 0) else {
            continue;
        };
        let array = arrays.entry(sb.uuid).or_insert(RefusedArray {
            name: sb.name,
            members: Vec::new(),
            logical_block: sb.logical_block,
        });
        array.members.push(block.name.clone());
    }
    arrays.into_values().collect()
}

/// True if md shows the field, and if nothing shows that it does not: without an array, the
/// parameter that came with the field (7.3) speaks for it.
fn knows_logical_block(sys: &Sys, blocks: &Blocks) -> bool {
    let mut arrays = blocks.iter().filter(|block| matches!(block.kind, BlockKind::Md { .. }));
    match arrays.next() {
        Some(array) => array.dir.join("md/logical_block_size").exists(),
        None => {
            let module = sys.path("/sys/module/md_mod/parameters");
            !module.exists() || module.join("check_new_feature").exists()
        }
    }
}

/// True for a disk without partitions, a partition or a mapped device that nothing is built on. A
/// removable drive without a medium may take seconds to answer, so none is read.
fn is_unused(block: &Block, blocks: &Blocks) -> bool {
    let disk = blocks.disk_of(block);
    !matches!(block.kind, BlockKind::Md { .. })
        && block.sectors > 0
        && names(block.dir.join("holders")).is_empty()
        && super::sys::number(disk.dir.join("removable")) != Some(1)
        && !names(&block.dir).iter().any(|name| block.dir.join(name).join("partition").exists())
}

/// The superblock of version 1.
fn read(sys: &Sys, blocks: &Blocks, block: &Block) -> Option<MdSuperblock> {
    let path = sys.path(format!("/dev/{}", block.name.replace('!', "/")));
    let disk = blocks.disk_of(block);
    let bytes: u64 = super::sys::number(disk.dir.join("queue/logical_block_size")).unwrap_or(512);
    [Version::V12, Version::V11, Version::V10].into_iter().find_map(|version| {
        let start = version.superblock_sector(block.sectors)?;
        let raw = raised(|| superblock::read(&path, start)).ok()?;
        superblock::parse(version, &raw, start, block.sectors, bytes / 512).ok()
    })
}
