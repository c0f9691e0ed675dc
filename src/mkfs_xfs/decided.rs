//! Sizes, features and stripe that result from the options.

use std::ops::RangeInclusive;

use super::{Defaults, Options, Version, must};

/// Parameters that do not depend on the AGs.
pub struct Decided {
    /// With checksums.
    pub v5: bool,
    pub block_size: u32,
    pub sector_size: u32,
    pub inode_size: u32,
    sparse: bool,
    pub finobt: bool,
    pub rmapbt: bool,
    pub reflink: bool,
    pub parent: bool,
    pub large_extent_counts: bool,
    /// Bytes of a directory block.
    pub directory_block: u64,
    /// Whole blocks of the device, or of `-d size=`.
    pub blocks: u64,
    pub stripe: Stripe,
    /// Stripe unit of the log in blocks; 0 for none.
    pub log_unit: u32,
}

/// Stripe unit and width in blocks; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stripe {
    pub unit: u32,
    pub width: u32,
}

/// XLOG_HEADER_SIZE and XFS_MIN_SECTORSIZE.
const SECTOR: u32 = 512;
/// XFS_MAX_SECTORSIZE.
const MAX_SECTOR: u32 = 32768;
/// Largest stripe unit of the log (XLOG_MAX_RECORD_BSIZE).
const MAX_LOG_UNIT: u32 = 256 << 10;
/// Used instead of a stripe unit that is too large (XLOG_BIG_RECORD_BSIZE).
const LOG_UNIT: u32 = 32 << 10;
/// Inodes of a chunk (XFS_INODES_PER_CHUNK).
pub const INODES_PER_CHUNK: u32 = 64;

impl Decided {
    pub fn new(
        bytes: u64,
        su: u64,
        sw: u32,
        options: &Options,
        defaults: &Defaults,
    ) -> Result<Self, String> {
        let v5 = options.crc.unwrap_or(true);
        // validate_blocksize, validate_inodesize, validate_dirblocksize
        let (least_block, least_inode) = if v5 { (1024, 512) } else { (512, 256) };
        let block_size = options.block_size.unwrap_or(4096);
        power_of_two("-b size", block_size, least_block..=65536)?;
        let sector_size = sector_size(options, defaults, block_size)?;
        let inode_size = options.inode_size.unwrap_or(least_inode);
        power_of_two("-i size", inode_size, least_inode..=(block_size / 2).min(2048))?;
        let directory_block = options.directory_block.unwrap_or(block_size.max(4096));
        power_of_two("-n size", directory_block, block_size..=65536)?;
        let feature = |name, option: Option<bool>, default: bool| {
            must(v5 || option != Some(true), || format!("{name} requires -m crc=1"))?;
            Ok::<_, String>(v5 && option.unwrap_or(default))
        };
        let version = defaults.version;
        let mut size = bytes / 512 * 512;
        if let Some(own) = options.size {
            must(own <= size, || format!("-d size={own}: the device has {size} bytes"))?;
            must(own.is_multiple_of(512), || {
                format!("-d size={own}: not a multiple of 512 bytes")
            })?;
            size = own;
        }
        let mut decided = Self {
            v5,
            block_size,
            sector_size,
            inode_size,
            sparse: feature("-i sparse", options.sparse, true)?,
            finobt: feature("-m finobt", options.finobt, true)?,
            rmapbt: feature("-m rmapbt", options.rmapbt, version >= Version::V6_6)?,
            reflink: feature("-m reflink", options.reflink, true)?,
            parent: feature("-n parent", options.parent, version >= Version::V6_18)?,
            large_extent_counts: feature(
                "-i nrext64",
                options.large_extent_counts,
                version >= Version::V6_6,
            )?,
            directory_block: directory_block.into(),
            blocks: size / u64::from(block_size),
            stripe: Stripe::default(),
            log_unit: 0,
        };
        must(version >= Version::V6_13 || options.parent.is_none(), || {
            "-n parent: unknown to mkfs.xfs before 6.10".to_owned()
        })?;
        let concurrency = options.data_concurrency.is_some() || options.log_concurrency.is_some();
        must(version >= Version::V6_13 || !concurrency, || {
            "concurrency: unknown to mkfs.xfs before 6.8".to_owned()
        })?;
        decided.stripe = decided.data_stripe(su, sw, options, defaults.physical_sector)?;
        decided.log_unit = decided.log_stripe(options, version)?;
        Ok(decided)
    }

    /// Number of whole blocks in `bytes` (the macros MEGABYTES, GIGABYTES and TERABYTES of
    /// mkfs.xfs).
    pub fn blocks_in(&self, bytes: u64) -> u64 {
        bytes / u64::from(self.block_size)
    }

