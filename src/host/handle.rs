//! Inode -> path, by file handle: what an NFS server does (open_by_handle_at(2)).
//!
//! May take as long as the filesystem does to answer, which may be for ever: not for a thread that draws.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, openat, statat};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};

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
pub struct Mounts {
    lines: Vec<MountLine>,
    used: Option<(PathBuf, Root)>,
}

impl Mounts {
    /// As they are now; none when they cannot be read.
    pub fn read(sys: &Sys) -> Self {
        let lines = table(sys.path("/proc/self/mountinfo")).unwrap_or_default();
        Self {
            lines: mounts::parse(&lines),
            used: None,
        }
    }

    /// Where a filesystem is mounted.
    fn of(&self, dev: Dev) -> Vec<PathBuf> {
        let found = mounts::of_device(&self.lines, |line| line.dev == dev);
        found.into_iter().map(|m| m.path).collect()
    }

    /// Finds a file. `Err`: no mount of its filesystem could be used, e.g. because it was mounted since.
    ///
    /// Keeps the filesystem in use until [`Self::rest`] or the next filesystem's file.
    pub fn find(&mut self, wanted: &Wanted) -> io::Result<Found> {
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for mount in self.of(wanted.dev) {
            match self.root(&mount).and_then(|root| find(root, wanted)) {
                Ok(found) => return Ok(found),
                Err(e) => why = e,
            }
        }
        Err(why)
    }

    /// Lets go of the filesystem: who unmounts it wants to stop its array next.
    pub fn rest(&mut self) {
        self.used = None;
    }

    fn root(&mut self, mount: &Path) -> io::Result<&Root> {
        let used = match self.used.take() {
            Some(used) if used.0 == mount && used.1.since.elapsed() < HELD => used,
            _ => (mount.to_owned(), Root::open(mount)?),
        };
        Ok(&self.used.insert(used).1)
    }
}

/// How long a filesystem is kept in use by one who finds many files: a clone costs the kernel a grace period.
const HELD: Duration = Duration::from_millis(20);

/// The directory that a filesystem's files are found by.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    /// Where the mount is that this is a clone of: the kernel's names of files in a clone begin at its root.
    mount: Option<PathBuf>,
    since: Instant,
}

impl Root {
    /// By a mount of our own, a detached clone: an open file of theirs would have their umount(8) fail as busy
    /// (fs/pnode.c, `propagate_mount_busy`). Theirs only where it can't be cloned: `MS_UNBINDABLE`, or no `CAP_SYS_ADMIN`.
    pub fn open(mount: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        // open_by_handle_at(2) takes no descriptor of O_PATH, which open_tree(2) gives.
        let cloned =
            open_tree(CWD, mount, clone).and_then(|tree| openat(tree, c".", flags, Mode::empty()));
        let (dir, mount) = match cloned {
            Ok(dir) => (dir, Some(mount.to_owned())),
            Err(_) => (open(mount, flags, Mode::empty())?, None),
        };
        Ok(Self {
            dir,
            mount,
            since: Instant::now(),
        })
    }

    /// The kernel's name of an open file; as others see it after [`Self::outside`].
    fn name(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(std::fs::read_link(OsStr::from_bytes(link.as_bytes()))?
            .into_os_string()
            .into_vec())
    }

    /// Whether that file has that name.
    fn is(&self, name: &[u8], meta: &Stat) -> bool {
        let found = if self.mount.is_some() {
            let inside = name.strip_prefix(b"/").unwrap_or(name);
            let inside = if inside.is_empty() { b"." } else { inside };
            statat(&self.dir, inside, AtFlags::SYMLINK_NOFOLLOW)
        } else {
            statat(CWD, name, AtFlags::SYMLINK_NOFOLLOW)
        };
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == (meta.st_dev, meta.st_ino))
    }

    fn outside(&self, name: Vec<u8>) -> Vec<u8> {
        match self.mount.as_deref().map(|m| m.as_os_str().as_bytes()) {
            None | Some(b"/") => name,
            Some(mount) if name == b"/" => mount.to_vec(),
            Some(mount) => [mount, &name].concat(),
        }
    }
}

fn find(root: &Root, wanted: &Wanted) -> io::Result<Found> {
    if device(&fstat(&root.dir)?) != wanted.dev {
        return Err(io::ErrorKind::NotFound.into()); // something else is mounted over it
    }
    let file = match by_handle(root.dir.as_fd(), wanted.inode) {
        Ok(file) => file,
        Err(Errno::STALE) => return Ok(Found::Gone),
        Err(Errno::OVERFLOW | Errno::OPNOTSUPP) => return Ok(Found::Unknown),
        Err(e) => return Err(e.into()),
    };
    let meta = fstat(&file)?;
    if meta.st_ino != wanted.inode.0 {
        return Ok(Found::Unknown);
    }
    let at = |name, deleted| Found::At {
        path: root.outside(name),
        deleted,
    };
    let name = Root::name(file.as_fd())?;
    if root.is(&name, &meta) {
        return Ok(at(name, false));
    }
    // The kernel marks the path of a name that was removed (fs/d_path.c); so might someone a name.
    if let Some(was) = name.strip_suffix(b" (deleted)")
        && was.len() > 1
    {
        return Ok(at(was.to_vec(), true));
    }
    // Nobody has looked it up by name since it came into memory. Its directory can be.
    let named = in_directory(root, wanted, &meta).map(|name| at(name, false));
    Ok(named.unwrap_or(Found::Unknown))
}

fn in_directory(root: &Root, wanted: &Wanted, meta: &Stat) -> Option<Vec<u8>> {
    if wanted.name.is_empty() || wanted.name.contains(&b'/') {
        return None;
    }
    let directory = by_handle(root.dir.as_fd(), wanted.parent?).ok()?;
    let mut name = Root::name(directory.as_fd()).ok()?;
    if name != b"/" {
        name.push(b'/');
    }
    name.extend(&wanted.name);
    root.is(&name, meta).then_some(name)
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
