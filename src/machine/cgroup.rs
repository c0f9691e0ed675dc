//! Paths of cgroups by id. The id of bpf_get_current_cgroup_id() is the kernfs node id of the
//! cgroup's directory, which on 64-bit kernels is its inode number (fs/kernfs/dir.c).
//!
//! Only a walk of the tree maps ids to paths. The first unknown id starts a walk, and later ones at
//! most every ten seconds.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::mounts;
use super::sys::Sys;

/// Maximum number of directories read in one walk. A busy Kubernetes node has some thousand
/// cgroups.
const MAX_DIRECTORIES: usize = 20_000;
/// Shortest time between two walks.
const MIN_PAUSE: Duration = Duration::from_secs(10);

/// Cache of cgroup paths.
#[derive(Debug, Default)]
pub struct Cgroups {
    unified: Tree,
    /// The cgroup v1 hierarchy of the blkio controller, if mounted.
    blkio: Tree,
}

/// One hierarchy. Ids of different hierarchies are unrelated.
#[derive(Debug, Default)]
struct Tree {
    /// Mount point, including the root of [`Sys`].
    top: Option<PathBuf>,
    paths: HashMap<u64, String>,
    walked: Option<Instant>,
}

impl Cgroups {
    /// Finds the mounts of cgroup2 and of the v1 blkio controller. Without a mount, all ids of the
    /// hierarchy are unknown.
    pub fn new(sys: &Sys) -> Self {
        let lines = mounts::read(sys).unwrap_or_default();
        let tree = |found: Option<&mounts::MountLine>| Tree {
            top: found.map(|m| sys.path(&m.mount.path)),
            ..Tree::default()
        };
        let is_blkio = |m: &&mounts::MountLine| {
            let mut options = m.mount.options.split(',');
            m.mount.fstype == "cgroup" && options.any(|o| o == "blkio")
        };
        Self {
            // /sys/fs/cgroup with v2 only, /sys/fs/cgroup/unified on hybrid systems.
            unified: tree(lines.iter().find(|m| m.mount.fstype == "cgroup2")),
            blkio: tree(lines.iter().find(is_blkio)),
        }
    }

    /// Path below the cgroup root: `/system.slice/postgresql.service`, or `/` for the root. `None`
    /// if no walk has found the cgroup: it was removed before, is newer than the last walk, or is
    /// not among the first 20,000. Users choose these names: untrusted bytes.
    pub fn path(&mut self, id: u64) -> Option<&str> {
        self.unified.path(id)
    }

    /// Path of a cgroup that blk-throttle limits. The controller is in the v1 hierarchy if that is
    /// mounted, else in v2.
    pub fn throttled_path(&mut self, id: u64) -> Option<&str> {
        if self.blkio.top.is_some() { self.blkio.path(id) } else { self.unified.path(id) }
    }
}

impl Tree {
    fn path(&mut self, id: u64) -> Option<&str> {
        let due = self.walked.is_none_or(|t| t.elapsed() >= MIN_PAUSE);
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
        // Keep removed cgroups for a while: their last counters may still arrive.
        if self.paths.len() > 2 * MAX_DIRECTORIES {
            self.paths.clear();
        }
        if let Ok(meta) = fs::metadata(&top) {
            self.paths.insert(meta.ino(), "/".into());
        }
        let mut left = MAX_DIRECTORIES;
        let mut level = vec![top.clone()];
        // Breadth first: the limit drops the deepest directories.
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
