//! Which mount points still lead to their filesystem. A later mount at the same place or on a parent directory covers one:
//! mountinfo lists it as before, but whoever follows the path, as statfs(2) and umount(8) do, reaches another filesystem.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};

use crate::machine::{Dev, Filesystem};

/// What `path` leads to and the device of its filesystem. Neither the open (`O_PATH`) nor the statx
/// (`AT_STATX_DONT_SYNC`) waits for a server, should a network filesystem cover it.
fn lead(path: &Path) -> Option<(OwnedFd, Dev)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let of = rustix::fs::statx(&fd, c"", how, StatxFlags::TYPE).ok()?;
    let dev = Dev {
        major: of.stx_dev_major,
        minor: of.stx_dev_minor,
    };
    Some((fd, dev))
}

/// The root of the filesystem on `dev`, if `path` leads to it.
pub fn open(path: &Path, dev: Dev) -> Option<OwnedFd> {
    lead(path).and_then(|(fd, found)| (found == dev).then_some(fd))
}

/// Takes the mounts out that lead to another filesystem, so that nothing is asked of that one in its place and no command
/// names it; says which. Only where `st_dev` is the block device: btrfs has numbers of its own.
pub fn drop_covered(fs: &mut Filesystem) -> Vec<String> {
    let (dev, name) = (fs.dev, fs.name.clone());
    let elsewhere = |path: &Path| lead(path).is_some_and(|(_, found)| found != dev);
    let (covered, kept): (Vec<_>, Vec<_>) = fs
        .mounts
        .drain(..)
        .partition(|m| m.fstype.starts_with("ext") && elsewhere(&m.path));
    fs.mounts = kept;
    covered
        .iter()
        .map(|m| {
            format!(
                "{name} is mounted on {}, but that path leads to another filesystem: a later mount there or above covers it. \
                 Commands have MOUNTPOINT in its place",
                m.path.display()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use super::{drop_covered, open};
    use crate::machine::{Dev, Filesystem, Mount};

    fn dev_of(path: &str) -> Dev {
        let dev = std::fs::metadata(path).unwrap().dev();
        Dev {
            major: libc::major(dev),
            minor: libc::minor(dev),
        }
    }

    #[test]
    fn only_the_filesystem_that_was_meant() {
        assert!(open(Path::new("/"), dev_of("/")).is_some());
        assert!(open(Path::new("/proc"), dev_of("/")).is_none());
        assert!(open(Path::new("/no such directory"), dev_of("/")).is_none());
    }

    #[test]
    fn a_covered_mount_is_dropped_and_reported() {
        let mount = |path: &str, fstype: &str| Mount {
            path: path.into(),
            fstype: fstype.to_owned(),
            ..Mount::default()
        };
        let mut fs = Filesystem {
            name: "md1".to_owned(),
            dev: dev_of("/"),
            mounts: vec![
                mount("/proc", "ext4"),
                mount("/", "ext4"),
                mount("/proc", "btrfs"),
                mount("/none", "ext4"),
            ],
            ..Filesystem::default()
        };
        let notes = drop_covered(&mut fs);
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].starts_with("md1 is mounted on /proc, but"),
            "{notes:?}"
        );
        let left: Vec<_> = fs.mounts.iter().map(|m| m.path.to_str().unwrap()).collect();
        // What cannot be opened is not known to lead elsewhere.
        assert_eq!(left, ["/", "/proc", "/none"]);
    }
}
