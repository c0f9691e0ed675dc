//! Files that raidtrace creates: recordings, exports and pictures.
//!
//! A file is written as FILE.new, which is created with O_EXCL, and then renamed to FILE. An
//! existing FILE stays until its replacement is complete. Neither name is ever opened through a
//! symbolic link, so that a link planted in a shared directory cannot make a root process overwrite
//! another file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use rustix::io::Errno;

/// An output path after all checks that need no write.
pub enum Destination {
    /// `-`, or a path that names the standard output of this process.
    Stdout,
    /// An open FIFO, pipe, terminal or character device. Opening a FIFO waits for its reader.
    Special(File),
    /// A regular file to create or replace.
    File(OutputTarget),
}

/// The path of a regular file to create or replace.
#[derive(Clone)]
pub struct OutputTarget {
    path: PathBuf,
    force: bool,
}

/// An open output. A regular file has a rename pending.
pub struct Output {
    /// The open file.
    pub file: File,
    /// The rename from FILE.new to FILE.
    pub pending: Option<Pending>,
}

/// FILE.new, which becomes FILE on [`Pending::commit`] and is removed when dropped before that.
pub struct Pending {
    target: OutputTarget,
    done: bool,
}

impl Destination {
    /// Checks `path`. An existing regular file or symbolic link is an error without `force`.
    pub fn new(path: &Path, force: bool) -> Result<Self> {
        let name = path.display();
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let descriptor = names_descriptor(path);
        let found = if descriptor { fs::metadata(path) } else { fs::symlink_metadata(path) };
        let found = match found {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return OutputTarget::new(path, force).map(Self::File);
            }
            Err(e) => return Err(e).with_context(|| format!("{name} cannot be written")),
        };
        let kind = found.file_type();
        if kind.is_dir() {
            bail!("{name} is a directory: name a file in it");
        }
        let leads_to_disk =
            || fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
        if kind.is_block_device() || leads_to_disk() {
            bail!("{name} is a block device: name a file");
        }
        if !kind.is_char_device() && is_stdout(&found) {
            return Ok(Self::Stdout);
        }
        if descriptor || kind.is_fifo() || kind.is_char_device() {
            return special(path, descriptor).map(Self::Special);
        }
        if kind.is_symlink() && !force {
            bail!(
                "{name} already exists, as a symbolic link: name another file, or pass --force to \
                 replace the link"
            );
        }
        if !kind.is_file() && !kind.is_symlink() {
            bail!("{name} is not a regular file: name another file");
        }
        if !force {
            bail!("{name} already exists: name another file, or pass --force to replace it");
        }
        OutputTarget::new(path, force).map(Self::File)
    }

    /// A destination other than the standard output, on which the command prints its report.
    pub fn beside_stdout(path: &Path, force: bool) -> Result<Self> {
        match Self::new(path, force)? {
            Self::Stdout => bail!(
                "{} is the standard output, which the report is printed on: name a file",
                path.display()
            ),
            other => Ok(other),
        }
    }

    /// Opens the output. A regular file is created as FILE.new.
    pub fn open(self) -> io::Result<Output> {
        let (file, pending) = match self {
            Self::Stdout => (rustix::io::dup(io::stdout())?.into(), None),
            Self::Special(file) => (file, None),
            Self::File(target) => {
                let (file, pending) = target.create()?;
                (file, Some(pending))
            }
        };
        Ok(Output { file, pending })
    }
}

impl Output {
    /// Renames a complete regular file to its final name.
    pub fn commit(&mut self) -> io::Result<()> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(());
        };
        // Without this, a power cut after the rename can leave neither the old nor the new content.
        self.file.sync_all()?;
        pending.commit()
    }

    /// Writes a complete output in one go.
    pub fn write(
        mut self,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = io::BufWriter::new(&self.file);
        content(&mut out)?;
        out.flush()?;
        drop(out);
        self.commit()
    }
}

impl OutputTarget {
    fn new(path: &Path, force: bool) -> Result<Self> {
        let name = path.display();
        if path.file_name().is_none() {
            bail!("{name} is not a file name");
        }
        let target = Self { path: path.to_owned(), force };
        let folder = folder(path);
        access(folder, Access::WRITE_OK | Access::EXEC_OK)
            .with_context(|| format!("{name} cannot be created in {}", folder.display()))?;
        let temporary = target.temporary();
        if temporary.symlink_metadata().is_ok() {
            bail!(
                "{} already exists, and {name} is written under that name first: remove it if no \
                 other raidtrace is writing it, or name another file",
                temporary.display()
            );
        }
        Ok(target)
    }

    /// FILE.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// FILE.new.
    pub fn temporary(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        name.into()
    }

    /// A target with another path and the same `force`.
    pub fn with_path(&self, path: PathBuf) -> Self {
        Self { path, ..*self }
    }

    /// Creates FILE.new.
    pub fn create(&self) -> io::Result<(File, Pending)> {
        let file = create(&self.temporary())?;
        Ok((file, self.pending()))
    }

    fn pending(&self) -> Pending {
        Pending { target: self.clone(), done: false }
    }
}

