//! Destination of a recording.

use std::io;

use anyhow::Result;

use crate::recording::output::{Opening, RecordingOutput};
use crate::recording::writer::Writer;

/// Destination of a recording: a file, pieces of a file, or memory.
pub trait Storage {
    /// A piece that is due.
    type Piece;

    /// Name for messages.
    fn name(&self) -> String;

    /// Kernel device number of the filesystem that holds the recording; `None` if there is no such
    /// filesystem.
    fn device(&self) -> Option<u32>;

    /// Creates the output. `begin` writes the start of the recording; its second argument is true
    /// for a file, which can be synced.
    ///
    /// # Errors
    /// The output cannot be created, or `begin` has failed.
    fn begin(
        &mut self,
        begin: impl FnOnce(Box<dyn RecordingOutput>, bool) -> io::Result<Writer>,
    ) -> Result<Writer>;

    /// The next piece, if it is due, and the function that creates it on the writer's thread.
    fn next_piece(&self) -> Option<(Self::Piece, Opening)>;

    /// Marks the next piece as started. Call this after the writer has accepted the function that
    /// creates it.
    fn piece_begun(&mut self, piece: Self::Piece);

    /// Removes all pieces but the one that has begun last. False, with no effect, if that cannot be
    /// done.
    fn forget(&mut self) -> bool {
        false
    }

    /// Ends a recording whose last piece has been written. Returns its size in bytes if that
    /// differs from the bytes written.
    ///
    /// # Errors
    /// The recording could not be completed.
    fn finish(&mut self) -> Result<Option<u64>>;
}
