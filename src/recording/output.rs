//! Destination of a recording.

use std::fs::File;
use std::io::{self, Write};

/// The destination of a recording.
pub trait RecordingOutput: Write + Send {
    /// Syncs written bytes to the disk.
    fn sync(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl RecordingOutput for File {
    fn sync(&mut self) -> io::Result<()> {
        match self.sync_data() {
            // A pipe or a device.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }
}

impl RecordingOutput for Box<dyn RecordingOutput> {
    fn sync(&mut self) -> io::Result<()> {
        (**self).sync()
    }
}

/// Creates an output. Runs in the writer's thread.
pub type Opening = Box<dyn FnOnce() -> io::Result<Box<dyn RecordingOutput>> + Send>;
