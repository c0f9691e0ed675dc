//! Shares of tasks and files.

use serde::{Deserialize, Serialize};

use super::{lossy, raw};
use crate::analysis::alloc::{AllocShare, FileAlloc, TaskAlloc};
use crate::printable::hex;
use crate::recording::file_json::FileJson;

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
    #[serde(flatten)]
    file: FileJson,
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
        Self { file: FileJson::new(&f.id, &f.location), share: ShareLine::new(&f.share, hooked) }
    }

    pub(super) fn read(self) -> Result<FileAlloc, String> {
        let (id, location) = self.file.read()?;
        Ok(FileAlloc { id, location, share: self.share.read() })
    }
}
