//! Paths of inodes by file handle (open_by_handle_at(2)), as in an NFS server.
//!
//! A lookup blocks as long as the filesystem does, possibly forever. Do not call it from the thread
//! that draws.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, statat};
use rustix::io::Errno;

use super::mounts::{self, MountLine};
use super::privileges::raised;
use super::sys::Sys;
use super::types::Dev;

/// An inode of a filesystem, with its generation.
pub type InodeId = (u64, u32);

/// A file to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileQuery {
    /// Device of the filesystem.
    pub dev: Dev,
    /// Inode of the file.
    pub inode: InodeId,
    /// Last known directory of the file.
    pub parent: Option<InodeId>,
    /// Name of the file in `parent`; empty if unknown.
    pub name: Vec<u8>,
}

/// Result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// Path in this mount namespace.
    At {
        /// Any bytes except NUL.
        path: Vec<u8>,
        /// True if the path was removed while the file is still open.
        deleted: bool,
    },
    /// The file no longer exists.
    Gone,
    /// The filesystem is not mounted here, or no name of the file is known.
    Unknown,
}

/// The mounts of this process's mount namespace.
#[derive(Debug, Default)]
pub struct Mounts(Vec<MountLine>);

impl Mounts {
    /// Reads the current mounts; empty on errors.
    pub fn read(sys: &Sys) -> Self {
        Self(mounts::read(sys).unwrap_or_default())
    }

    /// Mount points of a filesystem.
    fn for_device(&self, dev: Dev) -> Vec<PathBuf> {
        let found = mounts::for_device(&self.0, |line| line.dev == dev);
        found.into_iter().map(|m| m.path).collect()
    }

    /// Looks up a file. `Err` if no mount of its filesystem is usable, e.g. because it was mounted
    /// after these mounts were read.
    pub fn find(&self, wanted: &FileQuery) -> io::Result<LookupResult> {
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for mount in self.for_device(wanted.dev) {
            match raised(|| find(&mount, wanted)) {
                Ok(found) => return Ok(found),
                Err(e) => why = e,
            }
        }
        Err(why)
    }
}

/// Looks up a file through one mount. The mount is open only during the lookup, because an open
/// file makes umount fail. A detached clone (open_tree(2)) would avoid that, but umount(8) would
/// then return before the filesystem is written.
fn find(mount: &Path, wanted: &FileQuery) -> io::Result<LookupResult> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(mount, flags, Mode::empty())?;
    if Dev::from_stat(fstat(&root)?.st_dev) != wanted.dev {
        return Err(io::ErrorKind::NotFound.into()); // another filesystem is mounted over this one
    }
    let file = match by_handle(root.as_fd(), wanted.inode) {
        Ok(file) => file,
        Err(Errno::STALE) => return Ok(LookupResult::Gone),
        Err(Errno::OVERFLOW | Errno::OPNOTSUPP) => return Ok(LookupResult::Unknown),
        Err(e) => return Err(e.into()),
    };
    let meta = fstat(&file)?;
    if meta.st_ino != wanted.inode.0 {
        return Ok(LookupResult::Unknown);
    }
    let path = path_of(file.as_fd())?;
    if is_at(&path, &meta) {
        return Ok(LookupResult::At { path, deleted: false });
    }
    // The kernel appends this to a removed name (fs/d_path.c). A real name can also end with it.
    if let Some(was) = path.strip_suffix(b" (deleted)")
        // A lone / is an inode without a name, see below.
        && was.len() > 1
    {
        return Ok(LookupResult::At { path: was.to_vec(), deleted: true });
    }
    // The inode has no dentry with a name, because it was never looked up by name. Try its last
    // known directory.
    Ok(in_directory(root.as_fd(), wanted, &meta).unwrap_or(LookupResult::Unknown))
}

fn in_directory(root: BorrowedFd<'_>, wanted: &FileQuery, meta: &Stat) -> Option<LookupResult> {
    if wanted.name.is_empty() || wanted.name.contains(&b'/') {
        return None;
    }
    let directory = by_handle(root, wanted.parent?).ok()?;
    let mut path = path_of(directory.as_fd()).ok()?;
    if path != b"/" {
        path.push(b'/');
    }
    path.extend(&wanted.name);
    is_at(&path, meta).then_some(LookupResult::At { path, deleted: false })
}

/// True if `path` names the file of `meta`.
fn is_at(path: &[u8], meta: &Stat) -> bool {
    let Ok(path) = CString::new(path) else {
        return false;
    };
    statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| (found.st_dev, found.st_ino) == (meta.st_dev, meta.st_ino))
}

fn path_of(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(std::fs::read_link(OsStr::from_bytes(link.as_bytes()))?.into_os_string().into_vec())
}

/// struct file_handle with FILEID_INO32_GEN (include/linux/exportfs.h), the type of ext2, ext3 and
/// ext4.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    inode: u32,
    generation: u32,
}

fn by_handle(mount: BorrowedFd<'_>, (inode, generation): InodeId) -> Result<OwnedFd, Errno> {
    let mut handle = Handle {
        bytes: 8,
        kind: 1,
        inode: u32::try_from(inode).map_err(|_| Errno::OVERFLOW)?,
        generation,
    };
    // SAFETY: the handle has the kernel's layout with 8 bytes after the header, which matches
    // `bytes`, and outlives the call; the descriptor is open.
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
    // SAFETY: the call above has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
