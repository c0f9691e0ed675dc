//! What is written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::trace::writer::Output;

/// An open file, or what is not one.
pub struct Sink {
    file: File,
    is_file: bool,
}

impl Sink {
    /// A pipe or the like.
    pub fn special(file: File) -> Self {
        Self {
            file,
            is_file: false,
        }
    }

    /// No pipe or the like.
    pub fn is_file(&self) -> bool {
        self.is_file
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl From<Sink> for File {
    fn from(sink: Sink) -> Self {
        sink.file
    }
}

impl Output for Sink {
    fn sync(&mut self) -> io::Result<()> {
        if self.is_file {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }
}

/// A file that was not there.
pub fn made(path: &Path) -> io::Result<Sink> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    Ok(Sink {
        file,
        is_file: true,
    })
}

/// A new name in the directory of `path` survives a power cut only then.
pub fn sync_folder(path: &Path) {
    if let Ok(dir) = File::open(folder(path)) {
        let _ = dir.sync_all();
    }
}

/// The directory that `path` is in.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}
