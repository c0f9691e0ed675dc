//! Mount points that are covered by a later mount on the same path or on a parent directory.
//! mountinfo still lists them, but their path leads to another filesystem, which is what statfs(2)
//! and umount(8) would use.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};

use crate::machine::{Dev, Filesystem};

/// Opens `path`, and returns the device of its filesystem. Neither `O_PATH` nor
/// `AT_STATX_DONT_SYNC` waits for the server of a network filesystem that may cover it.
fn open_any(path: &Path) -> Option<(OwnedFd, Dev)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(&fd, c"", flags, StatxFlags::TYPE).ok()?;
    let dev = Dev { major: stat.stx_dev_major, minor: stat.stx_dev_minor };
    Some((fd, dev))
}

/// Opens `path` if it is on the filesystem of `dev`.
pub fn open(path: &Path, dev: Dev) -> Option<OwnedFd> {
    open_any(path).and_then(|(fd, found)| (found == dev).then_some(fd))
}

/// Removes covered mounts, so that no fact and no command is about the covering filesystem. Returns
/// a note for each. Only for ext2/3/4, where `st_dev` is the block device.
pub fn drop_covered(fs: &mut Filesystem) -> Vec<String> {
    let (dev, name) = (fs.dev, fs.name.clone());
    let elsewhere = |path: &Path| open_any(path).is_some_and(|(_, found)| found != dev);
    let (covered, kept): (Vec<_>, Vec<_>) =
        fs.mounts.drain(..).partition(|m| m.fstype.starts_with("ext") && elsewhere(&m.path));
    fs.mounts = kept;
    covered
        .iter()
        .map(|m| {
            format!(
                "{name} is mounted on {}, but that path leads to another filesystem, as a later \
                 mount covers it. Commands have MOUNTPOINT instead",
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
        Dev { major: libc::major(dev), minor: libc::minor(dev) }
    }

    #[test]
    fn open_checks_the_device() {
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
        assert!(notes[0].starts_with("md1 is mounted on /proc, but"), "{notes:?}");
        let left: Vec<_> = fs.mounts.iter().map(|m| m.path.to_str().unwrap()).collect();
        // A path that cannot be opened is kept.
        assert_eq!(left, ["/", "/proc", "/none"]);
    }
}
