//! File access below a root directory. Tests use a directory tree in place of the machine.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use super::dm::{DmTables, Ioctl};

/// Maximum number of bytes read from an attribute. sysfs attributes are at most a page.
const MAX_ATTRIBUTE_BYTES: u64 = 64 << 10;
/// Maximum number of bytes read from a table. mountinfo of a container host has some 100,000 lines
/// of 300 bytes.
const MAX_TABLE_BYTES: u64 = 64 << 20;

/// Inode of the initial PID namespace: PROC_PID_INIT_INO, include/linux/proc_ns.h.
const INITIAL: &str = "pid:[4026531836]";

/// This machine, or a directory tree that represents a machine.
pub struct Sys {
    root: PathBuf,
    dm: Box<dyn DmTables>,
    host_pids: OnceLock<bool>,
}

impl Sys {
    pub fn live() -> Self {
        Self::at("/", Box::new(Ioctl))
    }

    /// The machine whose `/sys`, `/proc` and `/dev` are below `root`.
    pub fn at(root: impl Into<PathBuf>, dm: Box<dyn DmTables>) -> Self {
        Self { root: root.into(), dm, host_pids: OnceLock::new() }
    }

    /// True if /proc shows tasks by their pid in the initial PID namespace.
    pub fn has_host_pids(&self) -> bool {
        *self.host_pids.get_or_init(|| is_initial_namespace(self))
    }

    /// True if device mapper has suspended a volume (`dmsetup suspend`, creation of a snapshot).
    /// Reads of it block.
    pub fn is_suspended(&self, name: &str) -> bool {
        attribute(self.path(format!("/sys/block/{name}/dm/suspended"))).as_deref() == Some("1")
    }

    /// Content of a file of sysfs or /proc without surrounding white space; `None` if it is
    /// missing, unreadable or empty.
    pub fn text(&self, path: &str) -> Option<String> {
        attribute(self.path(path))
    }

    /// The selected value of a file that lists all values; see [`selected`].
    pub fn selected(&self, path: &str) -> Option<String> {
        Some(selected(&self.text(path)?).to_owned())
    }

    /// `uname -r`; empty if unknown.
    pub fn kernel_release(&self) -> String {
        self.text("/proc/sys/kernel/osrelease").unwrap_or_default()
    }

    /// The first word of a file, as a number.
    pub fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        number(self.path(path))
    }

    /// Sorted names in a directory; empty if it does not exist.
    pub fn names(&self, path: &str) -> Vec<String> {
        names(self.path(path))
    }

    /// An absolute path, below the root.
    pub(crate) fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let p = absolute.as_ref();
        self.root.join(p.strip_prefix("/").unwrap_or(p))
    }

    pub(super) fn without_root(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.root) {
            Ok(rest) => Path::new("/").join(rest),
            Err(_) => path.to_path_buf(),
        }
    }

    /// True if the root is `/`.
    pub(crate) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    pub(super) fn dm(&self) -> &dyn DmTables {
        &*self.dm
    }
}

/// A sysfs attribute without surrounding white space; `None` if it is missing, empty or unreadable
/// (md returns errors for attributes that do not apply at the moment). Replaces invalid UTF-8.
pub(super) fn attribute(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_ATTRIBUTE_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// The value in brackets, such as `none` in `[none] integrity confidentiality`, or the whole text
/// if it has no brackets.
pub(super) fn selected(text: &str) -> &str {
    let mut words = text.split_whitespace();
    words.find_map(|w| w.strip_prefix('[')?.strip_suffix(']')).unwrap_or(text)
}

/// The first word of an attribute, as a number.
pub(super) fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    attribute(path)?.split_whitespace().next()?.parse().ok()
}

/// Content of a table in /proc.
pub(super) fn table(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_TABLE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Sorted names in a directory; empty if it does not exist. Skips names that are not UTF-8: the
/// kernel's names are ASCII.
pub(super) fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Sort key that orders `md2` before `md10`: name without its trailing number, then the number.
pub(super) fn natural(name: &str) -> (&str, u64, &str) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, tail) = name.split_at(name.len() - digits);
    (stem, tail.parse().unwrap_or(u64::MAX), name)
}

/// True if /proc shows the initial PID namespace. Reads the namespace of pid 1 of the mounted
/// procfs if permitted, else the namespace of this process.
fn is_initial_namespace(sys: &Sys) -> bool {
    let namespace = |pid| fs::read_link(sys.path(format!("/proc/{pid}/ns/pid")));
    match namespace("1").or_else(|_| namespace("self")) {
        Ok(link) => link.as_os_str() == INITIAL,
        // Without CONFIG_PID_NS there is only one namespace.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::selected;

    #[test]
    fn the_selected_value_of_a_list() {
        assert_eq!(selected("none [integrity] confidentiality"), "integrity");
        assert_eq!(selected("none"), "none");
    }
}
