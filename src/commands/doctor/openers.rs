//! Processes that write with O_DIRECT, found without tracing: /proc/PID/fdinfo has the flags and
//! the mount of an open file (Documentation/filesystems/proc.rst, 3.8), so that no path has to be
//! resolved.

use std::time::{Duration, Instant};

use super::facts::{ArrayFacts, Opener};
use crate::machine::{Sys, mounts};

/// Time limit: hosts with many containers can have a million open files.
const MAX_TIME: Duration = Duration::from_millis(300);
/// Files kept per filesystem.
const MAX_FILES: usize = 8;

/// Fills in `direct` of every filesystem. Returns a note if the time limit was reached.
pub fn find(sys: &Sys, arrays: &mut [ArrayFacts]) -> Option<String> {
    let mounts = mounts::devices_by_id(sys);
    let start = Instant::now();
    for dir in sys.names("/proc") {
        let Ok(pid) = dir.parse() else { continue };
        if start.elapsed() > MAX_TIME {
            return Some("direct IO: too many open files to check all of them".to_owned());
        }
        for fd in sys.names(&format!("/proc/{pid}/fdinfo")) {
            let info = sys.text(&format!("/proc/{pid}/fdinfo/{fd}"));
            let Some((true, mount)) = info.as_deref().and_then(describe) else {
                continue;
            };
            let filesystems = arrays.iter_mut().flat_map(|a| &mut a.filesystems);
            let on_mount = filesystems.filter(|f| mounts.get(&mount) == Some(&f.fs.dev));
            for fs in on_mount.filter(|f| f.direct.len() < MAX_FILES) {
                let link = std::fs::read_link(sys.path(format!("/proc/{pid}/fd/{fd}")));
                fs.direct.push(Opener {
                    comm: sys.text(&format!("/proc/{pid}/comm")).unwrap_or_default(),
                    pid,
                    path: link.map_or_else(|_| String::new(), |p| p.to_string_lossy().into_owned()),
                });
            }
        }
    }
    None
}

/// Parses fdinfo: true if the file is open for writing with O_DIRECT, and the mount id.
fn describe(fdinfo: &str) -> Option<(bool, u64)> {
    let field = |name: &str| fdinfo.lines().find_map(|l| l.strip_prefix(name));
    let flags = u32::from_str_radix(field("flags:")?.trim(), 8).ok()?;
    let writes = flags & libc::O_ACCMODE.cast_unsigned() != libc::O_RDONLY.cast_unsigned();
    let direct = flags & libc::O_DIRECT.cast_unsigned() != 0;
    Some((writes && direct, field("mnt_id:")?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn flags_and_mount_of_fdinfo() {
        let of = |flags: i32| format!("pos:\t0\nflags:\t0{flags:o}\nmnt_id:\t30\nino:\t12\n");
        let direct = libc::O_RDWR | libc::O_DIRECT | libc::O_CLOEXEC;
        assert_eq!(describe(&of(direct)), Some((true, 30)));
        assert_eq!(describe(&of(libc::O_DIRECT)), Some((false, 30)));
        assert_eq!(describe(&of(libc::O_WRONLY)), Some((false, 30)));
        assert_eq!(describe("pos: 0\nflags: x\nmnt_id: 3"), None);
        assert_eq!(describe(""), None);
    }
}
