//! The complete layout of an XFS.

use std::path::Path;

use super::ag::{block_range, roots};
use super::geometry::XfsGeometry;
use super::mount::geometry_of;
use super::superblock::XfsSuperblock;
use crate::address::FsBlock;
use crate::fs::{Error, ReadAt, SectorRange};
use crate::origin::Origin;

/// Largest number of AGs whose headers are read: two reads each.
const MAX_READ: u32 = 4096;
/// Inodes of a chunk (`XFS_INODES_PER_CHUNK`).
const CHUNK: u64 = 64;

/// Blocks of an XFS with a fixed location, and those that stay where mkfs put them until a tree
/// grows.
#[derive(Clone, Debug)]
pub struct XfsLayout {
    /// Parameters.
    pub geometry: XfsGeometry,
    /// Superblocks, AG headers and the log: sorted, disjoint.
    pub ranges: Vec<SectorRange>,
    /// Roots of the AGs' btrees, and the chunk of the root inode: sorted, disjoint from each other
    /// and from `ranges`. If the roots were not read, their places after mkfs.
    pub roots: Vec<SectorRange>,
    /// Structures that were left out, and the reasons, one line each.
    pub notes: Vec<String>,
}

/// Note of a layout that was read through a mount point.
pub const ROOTS_AT_MKFS: &str =
    "read through the mount point: roots of btrees are where mkfs.xfs put them";
const LOG_ELSEWHERE: &str =
    "the log is on another device (logdev=), which this layout does not contain";
const REALTIME_ELSEWHERE: &str =
    "file data is also on a realtime device or section, which this layout does not contain";

/// Notes on what is not on the data device.
fn other_devices(geometry: &XfsGeometry) -> Vec<String> {
    let log = geometry.log_device().map(|_| LOG_ELSEWHERE);
    let realtime = geometry.realtime_device().map(|_| REALTIME_ELSEWHERE);
    log.into_iter().chain(realtime).map(str::to_owned).collect()
}

impl XfsLayout {
    /// Removes the notes on a log device or a realtime device that is known.
    pub fn drop_notes_on_devices(&mut self, log: bool, realtime: bool) {
        self.notes.retain(|note| {
            !(log && note == LOG_ELSEWHERE || realtime && note == REALTIME_ELSEWHERE)
        });
    }

    /// The layout after mkfs.
    pub fn from_geometry(geometry: XfsGeometry) -> Self {
        let ags = 0..geometry.ag_count;
        let ranges = geometry.ranges();
        let roots = ags.flat_map(|ag| at_mkfs(&geometry, ag)).collect();
        Self { roots: disjoint(roots, &ranges), ranges, notes: other_devices(&geometry), geometry }
    }

    /// Reads the layout of the filesystem at byte 0 of `dev`.
    ///
    /// # Errors
    /// The superblock cannot be read, or is damaged. Damaged AG headers are notes.
    pub fn read(dev: &dyn ReadAt) -> Result<Self, Error> {
        let superblock = XfsSuperblock::read(dev)?;
        let mut layout = Self::from_geometry(superblock.geometry);
        layout.notes.extend(superblock.notes);
        layout.read_roots(dev);
        if let Some(chunk) = superblock.root_chunk {
            layout.add_root_chunk(chunk);
        }
        Ok(layout)
    }

    /// Asks the kernel for the geometry of the filesystem on `device` (major, minor), mounted at
    /// `path`. Requires no privilege; `roots` are those after mkfs.
    ///
    /// # Errors
    /// There is no XFS at `path`, or the kernel's answer is not possible.
    pub fn from_mount(path: &Path, device: (u32, u32)) -> Result<Self, Error> {
        let mut layout = Self::from_geometry(geometry_of(path, device)?);
        layout.notes.insert(0, ROOTS_AT_MKFS.to_owned());
        Ok(layout)
    }

    fn read_roots(&mut self, dev: &dyn ReadAt) {
        let geometry = &self.geometry;
        if geometry.ag_count > MAX_READ {
            self.notes.push(format!(
                "{} AGs: the roots of their btrees were not read, and are where mkfs.xfs put them",
                geometry.ag_count
            ));
            return;
        }
        let mut found = Vec::new();
        let mut damaged = Vec::new();
        for ag in 0..geometry.ag_count {
            match roots(dev, geometry, ag) {
                Ok(roots) => found.extend(roots),
                Err(why) => {
                    found.extend(at_mkfs(geometry, ag));
                    damaged.push(why);
                }
            }
        }
        if let Some(first) = damaged.first() {
            self.notes.push(match damaged.len() {
                1 => format!("{first}: check it with: xfs_repair -n"),
                n => format!("{first}, and {} more AGs are: check it with: xfs_repair -n", n - 1),
            });
        }
        self.roots = disjoint(found, &self.ranges);
    }

    /// Adds the chunk that holds the root inode, unless a damaged superblock has it on other
    /// metadata.
    fn add_root_chunk(&mut self, block: FsBlock) {
        let bytes = CHUNK * u64::from(self.geometry.inode_size);
        let chunk = SectorRange {
            first: block.sector(self.geometry.block_sectors()),
            count: bytes.div_ceil(512),
            origin: Origin::InodeCluster,
        };
        let inside = chunk.end() <= self.geometry.end();
        if inside && is_free(&chunk, &self.ranges) && is_free(&chunk, &self.roots) {
            let at = self.roots.partition_point(|r| r.first < chunk.first);
            self.roots.insert(at, chunk);
        }
    }
}

/// The roots of an AG after mkfs.
fn at_mkfs(geometry: &XfsGeometry, ag: u32) -> impl Iterator<Item = SectorRange> {
    let start = geometry.ag_start(ag);
    let roots = geometry.roots_at_mkfs().into_iter();
    roots.map(move |(block, origin)| block_range(geometry, start + u64::from(block), origin))
}

/// Sorts blocks. A damaged filesystem can claim one twice, or one of the fixed structures.
fn disjoint(mut blocks: Vec<SectorRange>, fixed: &[SectorRange]) -> Vec<SectorRange> {
    blocks.sort_by_key(|r| r.first);
    blocks.dedup_by_key(|r| r.first);
    blocks.retain(|r| is_free(r, fixed));
    blocks
}

/// Whether none of `ranges`, which are sorted and disjoint, overlaps `range`.
fn is_free(range: &SectorRange, ranges: &[SectorRange]) -> bool {
    let next = ranges.partition_point(|r| r.end() <= range.first);
    ranges.get(next).is_none_or(|r| r.first >= range.end())
}
