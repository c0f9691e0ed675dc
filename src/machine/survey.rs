//! What there is to trace: the arrays of this host and the layouts of the filesystems on them.
//!
//! Joins `host` with `ext4`, reading every filesystem once, at start; and with `raid`.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use crate::fs::ext4::{FsKind, Layout, identify};
use crate::machine::{Array, Dev, Filesystem, Topology};
use crate::raid::{Geometry, Level, Params};

/// Arrays, layouts, and what could not be found out.
#[derive(Debug, Default)]
pub struct Survey {
    /// The arrays, their members and filesystems.
    pub topology: Topology,
    /// ext layouts by the filesystem's device.
    pub layouts: HashMap<Dev, Layout>,
    /// What was not found out and what that means for the figures, one line each.
    pub notes: Vec<String>,
}

impl Survey {
    /// Reads the layout of every filesystem that lies on one of the arrays.
    pub fn new(mut topology: Topology) -> Self {
        let mut survey = Self {
            notes: topology.notes.clone(),
            ..Self::default()
        };
        for array in &mut topology.arrays {
            // Not mounted is not absent: fsck, resize2fs and a dying mount work on it all the same.
            for fs in std::mem::take(&mut array.unmounted) {
                if survey.read_unmounted(&fs) {
                    array.filesystems.push(fs);
                }
            }
            for fs in &array.filesystems {
                survey.read(fs);
            }
        }
        survey.topology = topology;
        survey
    }

    fn read(&mut self, fs: &Filesystem) {
        if fs.note.is_some() {
            return; // `host` has said it: it cannot be placed on the array
        }
        if self.layouts.contains_key(&fs.dev) {
            return;
        }
        let path = device_path(&fs.name);
        // Some hosts forbid opening the disk even to root; the mounted filesystem can still say.
        let mount = fs.mounts.iter().find(|m| m.fstype.starts_with("ext"));
        let device = (fs.dev.major, fs.dev.minor);
        let layout = read_layout(&path).or_else(|why| match mount {
            Some(mount) => match Layout::from_mount(&mount.path, device) {
                Ok(mut layout) => {
                    if let Some(note) = layout.notes.first_mut() {
                        *note = format!("{why}; {note}");
                    }
                    Ok(layout)
                }
                Err(e) => Err(format!("{why}; {e}")),
            },
            None => Err(why),
        });
        match layout {
            Ok(layout) => {
                for note in &layout.notes {
                    self.notes.push(format!("{}: {note}", fs.name));
                }
                self.layouts.insert(fs.dev, layout);
            }
            Err(why) => self
                .notes
                .push(format!("{}: {why}; its blocks show as raw", path.display())),
        }
    }

    /// Whether an ext filesystem is there; one that cannot be read is said so and left out.
    fn read_unmounted(&mut self, fs: &Filesystem) -> bool {
        let path = device_path(&fs.name);
        // A device that cannot be opened may hold nothing at all: no news.
        let Ok(file) = File::open(&path) else {
            return false;
        };
        match identify(&file) {
            Ok(Some(FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4)) => {}
            Ok(Some(FsKind::JournalDevice)) => return Layout::read_journal_device(&file).is_ok(),
            Ok(Some(other @ (FsKind::Xfs | FsKind::Btrfs))) => {
                self.notes.push(format!(
                    "{}: {other} is not a filesystem that raidtrace knows the layout of; its blocks show as raw",
                    path.display()
                ));
                return false;
            }
            _ => return false,
        }
        match Layout::read(&file) {
            Ok(_) => true,
            Err(why) => {
                self.notes
                    .push(format!("{}: {why}; its blocks show as raw", path.display()));
                false
            }
        }
    }

    /// One line a filesystem, for the header.
    pub fn describe(&self, fs: &Filesystem) -> String {
        let place = match fs.mounts.first() {
            Some(m) => format!("on {} ({})", m.path.display(), fs.name),
            None => format!("on {}, not mounted", fs.name),
        };
        let kind = fs.mounts.first().map_or("", |m| m.fstype.as_str());
        let mut line = match self.layouts.get(&fs.dev) {
            Some(layout) => {
                let mut line = format!(
                    "{} {place}, {} KiB blocks",
                    layout.kind,
                    layout.block_size / 1024
                );
                if let Some(groups) = layout.groups {
                    line.push_str(&format!(", {groups} groups"));
                }
                line
            }
            None => format!("{kind} {place}, layout not known"),
        };
        for step in &fs.stack {
            line.push_str(", ");
            line.push_str(step);
        }
        line
    }
}

/// The node of a block device: `/dev/NAME`; sysfs writes `!` for the `/` in names such as `cciss/c0d0`.
pub fn device_path(name: &str) -> PathBuf {
    PathBuf::from("/dev").join(name.replace('!', "/"))
}

fn read_layout(path: &std::path::Path) -> Result<Layout, String> {
    let file = File::open(path).map_err(|e| format!("cannot be opened ({e})"))?;
    match identify(&file).map_err(|e| format!("cannot be read ({e})"))? {
        Some(FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4) => {
            Layout::read(&file).map_err(|e| e.to_string())
        }
        Some(FsKind::JournalDevice) => {
            Layout::read_journal_device(&file).map_err(|e| e.to_string())
        }
        Some(other) => Err(format!(
            "{other} is not a filesystem that raidtrace knows the layout of"
        )),
        None => Err("no filesystem that raidtrace knows".to_owned()),
    }
}

/// The geometry that md's own figures make. `Err` names what is impossible or not supported.
pub fn geometry(array: &Array) -> Result<Geometry, String> {
    let level: Level = array.level.parse().map_err(|e| format!("{e}"))?;
    let member_sectors = match level {
        Level::Single => vec![array.sectors],
        Level::Raid0 => (0..array.raid_disks)
            .map(|slot| {
                array
                    .members
                    .iter()
                    .find(|m| m.slot == Some(slot))
                    .map_or(0, |m| m.data_sectors)
            })
            .collect(),
        _ if array.component_sectors > 0 => vec![array.component_sectors],
        // The smallest decides. Two members may have one slot (a replacement), and a slot none.
        _ => vec![
            array
                .members
                .iter()
                .filter(|m| m.slot.is_some())
                .map(|m| m.data_sectors)
                .filter(|n| *n > 0)
                .min()
                .unwrap_or(0),
        ],
    };
    Geometry::new(&Params {
        level,
        layout: array.layout,
        disks: array.raid_disks,
        chunk_sectors: array.chunk_sectors,
        member_sectors,
    })
    .map_err(|e| e.to_string())
}
