//! Pieces of a recording with --rotate.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::machine::output::{create, sync_folder};
use crate::recording::files;
use crate::recording::output::{Opening, RecordingOutput};

/// Minimum duration of a piece. A piece lasts a tenth of the kept duration, within these limits.
const MIN_PIECE: Duration = Duration::from_secs(1);
/// Maximum duration of a piece.
const MAX_PIECE: Duration = Duration::from_secs(60);

/// The pieces of a recording: FILE.0001.part and so on.
pub struct FilePieces {
    /// Path of the joined file.
    path: PathBuf,
    /// Kept duration.
    keep: Duration,
    each: Duration,
    /// Pieces on the disk, oldest first. The last one is being written.
    all: VecDeque<FilePiece>,
    /// Number of the next piece.
    number: u64,
}

struct FilePiece {
    path: PathBuf,
    since: Instant,
}

/// A piece that is due, and the number of old pieces to remove when it begins.
pub struct NextPiece {
    removed: usize,
}

impl FilePieces {
    /// No pieces yet. Pieces of the recording `path` are kept for `keep`.
    pub fn new(path: &Path, keep: Duration) -> Self {
        Self {
            path: path.to_owned(),
            keep,
            each: (keep / 10).clamp(MIN_PIECE, MAX_PIECE),
            all: VecDeque::new(),
            number: 1,
        }
    }

    pub fn next(&self) -> PathBuf {
        files::part(&self.path, self.number)
    }

    /// Registers the first piece, which has begun.
    pub fn first_begun(&mut self, now: Instant) {
        let path = self.next();
        self.number += 1;
        self.all.push_back(FilePiece { path, since: now });
    }

    /// The next piece if it is due, and a function that creates it and removes expired pieces. The
    /// function can be slow on a slow disk.
    pub fn due(&self, now: Instant) -> Option<(NextPiece, Opening)> {
        let age = |piece: &FilePiece| now.saturating_duration_since(piece.since);
        if self.all.back().is_some_and(|last| age(last) < self.each) {
            return None;
        }
        // A piece ends when the next one begins.
        let old = self.all.iter().skip(1).take_while(|next| age(next) > self.keep).count();
        let expired = self.all.iter().take(old).map(|p| p.path.clone());
        let (next, expired): (_, Vec<_>) = (self.next(), expired.collect());
        let open = move || -> io::Result<Box<dyn RecordingOutput>> {
            let output = create(&next)?;
            sync_folder(&next);
            expired.iter().for_each(|p| drop(fs::remove_file(p)));
            Ok(Box::new(output))
        };
        Some((NextPiece { removed: old }, Box::new(open)))
    }

    /// Registers `piece`, which has begun, and forgets the removed pieces.
    pub fn begun(&mut self, piece: NextPiece, now: Instant) {
        self.all.drain(..piece.removed);
        self.first_begun(now);
    }

    /// Paths of the pieces, oldest first.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.all.iter().map(|p| p.path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::time::{Duration, Instant};

    use super::FilePieces;
    use crate::recording::files;

    #[test]
    fn expired_pieces_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        let parts_on_disk = || {
            let all = files::parts(&path).into_iter();
            all.map(|p| p.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let mut pieces = FilePieces::new(&path, Duration::from_secs(20));
        fs::write(pieces.next(), "").unwrap();
        pieces.first_begun(at(0));
        assert!(pieces.due(at(1)).is_none());
        let mut last = Vec::new();
        for second in (2..30).step_by(2) {
            let (piece, open) = pieces.due(at(second)).unwrap();
            // If the writer has no room, the piece is dropped: it remains due, and nothing changes.
            drop((piece, open));
            assert_eq!(
                parts_on_disk(),
                last.clone()
                    .into_iter()
                    .chain(last.is_empty().then(|| "a.0001.part".to_owned()))
                    .collect::<Vec<_>>()
            );
            let (piece, open) = pieces.due(at(second)).unwrap();
            open().unwrap().write_all(b"x").unwrap();
            pieces.begun(piece, at(second));
            last = parts_on_disk();
            assert_eq!(pieces.paths(), files::parts(&path));
        }
        // The last 20 seconds are kept, including the piece in which they begin.
        assert_eq!(last.first().unwrap(), "a.0004.part");
        assert_eq!(last.last().unwrap(), "a.0015.part");
    }
}
