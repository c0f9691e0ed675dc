//! The file of an export.

use std::fs;
use std::io::BufWriter;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::machine::output::{Destination, Output};

/// Bytes that are buffered.
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
