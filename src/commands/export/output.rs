//! The files of an export.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::machine::output::{Destination, Output, Pending};

/// Bytes that are buffered for each file.
const BUFFER: usize = 1 << 18;

/// Opens the output `path`. `sources`: files of the recording.
///
/// # Errors
/// It cannot be created, exists without `force`, or is the recording itself.
pub fn open(sources: &[PathBuf], path: &Path, force: bool) -> Result<Output> {
    let name = || path.display().to_string();
    let id = |found: fs::Metadata| (found.dev(), found.ino());
    let old = path.symlink_metadata().ok().map(id);
    let mut sources = sources.iter();
    if old.is_some() && sources.any(|source| source.metadata().ok().map(id) == old) {
        bail!("{}: is the recording to export", name());
    }
    let destination = Destination::new(path, force)?;
    destination.open().with_context(name)
}

pub fn buffered(file: fs::File) -> BufWriter<fs::File> {
    BufWriter::with_capacity(BUFFER, file)
}

/// Several files in a directory, which get their names when all are complete.
pub struct Folder {
    path: PathBuf,
    /// True if this process has created the directory.
    created: bool,
    files: Vec<(fs::File, Pending, PathBuf)>,
}

impl Folder {
    /// Creates the directory if there is none.
    pub fn new(path: &Path) -> Result<Self> {
        let created = match fs::create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => false,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => bail!(
                "{} is not a directory: -f blktrace writes a file for each member into a directory",
                path.display()
            ),
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        };
        Ok(Self { path: path.to_owned(), created, files: Vec::new() })
    }

    /// Creates a file in the directory. `sources`: files of the recording.
    pub fn create(
        &mut self,
        sources: &[PathBuf],
        name: &str,
        force: bool,
    ) -> Result<Box<dyn Write>> {
        let path = self.path.join(name);
        // Opening a pipe would wait for its reader.
        let found = path.symlink_metadata();
        if found.is_ok_and(|m| !m.is_file() && !m.is_symlink()) {
            bail!("{} is not a regular file: name another directory", path.display());
        }
        let output = open(sources, &path, force)?;
        let copy = output.file.try_clone()?;
        let Some(pending) = output.pending else {
            bail!("{} is not a regular file: name another directory", path.display());
        };
        self.files.push((copy, pending, path));
        Ok(Box::new(buffered(output.file)))
    }

    /// Gives all files their names.
    pub fn commit(&mut self) -> Result<()> {
        for (file, pending, path) in &mut self.files {
            let name = || path.display().to_string();
            file.sync_all().with_context(name)?;
            pending.commit().with_context(name)?;
        }
        self.created = false;
        self.files.clear();
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.files.clear();
        if self.created {
            // Fails if another process has created a file in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}
