//! Computes the layout that mke2fs of e2fsprogs 1.43 to 1.47 would create: superblocks,
//! descriptors, bitmaps, inode tables and journal. Pure, except for reading mke2fs.conf. Comments
//! cite the file and function in e2fsprogs.
//!
//! * `conf`: mke2fs.conf.
//! * `features`, `options`, `decided`: options, and the parameters that result from them.
//! * `shape`: groups, inodes, descriptors.
//! * `used`: blocks in use, and the searches of libext2fs.
//! * `tables`: bitmaps and inode tables.
//! * `inodes`: directories, resize inode, journal, MMP, orphan file.

mod conf;
mod decided;
mod features;
mod inodes;
mod options;
mod shape;
mod tables;
mod used;

pub use conf::Conf;
pub use features::Features;
pub use inodes::default_journal_blocks;
pub use options::Options;
pub use shape::MAX_GROUPS;

use crate::fs::ext4::features::{compat, incompat};
use crate::fs::ext4::{Collector, Ext4Layout, Ext4Superblock, Journal, Range};
use inodes::Inodes;
use tables::TableAllocator;
use used::Used;

/// Layout of the filesystem that mke2fs would create on a device of `bytes` bytes. `minimum_io` is
/// the `minimum_io_size` of the device (the chunk of an array, 0 for a file), which mke2fs uses as
/// stride.
///
/// # Errors
/// mke2fs would reject an option. The message names it.
pub fn plan(
    bytes: u64,
    minimum_io: u64,
    options: &Options,
    conf: &Conf,
) -> Result<Ext4Layout, String> {
    let decided = options.decide(bytes, minimum_io, conf)?;
    let mut sb = shape::superblock(&decided)?;
    let (mut used, mut places) = fixed(&sb);
    tables(&sb, decided.stride, decided.packed, &mut used, &mut places)?;
    let mut notes = Vec::new();
    let journal = Inodes {
        sb: &sb,
        decided: &decided,
        used: &mut used,
        places: &mut places,
        notes: &mut notes,
    }
    .allocate()?;
    if journal == Journal::None {
        sb.journal_inum = 0;
        sb.feature_compat &= !compat::HAS_JOURNAL;
    }
    let (ranges, overlap) = places.finish();
    if let Some(overlap) = overlap {
        return Err(format!(
            "bug in raidtrace: the computed layout uses {} blocks more than once, the first is {} \
             ({})",
            overlap.blocks, overlap.first, overlap.won
        ));
    }
    Ok(layout(sb, ranges, journal, notes))
}

fn layout(
    sb: Ext4Superblock,
    ranges: Vec<Range>,
    journal: Journal,
    notes: Vec<String>,
) -> Ext4Layout {
    Ext4Layout {
        block_size: sb.block_size,
        blocks: sb.blocks_count,
        groups: Some(sb.groups),
        kind: sb.kind(),
        ranges,
        journal,
        notes,
        superblock: Some(sb),
    }
}

/// Superblock of the filesystem of [`plan`], and the superblocks, descriptors, bitmaps and inode
/// tables in its first `most` bytes, whose locations do not depend on the size of the filesystem.
/// Features that mke2fs enables for the whole size (meta_bg) are enabled.
///
/// # Errors
/// mke2fs would reject an option. The message names it.
pub(crate) fn plan_first(
    most: u64,
    bytes: u64,
    minimum_io: u64,
    options: &Options,
    conf: &Conf,
) -> Result<(Ext4Superblock, Ext4Layout), String> {
    let decided = options.decide(bytes, minimum_io, conf)?;
    let whole = shape::superblock(&decided)?;
    let (blocks, per_flex) = (u64::from(whole.blocks_per_group), whole.groups_per_flex());
    let groups = most / u64::from(whole.block_size) / blocks;
    let groups = u32::try_from(groups).unwrap_or(u32::MAX) / per_flex * per_flex;
    let mut first = whole.clone();
    if (1..whole.groups).contains(&groups) {
        first.groups = groups;
        first.blocks_count = u64::from(first.first_data_block) + u64::from(groups) * blocks;
        first.inodes_count = groups.saturating_mul(whole.inodes_per_group);
        first.backup_bgs = whole.backup_bgs.map(|g| if g < groups { g } else { 0 });
    }
    Ok((whole, placed(first, decided.stride, decided.packed)?))
}

/// Blocks in use before bitmaps and inode tables are allocated, and their origins.
fn fixed(sb: &Ext4Superblock) -> (Used, Collector) {
    let mut used = Used::new(sb.first_data_block.into(), sb.blocks_count);
    let mut places = Collector::default();
    sb.fixed_blocks(&mut |first, count, origin| {
        used.take(first.0, count);
        places.push(first, count, origin);
    });
    (used, places)
}

