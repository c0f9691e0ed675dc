//! What is written to.

use std::fs::File;
use std::io::{self, Write};

use crate::recording::writer::Output;

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

    /// A regular file.
    pub fn file(file: File) -> Self {
        Self {
            file,
            is_file: true,
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

impl Output for Sink {
    fn sync(&mut self) -> io::Result<()> {
        if self.is_file {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }
}
