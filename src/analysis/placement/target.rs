//! Finds the filesystem and the array that a command line names.

use std::fs::{File, metadata};
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use super::dumpe2fs;
use super::filesystem::FsMetadata;
use super::geometry::{ArrayOptions, fits};
use crate::address::{ArraySector, FsSector};
use crate::analysis::units;
use crate::fs::ext4::{
    E2Image, Ext4Layout, FsKind, NOT_IN_E2IMAGE, identify, is_e2image, is_qcow2,
};
use crate::fs::xfs::{self, XfsLayout};
use crate::fs::{self, Partition};
use crate::machine::topology::{self, Topology};
use crate::machine::{Array, Dev, DeviceRole, Filesystem, Segment, Sys, resolve};
use crate::raid::Geometry;

/// Bytes of a file in which the output of dumpe2fs or xfs_info begins: a mail may be above it.
const HEAD: u64 = 64 << 10;
/// Maximum number of partitions that an error names.
const MAX_PARTITIONS: usize = 8;
/// Maximum size of the output of xfs_info, quoted in a mail.
const MAX_TEXT: u64 = 1 << 20;

/// A filesystem on an array.
pub struct Target {
    /// Name on the command line, or a description.
    pub name: String,
    /// Layout of the filesystem.
    pub fs: FsMetadata,
    /// Location of the filesystem on the array.
    pub segments: Vec<Segment>,
    pub array: TargetArray,
    /// Caveats about the figures, one line each.
    pub notes: Vec<String>,
}

pub struct TargetArray {
    /// Kernel name; `None` for an array that only options describe.
    pub name: Option<String>,
    pub geometry: Geometry,
    /// Names of members by slot; empty for an array that only options describe.
    pub members: Vec<String>,
    /// Options that describe the array, except for the sizes of its members.
    pub options: ArrayOptions,
}

impl TargetArray {
    /// An existing array.
    ///
    /// # Errors
    /// If its geometry is not supported.
    pub fn from_array(array: &Array) -> Result<Self, String> {
        let geometry = topology::geometry(array)?;
        let name = |slot| {
            let member = array.members.iter().find(|m| m.slot == Some(slot));
            member.map_or_else(|| format!("slot {slot}"), |m| m.name.clone())
        };
        Ok(Self {
            name: Some(array.name.clone()),
            members: (0..geometry.disks()).map(name).collect(),
            geometry,
            options: ArrayOptions::from_array(array).unwrap_or_default(),
        })
    }

    /// Name of the member in a slot; empty if unknown.
    pub fn member(&self, slot: usize) -> &str {
        self.members.get(slot).map_or("", String::as_str)
    }
}

/// Segment of a device that starts at `array_sector`.
pub fn whole(array_sector: ArraySector) -> Vec<Segment> {
    vec![Segment::new(FsSector(0), array_sector, u64::MAX - array_sector.0)]
}

impl Target {
    /// Finds a filesystem by name: a device, mount point or image, or `-` for the output of
    /// dumpe2fs or xfs_info on standard input. Returns a target for each array that it is on, at
    /// least one.
    ///
    /// # Errors
    /// If there is no filesystem, or `options` do not describe an array.
    pub fn find(name: &str, options: &ArrayOptions) -> Result<Vec<Self>> {
        if name == "-" {
            let text = BufReader::with_capacity(1 << 16, io::stdin().lock());
            let (name, fs) = read_text(text).map_err(|e| anyhow!("standard input: {e}"))?;
            return Ok(vec![Self::on_array(name, fs, options)?]);
        }
        let path = Path::new(name);
        if metadata(path).is_ok_and(|m| m.is_file()) {
            let fs = read_file(path).with_context(|| name.to_owned())?;
            return Ok(vec![Self::on_array(name, fs, options)?]);
        }
        let mut found = find_device(name)?;
        if options.is_any() && !found.is_empty() {
            return Ok(vec![Self::on_array(name, found.swap_remove(0).fs, options)?]);
        }
        Ok(found)
    }

    /// Share of the filesystem that is on the array.
    pub fn share(&self) -> f64 {
        let all = self.fs.blocks.saturating_mul(self.fs.block_sectors());
        let here: u64 = self.segments.iter().map(|s| s.before(FsSector(all))).sum();
        here as f64 / all.max(1) as f64
    }

