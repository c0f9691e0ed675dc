//! Mounts from /proc/self/mountinfo (Documentation/filesystems/proc.rst, 3.5).

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::sys::{Sys, table};
use super::types::{Dev, Mount};

/// A line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountLine {
    /// Mount id, as in /proc/PID/fdinfo.
    pub id: u64,
    /// Device number of the filesystem; major 0 if anonymous (btrfs, tmpfs, nfs).
    pub dev: Dev,
    /// The mounted directory of the filesystem; `/` except for bind mounts and subvolumes.
    pub root: PathBuf,
    pub mount: Mount,
    /// Mount source: `/dev/md127`, `tmpfs`, `server:/export`.
    pub source: OsString,
}

/// Mounts of this process's mount namespace, later ones last.
pub(super) fn read(sys: &Sys) -> io::Result<Vec<MountLine>> {
    Ok(parse(&table(sys.path("/proc/self/mountinfo"))?))
}

/// Device numbers of the mounted filesystems by mount id; empty on errors.
pub fn devices_by_id(sys: &Sys) -> HashMap<u64, Dev> {
    read(sys).unwrap_or_default().into_iter().map(|line| (line.id, line.dev)).collect()
}

/// Device of the filesystem on which a task's absolute path is, in the task's mount namespace.
/// Symbolic links are not followed.
pub(super) fn device_of(sys: &Sys, pid: u32, path: &Path) -> Option<Dev> {
    let mounts = parse(&table(sys.path(format!("/proc/{pid}/mountinfo"))).ok()?);
    containing(&mounts, path).map(|line| line.dev)
}

/// Parses mountinfo. Skips invalid lines.
fn parse(mountinfo: &[u8]) -> Vec<MountLine> {
    mountinfo.split(|b| *b == b'\n').filter_map(parse_line).collect()
}

/// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`. Six
/// fields and any number of optional ones precede the dash.
fn parse_line(line: &[u8]) -> Option<MountLine> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').filter(|f| !f.is_empty()).collect();
    let dash = 6 + fields.get(6..)?.iter().position(|f| *f == b"-")?;
    let (fstype, source) = (fields.get(dash + 1)?, fields.get(dash + 2)?);
    let mut options = lossy(fields[5]);
    for option in lossy(fields.get(dash + 3).copied().unwrap_or_default()).split(',') {
        if !option.is_empty() && !options.split(',').any(|o| o == option) {
            options.push(',');
            options.push_str(option);
        }
    }
    Some(MountLine {
        id: lossy(fields[0]).parse().ok()?,
        dev: Dev::parse(std::str::from_utf8(fields[2]).ok()?)?,
        root: OsString::from_vec(unescape(fields[3])).into(),
        mount: Mount {
            path: OsString::from_vec(unescape(fields[4])).into(),
            fstype: lossy(fstype),
            options,
        },
        source: OsString::from_vec(unescape(source)),
    })
}

fn lossy(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// The kernel writes space, tab, newline, backslash and `#` as `\ooo` (fs/proc_namespace.c,
/// mangle).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| {
            first == b'\\' && d[0] <= b'3' && d.iter().all(|c| (b'0'..=b'7').contains(c))
        });
        match octal {
            Some(d) => {
                out.push((d[0] - b'0') << 6 | (d[1] - b'0') << 3 | (d[2] - b'0'));
                rest = &tail[3..];
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

/// The visible mount at `path`: the last one hides earlier ones.
pub(super) fn at<'a>(mounts: &'a [MountLine], path: &Path) -> Option<&'a MountLine> {
    mounts.iter().rev().find(|m| m.mount.path == path)
}

/// The mount that contains the file `path`: the longest mount point that is a prefix of it.
pub(super) fn containing<'a>(mounts: &'a [MountLine], path: &Path) -> Option<&'a MountLine> {
    path.ancestors().find_map(|dir| at(mounts, dir))
}

/// Mounts of a device. Includes bind mounts of a subdirectory (hundreds on a container host) only
/// if there are no other mounts.
pub(super) fn for_device(mounts: &[MountLine], device: impl Fn(&MountLine) -> bool) -> Vec<Mount> {
    let mine: Vec<&MountLine> = mounts.iter().filter(|m| device(m)).collect();
    let whole = |m: &&&MountLine| m.root.as_os_str().as_bytes() == b"/";
    let any_whole = mine.iter().any(|m| whole(&m));
    let mut found: Vec<Mount> = Vec::new();
    for m in mine.iter().filter(|m| !any_whole || whole(m)) {
        if found.iter().all(|f| f.path != m.mount.path) {
            found.push(m.mount.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_and_optional_fields() {
        let lines = parse(
            b"36 35 9:127 / /srv/two\\040words rw,noatime master:1 shared:2 - ext4 /dev/md127 \
              rw,stripe=6144\n",
        );
        assert_eq!((lines.len(), lines[0].id), (1, 36));
        assert_eq!(lines[0].dev, Dev { major: 9, minor: 127 });
        assert_eq!(lines[0].mount.path, Path::new("/srv/two words"));
        assert_eq!(lines[0].mount.options, "rw,noatime,stripe=6144");
        assert_eq!(lines[0].source, "/dev/md127");
    }

    #[test]
    fn garbage_is_skipped() {
        let text = b"\n36\n36 35 9:127 / /srv rw\n36 35 9:x / /srv rw - ext4 a b\n\xff\xfe \\4 \
                     \\999 - - - - - -\n";
        assert_eq!(parse(text), Vec::new());
        assert_eq!(unescape(b"\\400\\12\\"), b"\\400\\12\\");
        assert_eq!(unescape(b"\\377"), b"\xff");
    }

    #[test]
    fn last_mount_hides_earlier_ones_and_longest_prefix_wins() {
        let lines = parse(
            b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /srv rw - ext4 b rw\n3 2 0:9 / /srv rw - \
              tmpfs c rw\n",
        );
        assert_eq!(at(&lines, Path::new("/srv")).map(|m| m.dev.minor), Some(9));
        assert_eq!(containing(&lines, Path::new("/srv/x/y")).map(|m| m.dev.minor), Some(9));
        assert_eq!(containing(&lines, Path::new("/srvx")).map(|m| m.dev.minor), Some(1));
    }
}