/// Superblocks, descriptors, bitmaps and inode tables that mke2fs allocates for this superblock; no
/// inodes.
///
/// # Errors
/// The filesystem is too small.
pub(crate) fn from_superblock(sb: Ext4Superblock) -> Result<Ext4Layout, String> {
    if u64::from(sb.groups) > MAX_GROUPS {
        let groups = sb.groups;
        return Err(format!(
            "{groups} block groups are more than raidtrace's limit of {MAX_GROUPS}"
        ));
    }
    let stride = sb.raid_stride.into();
    placed(sb, stride, false)
}

/// Allocates bitmaps and inode tables. `packed` is `-E packed_meta_blocks`, which mke2fs ignores
/// without flex_bg.
fn tables(
    sb: &Ext4Superblock,
    stride: u32,
    packed: bool,
    used: &mut Used,
    places: &mut Collector,
) -> Result<(), String> {
    let mut tables = TableAllocator { sb, used, places, stride: stride.into() };
    if packed && sb.has_incompat(incompat::FLEX_BG) { tables.pack() } else { tables.allocate() }
}

/// Superblocks, descriptors, bitmaps and inode tables for this superblock.
fn placed(sb: Ext4Superblock, stride: u32, packed: bool) -> Result<Ext4Layout, String> {
    let (mut used, mut places) = fixed(&sb);
    tables(&sb, stride, packed, &mut used, &mut places)?;
    let (ranges, overlap) = places.finish();
    let notes = overlap.into_iter().map(|o| o.note()).collect();
    Ok(layout(sb, ranges, Journal::Unknown, notes))
}

#[cfg(test)]
mod tests {
    use super::{Conf, Options, plan};
    use proptest::prelude::*;

    fn lists() -> impl Strategy<Value = Vec<String>> {
        let words = [
            "flex_bg",
            "^flex_bg",
            "meta_bg",
            "^resize_inode",
            "bigalloc",
            "64bit",
            "^64bit",
            "^extent",
            "sparse_super2",
            "^sparse_super",
            "none",
            "nonsense",
            "^has_journal",
            "orphan_file,mmp",
            "quota",
        ];
        prop::collection::vec(prop::sample::select(words.to_vec()).prop_map(str::to_owned), 0..3)
    }

    fn extended() -> impl Strategy<Value = Vec<String>> {
        let words = [
            "packed_meta_blocks",
            "packed_meta_blocks=0",
            "stride=7",
            "stride=99999999999",
            "resize=1T",
            "resize=x",
            "resize=4294967295",
            "num_backup_sb=1",
            "num_backup_sb=3",
            "desc_size=1024",
            "bogus",
            "=,=",
        ];
        prop::collection::vec(prop::sample::select(words.to_vec()).prop_map(str::to_owned), 0..3)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// Any options result in an error about the options, or in disjoint ranges inside the
        /// filesystem.
        #[test]
        fn any_options_give_an_error_or_disjoint_ranges(
            log in 0u32..64,
            more in any::<u32>(),
            block_size in prop::option::of(
                prop_oneof![Just(1024), Just(4096), Just(65536), any::<u64>()],
            ),
            group in prop::option::of(prop_oneof![(32u32..8192).prop_map(|n| n * 8), any::<u32>()]),
            flex in prop::option::of(prop_oneof![(0u32..32).prop_map(|n| 1 << n), any::<u32>()]),
            inode_ratio in prop::option::of(1024u64..1 << 26),
            inode_size in prop::option::of(prop_oneof![Just(128), Just(4096), any::<u16>()]),
            inodes in prop::option::weighted(0.2, any::<u64>()),
            cluster in prop::option::weighted(0.2, (10u32..31).prop_map(|n| 1 << n)),
            features in lists(),
            extended in extended(),
            minimum_io in prop_oneof![Just(0), Just(512 << 10), any::<u64>()],
        ) {
            // Test few large sizes, and these without tiny groups.
            let bytes = (1_u64 << log).saturating_add(more.into());
            let group = group.filter(|_| bytes < 1 << 36);
            prop_assume!(!(1 << 43..1 << 62).contains(&bytes));
            let options = Options {
                block_size, group, flex, inode_ratio, inode_size, inodes, cluster, features,
                extended,
                ..Options::default()
            };
            match plan(bytes, minimum_io, &options, &Conf::compiled_in()) {
                Ok(layout) => {
                    let end = layout.ranges.last().map_or(0, |r| r.end().0);
                    prop_assert!(end <= layout.blocks && layout.blocks <= bytes / 1024);
                }
                Err(why) => prop_assert!(!why.contains("bug in raidtrace"), "{why}"),
            }
        }
    }
}