    /// A filesystem on an array that only options describe.
    ///
    /// # Errors
    /// If such an array is impossible.
    pub fn on_array(name: &str, fs: FsMetadata, options: &ArrayOptions) -> Result<Self> {
        let array = TargetArray {
            name: None,
            geometry: options.geometry().map_err(|e| anyhow!(e))?,
            members: Vec::new(),
            options: options.clone(),
        };
        fits(&array.geometry, fs.block_size).map_err(|e| anyhow!(e))?;
        let segments = whole(options.fs_start().map_err(|e| anyhow!(e))?);
        let mut notes = Vec::new();
        for (option, bytes) in
            [("--fs-offset", options.fs_offset), ("--data-offset", options.data_offset)]
        {
            if let Some(bytes) = bytes.filter(|b| !b.is_multiple_of(4096)) {
                notes.push(format!(
                    "{option} is {bytes} bytes, not a multiple of 4 KiB: on disks with 4 KiB \
                     sectors, blocks are not aligned to sectors"
                ));
            }
        }
        Ok(Self { name: name.to_owned(), fs, segments, array, notes })
    }
}

/// Reads the output of dumpe2fs or xfs_info, and returns which it is.
fn read_text(mut text: impl BufRead) -> Result<(&'static str, FsMetadata), String> {
    let head = text.fill_buf().map_err(|e| e.to_string())?;
    if !xfs::is_printed(&String::from_utf8_lossy(head)) {
        return dumpe2fs::read(text).map(|fs| ("dumpe2fs", fs));
    }
    let mut all = Vec::new();
    text.take(MAX_TEXT).read_to_end(&mut all).map_err(|e| e.to_string())?;
    let geometry = xfs::printed(&String::from_utf8_lossy(&all), None)?;
    let mut fs = FsMetadata::from_xfs(XfsLayout::from_geometry(geometry));
    fs.notes.push(
        "xfs_info does not print the place of the log: it is taken to be in the middle group, as \
         after mkfs.xfs"
            .to_owned(),
    );
    Ok(("xfs_info", fs))
}

/// Reads an image, an e2image, or the output of dumpe2fs or xfs_info.
fn read_file(path: &Path) -> Result<FsMetadata> {
    let file = File::open(path).context("cannot be opened")?;
    let mut head = Vec::new();
    (&file).take(HEAD).read_to_end(&mut head).context("cannot be read")?;
    if dumpe2fs::is_text(&head) || xfs::is_printed(&String::from_utf8_lossy(&head)) {
        let file = File::open(path).context("cannot be opened")?;
        let read = read_text(BufReader::with_capacity(1 << 16, file));
        return read.map(|(_, fs)| fs).map_err(|e| anyhow!(e));
    }
    if is_qcow2(&file) {
        let version = head.get(4..8).map_or(0, |v| u32::from_be_bytes([v[0], v[1], v[2], v[3]]));
        let e2image = if version == 2 { ", or e2image -r FILE RAW if e2image made it" } else { "" };
        bail!(
            "QCOW2 images are not supported: convert it with qemu-img convert -O raw FILE \
             RAW{e2image}"
        );
    }
    match identify(&file) {
        Ok(Some(FsKind::Xfs)) => return Ok(FsMetadata::from_xfs(XfsLayout::read(&file)?)),
        Ok(Some(FsKind::Partitioned)) => {
            let found = fs::partitions(&file).ok().flatten().unwrap_or_default();
            bail!("{}", partitioned(&found));
        }
        _ => {}
    }
    if !is_e2image(&file) {
        return Ok(FsMetadata::new(Ext4Layout::read(&file)?));
    }
    let mut fs = FsMetadata::new(Ext4Layout::read(&E2Image::open(&file)?)?);
    // An e2image lacks the extent blocks of inodes.
    let before = fs.notes.len();
    fs.notes.retain(|note| !note.contains(NOT_IN_E2IMAGE));
    if fs.notes.len() < before {
        fs.notes.retain(|note| !note.starts_with("journal inode"));
        fs.notes.push(
            "an e2image lacks the extent blocks of a large journal: the journal is not included"
                .to_owned(),
        );
    }
    Ok(fs)
}

