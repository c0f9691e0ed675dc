//! The planned array, and what mkfs would make there.

use crate::address::ArraySector;
use crate::analysis::placement::geometry::{ArrayOptions, data_disks, fits};
use crate::analysis::placement::target::{Target, TargetArray, whole};
use crate::analysis::relocate::Side;
use crate::commands::layout::mkfs::MkfsOptions;
use crate::commands::layout::xfs::PHYSICAL_SECTOR;
use crate::machine::mkfs_xfs::MkfsDevice;
use crate::mke2fs::Conf;
use crate::raid::{Geometry, Level};
use crate::recording::described::Described;

pub struct LoadPlan {
    /// Options of mkfs; those that the user does not give are its defaults.
    pub options: MkfsOptions,
    pub target: Target,
    /// True if the array is not the recorded one.
    pub is_other_array: bool,
    pub side: Side,
    /// First sector of the filesystem on the array.
    pub start: u64,
}

impl LoadPlan {
    /// Plans the array of the recording with the changes in `array`, and what mkfs would make
    /// there.
    ///
    /// # Errors
    /// Names the option that is impossible.
    pub fn new(
        source: &Described,
        array: &ArrayOptions,
        options: &MkfsOptions,
        conf: &Conf,
    ) -> Result<Self, String> {
        let recorded = &source.target;
        let now = &recorded.array.options;
        let level = array.level.or(now.level);
        let changed = ArrayOptions {
            level,
            disks: array.disks.or(now.disks.filter(|_| level != Some(Level::Single))),
            chunk: array.chunk.or(now.chunk),
            layout: array.layout.clone().or(now.layout.clone().filter(|_| level == now.level)),
            ..ArrayOptions::default()
        };
        let mut geometry = recorded.array.geometry.clone();
        if array.is_any() {
            // The members keep their sizes.
            let sizes = (0..geometry.disks()).map(|slot| geometry.used_sectors(slot));
            let mut sizes: Vec<_> = sizes.collect();
            if level != Some(Level::Raid0) || changed.disks != now.disks {
                sizes = sizes.into_iter().min().into_iter().collect();
            }
            geometry = changed.with_members(changed.disks, sizes)?;
        }
        let is_other_array = geometry != recorded.array.geometry;
        let start = match array.fs_offset {
            Some(_) => array.fs_start()?.0,
            None => source.start,
        };
        let room = |geometry: &Geometry, start| {
            geometry.array_sectors().saturating_sub(start).saturating_mul(512)
        };
        // A partition or a volume keeps its size; a filesystem that fills its array fills the other
        // one too.
        let mut bytes = recorded.fs.bytes();
        let fills = bytes >= room(&recorded.array.geometry, source.start) / 20 * 19;
        if is_other_array || start != source.start {
            let most = room(&geometry, start);
            bytes = if is_other_array && fills { most } else { bytes.min(most) };
        }
        let layout = changed.layout_number().unwrap_or(0);
        let device = MkfsDevice {
            bytes,
            chunk: geometry.chunk_sectors().unwrap_or(0) * 512,
            disks: data_disks(geometry.level(), geometry.disks(), layout),
            // That of an XFS is the length of its superblock.
            sector: match recorded.fs.ranges.first() {
                Some(range) if recorded.fs.allocation_groups().is_some() => {
                    range.count as u32 * 512
                }
                _ => PHYSICAL_SECTOR,
            },
        };
        let mut options = options.clone();
        options.keep_block_size(recorded.fs.block_size);
        let fs = options.made(device, conf)?;
        fits(&geometry, fs.block_size)?;
        let (program, words) = options.command();
        let target = Target {
            name: format!("{program} {words}").trim_end().to_owned(),
            segments: whole(ArraySector(start)),
            array: TargetArray {
                name: recorded.array.name.clone().filter(|_| !is_other_array),
                geometry,
                members: Vec::new(),
                options: changed,
            },
            notes: Vec::new(),
            fs,
        };
        let side = Side::new(&target.fs)?;
        Ok(Self { options, target, is_other_array, side, start })
    }
}
