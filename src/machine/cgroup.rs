//! cgroup v2 ids to paths. The id that a BPF program gets (bpf_get_current_cgroup_id) is the kernfs node id of the
//! cgroup's directory, which on 64-bit kernels is its inode number (fs/kernfs/dir.c).
//!
//! There is no way from an id to its path but to walk the tree, so it is walked once, when the first unknown id comes,
//! and again at most every ten seconds: cgroups come and go.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::mounts;
use super::sys::{Sys, table};

/// A busy Kubernetes node has some thousand cgroups.
const DIRECTORIES: usize = 20_000;
const AGAIN: Duration = Duration::from_secs(10);

/// Finds paths, remembers them.
#[derive(Debug, Default)]
pub struct Cgroups {
    unified: Tree,
    /// Version 1's hierarchy of the controller blkio, where that one has it.
    blkio: Tree,
}

/// A hierarchy: ids of one mean nothing in another.
#[derive(Debug, Default)]
struct Tree {
    /// Where it is mounted, with the root.
    top: Option<PathBuf>,
    paths: HashMap<u64, String>,
    walked: Option<Instant>,
}

impl Cgroups {
    /// Looks for the mounts of cgroup2 and of version 1's blkio; without one all its ids are unknown.
    pub fn new(sys: &Sys) -> Self {
        let lines = mounts::parse(&table(sys.path("/proc/self/mountinfo")).unwrap_or_default());
        let tree = |found: Option<&mounts::MountLine>| Tree {
            top: found.map(|m| sys.path(&m.mount.path)),
            ..Tree::default()
        };
        let is_blkio = |m: &&mounts::MountLine| {
            let mut options = m.mount.options.split(',');
            m.mount.fstype == "cgroup" && options.any(|o| o == "blkio")
        };
        Self {
            // Pure v2 has it on /sys/fs/cgroup, mixed systems on /sys/fs/cgroup/unified.
            unified: tree(lines.iter().find(|m| m.mount.fstype == "cgroup2")),
            blkio: tree(lines.iter().find(is_blkio)),
        }
    }

    /// The path below the cgroup root: `/system.slice/postgresql.service`, `/` for the root; `None` when it has gone or
    /// was not among the first 20,000. The name is bytes that a user chose.
    pub fn path(&mut self, id: u64) -> Option<&str> {
        self.unified.path(id)
    }

    /// The same of a cgroup that blk-throttle limits: a controller is in one hierarchy, version 1's if that is mounted.
    pub fn throttled_path(&mut self, id: u64) -> Option<&str> {
        if self.blkio.top.is_some() {
            self.blkio.path(id)
        } else {
            self.unified.path(id)
        }
    }
}

impl Tree {
    fn path(&mut self, id: u64) -> Option<&str> {
        let due = self.walked.is_none_or(|t| t.elapsed() >= AGAIN);
        if !self.paths.contains_key(&id) && due {
            self.walk();
        }
        self.paths.get(&id).map(String::as_str)
    }

    fn walk(&mut self) {
        self.walked = Some(Instant::now());
        let Some(top) = self.top.clone() else {
            return;
        };
        // What went stays known: its last figures may still be on the way. But not for ever.
        if self.paths.len() > 2 * DIRECTORIES {
            self.paths.clear();
        }
        if let Ok(meta) = fs::metadata(&top) {
            self.paths.insert(meta.ino(), "/".into());
        }
        let mut left = DIRECTORIES;
        let mut level = vec![top.clone()];
        // Breadth first: when the limit cuts, it cuts the deepest.
        while !level.is_empty() {
            let mut below = Vec::new();
            for dir in &level {
                for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                    if !entry.file_type().is_ok_and(|t| t.is_dir()) {
                        continue;
                    }
                    if left == 0 {
                        return;
                    }
                    left -= 1;
                    let path = entry.path();
                    self.paths.insert(entry.ino(), below_root(&top, &path));
                    below.push(path);
                }
            }
            level = below;
        }
    }
}

fn below_root(top: &Path, path: &Path) -> String {
    let rest = path.strip_prefix(top).unwrap_or(path);
    format!("/{}", rest.to_string_lossy())
}