/// Why an image of a whole disk cannot be read, and what can be.
fn partitioned(found: &[Partition]) -> String {
    let mut names: Vec<String> = found
        .iter()
        .take(MAX_PARTITIONS)
        .map(|p| format!("{} of {} at byte {}", p.number, units::size(p.bytes), p.start))
        .collect();
    if found.len() > MAX_PARTITIONS {
        names.push(format!("{} others", found.len() - MAX_PARTITIONS));
    }
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!(
        "a whole disk with a partition table (partitions: {names}): losetup --find --show \
         --partscan FILE prints a device; then name its partition, for example /dev/loop0p1"
    )
}

/// Device number of a block device, or of the filesystem that contains a path.
fn device_of(name: &str) -> Option<Dev> {
    let dev = |path: &Path| {
        let meta = metadata(path).ok()?;
        let dev = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
        Some(Dev { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) })
    };
    if name.contains('/') || name.starts_with('.') {
        dev(Path::new(name))
    } else {
        dev(&topology::device_path(name)).or_else(|| dev(Path::new(name)))
    }
}

/// Finds the filesystem on a device or array, or mounted on a directory.
fn find_device(name: &str) -> Result<Vec<Target>> {
    let targets = [name.to_owned()];
    let host = resolve(&targets, &Sys::live())?;
    let mut topology = Topology::new(host);
    let layouts = &topology.layouts;
    let arrays = topology.host.arrays.iter();
    let all = arrays.flat_map(|array| array.filesystems.iter().map(move |fs| (array, fs)));
    let readable = all.filter(|(_, fs)| {
        layouts.contains_key(&fs.dev) && !fs.segments.is_empty() && fs.role == DeviceRole::Main
    });
    let mut found: Vec<_> = readable.collect();
    if let Some(dev) = device_of(name)
        && found.iter().any(|(_, fs)| fs.dev == dev)
    {
        found.retain(|(_, fs)| fs.dev == dev);
    }
    let Some((_, first)) = found.first() else {
        let why = topology.notes.first().map_or_else(
            || "no ext2, ext3, ext4 or XFS on it".to_owned(),
            |note| note.trim_end_matches("; its blocks show as raw").to_owned(),
        );
        let hint = if rustix::process::geteuid().is_root() {
            ""
        } else {
            " (reading a device requires root: sudo raidtrace layout)"
        };
        bail!("{name}: no filesystem with a readable layout: {why}{hint}");
    };
    let dev = first.dev;
    if found.iter().any(|(_, fs)| fs.dev != dev) {
        let mut names: Vec<&str> = found.iter().map(|(_, fs)| fs.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        bail!("{name}: several filesystems, choose one: {}", names.join(", "));
    }
    let on = |(array, fs): (&Array, &Filesystem)| -> Result<_> {
        let mut notes = array_notes(array);
        let on = TargetArray::from_array(array).map_err(|e| anyhow!("{}: {e}", array.name))?;
        let stack = fs.stack.iter();
        notes.extend(stack.map(|step| format!("between filesystem and array: {step}")));
        Ok((on, fs.segments.clone(), notes))
    };
    let places: Vec<_> = found.into_iter().map(on).collect::<Result<_>>()?;
    let layout = topology.layouts.remove(&dev);
    let fs = layout.and_then(FsMetadata::from_layout).context("no layout")?;
    let target = |(array, segments, mut notes): (TargetArray, _, Vec<String>)| {
        if fits(&array.geometry, fs.block_size).is_err() {
            notes.push(format!(
                "chunks are not a multiple of the block of {} bytes: some blocks are on two \
                 members",
                fs.block_size
            ));
        }
        Target { name: name.to_owned(), fs: fs.clone(), segments, array, notes }
    };
    Ok(places.into_iter().map(target).collect())
}

/// Caveats about the figures that follow from properties of the array.
fn array_notes(array: &Array) -> Vec<String> {
    let mut notes = Vec::new();
    if array.before_reshape.is_some() {
        notes.push(format!(
            "{} is being reshaped: the figures are those after the reshape",
            array.name
        ));
    }
    if array.members.iter().any(|m| m.nested_array.is_some_and(|d| d != array.dev)) {
        notes.push(format!(
            "members of {} are arrays: the figures are by array, not by disk",
            array.name
        ));
    }
    notes
}
