//! Finds the programs that raidtrace runs for itself: mkfs.xfs, setpriv and env.

use std::env;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

/// Where root looks for programs, instead of in PATH, which may be that of another user (su,
/// `sudo -E`).
const TRUSTED: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Path of a program; `None` if there is none.
pub fn find(name: &str) -> Option<PathBuf> {
    let dirs = if geteuid().is_root() { TRUSTED.into() } else { env::var_os("PATH")? };
    env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| runs(path))
}

/// True for an executable file.
pub fn runs(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}
