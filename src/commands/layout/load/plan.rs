//! The planned array and filesystem.

use super::mkfs::Options;
use super::source::{Source, used_stripe};
use crate::analysis::placement::Filesystem;
use crate::analysis::placement::geometry::{ArrayOptions, data_disks, fits};
use crate::analysis::relocate::{Groups, Prepared, Side};
use crate::commands::layout::xfs::PHYSICAL_SECTOR;
use crate::fs::xfs;
use crate::machine::mkfs_xfs::Device;
use crate::mke2fs::Conf;
use crate::raid::{Geometry, Level, Params};

pub struct Plan {
    /// Options of mkfs on one line, with those that keep properties of the recorded filesystem;
    /// empty for mkfs's defaults.
    pub words: String,
    pub options: Options,
    pub geometry: Geometry,
    data_disks: u32,
    /// True if the array is not the recorded one.
    pub is_other_array: bool,
    /// Layout of the filesystem, without its ranges.
    pub fs: Filesystem,
    /// The filesystem, prepared for look-ups.
    pub side: Prepared,
    /// First sector of the filesystem on the array.
    pub start: u64,
}

impl Plan {
    /// Plans the array of the recording with the changes in `array`, and what mkfs would make
    /// there.
    ///
    /// # Errors
    /// Names the option that is impossible.
    pub fn new(
        source: &Source,
        array: &ArrayOptions,
        options: &Options,
        conf: &Conf,
    ) -> Result<Self, String> {
        let (geometry, layout, is_other_array) = geometry(source, array)?;
        let start = match array.fs_offset {
            Some(_) => array.fs_start()?.0,
            None => source.start,
        };
        let room = |geometry: &Geometry, start| {
            geometry.array_sectors().saturating_sub(start).saturating_mul(512)
        };
        // A partition or a volume keeps its size; a filesystem that fills its array fills the other
        // one too.
        let had = room(&source.geometry, source.start);
        let fills = source.fs.bytes() >= had / 20 * 19;
        let bytes = match (is_other_array, fills) {
            (true, true) => room(&geometry, start),
            (true, false) => source.fs.bytes().min(room(&geometry, start)),
            (false, _) if start != source.start => source.fs.bytes().min(room(&geometry, start)),
            (false, _) => source.fs.bytes(),
        };
        let chunk = geometry.chunk_sectors().unwrap_or(0) * 512;
        let data = data_disks(geometry.level(), geometry.disks(), layout);
        let device = Device { bytes, chunk, disks: data, sector: PHYSICAL_SECTOR };
        let pinned = options.pinned(source, device)?;
        let block = u64::from(source.fs.block_size);
        let (mut fs, xfs) = pinned.plan(device, conf)?;
        if fs.block_size != source.fs.block_size {
            return Err(format!(
                "the planned filesystem has blocks of {}, the recorded one of {block}: add -b \
                 {block}",
                fs.block_size
            ));
        }
        fits(&geometry, fs.block_size)?;
        let side = match xfs {
            Some(planned) => groups(source, &planned)?,
            None => {
                // mkfs.ext4 takes the width from the array (optimal_io_size).
                let width = match fs.stripe_width {
                    0 => u32::try_from(chunk / block * u64::from(data)).unwrap_or(0),
                    width => width,
                };
                let most = fs.block_groups().map_or(0, |g| g.blocks);
                Prepared::Blocks(Side::new(&fs, used_stripe(None, width, fs.stride, most))?)
            }
        };
        fs.ranges = Vec::new();
        Ok(Self {
            words: pinned.words(),
            options: pinned,
            geometry,
            data_disks: data,
            is_other_array,
            fs,
            side,
            start,
        })
    }

    /// The filesystem that mkfs makes with other options on the same array.
    ///
    /// # Errors
    /// mkfs would refuse the options.
    pub fn made(&self, options: &Options, bytes: u64, conf: &Conf) -> Result<Filesystem, String> {
        let chunk = self.geometry.chunk_sectors().unwrap_or(0) * 512;
        let disks = self.data_disks;
        let device = Device { bytes, chunk, disks, sector: PHYSICAL_SECTOR };
        let (fs, _) = options.plan(device, conf)?;
        Ok(fs)
    }

    /// Notes on differences from the recorded filesystem that limit the prediction.
    pub fn notes(&self, source: &Source) -> Vec<String> {
        let mut notes = Vec::new();
        if self.fs.bytes() < source.fs.bytes() / 20 * 19 {
            notes.push(
                "the planned filesystem is smaller than the recorded one: several recorded blocks \
                 are at the same planned one"
                    .to_owned(),
            );
        }
        let groups = |fs: &Filesystem| fs.allocation_groups().map(|g| g.count);
        if let (Some(recorded), Some(planned)) = (groups(&source.fs), groups(&self.fs))
            && recorded != planned
        {
            notes.push(format!(
                "{planned} allocation groups instead of {recorded}: assumed that directories use \
                 all of them, as with many more directories than groups"
            ));
        }
        notes
    }
}

/// The planned XFS, prepared for look-ups.
///
/// # Errors
/// It has so many groups that the recording does not say which of them would be used.
fn groups(source: &Source, planned: &xfs::Geometry) -> Result<Prepared, String> {
    let groups = Groups::new(planned);
    let recorded = source.fs.allocation_groups().map_or(0, |g| g.count);
    if groups.count() > 2 * u64::from(recorded) {
        return Err(format!(
            "the planned filesystem has {} allocation groups, the recorded one {recorded}: with \
             more than twice as many, the recording does not say how many of them its directories \
             would use; give a larger agsize: --mkfs '-d agsize=...'",
            groups.count()
        ));
    }
    Ok(Prepared::Allocation(groups))
}

/// Geometry of the recorded array with the given changes, md's number of its layout, and true if it
/// is another geometry.
fn geometry(source: &Source, changes: &ArrayOptions) -> Result<(Geometry, u32, bool), String> {
    let now = &source.options;
    if !changes.is_any() {
        let layout = now.layout_number().unwrap_or(0);
        return Ok((source.geometry.clone(), layout, false));
    }
    let level = changes.level.or(now.level);
    let same = level == now.level;
    let options = ArrayOptions {
        level,
        disks: changes.disks.or(if level == Some(Level::Single) { None } else { now.disks }),
        chunk: changes.chunk.or(now.chunk),
        layout: changes.layout.clone().or(if same { now.layout.clone() } else { None }),
        ..ArrayOptions::default()
    };
    // Checks the options, and names the wrong one. The array has members of the recorded size.
    let checked = options.geometry()?;
    let layout = options.layout_number().unwrap_or(0);
    let recorded = &source.member_sectors;
    let uses_all = checked.level() == Level::Raid0 && recorded.len() == checked.disks() as usize;
    let member_sectors =
        if uses_all { recorded.clone() } else { vec![recorded.iter().copied().min().unwrap_or(0)] };
    let geometry = Geometry::new(&Params {
        level: checked.level(),
        layout,
        disks: checked.disks(),
        chunk_sectors: u32::try_from(checked.chunk_sectors().unwrap_or(0)).unwrap_or(0),
        member_sectors,
    })
    .map_err(|e| e.to_string())?;
    let is_other = geometry != source.geometry;
    Ok((geometry, layout, is_other))
}
