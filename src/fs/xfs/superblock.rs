//! The primary superblock. Its geometry is checked with the rules of `xfs_validate_sb_common`
//! (fs/xfs/libxfs/xfs_sb.c).

use super::geometry::{MAX_AGS, XfsFeatures, XfsGeometry, XfsLog};
use crate::address::FsBlock;
use crate::fs::ext4::{FsKind, identify};
use crate::fs::read::Fields;
use crate::fs::{Error, ReadAt, Uuid};

/// `XFS_SB_MAGIC`, "XFSB".
pub(super) const MAGIC: u32 = 0x5846_5342;
/// Magic of a metadump, version 1 and 2, in the first bytes ("XFSM", "XMD2").
const METADUMPS: [u32; 2] = [0x5846_534d, 0x584d_4432];
const METADUMP: &str = "this is the output of xfs_metadump: restore it with xfs_mdrestore FILE \
                        IMAGE, which is sparse, and name IMAGE";
/// Bytes of `struct xfs_dsb` that are read; all versions have a sector of at least 512 bytes.
const SIZE: usize = 512;

/// Bits of `sb_features_ro_compat` and `sb_features_incompat` (xfs_format.h).
mod ro_compat {
    pub const FINOBT: u32 = 1;
    pub const RMAPBT: u32 = 2;
    pub const REFLINK: u32 = 4;
}
mod incompat {
    pub const METADIR: u32 = 1 << 8;
    pub const ZONED: u32 = 1 << 9;
}

/// The superblock's fields that matter here.
#[derive(Clone, Debug)]
pub(super) struct XfsSuperblock {
    pub geometry: XfsGeometry,
    /// First block of the chunk of the root inode; `None` if the field is impossible.
    pub root_chunk: Option<FsBlock>,
    pub notes: Vec<String>,
}

/// Checks a field.
pub(super) fn must(
    field: &'static str,
    value: u64,
    ok: bool,
    rule: impl Into<String>,
) -> Result<(), Error> {
    if ok {
        return Ok(());
    }
    Err(Error::Field { field, value, rule: rule.into(), tool: "xfs_repair -n" })
}

/// The error of a device with another content, which starts with `magic`.
fn not_xfs(magic: u32, found: Option<FsKind>) -> Error {
    let found = found.map_or("unknown data".to_owned(), |kind| kind.to_string());
    Error::Unusable(format!(
        "sb_magicnum at byte 0 is {magic:#010x}, not 0x58465342: this is {found}, not XFS; name \
         the device that holds the filesystem"
    ))
}

