//! A slow operation with its phases, and the names of devices and files in it.

use std::collections::{BTreeMap, HashMap};

use super::event::{Operation, Task};
use super::waterfall::{Culprit, Waterfall};
use crate::analysis::files::{FileId, FileLocation};
use crate::printable::{escape, sanitize};

/// A slow operation and its phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowOperation {
    pub operation: Operation,
    /// Phases of the operation.
    pub waterfall: Waterfall,
    /// It has not ended. Its length is its age.
    pub unended: bool,
    /// Name of the array or disk that holds the filesystem; `None` for a sync of all filesystems.
    pub array: Option<String>,
}

/// Names of members and files.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Kernel names of members and of filesystems' devices, by device number. In order, so that
    /// of several devices with one name (an image of an LVM RAID and its disk, the paths of an
    /// NVMe drive) always the same is written.
    pub devices: BTreeMap<u32, String>,
    /// Number of members by array.
    pub members: HashMap<String, usize>,
    pub files: HashMap<FileId, FileLocation>,
}

impl Names {
    /// Name of a device, or its number.
    pub fn device(&self, dev: u32) -> String {
        let known = self.devices.get(&dev).cloned();
        known.unwrap_or_else(|| format!("{}:{}", dev >> 20, dev & 0xf_ffff))
    }

    /// Path of a file, printable; the inode if the path is unknown.
    pub fn file(&self, id: &FileId) -> String {
        let path = self.path(id).map(escape);
        path.unwrap_or_else(|| format!("inode {} on {}", id.inode, self.device(id.dev)))
    }

    /// Raw path of a file, or its name if the path is unknown.
    pub fn path(&self, id: &FileId) -> Option<&[u8]> {
        let location = self.files.get(id)?;
        location.path.as_deref().or(location.name.as_deref())
    }

    /// Name of the member that caused a phase.
    pub fn member(&self, culprit: &Culprit) -> Option<String> {
        culprit.member.map(|(dev, _)| self.device(dev))
    }
}

/// `mysqld(1234)`, printable.
pub fn task(task: &Task) -> String {
    format!("{}({})", sanitize(&task.comm), task.pid)
}