    /// Alignment of inode chunks in blocks (sb_set_features, finish_superblock_setup).
    pub fn inode_align(&self) -> u32 {
        if self.sparse {
            return INODES_PER_CHUNK * self.inode_size / self.block_size;
        }
        // XFS_INODE_BIG_CLUSTER_SIZE; in version 5 it grows with the size of an inode.
        let cluster = if self.v5 { 8192 * (self.inode_size / 256) } else { 8192 };
        cluster / self.block_size
    }

    /// Number of btrees of an AG.
    pub fn trees(&self) -> u32 {
        3 + u32::from(self.finobt) + u32::from(self.rmapbt) + u32::from(self.reflink)
    }

    /// Blocks of an AG's headers and of the roots of its btrees (xfs_prealloc_blocks,
    /// libxfs/xfs_alloc.c).
    pub fn fixed_blocks(&self) -> u32 {
        let agfl = 3 * self.sector_size / self.block_size;
        // The roots follow each other without gaps: a missing btree takes no block.
        agfl + 1 + self.trees()
    }

    /// calc_stripe_factors.
    fn data_stripe(
        &self,
        su: u64,
        sw: u32,
        options: &Options,
        physical_sector: u32,
    ) -> Result<Stripe, String> {
        if options.no_align {
            return Ok(Stripe::default());
        }
        let block = u64::from(self.block_size);
        let (unit, width) = match options.stripe {
            Some((unit, units)) => {
                let (unit, units) = (u64::from(unit), u64::from(units));
                must(unit.is_multiple_of(self.sector_size.into()), || {
                    format!(
                        "-d su: {unit} bytes are not a multiple of the sector size, {}",
                        self.sector_size
                    )
                })?;
                must(unit.is_multiple_of(block), || {
                    format!("-d su: {unit} bytes are not a multiple of the block size, {block}")
                })?;
                (unit, unit * units)
            }
            None => {
                // mkfs.xfs ignores the stripe of a small device, one of a physical sector
                // (blkid_get_topology, libfrog/topology.c), and one that it cannot use.
                let width = su.saturating_mul(sw.into());
                let sector = u64::from(physical_sector);
                if su == sector
                    || width == sector
                    || self.blocks < self.blocks_in(1 << 30)
                    || width > i32::MAX as u64
                    || !su.is_multiple_of(block)
                {
                    return Ok(Stripe::default());
                }
                (su, width)
            }
        };
        if unit == 0 || width == 0 {
            return Ok(Stripe::default());
        }
        Ok(Stripe { unit: (unit / block) as u32, width: (width / block) as u32 })
    }

    /// Stripe unit of the log (calc_stripe_factors). Assumes that an external log, if any, is on a
    /// device without a stripe.
    fn log_stripe(&self, options: &Options, version: Version) -> Result<u32, String> {
        let own = options.log_unit.filter(|&unit| unit > 0);
        if let Some(unit) = own {
            must(unit <= MAX_LOG_UNIT, || format!("-l su: {unit} bytes are more than 256 KiB"))?;
            must(unit.is_multiple_of(self.block_size), || {
                format!(
                    "-l su: {unit} bytes are not a multiple of the block size, {}",
                    self.block_size
                )
            })?;
        }
        let large_sectors = self.sector_size > SECTOR;
        let unit = match own {
            Some(unit) => unit / self.block_size,
            // Until 6.18, large sectors come before the stripe.
            None if large_sectors && version < Version::V7_2 => 1,
            None if self.stripe.unit > 0 && options.log_device.is_none() => self.stripe.unit,
            None if large_sectors => 1,
            None => 0,
        };
        if u64::from(unit) * u64::from(self.block_size) > MAX_LOG_UNIT.into() {
            return Ok(LOG_UNIT / self.block_size);
        }
        Ok(unit)
    }
}

/// Checks a size in bytes that an option sets.
fn power_of_two(option: &str, size: u32, possible: RangeInclusive<u32>) -> Result<(), String> {
    must(possible.contains(&size) && size.is_power_of_two(), || {
        let (least, most) = possible.into_inner();
        format!("{option}={size}: must be a power of two from {least} to {most}")
    })
}

/// validate_sectorsize.
fn sector_size(options: &Options, defaults: &Defaults, block_size: u32) -> Result<u32, String> {
    let Some(size) = options.sector_size else {
        let physical = defaults.physical_sector;
        let usable =
            (SECTOR..=MAX_SECTOR.min(block_size)).contains(&physical) && physical.is_power_of_two();
        return Ok(if usable { physical } else { SECTOR });
    };
    power_of_two("-s size", size, SECTOR..=MAX_SECTOR)?;
    must(size <= block_size, || {
        format!("-s size={size}: larger than the block size, {block_size}")
    })?;
    Ok(size)
}
