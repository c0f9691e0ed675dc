//! From what was typed to a filesystem and the array below it.

use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use super::dumpe2fs;
use super::filesystem::Filesystem;
use super::geometry::{Typed, fits};
use crate::fs::ext4::{E2Image, Layout, MISSING, is_e2image, is_qcow2};
use crate::machine::topology;
use crate::machine::topology::Topology;
use crate::machine::{Array, Dev, Segment, Sys, resolve};
use crate::raid::Geometry;

/// A filesystem on an array.
pub struct Target {
    /// As typed, or what it is.
    pub name: String,
    /// Its places.
    pub fs: Filesystem,
    /// Where the filesystem's sectors lie on the array.
    pub segments: Vec<Segment>,
    /// The array.
    pub array: Below,
    /// What was not found out.
    pub notes: Vec<String>,
}

/// The array below.
pub struct Below {
    /// Kernel name, `None` for one that was typed.
    pub name: Option<String>,
    /// Its arithmetic.
    pub geometry: Geometry,
    /// Names of members by slot; empty for an array that was typed.
    pub members: Vec<String>,
    /// The same as one would type it, for arrays that are like it; sizes of members are not kept.
    pub shape: Typed,
}

impl Below {
    /// What the member in a slot is called.
    pub fn member(&self, slot: usize) -> &str {
        self.members.get(slot).map_or("", String::as_str)
    }

    /// An array that does not exist.
    fn typed(typed: &Typed) -> Result<Self> {
        Ok(Self {
            name: None,
            geometry: typed.geometry().map_err(|e| anyhow!(e))?,
            members: Vec::new(),
            shape: typed.clone(),
        })
    }
}

/// All of a device, from this sector of the array on.
pub fn whole(array_sector: u64) -> Vec<Segment> {
    vec![Segment {
        fs_sector: 0,
        array_sector,
        sectors: u64::MAX - array_sector,
    }]
}

impl Target {
    /// Finds what `name` means, `-` being the text of dumpe2fs on standard input.
    ///
    /// # Errors
    /// Where there is no filesystem, or what was typed cannot be an array.
    pub fn find(name: &str, typed: &Typed) -> Result<Self> {
        if name == "-" {
            let text = BufReader::with_capacity(1 << 16, io::stdin().lock());
            let fs = dumpe2fs::read(text).map_err(|e| anyhow!("standard input: {e}"))?;
            return Self::of_typed("dumpe2fs", fs, typed);
        }
        let path = Path::new(name);
        let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
        if is_file {
            let fs = of_file(path).with_context(|| name.to_owned())?;
            return Self::of_typed(name, fs, typed);
        }
        let mut found = of_device(name)?;
        if typed.is_any() {
            found = Self::of_typed(name, found.fs, typed)?;
        }
        Ok(found)
    }

    /// A filesystem on an array that does not exist.
    ///
    /// # Errors
    /// Where that array cannot be.
    pub fn of_typed(name: &str, fs: Filesystem, typed: &Typed) -> Result<Self> {
        let array = Below::typed(typed)?;
        fits(&array.geometry, fs.block_size).map_err(|e| anyhow!(e))?;
        let segments = whole(typed.fs_sector().map_err(|e| anyhow!(e))?);
        let mut notes = Vec::new();
        for (option, bytes) in [
            ("--fs-offset", typed.fs_offset),
            ("--data-offset", typed.data_offset),
        ] {
            if let Some(bytes) = bytes.filter(|b| !b.is_multiple_of(4096)) {
                notes.push(format!(
                    "{option} is {bytes} bytes, no multiple of 4 KiB: every block lies across two of the disk's"
                ));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            fs,
            segments,
            array,
            notes,
        })
    }
}

/// An image, an e2image or the text of dumpe2fs.
fn of_file(path: &Path) -> Result<Filesystem> {
    let file = File::open(path).context("cannot be opened")?;
    let mut head = Vec::new();
    (&file)
        .take(4096)
        .read_to_end(&mut head)
        .context("cannot be read")?;
    if dumpe2fs::is_text(&head) {
        let file = File::open(path).context("cannot be opened")?;
        return dumpe2fs::read(BufReader::with_capacity(1 << 16, file)).map_err(|e| anyhow!(e));
    }
    if is_qcow2(&file) {
        bail!("it is a QCOW2 image: make it a raw one: e2image -r FILE RAW");
    }
    if !is_e2image(&file) {
        return Ok(Filesystem::of(Layout::read(&file)?));
    }
    let mut fs = Filesystem::of(Layout::read(&E2Image::open(&file)?)?);
    // Maps of inodes are not in it where they take blocks of their own.
    let before = fs.notes.len();
    fs.notes.retain(|note| !note.contains(MISSING));
    if fs.notes.len() < before {
        fs.notes.retain(|note| !note.starts_with("journal inode"));
        fs.notes
            .push("an e2image lacks what maps a large journal: it is not in here".to_owned());
    }
    Ok(fs)
}

