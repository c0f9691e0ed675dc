//! The geometry that mkfs.xfs and xfs_info print (`xfs_report_geom`, libfrog/fsgeom.c), and what
//! follows from it: the alignment of inodes and the place of the log. Comments cite functions of
//! xfsprogs. Pure.

use super::geometry::{XfsFeatures, XfsGeometry, XfsLog};
use crate::address::FsBlock;
use crate::fs::Uuid;

/// Inodes of a chunk (`XFS_INODES_PER_CHUNK`).
const INODES_PER_CHUNK: u32 = 64;

/// Value of a field: `number(text, "data", "bsize")` is 4096 in `data     =     bsize=4096   ...`.
/// A line without the name of its section belongs to the section before it.
fn number(text: &str, section: &str, field: &str) -> Result<u64, String> {
    let mut now = "";
    for line in text.lines() {
        let Some((name, fields)) = line.split_once('=') else { continue };
        let name = name.trim_matches([' ', '\t', '>', '|']);
        if !name.is_empty() {
            now = name;
        }
        let of = |word: &str| word.strip_prefix(field)?.strip_prefix('=')?.parse().ok();
        let mut words = fields.split([' ', ',', '\t', '\r']);
        if let Some(value) = words.find_map(of).filter(|_| now == section) {
            return Ok(value);
        }
    }
    Err(format!("no {field} of {section} in the output of mkfs.xfs or xfs_info"))
}

/// True if `text` has the first line of the output.
pub fn is_printed(text: &str) -> bool {
    text.contains("meta-data=")
}

/// The filesystem that mkfs.xfs or xfs_info describes in `text`, which may be quoted in a mail.
/// `log_group` is the AG of the log (`-l agnum=`), by default the middle one.
///
/// # Errors
/// A field is missing or impossible.
pub fn printed(text: &str, log_group: Option<u32>) -> Result<XfsGeometry, String> {
    let narrow = |section, field| {
        let value = number(text, section, field)?;
        u32::try_from(value).map_err(|_| format!("{field}={value} of {section} is impossible"))
    };
    let has = |field| number(text, "meta-data", field).map(|value| value == 1);
    let has_crc = has("crc")?;
    let mut geometry = XfsGeometry {
        version: if has_crc { 5 } else { 4 },
        block_size: narrow("data", "bsize")?,
        sector_size: narrow("meta-data", "sectsz")?,
        inode_size: narrow("meta-data", "isize")?,
        blocks: number(text, "data", "blocks")?,
        ag_blocks: narrow("meta-data", "agsize")?,
        ag_count: narrow("meta-data", "agcount")?,
        log: XfsLog::External { blocks: narrow("log", "blocks")? },
        stripe_unit: narrow("data", "sunit")?,
        stripe_width: narrow("data", "swidth")?,
        inode_align: 0,
        features: XfsFeatures {
            finobt: has("finobt")?,
            rmapbt: has("rmapbt")?,
            reflink: has("reflink")?,
        },
        realtime_blocks: 0,
        uuid: Uuid::default(),
    };
    geometry.check()?;
    geometry.inode_align = inode_align(&geometry, has("sparse")?);
    if text.lines().any(|line| line.contains("log ") && line.contains("=internal")) {
        let group = log_group.unwrap_or(geometry.ag_count / 2);
        geometry.log = internal_log(&geometry, group, narrow("log", "sunit")?)?;
        geometry.check()?;
    }
    Ok(geometry)
}

/// Alignment of inode chunks in blocks (`sb_set_features`, `finish_superblock_setup`).
fn inode_align(geometry: &XfsGeometry, is_sparse: bool) -> u32 {
    let &XfsGeometry { version, block_size, inode_size, .. } = geometry;
    match (is_sparse, version) {
        (true, _) => INODES_PER_CHUNK * inode_size / block_size,
        // XFS_INODE_BIG_CLUSTER_SIZE; in version 5 it grows with the size of an inode.
        (false, 5) => 8192 * (inode_size / 256) / block_size,
        (false, _) => 8192 / block_size,
    }
}

/// The log behind the headers and roots of an AG, aligned to its stripe unit, or else to that of
/// the data (`align_internal_log`).
fn internal_log(geometry: &XfsGeometry, group: u32, unit: u32) -> Result<XfsLog, String> {
    let (XfsLog::External { blocks } | XfsLog::Internal { blocks, .. }) = geometry.log;
    if group >= geometry.ag_count {
        return Err(format!("a log in AG {group} of {}", geometry.ag_count));
    }
    let size = u64::from(geometry.ag_blocks);
    let unit = u64::from(if unit > 0 { unit } else { geometry.stripe_unit }.max(1));
    let fixed = geometry.roots_at_mkfs().last().map_or(0, |root| root.0) + 1;
    // Alignment is that of the block's sparse number (XFS_AGB_TO_FSB), whose AG number is above the
    // bits of an AG's size.
    let sparse = u64::from(group) << size.next_power_of_two().trailing_zeros();
    let first = (sparse + u64::from(fixed)).next_multiple_of(unit) - sparse;
    Ok(XfsLog::Internal { first: FsBlock(u64::from(group) * size + first), blocks })
}
