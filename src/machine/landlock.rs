//! Landlock (Documentation/userspace-api/landlock.rst, Linux 5.13): limits the files that a thread,
//! and the threads that it starts, can open, and their connections and signals. Without
//! capabilities uid 0 still owns most files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::ptr;

/// Access rights of files and directories (include/uapi/linux/landlock.h).
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const TRUNCATE: u64 = 1 << 14;
/// Rights of TCP sockets.
const BIND: u64 = 1;
const CONNECT: u64 = 1 << 1;
/// Number of rights in each version of the interface, from version 1, which includes running
/// programs: then renames between directories, truncation, and ioctls of devices.
const RIGHTS: [u32; 5] = [13, 14, 15, 15, 16];
/// LANDLOCK_CREATE_RULESET_VERSION
const VERSION: libc::c_int = 1;
/// LANDLOCK_RULE_PATH_BENEATH
const BENEATH: libc::c_int = 1;

/// `struct landlock_ruleset_attr`: rights that only rules allow. Versions before 4 and 6 accept
/// the others if they are 0.
#[repr(C)]
struct Ruleset {
    files: u64,
    /// To bind and to connect a TCP socket.
    network: u64,
    /// To connect to abstract Unix sockets, and to signal processes outside.
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: libc::c_int,
}

/// Allows this thread to write files in `writable` and to read those in it and in `readable`, and
/// no others, to open no TCP connection unless `connects`, and to signal no other process. Paths
/// that do not exist are left out. Needs no_new_privs.
///
/// # Errors
/// The kernel has no Landlock, or it is disabled.
pub fn allow_only(writable: &[&Path], readable: &[&str], connects: bool) -> io::Result<()> {
    let version = version()?;
    let files = (1 << RIGHTS[version.clamp(1, RIGHTS.len()) - 1]) - 1;
    let since = |first, rights| if version >= first { rights } else { 0 };
    let network = if connects { BIND } else { BIND | CONNECT };
    let handled = Ruleset { files, network: since(4, network), scopes: since(6, 3) };
    let rules = create(&raw const handled, size_of_val(&handled), 0)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    let rules = unsafe { OwnedFd::from_raw_fd(rules) };
    let readable = readable.iter().map(|path| (Path::new(path), READ_FILE | READ_DIR));
    let rights = READ_FILE | READ_DIR | WRITE_FILE | REMOVE_FILE | MAKE_DIR | MAKE_REG | TRUNCATE;
    for (path, allowed) in readable.chain(writable.iter().map(|path| (*path, rights & files))) {
        let Ok(parent) = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path) else {
            continue;
        };
        add(&rules, &parent, allowed)?;
    }
    // SAFETY: takes a descriptor and flags.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) })?;
    Ok(())
}

/// Version of the interface.
fn version() -> io::Result<usize> {
    Ok(create(ptr::null(), 0, VERSION)? as usize)
}

fn create(rules: *const Ruleset, size: usize, flags: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: callers pass null, or rules that live through the call, with their size.
    checked(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, rules, size, flags) })
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
    use std::net::{TcpListener, TcpStream};

    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    use super::{allow_only, version};
    use crate::machine::privileges;

    #[test]
    fn only_the_named_directories_are_accessible() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("a"), "a").unwrap();
        let thread = std::thread::spawn(move || {
            privileges::keep_none();
            if let Err(why) = allow_only(&[inside.path()], &["/proc/self", "/no/such/file"], false)
            {
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
            let version = version().unwrap();
            if version >= 4 {
                let connected = TcpStream::connect(("127.0.0.1", 9));
                assert_eq!(connected.unwrap_err().kind(), ErrorKind::PermissionDenied);
            }
            if version >= 6 {
                assert_eq!(test_kill_process(Pid::INIT), Err(Errno::PERM));
            }
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_client_reads_and_connects_and_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let thread = std::thread::spawn(move || {
            privileges::keep_none();
            if let Err(why) = allow_only(&[], &["/"], true) {
                println!("skipped: {why}");
                return;
            }
            assert!(fs::read("/etc/passwd").is_ok());
            let refused = fs::write(folder.path().join("a"), "a").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
            // Version 4 refuses what has no rule.
            let other = TcpListener::bind(("127.0.0.1", 0));
            assert_eq!(other.is_err(), version().unwrap() >= 4);
            TcpStream::connect(server.local_addr().unwrap()).unwrap();
        });
        thread.join().unwrap();
    }
}
