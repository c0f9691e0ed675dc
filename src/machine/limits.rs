//! Resource limits of this process (getrlimit(2)).

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Sys;

/// Action of SIGXFSZ and limit on open files at the start of the process.
static BEFORE: OnceLock<(libc::sighandler_t, Rlimit)> = OnceLock::new();

/// Makes a write beyond `ulimit -f` fail with EFBIG instead of ending the process with SIGXFSZ, and
/// raises the limit on open files to the hard limit.
pub fn set_up() {
    // SAFETY: SIG_IGN runs no code.
    let action = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let files = getrlimit(Resource::Nofile);
    let _ = BEFORE.set((action, files));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
}

/// Makes `command` start with the limits and the signal action of before [`set_up`].
pub fn restore_for(command: &mut Command) {
    let Some(&(action, files)) = BEFORE.get() else { return };
    let restore = move || {
        // SAFETY: the action is SIG_DFL or SIG_IGN, as after every exec.
        unsafe { libc::signal(libc::SIGXFSZ, action) };
        setrlimit(Resource::Nofile, files).map_err(io::Error::from)
    };
    // SAFETY: called between fork and exec; both system calls are async-signal-safe.
    unsafe { command.pre_exec(restore) };
}

/// True if a file cannot grow: the filesystem is full, or a quota or `ulimit -f` is reached.
pub fn is_full(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

/// Memory limit of the cgroup of this process; `None` without one, or without cgroup v2.
pub fn memory(sys: &Sys) -> Option<u64> {
    let own = sys.text("/proc/self/cgroup")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    sys.number(&format!("/sys/fs/cgroup{path}/memory.max"))
}

/// Explanation of EMFILE.
pub fn open_files() -> String {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    format!("the limit on open files is {limit}: raise it (ulimit -Hn, or LimitNOFILE= of a unit)")
}

#[cfg(test)]
mod tests {
    use super::memory;
    use crate::machine::tests::tree::Tree;

    #[test]
    fn the_limit_of_the_own_cgroup() {
        let tree = Tree::new("");
        assert_eq!(memory(&tree.sys()), None);
        tree.write("proc/self/cgroup", "1:cpu:/\n0::/system.slice/raidtrace.service\n");
        let file = "sys/fs/cgroup/system.slice/raidtrace.service/memory.max";
        tree.write(file, "max\n");
        assert_eq!(memory(&tree.sys()), None);
        tree.write(file, "536870912\n");
        assert_eq!(memory(&tree.sys()), Some(512 << 20));
    }
}
