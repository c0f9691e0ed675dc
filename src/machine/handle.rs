//! Inode -> path, by file handle: what an NFS server does (open_by_handle_at(2)).
//!
//! May take as long as the filesystem does to answer, which may be for ever: not for a thread that draws.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, statat};
use rustix::io::Errno;

use super::mounts::{self, MountLine};
use super::sys::{Sys, table};
use super::types::Dev;

/// An inode of a filesystem, with its generation.
pub type Inode = (u64, u32);

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its filesystem's device.
    pub dev: Dev,
    /// The file itself.
    pub inode: Inode,
    /// A directory that had it ...
    pub parent: Option<Inode>,
    /// ... and its name there; empty: not known.
    pub name: Vec<u8>,
}

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// As seen from here. Deleted: no longer under this path, but something still has it open.
    At {
        /// Any bytes but NUL.
        path: Vec<u8>,
        /// See above.
        deleted: bool,
    },
    /// The filesystem has no such file any more.
    Gone,
    /// It cannot be told: the filesystem is not mounted here, or the file has no name at hand.
    Unknown,
}

/// The mounts of this process's mount namespace.
#[derive(Debug, Default)]
pub struct Mounts(Vec<MountLine>);

impl Mounts {
    /// As they are now; none when they cannot be read.
    pub fn read(sys: &Sys) -> Self {
        let lines = table(sys.path("/proc/self/mountinfo")).unwrap_or_default();
        Self(mounts::parse(&lines))
    }

    /// Where a filesystem is mounted.
    fn of(&self, dev: Dev) -> Vec<PathBuf> {
        let found = mounts::of_device(&self.0, |line| line.dev == dev);
        found.into_iter().map(|m| m.path).collect()
    }

    /// Finds a file. `Err`: no mount of its filesystem could be used, e.g. because it was mounted since.
    pub fn find(&self, wanted: &Wanted) -> io::Result<Found> {
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for mount in self.of(wanted.dev) {
            match find(&mount, wanted) {
                Ok(found) => return Ok(found),
                Err(e) => why = e,
            }
        }
        Err(why)
    }
}

/// By one mount. It is not held open: that would keep others from unmounting it, as it does for this moment. A detached
/// clone of it (open_tree(2)) would not, and be worse: umount(8) would return before the filesystem is written.
fn find(mount: &Path, wanted: &Wanted) -> io::Result<Found> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(mount, flags, Mode::empty())?;
    if device(&fstat(&root)?) != wanted.dev {
        return Err(io::ErrorKind::NotFound.into()); // something else is mounted over it
    }
    let file = match by_handle(root.as_fd(), wanted.inode) {
        Ok(file) => file,
        Err(Errno::STALE) => return Ok(Found::Gone),
        Err(Errno::OVERFLOW | Errno::OPNOTSUPP) => return Ok(Found::Unknown),
        Err(e) => return Err(e.into()),
    };
    let meta = fstat(&file)?;
    if meta.st_ino != wanted.inode.0 {
        return Ok(Found::Unknown);
    }
    let said = path_of(file.as_fd())?;
    if is(&said, &meta) {
        return Ok(Found::At {
            path: said,
            deleted: false,
        });
    }
    // The kernel marks the path of a name that was removed (fs/d_path.c); so might someone a name.
    if let Some(was) = said.strip_suffix(b" (deleted)")
        && was.len() > 1
    {
        return Ok(Found::At {
            path: was.to_vec(),
            deleted: true,
        });
    }
    // Nobody has looked it up by name since it came into memory. Its directory can be.
    Ok(in_directory(root.as_fd(), wanted, &meta).unwrap_or(Found::Unknown))
}

fn in_directory(root: BorrowedFd<'_>, wanted: &Wanted, meta: &Stat) -> Option<Found> {
    if wanted.name.is_empty() || wanted.name.contains(&b'/') {
        return None;
    }
    let directory = by_handle(root, wanted.parent?).ok()?;
    let mut path = path_of(directory.as_fd()).ok()?;
    if path != b"/" {
        path.push(b'/');
    }
    path.extend(&wanted.name);
    is(&path, meta).then_some(Found::At {
        path,
        deleted: false,
    })
}

/// Whether that file is there.
fn is(path: &[u8], meta: &Stat) -> bool {
    let Ok(path) = CString::new(path) else {
        return false;
    };
    statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| (found.st_dev, found.st_ino) == (meta.st_dev, meta.st_ino))
}

fn path_of(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(std::fs::read_link(OsStr::from_bytes(link.as_bytes()))?
        .into_os_string()
        .into_vec())
}

fn device(meta: &Stat) -> Dev {
    Dev {
        major: rustix::fs::major(meta.st_dev),
        minor: rustix::fs::minor(meta.st_dev),
    }
}

/// struct file_handle with FILEID_INO32_GEN (include/linux/exportfs.h), as ext2, ext3 and ext4 understand it.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    inode: u32,
    generation: u32,
}

fn by_handle(mount: BorrowedFd<'_>, (inode, generation): Inode) -> Result<OwnedFd, Errno> {
    let mut handle = Handle {
        bytes: 8,
        kind: 1,
        inode: u32::try_from(inode).map_err(|_| Errno::OVERFLOW)?,
        generation,
    };
    // SAFETY: the handle is laid out as the kernel's with 8 bytes behind its header, as `bytes` says, and lives
    // until the call is over; the descriptor is open.
    let fd = unsafe {
        libc::open_by_handle_at(
            mount.as_raw_fd(),
            (&raw mut handle).cast::<libc::file_handle>(),
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    if fd < 0 {
        let why = io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(why.unwrap_or(libc::EIO)));
    }
    // SAFETY: the call above has just returned this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
