//! Every path that this module reads goes through [`Sys`], so that a test can put a tree of its own in place of the machine.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use super::dm::{DmTables, Ioctl};

/// A sysfs attribute is a page at most; a few of md's bitmap files are shorter still.
const ATTRIBUTE_LIMIT: u64 = 64 << 10;
/// mountinfo has a line a mount: a host of containers has some 100,000 of them, 300 bytes each.
const TABLE_LIMIT: u64 = 64 << 20;

/// A machine: this one, or a tree of files that looks like one.
pub struct Sys {
    root: PathBuf,
    dm: Box<dyn DmTables>,
    host_pids: OnceLock<bool>,
}

impl Sys {
    /// This machine.
    pub fn live() -> Self {
        Self::at("/", Box::new(Ioctl))
    }

    /// The machine whose `/sys`, `/proc` and `/dev` are below `root`.
    pub fn at(root: impl Into<PathBuf>, dm: Box<dyn DmTables>) -> Self {
        Self {
            root: root.into(),
            dm,
            host_pids: OnceLock::new(),
        }
    }

    /// True if /proc shows tasks by their pid in the initial PID namespace.
    pub fn has_host_pids(&self) -> bool {
        *self
            .host_pids
            .get_or_init(|| super::task::is_initial_namespace(self))
    }

    /// Whether device mapper holds back all IO of a volume (`dmsetup suspend`, a snapshot being made): who reads it waits.
    pub fn is_suspended(&self, name: &str) -> bool {
        attribute(self.path(format!("/sys/block/{name}/dm/suspended"))).as_deref() == Some("1")
    }

    /// What a file of sysfs or /proc says, without its last newline; `None` when there is none, when it cannot be read or
    /// when it is empty.
    pub fn text(&self, path: &str) -> Option<String> {
        attribute(self.path(path))
    }

    /// The first word of a file, as a number.
    pub fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        number(self.path(path))
    }

    /// Names in a directory, sorted; none when there is no such directory.
    pub fn names(&self, path: &str) -> Vec<String> {
        names(self.path(path))
    }

    /// An absolute path, below the root.
    pub(crate) fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let p = absolute.as_ref();
        self.root.join(p.strip_prefix("/").unwrap_or(p))
    }

    /// What `path` (which has the root in front) is called on the machine.
    pub(super) fn outside(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.root) {
            Ok(rest) => Path::new("/").join(rest),
            Err(_) => path.to_path_buf(),
        }
    }

    /// Whether this is the machine itself.
    pub(crate) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    pub(super) fn dm(&self) -> &dyn DmTables {
        &*self.dm
    }
}

/// A sysfs attribute without its newline; `None` when there is none, when it cannot be read (md returns errors for
/// attributes that make no sense at the moment) or when it is empty. Bytes that are no UTF-8 are replaced.
pub(super) fn attribute(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(ATTRIBUTE_LIMIT)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// The first word of an attribute, as a number.
pub(super) fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    attribute(path)?.split_whitespace().next()?.parse().ok()
}

/// A table of /proc, whole.
pub(super) fn table(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(TABLE_LIMIT)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Names in a directory, sorted; none when there is no such directory. The kernel's names are ASCII: others are not for us.
pub(super) fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Sorts `md2` before `md10`: the name without its trailing number, then the number.
pub(super) fn natural(name: &str) -> (&str, u64, &str) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, tail) = name.split_at(name.len() - digits);
    (stem, tail.parse().unwrap_or(u64::MAX), name)
}