/// A size that a field holds in bytes, and another one as its logarithm.
fn size(
    (field, value): (&'static str, u64),
    (log_field, log): (&'static str, u8),
    (least, most): (u64, u64),
) -> Result<u32, Error> {
    let ok = value.is_power_of_two() && (least..=most).contains(&value);
    must(field, value, ok, format!("not a power of two from {least} to {most}"))?;
    let ok = value.trailing_zeros() == u32::from(log);
    must(log_field, log.into(), ok, format!("but {field} is {value}"))?;
    Ok(value as u32)
}

/// Bits of a block number in an AG, `sb_agblklog`.
fn ag_log(ag_blocks: u32) -> u32 {
    u32::BITS - (ag_blocks - 1).leading_zeros()
}

/// The AG and the block in it of an fsblock number, which has the AG in its upper bits
/// (`XFS_FSB_TO_AGNO`).
fn linear(number: u64, geometry: &XfsGeometry) -> Option<(u32, u64)> {
    let ag_log = ag_log(geometry.ag_blocks);
    let ag = u32::try_from(number.checked_shr(ag_log)?).ok()?;
    let block = number & ((1 << ag_log) - 1);
    (ag < geometry.ag_count && block < geometry.ag_length(ag)).then_some((ag, block))
}

impl XfsSuperblock {
    /// Reads the superblock at byte 0.
    pub fn read(dev: &dyn ReadAt) -> Result<Self, Error> {
        let read = |what, offset, buffer: &mut [u8]| {
            dev.read_at(offset, buffer).map_err(|source| Error::Read { what, offset, source })
        };
        let bytes = dev.size().map_err(|source| Error::Read { what: "size", offset: 0, source })?;
        if bytes < SIZE as u64 {
            return Err(not_xfs(0, None));
        }
        let mut raw = vec![0; SIZE];
        read("superblock", 0, &mut raw)?;
        let mut found = Self::parse(dev, Fields(&raw))?;
        let geometry = &found.geometry;
        if geometry.blocks.saturating_mul(geometry.block_size.into()) > bytes {
            return Err(Error::Unusable(format!(
                "the filesystem has {} blocks of {} bytes, but the device only {bytes} bytes: \
                 this is a part of it, or the image is truncated",
                geometry.blocks, geometry.block_size
            )));
        }
        if geometry.version == 5 {
            raw.resize(geometry.sector_size as usize, 0);
            read("superblock", 0, &mut raw)?;
            found.notes.extend(wrong_checksum(&mut raw));
        }
        Ok(found)
    }

    fn parse(dev: &dyn ReadAt, f: Fields<'_>) -> Result<Self, Error> {
        let magic = f.be32(0);
        if METADUMPS.contains(&magic) {
            return Err(Error::Unusable(METADUMP.to_owned()));
        }
        if magic != MAGIC {
            return Err(not_xfs(magic, identify(dev).ok().flatten()));
        }
        let version = (f.be16(100) & 15) as u8;
        must(
            "sb_versionnum",
            f.be16(100).into(),
            (4..=5).contains(&version),
            "not of version 4 or 5",
        )?;
        must("sb_inprogress", f.u8(126).into(), f.u8(126) == 0, "so mkfs.xfs has not finished")?;
        let block_size =
            size(("sb_blocksize", f.be32(4).into()), ("sb_blocklog", f.u8(120)), (512, 65536))?;
        let sector_size =
            size(("sb_sectsize", f.be16(102).into()), ("sb_sectlog", f.u8(121)), (512, 32768))?;
        must(
            "sb_sectsize",
            sector_size.into(),
            sector_size <= block_size,
            "more than sb_blocksize",
        )?;
        let inode_size =
            size(("sb_inodesize", f.be16(104).into()), ("sb_inodelog", f.u8(122)), (256, 2048))?;
        let (per_block_log, rest) = (f.u8(123), f.u8(120).checked_sub(f.u8(122)));
        must(
            "sb_inopblog",
            per_block_log.into(),
            rest == Some(per_block_log),
            format!("but sb_blocksize is {block_size} and sb_inodesize {inode_size}"),
        )?;

        let (blocks, ag_blocks, ag_count) = (f.be64(8), f.be32(84), f.be32(88));
        let ag_bytes = u64::from(ag_blocks) * u64::from(block_size);
        // XFS_MIN_AG_BYTES, XFS_MAX_AG_BYTES
        let ok = (1 << 24..=1 << 40).contains(&ag_bytes);
        must("sb_agblocks", ag_blocks.into(), ok, "which is not 16 MiB to 1 TiB")?;
        let ag_log = f.u8(124);
        let ok = u32::from(ag_log) == u32::BITS - (ag_blocks - 1).leading_zeros();
        must("sb_agblklog", ag_log.into(), ok, format!("but sb_agblocks is {ag_blocks}"))?;
        must("sb_agcount", ag_count.into(), ag_count > 0, "so that there is no AG")?;
        must(
            "sb_agcount",
            ag_count.into(),
            ag_count <= MAX_AGS,
            format!("more than {MAX_AGS}, which is not supported"),
        )?;
        let most = u64::from(ag_count) * u64::from(ag_blocks);
        // The last AG has at least XFS_MIN_AG_BLOCKS.
        let least = most - u64::from(ag_blocks) + 64;
        must(
            "sb_dblocks",
            blocks,
            (least..=most).contains(&blocks),
            format!("not {least} to {most} as sb_agcount and sb_agblocks say"),
        )?;

        let has = |bits: u32, bit: u32| version == 5 && bits & bit != 0;
        let (ro, incompat_bits) = (f.be32(212), f.be32(216));
        let mut geometry = XfsGeometry {
            version,
            block_size,
            sector_size,
            inode_size,
            blocks,
            ag_blocks,
            ag_count,
            log: XfsLog::External { blocks: f.be32(96) },
            stripe_unit: f.be32(184),
            stripe_width: f.be32(188),
            inode_align: f.be32(180),
            features: XfsFeatures {
                finobt: has(ro, ro_compat::FINOBT),
                rmapbt: has(ro, ro_compat::RMAPBT),
                reflink: has(ro, ro_compat::REFLINK),
            },
            realtime_blocks: f.be64(16),
            uuid: Uuid(f.bytes(32)),
        };
        geometry.log = log(f.be64(48), f.be32(96), &geometry)?;

        let mut notes = Vec::new();
        if has(incompat_bits, incompat::ZONED | incompat::METADIR) {
            notes.push("realtime groups and zones are not known to this version".to_owned());
        }
        let root_chunk = linear(f.be64(56) >> per_block_log, &geometry)
            .map(|(ag, block)| geometry.ag_start(ag) + block);
        Ok(Self { geometry, root_chunk, notes })
    }
}

/// The log, from `sb_logstart`, an fsblock number, and `sb_logblocks`.
pub(super) fn log(start: u64, blocks: u32, geometry: &XfsGeometry) -> Result<XfsLog, Error> {
    if start == 0 {
        return Ok(XfsLog::External { blocks });
    }
    let place = linear(start, geometry);
    must("sb_logstart", start, place.is_some(), "outside of the filesystem")?;
    let (ag, block) = place.unwrap_or_default();
    // The AG's headers and roots come first.
    let first = geometry.roots_at_mkfs().first().map_or(0, |root| u64::from(root.0));
    must("sb_logstart", start, block >= first, "on the headers of an AG")?;
    let ok = blocks > 0 && block + u64::from(blocks) <= geometry.ag_length(ag);
    must("sb_logblocks", blocks.into(), ok, "so that the log does not end in its AG")?;
    Ok(XfsLog::Internal { first: geometry.ag_start(ag) + block, blocks })
}

/// A note if `sb_crc` is not the checksum of the sector, in which it counts as 0
/// (`xfs_verify_cksum`).
fn wrong_checksum(sector: &mut [u8]) -> Option<String> {
    const CRC: std::ops::Range<usize> = 224..228;
    let mut stored = [0; 4];
    stored.copy_from_slice(&sector[CRC]);
    sector[CRC].fill(0);
    // Little-endian, unlike all other fields.
    let (stored, computed) = (u32::from_le_bytes(stored), crc32c::crc32c(sector));
    (stored != computed).then(|| {
        format!(
            "sb_crc is {stored:#010x}, but the superblock has checksum {computed:#010x}: this can \
             happen while mounted; otherwise check it with: xfs_repair -n"
        )
    })
}
