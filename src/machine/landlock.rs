//! Landlock (Documentation/userspace-api/landlock.rst, Linux 5.13): limits the files that a thread,
//! and the threads that it starts, can open. Without capabilities uid 0 still owns most files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Access rights of files and directories (include/uapi/linux/landlock.h).
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_REG: u64 = 1 << 8;
/// All rights of the first version, which includes running programs.
const ALL: u64 = (1 << 13) - 1;
/// LANDLOCK_RULE_PATH_BENEATH
const BENEATH: libc::c_int = 1;

/// `struct landlock_path_beneath_attr`
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: libc::c_int,
}

/// Allows this thread to write files in `writable` and to read those in it and in `readable`, and
/// no others. Paths that do not exist are left out. Needs no_new_privs.
///
/// # Errors
/// The kernel has no Landlock, or it is disabled.
pub fn allow_only(writable: Option<&Path>, readable: &[&str]) -> io::Result<()> {
    let handled = ALL;
    // SAFETY: the attribute is a u64 that lives through the call, with its size.
    let rules = checked(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const handled,
            size_of_val(&handled),
            0,
        )
    })?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    let rules = unsafe { OwnedFd::from_raw_fd(rules) };
    let readable = readable.iter().map(|path| (Path::new(path), READ_FILE | READ_DIR));
    let rights = READ_FILE | READ_DIR | WRITE_FILE | REMOVE_FILE | MAKE_REG;
    for (path, allowed) in readable.chain(writable.map(|path| (path, rights))) {
        let Ok(parent) = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path) else {
            continue;
        };
        add(&rules, &parent, allowed)?;
    }
    // SAFETY: takes a descriptor and flags.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) })?;
    Ok(())
}

fn add(rules: &OwnedFd, parent: &File, allowed: u64) -> io::Result<()> {
    // Rights of directories are invalid for a file.
    let allowed = if parent.metadata()?.is_dir() { allowed } else { allowed & READ_FILE };
    let rule = Beneath { allowed, parent: parent.as_raw_fd() };
    // SAFETY: the attribute lives through the call, and has the type that BENEATH requires.
    checked(unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), BENEATH, &raw const rule, 0)
    })?;
    Ok(())
}

fn checked(result: libc::c_long) -> io::Result<libc::c_int> {
    match libc::c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::allow_only;
    use crate::machine::privileges;

    #[test]
    fn only_the_named_directories_are_accessible() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("a"), "a").unwrap();
        let thread = std::thread::spawn(move || {
            privileges::keep_none();
            if let Err(why) = allow_only(Some(inside.path()), &["/proc/self", "/no/such/file"]) {
                println!("skipped: {why}");
                return;
            }
            fs::write(inside.path().join("a.new"), "a").unwrap();
            fs::rename(inside.path().join("a.new"), inside.path().join("a")).unwrap();
            fs::remove_file(inside.path().join("a")).unwrap();
            assert!(fs::read_to_string("/proc/self/statm").is_ok());
            let refused = [
                fs::read(outside.path().join("a")).map(|_| ()),
                fs::write(outside.path().join("b"), "b"),
                fs::read("/etc/passwd").map(|_| ()),
            ];
            let kinds = refused.map(|r| r.unwrap_err().kind());
            assert_eq!(kinds, [ErrorKind::PermissionDenied; 3]);
        });
        thread.join().unwrap();
    }
}
