//! Where a recording goes.

use std::io;

use anyhow::Result;

use crate::recording::output::{Opening, Output};
use crate::recording::writer::Writer;

/// Where a recording goes: a file, pieces of one, or memory.
pub trait Storage {
    /// A piece that is due.
    type Piece;

    /// Name for messages.
    fn name(&self) -> String;

    /// Kernel device number of the filesystem that it is on; `None` if it is on none.
    fn device(&self) -> Option<u32>;

    /// Creates the output. `begin` writes the start of the recording; its second argument is true for a file, which can be synced.
    ///
    /// # Errors
    /// The output cannot be created, or `begin` has failed.
    fn begin(
        &mut self,
        begin: impl FnOnce(Box<dyn Output>, bool) -> io::Result<Writer>,
    ) -> Result<Writer>;

    /// The next piece, if it is due, and the function that creates it on the writer's thread.
    fn next_piece(&self) -> Option<(Self::Piece, Opening)>;

    /// Counts the next piece as begun, for the writer has accepted its function.
    fn piece_begun(&mut self, piece: Self::Piece);

    /// Ends a recording whose last piece has been written. Returns its size in bytes if that is not the sum of what was written.
    ///
    /// # Errors
    /// The recording could not be made whole.
    fn finish(&mut self) -> Result<Option<u64>>;
}
