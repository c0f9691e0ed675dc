//! The planned array and filesystem.

use super::source::{Source, used_stripe};
use crate::analysis::placement::Filesystem;
use crate::analysis::placement::geometry::{ArrayOptions, data_disks, fits};
use crate::analysis::relocate::Side;
use crate::mke2fs::{Conf, Options, plan};
use crate::raid::{Geometry, Level, Params};

/// A planned array and filesystem.
pub struct Plan {
    /// Options of mke2fs as words; empty for its defaults.
    pub words: String,
    /// The same, with the recorded filesystem's block size.
    pub options: Options,
    /// Geometry of the array.
    pub geometry: Geometry,
    /// True if the array is not the recorded one.
    pub is_other_array: bool,
    /// Layout of the filesystem, without its ranges.
    pub fs: Filesystem,
    /// The filesystem, prepared for look-ups.
    pub side: Side,
    /// First sector of the filesystem on the array.
    pub start: u64,
}

impl Plan {
    /// Plans the array of the recording with the changes in `array`, and what mke2fs would make there.
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
            let sectors = geometry.array_sectors().saturating_sub(start);
            sectors.saturating_mul(512)
        };
        // A partition or a volume keeps its size; a filesystem that fills its array fills the other one too.
        let had = room(&source.geometry, source.start);
        let fills = source.fs.bytes() >= had / 20 * 19;
        let bytes = match (is_other_array, fills) {
            (true, true) => room(&geometry, start),
            (true, false) => source.fs.bytes().min(room(&geometry, start)),
            (false, _) if start != source.start => source.fs.bytes().min(room(&geometry, start)),
            (false, _) => source.fs.bytes(),
        };
        let chunk = geometry.chunk_sectors().unwrap_or(0) * 512;
        let mut pinned = options.clone();
        let block = u64::from(source.fs.block_size);
        if pinned.block_size.is_none() && block != 4096 {
            pinned.block_size = Some(block);
        }
        let mut fs = Filesystem::new(plan(bytes, chunk, &pinned, conf)?);
        if fs.block_size != source.fs.block_size {
            return Err(format!(
                "the planned filesystem has blocks of {}, the recorded one of {block}: add -b {block}",
                fs.block_size
            ));
        }
        fits(&geometry, fs.block_size)?;
        // mkfs.ext4 takes the width from the array (optimal_io_size).
        let data = data_disks(geometry.level(), geometry.disks(), layout);
        let width = match fs.stripe_width {
            0 => u32::try_from(chunk / block * u64::from(data)).unwrap_or(0),
            width => width,
        };
        let most = fs.block_groups().map_or(0, |g| g.blocks);
        let side = Side::new(&fs, used_stripe(None, width, fs.stride, most))?;
        fs.ranges = Vec::new();
        Ok(Self {
            words: pinned.words(),
            options: pinned,
            geometry,
            is_other_array,
            fs,
            side,
            start,
        })
    }

    /// A note if the recorded filesystem does not fit.
    pub fn note(&self, source: &Source) -> Option<String> {
        (self.fs.bytes() < source.fs.bytes() / 20 * 19).then(|| {
            "the planned filesystem is smaller than the recorded one: several recorded places share a planned one".to_owned()
        })
    }

    /// The command that makes the filesystem.
    pub fn command(&self) -> String {
        format!("mkfs.ext4 {}", self.words).trim_end().to_owned()
    }
}

/// The recorded array with the given changes, and md's number of its layout; false if there are none.
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
        disks: changes.disks.or(if level == Some(Level::Single) {
            None
        } else {
            now.disks
        }),
        chunk: changes.chunk.or(now.chunk),
        layout: changes
            .layout
            .clone()
            .or(if same { now.layout.clone() } else { None }),
        ..ArrayOptions::default()
    };
    // Checks the options, and names the wrong one. The array has members of the recorded size.
    let checked = options.geometry()?;
    let layout = options.layout_number().unwrap_or(0);
    let recorded = &source.member_sectors;
    let uses_all = checked.level() == Level::Raid0 && recorded.len() == checked.disks() as usize;
    let member_sectors = if uses_all {
        recorded.clone()
    } else {
        vec![recorded.iter().copied().min().unwrap_or(0)]
    };
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
