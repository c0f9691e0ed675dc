//! The file or the filesystem of the system call, or of the page fault, in which a task sleeps.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::privileges::raised;
use super::sys::{Sys, table};
use super::{Dev, mounts};

/// Maximum length of a path in bytes (PATH_MAX of include/uapi/linux/limits.h).
const MAX_PATH_BYTES: usize = 4096;
/// Longest wait for a process's memory.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Parts of the names of system calls with a path.
const WITH_PATH: [&str; 16] = [
    "stat", "open", "access", "chmod", "chown", "unlink", "rename", "rmdir", "mkdir", "mknod",
    "link", "truncate", "exec", "xattr", "utime", "chdir",
];

/// The file of the descriptor that is the first argument of the task's system call: its device,
/// inode and path.
pub fn file(sys: &Sys, pid: u32) -> Option<(Dev, u64, Vec<u8>)> {
    let fd = u32::try_from(arguments(sys, pid)?[0]).ok()?;
    let link = sys.path(format!("/proc/{pid}/fd/{fd}"));
    let file = raised(|| std::fs::metadata(&link)).ok()?;
    let path = raised(|| std::fs::read_link(&link)).ok()?.into_os_string().into_vec();
    Some((Dev::from_stat(file.dev()), file.ino(), path))
}

/// The filesystem of a path that the task's system call looks up, or of the mapped file of its page
/// fault, if all files that can have the fault are on one. A symbolic link in the path is not
/// followed: that may wait for the same disk. `stack`: of the task, innermost first.
pub fn filesystem<'a>(
    sys: &Sys,
    pid: u32,
    mut stack: impl Iterator<Item = &'a str> + Clone,
) -> Option<Dev> {
    let has = |part: &str| stack.clone().any(|function| function.contains(part));
    let Some(arguments) = arguments(sys, pid) else {
        let writes = has("page_mkwrite");
        if !writes && !has("filemap_fault") {
            return None;
        }
        let maps = sys.path(format!("/proc/{pid}/maps"));
        let maps = in_time(move || raised(|| table(maps)))?.ok()?;
        return mapped(&String::from_utf8_lossy(&maps), writes);
    };
    // __x64_sys_fchmodat, __do_sys_newstat
    let call = stack.find_map(|function| Some(function.split_once("_sys_")?.1))?;
    // The first argument of symlink() is the target, which may be on any filesystem.
    if call.contains("symlink") || !WITH_PATH.iter().any(|part| call.contains(part)) {
        return None;
    }
    // openat(AT_FDCWD, path), or open(path)
    let path = match arguments[0] as i32 {
        libc::AT_FDCWD => arguments[1],
        _ => arguments[0],
    };
    let path = string(sys, pid, path)?;
    let cwd = || raised(|| std::fs::read_link(sys.path(format!("/proc/{pid}/cwd")))).ok();
    let path = if path.is_absolute() { path } else { cwd()?.join(path) };
    mounts::device_of(sys, pid, &path)
}

/// The first two arguments of the task's system call; `None` if it is in none.
fn arguments(sys: &Sys, pid: u32) -> Option<[u64; 2]> {
    let call = raised(|| sys.text(&format!("/proc/{pid}/syscall")))?;
    let mut words = call.split_whitespace();
    words.next()?.parse::<u32>().ok()?; // -1: none
    let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    Some([next()?, next()?])
}

/// The path at an address of the task's memory.
fn string(sys: &Sys, pid: u32, address: u64) -> Option<PathBuf> {
    let memory = sys.path(format!("/proc/{pid}/mem"));
    let mut bytes = in_time(move || -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MAX_PATH_BYTES];
        let length = raised(|| std::fs::File::open(memory)?.read_at(&mut bytes, address))?;
        bytes.truncate(length);
        Ok(bytes)
    })?
    .ok()?;
    let end = bytes.iter().position(|b| *b == 0).filter(|end| *end > 0)?;
    bytes.truncate(end);
    Some(OsString::from_vec(bytes).into())
}

/// Runs `read` in a thread, and gives up after a while: /proc/PID/maps and mem wait for the
/// process's `mmap_lock`, for which a thread that hangs may be the reason. There is one such thread
/// at a time; while one waits, nothing is read.
fn in_time<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    static WAITS: AtomicBool = AtomicBool::new(false);
    if WAITS.swap(true, Ordering::Relaxed) {
        return None;
    }
    let (send, receive) = mpsc::sync_channel(1);
    let reader = thread::Builder::new().spawn(move || {
        let value = read();
        WAITS.store(false, Ordering::Relaxed);
        let _ = send.send(value);
    });
    if reader.is_err() {
        WAITS.store(false, Ordering::Relaxed);
    }
    receive.recv_timeout(MAX_WAIT).ok()
}

