//! The geometry of a mounted XFS, from the kernel: `XFS_IOC_FSGEOMETRY` requires no privilege and
//! does not open the disk.

use std::path::Path;

use rustix::io::Errno;
use rustix::ioctl::{self, Getter};

use super::geometry::MAX_AGS;
use super::geometry::{XfsFeatures, XfsGeometry, XfsLog};
use super::superblock::{log, must};
use crate::fs::{Error, Uuid, mount};

/// `struct xfs_fsop_geom` (fs/xfs/libxfs/xfs_fs.h) of `XFS_IOC_FSGEOMETRY`.
#[repr(C)]
#[allow(dead_code, reason = "the kernel fills the whole structure")]
#[derive(Clone, Copy)]
struct Geom {
    block_size: u32,
    rt_extent: u32,
    ag_blocks: u32,
    ag_count: u32,
    log_blocks: u32,
    sector_size: u32,
    inode_size: u32,
    max_inodes_percent: u32,
    data_blocks: u64,
    rt_blocks: u64,
    rt_extents: u64,
    log_start: u64,
    uuid: [u8; 16],
    sunit: u32,
    swidth: u32,
    version: i32,
    flags: u32,
    rest: [u32; 40],
}
const _: () = assert!(size_of::<Geom>() == 256);

/// `XFS_IOC_FSGEOMETRY`, `_IOR('X', 126, struct xfs_fsop_geom)`.
const FSGEOMETRY: ioctl::Opcode = ioctl::opcode::read::<Geom>(b'X', 126);

/// Bits of `flags`, `XFS_FSOP_GEOM_FLAGS_*`.
const V5: u32 = 1 << 15;
const FINOBT: u32 = 1 << 17;
const RMAPBT: u32 = 1 << 19;
const REFLINK: u32 = 1 << 20;

/// Geometry of the XFS on `device` (major, minor), through any file or directory of it, such as its
/// mount point.
pub(super) fn geometry_of(path: &Path, device: (u32, u32)) -> Result<XfsGeometry, Error> {
    let file = mount::open(path, device)?;
    // SAFETY: the opcode is XFS_IOC_FSGEOMETRY, which writes one `struct xfs_fsop_geom` of 256
    // bytes, all of them integers.
    let asked = unsafe { ioctl::ioctl(&file, Getter::<FSGEOMETRY, Geom>::new()) };
    let geom = asked.map_err(|errno| Error::Mount {
        call: "call XFS_IOC_FSGEOMETRY on",
        source: errno.into(),
        hint: match errno {
            Errno::NOTTY => "the filesystem there is not XFS, or the kernel is older than 5.2",
            _ => "check dmesg",
        },
    })?;
    from_kernel(&geom)
}

/// The kernel checked these fields when it mounted the filesystem. A filesystem in user space can
/// answer the same ioctl.
fn from_kernel(geom: &Geom) -> Result<XfsGeometry, Error> {
    let must = |field, value, ok| must(field, value, ok, "which the kernel would not have mounted");
    let power = |n: u32, most: u32| n.is_power_of_two() && (512..=most).contains(&n);
    let (block, sector) = (geom.block_size, geom.sector_size);
    must("blocksize", block.into(), power(block, 65536))?;
    must("sectsize", sector.into(), power(sector, 32768) && sector <= block)?;
    must("agcount", geom.ag_count.into(), (1..=MAX_AGS).contains(&geom.ag_count))?;
    let most = u64::from(geom.ag_count) * u64::from(geom.ag_blocks);
    // XFS_MIN_DBLOCKS: the last AG has at least 64 blocks, so that its headers and roots fit.
    must(
        "datablocks",
        geom.data_blocks,
        geom.ag_blocks >= 64
            && (most - u64::from(geom.ag_blocks) + 64..=most).contains(&geom.data_blocks),
    )?;
    let has = |bit| geom.flags & bit != 0;
    let mut geometry = XfsGeometry {
        version: if has(V5) { 5 } else { 4 },
        block_size: geom.block_size,
        sector_size: geom.sector_size,
        inode_size: geom.inode_size,
        blocks: geom.data_blocks,
        ag_blocks: geom.ag_blocks,
        ag_count: geom.ag_count,
        log: XfsLog::External { blocks: geom.log_blocks },
        stripe_unit: geom.sunit,
        stripe_width: geom.swidth,
        inode_align: 0,
        features: XfsFeatures { finobt: has(FINOBT), rmapbt: has(RMAPBT), reflink: has(REFLINK) },
        realtime_blocks: geom.rt_blocks,
        uuid: Uuid(geom.uuid),
    };
    geometry.log = log(geom.log_start, geom.log_blocks, &geometry)?;
    Ok(geometry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::FsBlock;
    use crate::fs::xfs::XfsLayout;

    /// 3 AGs of 5000 blocks, the last one of 64, and a log of 100 blocks in AG 1.
    fn geom() -> Geom {
        Geom {
            block_size: 4096,
            rt_extent: 1,
            ag_blocks: 5000,
            ag_count: 3,
            log_blocks: 100,
            sector_size: 4096,
            inode_size: 512,
            max_inodes_percent: 25,
            data_blocks: 2 * 5000 + 64,
            rt_blocks: 0,
            rt_extents: 0,
            log_start: (1 << 13) | 20,
            uuid: [3; 16],
            sunit: 16,
            swidth: 96,
            version: 5,
            flags: V5 | FINOBT | REFLINK,
            rest: [0; 40],
        }
    }

    #[test]
    fn the_log_is_at_an_fsblock_number() {
        let geometry = from_kernel(&geom()).expect("a geometry");
        let (first, blocks) = (FsBlock(5000 + 20), 100);
        assert_eq!(geometry.log, XfsLog::Internal { first, blocks });
        assert_eq!(geometry.version, 5);
        let features = XfsFeatures { finobt: true, rmapbt: false, reflink: true };
        assert_eq!(geometry.features, features);
        assert_eq!((geometry.stripe_unit, geometry.stripe_width), (16, 96));
        let external = Geom { log_start: 0, ..geom() };
        let geometry = from_kernel(&external).expect("a geometry");
        assert_eq!(geometry.log, XfsLog::External { blocks: 100 });
    }

    #[test]
    fn an_impossible_answer_is_refused() {
        type Change = fn(&mut Geom);
        let changes: [(&str, Change); 10] = [
            ("blocksize", |g| g.block_size = 0),
            ("blocksize", |g| g.block_size = 1 << 17),
            ("sectsize", |g| g.sector_size = 8192),
            ("agcount", |g| g.ag_count = 0),
            ("agcount", |g| g.ag_count = u32::MAX),
            ("datablocks", |g| g.ag_blocks = 0),
            ("datablocks", |g| g.data_blocks -= 1),
            ("datablocks", |g| g.data_blocks = u64::MAX),
            ("logstart", |g| g.log_start = (1 << 13) | 3),
            ("logblocks", |g| g.log_blocks = u32::MAX),
        ];
        for (field, change) in changes {
            let mut geom = geom();
            change(&mut geom);
            let why = from_kernel(&geom).expect_err(field).to_string();
            assert!(why.contains(field), "{field}: {why}");
        }
    }

    #[test]
    fn a_log_on_the_roots_displaces_them() {
        let geom = Geom { log_start: (1 << 13) | 5, ..geom() };
        let layout = XfsLayout::from_geometry(from_kernel(&geom).expect("a geometry"));
        // Blocks 4 to 8 of the 3 AGs, less 5 to 8 of AG 1.
        assert_eq!(layout.roots.len(), 3 * 5 - 4);
    }
}