impl Pending {
    /// Renames FILE.new to FILE. Without `force` a FILE that was created in the meantime is an
    /// error.
    pub fn commit(&mut self) -> io::Result<()> {
        let (from, to) = (self.target.temporary(), &self.target.path);
        if self.target.force {
            fs::rename(&from, to)?;
        } else {
            match renameat_with(CWD, &from, CWD, to, RenameFlags::NOREPLACE) {
                // Not every filesystem has RENAME_NOREPLACE. Reserve the name with an empty file
                // until the rename.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    create(to)?;
                    fs::rename(&from, to)?;
                }
                renamed => renamed?,
            }
        }
        self.done = true;
        sync_folder(to);
        Ok(())
    }

    /// Leaves FILE.new in place.
    pub fn keep(&mut self) {
        self.done = true;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(self.target.temporary());
        }
    }
}

/// Creates a file that must not exist. If root creates it, only root can read it (as with
/// perf.data): a recording holds paths, task names and the command line of a command.
pub fn create(path: &Path) -> io::Result<File> {
    let mode = if rustix::process::geteuid().is_root() { 0o600 } else { 0o666 };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

/// Makes a new or removed name in the directory of `path` survive a power cut.
pub fn sync_folder(path: &Path) {
    if let Ok(dir) = File::open(folder(path)) {
        let _ = dir.sync_all();
    }
}

/// The directory of `path`.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

/// True for `/dev/stdout`, `/dev/fd/63`, `/proc/self/fd/1` and the like: symbolic links that only
/// the kernel and root can create, and that name a descriptor which the caller has opened. Also
/// true for all other names in /dev.
fn names_descriptor(path: &Path) -> bool {
    let Ok(folder) = folder(path).canonicalize() else {
        return false;
    };
    folder == Path::new("/dev") || folder.starts_with("/proc") && folder.ends_with("fd")
}

/// True if `found` is the standard output of this process.
fn is_stdout(found: &Metadata) -> bool {
    fs::metadata("/proc/self/fd/1")
        .is_ok_and(|out| (out.dev(), out.ino()) == (found.dev(), found.ino()))
}

/// Opens an existing special file for writing, without truncation. Checks its type again after
/// opening, because the path may have been replaced.
fn special(path: &Path, descriptor: bool) -> Result<File> {
    let failed = || format!("{} cannot be written", path.display());
    let flag = if descriptor { libc::O_APPEND } else { libc::O_NOFOLLOW };
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(flag | libc::O_NOCTTY);
    let file = options.open(path).with_context(failed)?;
    let kind = file.metadata().with_context(failed)?.file_type();
    if !descriptor && !kind.is_fifo() && !kind.is_char_device() {
        bail!("{} was replaced while it was being opened", path.display());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Write as _};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::{Destination, Output, create};

    fn refused(path: &Path, force: bool) -> String {
        match Destination::new(path, force) {
            Ok(_) => String::new(),
            Err(e) => format!("{e:#}"),
        }
    }

    fn open(path: &Path, force: bool) -> Output {
        let mut output = Destination::new(path, force).unwrap().open().unwrap();
        output.file.write_all(b"new").unwrap();
        output
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_existing_file_stays_until_its_replacement_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        assert!(refused(&path, false).contains("--force"));
        drop(open(&path, true));
        assert_eq!(names(folder.path()), ["a"]);
        let mut new = open(&path, true);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(refused(&path, true).contains("a.new already exists"));
        new.commit().unwrap();
        drop(new);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_link_is_replaced_and_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        for to in ["target", "missing"] {
            fs::write(&target, "old").unwrap();
            let _ = fs::remove_file(&link);
            symlink(to, &link).unwrap();
            assert!(refused(&link, false).contains("symbolic link"));
            open(&link, true).commit().unwrap();
            assert!(!link.is_symlink());
            assert_eq!(fs::read(&link).unwrap(), b"new");
            assert_eq!(fs::read(&target).unwrap(), b"old");
        }
        // The same for a link at the name of the temporary file, and for one that is planted after
        // the check.
        let path = folder.path().join("a");
        symlink("target", folder.path().join("a.new")).unwrap();
        assert!(refused(&path, false).contains("a.new"));
        fs::remove_file(folder.path().join("a.new")).unwrap();
        let checked = Destination::new(&path, true).unwrap();
        symlink("target", folder.path().join("a.new")).unwrap();
        let error = checked.open().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }

    #[test]
    fn a_file_created_in_the_meantime_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut new = open(&path, false);
        fs::write(&path, "another").unwrap();
        assert_eq!(new.commit().unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(new);
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn only_root_reads_what_root_creates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = create(&path).unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        if rustix::process::geteuid().is_root() {
            assert_eq!(mode, 0o600);
        } else {
            assert_eq!(mode & !0o666, 0);
        }
        assert!(create(&path).is_err());
    }

    #[test]
    fn destinations_other_than_regular_files() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refused(folder.path(), true).contains("directory"));
        assert!(refused(&folder.path().join("no/such"), true).contains("No such file"));
        assert!(refused(Path::new(".."), true).contains(".."));
        assert_eq!(refused(Path::new("/dev/null"), false), "");
        assert!(matches!(Destination::new(Path::new("-"), false), Ok(Destination::Stdout)));
        assert!(Destination::beside_stdout(Path::new("-"), false).is_err());
    }
}