/// The device of all files in `maps` (proc_pid_maps(5)), or of those that can be written, if it is
/// one.
fn mapped(maps: &str, writes: bool) -> Option<Dev> {
    let mut devices = BTreeSet::new();
    for line in maps.lines() {
        // 7f00-7f10 rw-s 00000000 09:78 12   /srv/file
        let mut words = line.split_whitespace();
        let (Some(mode), Some(dev), Some(inode)) = (words.nth(1), words.nth(1), words.next())
        else {
            continue;
        };
        let Some((major, minor)) = dev.split_once(':') else { continue };
        let hex = |n: &str| u32::from_str_radix(n, 16).ok();
        if let (Some(major), Some(minor)) = (hex(major), hex(minor))
            && inode != "0"
            && (!writes || mode.contains('w') && mode.ends_with('s'))
        {
            devices.insert((major, minor));
        }
    }
    let (major, minor) = devices.pop_first().filter(|_| devices.is_empty())?;
    Some(Dev { major, minor })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::{Dev, MAX_WAIT, filesystem, in_time};
    use crate::machine::tests::tree::Tree;

    #[test]
    fn a_path_and_a_page_fault_have_a_filesystem() {
        let tree = Tree::new("");
        tree.write(
            "proc/7/mountinfo",
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 9:127 / /srv rw - ext4 /dev/md127 rw\n",
        );
        tree.write("proc/7/mem", "........log/x\0/srv/db\0endless");
        symlink("/srv", tree.sys().path("/proc/7/cwd")).unwrap();
        let of = |call: &str, stack: &[&str]| {
            tree.write("proc/7/syscall", call);
            filesystem(&tree.sys(), 7, stack.iter().copied())
        };
        let srv = Some(Dev { major: 9, minor: 127 });
        let opens = ["folio_wait_bit", "path_openat", "__x64_sys_openat"];
        // openat() of a relative and of an absolute path, open(), and no end within the memory
        assert_eq!(of("257 0xffffff9c 0x8 0x0 0x0 0x0 0x0 0x7f 0x7f\n", &opens), srv);
        assert_eq!(of("257 0xffffff9c 0xe 0x0 0x0 0x0 0x0 0x7f 0x7f\n", &opens), srv);
        assert_eq!(of("2 0x8 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f\n", &opens), srv);
        assert_eq!(of("2 0x16 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f\n", &opens), None);
        assert_eq!(of("2 0xffffffffffffff00 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f\n", &opens), None);
        assert_eq!(
            of("202 0x8 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f\n", &["futex_wait", "__x64_sys_futex"]),
            None
        );
        let links = ["mnt_want_write", "__x64_sys_symlink"];
        assert_eq!(of("88 0xe 0x8 0x0 0x0 0x0 0x0 0x7f 0x7f\n", &links), None);
        let lib = "7f00-7f10 r-xp 00000000 08:01 12  /lib/libc.so.6\n7f10-7f20 rw-p 0 00:00 0\n";
        let log = "7f20-7f30 rw-s 00000000 09:7f 13  /srv/log\n";
        tree.write("proc/7/maps", format!("{lib}{log}broken\n"));
        let fault = "-1 0x7ffc 0x7f\n";
        assert_eq!(of(fault, &["ext4_page_mkwrite"]), srv);
        assert_eq!(of(fault, &["filemap_fault"]), None, "either of two");
        tree.write("proc/7/maps", lib);
        assert_eq!(of(fault, &["filemap_fault"]), Some(Dev { major: 8, minor: 1 }));
        assert_eq!(of(fault, &["do_swap_page"]), None);
        assert_eq!(of("running\n", &["filemap_fault"]), Some(Dev { major: 8, minor: 1 }));
        a_process_that_does_not_answer_is_given_up();
    }
    /// In one test, because there is one such thread at a time.
    fn a_process_that_does_not_answer_is_given_up() {
        assert_eq!(in_time(|| std::thread::sleep(4 * MAX_WAIT)), None);
        assert_eq!(in_time(|| 1), None, "the first still waits");
        let late = |_| {
            std::thread::sleep(Duration::from_millis(10));
            in_time(|| 1)
        };
        assert_eq!((0..1000).find_map(late), Some(1));
    }
}
