//! Who writes with O_DIRECT: the only evidence of direct IO that needs no tracing. /proc/PID/fdinfo says how a file was
//! opened and on which mount (Documentation/filesystems/proc.rst, 3.8), so no path has to be touched.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::facts::{ArrayFacts, Opener};
use crate::machine::{Dev, Sys};

/// A host of containers has a million descriptors: what has not been looked at by then is left.
const TIME: Duration = Duration::from_millis(300);
/// Files kept of a filesystem.
const KEPT: usize = 8;

/// Fills `direct` of every filesystem; says when it did not get through.
pub fn find(sys: &Sys, arrays: &mut [ArrayFacts]) -> Option<String> {
    let mounts = mounts(&sys.text("/proc/self/mountinfo").unwrap_or_default());
    let begun = Instant::now();
    for pid in sys.names("/proc") {
        let Ok(number) = pid.parse() else { continue };
        if begun.elapsed() > TIME {
            return Some(
                "direct IO: there are too many open files to look at all of them".to_owned(),
            );
        }
        let dir = format!("/proc/{pid}/fdinfo");
        for fd in sys.names(&dir) {
            let Some((direct, mount)) = sys
                .text(&format!("{dir}/{fd}"))
                .as_deref()
                .and_then(describe)
            else {
                continue;
            };
            let Some(dev) = mounts.get(&mount).filter(|_| direct) else {
                continue;
            };
            let of = arrays
                .iter_mut()
                .flat_map(|a| &mut a.filesystems)
                .filter(|f| f.fs.dev == *dev);
            for fs in of.filter(|f| f.direct.len() < KEPT) {
                let link = std::fs::read_link(sys.path(format!("/proc/{pid}/fd/{fd}")));
                fs.direct.push(Opener {
                    comm: sys.text(&format!("/proc/{pid}/comm")).unwrap_or_default(),
                    pid: number,
                    path: link.map_or_else(|_| String::new(), |p| p.to_string_lossy().into_owned()),
                });
            }
        }
    }
    None
}

/// Device numbers by mount id: the first and third field of mountinfo.
fn mounts(mountinfo: &str) -> HashMap<u64, Dev> {
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let id = fields.next()?.parse().ok()?;
        Some((id, Dev::parse(fields.nth(1)?)?))
    };
    mountinfo.lines().filter_map(line).collect()
}

/// Whether it is open for direct writes, and on which mount.
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
    fn how_a_file_was_opened() {
        let of = |flags: i32| format!("pos:\t0\nflags:\t0{flags:o}\nmnt_id:\t30\nino:\t12\n");
        let direct = libc::O_RDWR | libc::O_DIRECT | libc::O_CLOEXEC;
        assert_eq!(describe(&of(direct)), Some((true, 30)));
        assert_eq!(describe(&of(libc::O_DIRECT)), Some((false, 30)));
        assert_eq!(describe(&of(libc::O_WRONLY)), Some((false, 30)));
        assert_eq!(describe("pos: 0\nflags: x\nmnt_id: 3"), None);
        assert_eq!(describe(""), None);
    }
}
