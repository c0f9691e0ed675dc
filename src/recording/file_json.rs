//! A file as JSON.

use serde::{Deserialize, Serialize};

use super::interval::{lossy, number, raw};
use crate::analysis::files::{FileId, FileLocation};
use crate::printable::hex;

/// A file. If a name is not UTF-8, `path_bytes` or `name_bytes` has all its bytes in hexadecimal.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FileJson {
    dev: String,
    inode: u64,
    generation: u32,
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<String>,
    deleted: bool,
}

impl FileJson {
    pub fn new(id: &FileId, location: &FileLocation) -> Self {
        let (path, name) = (location.path.as_deref(), location.name.as_deref());
        Self {
            dev: id.device(),
            inode: id.inode,
            generation: id.generation,
            path: path.map(lossy),
            path_bytes: hex(path),
            name: name.map(lossy),
            name_bytes: hex(name),
            deleted: location.deleted,
        }
    }

    /// Inverse of [`FileJson::new`].
    ///
    /// # Errors
    /// `dev` is not a device number.
    pub fn read(self) -> Result<(FileId, FileLocation), String> {
        let id = FileId { dev: number(&self.dev)?, inode: self.inode, generation: self.generation };
        let location = FileLocation {
            path: self.path.map(|p| raw(p, self.path_bytes)),
            name: self.name.map(|n| raw(n, self.name_bytes)),
            deleted: self.deleted,
            ..FileLocation::default()
        };
        Ok((id, location))
    }
}
