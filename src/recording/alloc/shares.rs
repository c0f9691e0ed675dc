//! Shares of tasks and files.

use serde::{Deserialize, Serialize};

use super::{lossy, number, raw};
use crate::analysis::alloc::{AllocShare, FileAlloc, TaskAlloc};
use crate::analysis::files::{FileId, FileLocation};
use crate::printable::hex;

/// Work of the allocator for a task or a file. `looked` is `null` if no hook counts groups by task
/// and file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct ShareLine {
    requests: u64,
    blocks: u64,
    nanoseconds: u64,
    looked: Option<u64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct TaskShareLine {
    pid: u32,
    comm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm_bytes: Option<String>,
    role: Option<String>,
    #[serde(flatten)]
    share: ShareLine,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct FileShareLine {
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
    #[serde(flatten)]
    share: ShareLine,
}

impl ShareLine {
    pub(super) fn new(share: &AllocShare, hooked: bool) -> Self {
        Self {
            requests: share.requests,
            blocks: share.blocks,
            nanoseconds: share.nanoseconds,
            looked: hooked.then_some(share.looked),
        }
    }

    pub(super) fn read(self) -> AllocShare {
        AllocShare {
            requests: self.requests,
            blocks: self.blocks,
            nanoseconds: self.nanoseconds,
            looked: self.looked.unwrap_or(0),
        }
    }
}

impl TaskShareLine {
    pub(super) fn new(t: &TaskAlloc, hooked: bool) -> Self {
        Self {
            pid: t.pid,
            comm: lossy(&t.comm),
            comm_bytes: hex(Some(&t.comm)),
            role: t.role.clone(),
            share: ShareLine::new(&t.share, hooked),
        }
    }

    pub(super) fn read(self) -> TaskAlloc {
        TaskAlloc {
            pid: self.pid,
            comm: raw(self.comm, self.comm_bytes),
            role: self.role,
            share: self.share.read(),
        }
    }
}

impl FileShareLine {
    pub(super) fn new(f: &FileAlloc, hooked: bool) -> Self {
        let (path, name) = (f.location.path.as_deref(), f.location.name.as_deref());
        Self {
            dev: f.id.device(),
            inode: f.id.inode,
            generation: f.id.generation,
            path: path.map(lossy),
            path_bytes: hex(path),
            name: name.map(lossy),
            name_bytes: hex(name),
            deleted: f.location.deleted,
            share: ShareLine::new(&f.share, hooked),
        }
    }

    pub(super) fn read(self) -> Result<FileAlloc, String> {
        Ok(FileAlloc {
            id: FileId { dev: number(&self.dev)?, inode: self.inode, generation: self.generation },
            location: FileLocation {
                path: self.path.map(|p| raw(p, self.path_bytes)),
                name: self.name.map(|n| raw(n, self.name_bytes)),
                deleted: self.deleted,
                ..FileLocation::default()
            },
            share: self.share.read(),
        })
    }
}