/// The device that a path is, or that is mounted there.
fn device_of(name: &str) -> Option<Dev> {
    let of = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        let dev = if meta.file_type().is_block_device() {
            meta.rdev()
        } else {
            meta.dev()
        };
        Some(Dev {
            major: rustix::fs::major(dev),
            minor: rustix::fs::minor(dev),
        })
    };
    if name.contains('/') || name.starts_with('.') {
        of(Path::new(name))
    } else {
        of(&topology::device_path(name)).or_else(|| of(Path::new(name)))
    }
}

/// The filesystem that a device, an array or a mount point holds.
fn of_device(name: &str) -> Result<Target> {
    let targets = [name.to_owned()];
    let host = resolve(&targets, &Sys::live())?;
    let mut topology = Topology::new(host);
    let mut on: Vec<(usize, usize)> = Vec::new();
    for (a, array) in topology.host.arrays.iter().enumerate() {
        for (f, fs) in array.filesystems.iter().enumerate() {
            if topology.layouts.contains_key(&fs.dev) && !fs.segments.is_empty() {
                on.push((a, f));
            }
        }
    }
    let fs_of = |&(a, f): &(usize, usize)| &topology.host.arrays[a].filesystems[f];
    if let Some(dev) = device_of(name)
        && on.iter().any(|at| fs_of(at).dev == dev)
    {
        on.retain(|at| fs_of(at).dev == dev);
    }
    let (a, f) = match on.as_slice() {
        [] => {
            let why = topology.notes.first().map_or_else(
                || "no ext2, ext3 or ext4 on it".to_owned(),
                |note| note.trim_end_matches("; its blocks show as raw").to_owned(),
            );
            let hint = if rustix::process::geteuid().is_root() {
                ""
            } else {
                " (reading a device takes root: sudo raidtrace layout)"
            };
            bail!("{name}: no filesystem whose layout can be read: {why}{hint}");
        }
        [only] => *only,
        several => {
            let mut names: Vec<&str> = several.iter().map(|at| fs_of(at).name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            bail!(
                "{name}: holds several filesystems, name one: {}",
                names.join(", ")
            );
        }
    };
    let array = &topology.host.arrays[a];
    let fs = &array.filesystems[f];
    let mut notes = array_notes(array);
    let below = Below {
        name: Some(array.name.clone()),
        geometry: topology::geometry(array).map_err(|e| anyhow!("{}: {e}", array.name))?,
        members: member_names(array),
        shape: Typed::of(array).unwrap_or_default(),
    };
    let (dev, segments) = (fs.dev, fs.segments.clone());
    notes.extend(
        fs.stack
            .iter()
            .map(|step| format!("between filesystem and array: {step}")),
    );
    let layout = topology
        .layouts
        .remove(&dev)
        .context("the layout has gone")?;
    let fs = Filesystem::of(layout);
    if fits(&below.geometry, fs.block_size).is_err() {
        notes.push(format!(
            "chunks are no multiple of the block of {} bytes: blocks lie on two members each",
            fs.block_size
        ));
    }
    Ok(Target {
        name: name.to_owned(),
        fs,
        segments,
        array: below,
        notes,
    })
}

fn member_names(array: &Array) -> Vec<String> {
    let name = |slot| {
        let member = array.members.iter().find(|m| m.slot == Some(slot));
        member.map_or_else(|| "(missing)".to_owned(), |m| m.name.clone())
    };
    (0..array.raid_disks.min(crate::raid::MAX_DISKS))
        .map(name)
        .collect()
}

/// What makes the figures those of another day.
fn array_notes(array: &Array) -> Vec<String> {
    let mut notes = Vec::new();
    if array.before_reshape.is_some() {
        notes.push(format!(
            "{} is being reshaped: shown is what it will be when that is done",
            array.name
        ));
    }
    if array
        .members
        .iter()
        .any(|m| m.nested_array.is_some_and(|d| d != array.dev))
    {
        notes.push(format!(
            "members of {} are arrays themselves: shown is which of these, not which disk",
            array.name
        ));
    }
    notes
}
