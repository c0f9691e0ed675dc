//! The flight recorder: the last minutes of a recording, in memory.

use std::collections::VecDeque;
use std::io::{self, Cursor, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::recording::join::join;
use crate::recording::output::{Opening, RecordingOutput};
use crate::recording::writer::Writer;
use crate::session::recorder::storage::Storage;

/// Number of pieces that the kept time, and the kept bytes, are divided into.
const PIECES: u32 = 10;
const CHUNK: usize = 256 << 10;

/// Pieces in memory, oldest first. The last one is being written.
pub struct Memory {
    keep: Duration,
    most_bytes: u64,
    pieces: VecDeque<Arc<FlightPiece>>,
}

pub struct FlightPiece {
    since: Instant,
    bytes: Mutex<Bytes>,
}

/// Bytes in chunks. Unlike a growing vector, chunks do not double the allocated memory, and copies
/// share full chunks.
#[derive(Clone, Default)]
struct Bytes {
    full: Vec<Arc<Vec<u8>>>,
    last: Vec<u8>,
}

impl Bytes {
    fn len(&self) -> u64 {
        let full: usize = self.full.iter().map(|c| c.len()).sum();
        (full + self.last.len()) as u64
    }

    fn all(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for chunk in &self.full {
            all.extend_from_slice(chunk);
        }
        all.extend_from_slice(&self.last);
        all
    }
}

impl FlightPiece {
    fn new(since: Instant) -> Arc<Self> {
        Arc::new(Self { since, bytes: Mutex::default() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Appending(Arc<FlightPiece>);

impl Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut piece = self.0.lock();
        if piece.last.is_empty() {
            piece.last.reserve_exact(CHUNK);
        }
        let taken = bytes.len().min(CHUNK.saturating_sub(piece.last.len()));
        piece.last.extend_from_slice(bytes.get(..taken).unwrap_or(&[]));
        if piece.last.len() >= CHUNK {
            let full = mem::take(&mut piece.last);
            piece.full.push(Arc::new(full));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RecordingOutput for Appending {}

/// Copy of the recording in memory.
pub struct RecordingCopy(Vec<Bytes>);

impl RecordingCopy {
    /// Writes the copy as one recording. Returns its size in bytes.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<u64> {
        let pieces = self.0.iter().map(|p| Ok(Cursor::new(p.all())));
        join(pieces, out)
    }

    /// Approximate size of the written recording in bytes. Counts the schema of each piece, of
    /// which only the first is written.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(Bytes::len).sum()
    }
}

impl Memory {
    /// Empty memory that will keep the last `keep`, and at most `most_bytes`.
    pub fn new(keep: Duration, most_bytes: u64) -> Self {
        Self { keep, most_bytes, pieces: VecDeque::new() }
    }

    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|p| p.lock().len()).sum()
    }

    /// Time that the recording in memory covers.
    pub fn span(&self) -> Duration {
        self.pieces.front().map_or(Duration::ZERO, |p| p.since.elapsed())
    }

    /// Copies the recording in memory. Call this after the writer has settled.
    pub fn copy(&self) -> RecordingCopy {
        RecordingCopy(self.pieces.iter().map(|p| p.lock().clone()).collect())
    }

    fn is_due(&self, now: Instant) -> bool {
        let Some(last) = self.pieces.back() else {
            return false;
        };
        let age = now.saturating_duration_since(last.since);
        age >= self.keep / PIECES || last.lock().len() >= self.most_bytes / u64::from(PIECES)
    }

    /// Begins a piece. Drops pieces that are too old, or that exceed the size limit less one piece.
    fn begin_piece(&mut self, piece: Arc<FlightPiece>, now: Instant) {
        self.pieces.push_back(piece);
        let room = self.most_bytes - self.most_bytes / u64::from(PIECES);
        while self.pieces.len() > 1 {
            let ends = self.pieces.get(1).map_or(now, |next| next.since);
            let is_old = now.saturating_duration_since(ends) > self.keep;
            if !is_old && self.bytes() <= room {
                break;
            }
            self.pieces.pop_front();
        }
    }
}

impl Storage for Memory {
    type Piece = Arc<FlightPiece>;

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn device(&self) -> Option<u32> {
        None
    }

    fn begin(
        &mut self,
        begin: impl FnOnce(Box<dyn RecordingOutput>, bool) -> io::Result<Writer>,
    ) -> Result<Writer> {
        let first = FlightPiece::new(Instant::now());
        let writer = begin(Box::new(Appending(Arc::clone(&first))), false)?;
        self.pieces.push_back(first);
        Ok(writer)
    }

    fn next_piece(&self) -> Option<(Arc<FlightPiece>, Opening)> {
        let now = Instant::now();
        self.is_due(now).then(|| {
            let piece = FlightPiece::new(now);
            let output = Appending(Arc::clone(&piece));
            let open: Opening = Box::new(move || Ok(Box::new(output) as Box<dyn RecordingOutput>));
            (piece, open)
        })
    }

    fn piece_begun(&mut self, piece: Arc<FlightPiece>) {
        self.begin_piece(piece, Instant::now());
    }

    fn forget(&mut self) -> bool {
        let old = self.pieces.len().saturating_sub(1);
        self.pieces.drain(..old);
        true
    }

    fn finish(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::{Duration, Instant};

    use super::{Appending, CHUNK, FlightPiece, Memory};

    fn memory(most_bytes: u64) -> (Memory, Instant) {
        let mut memory = Memory::new(Duration::from_secs(20), most_bytes);
        let begun = Instant::now();
        memory.begin_piece(FlightPiece::new(begun), begun);
        (memory, begun)
    }

    #[test]
    fn expired_pieces_are_dropped() {
        let (mut memory, begun) = memory(1 << 30);
        let at = |second| begun + Duration::from_secs(second);
        assert!(!memory.is_due(at(1)));
        for second in (2..30).step_by(2) {
            assert!(memory.is_due(at(second)));
            memory.begin_piece(FlightPiece::new(at(second)), at(second));
        }
        // The last 20 seconds are kept, including the piece in which they begin.
        let since: Vec<u64> = memory.pieces.iter().map(|p| (p.since - begun).as_secs()).collect();
        assert_eq!((since.first(), since.last()), (Some(&6), Some(&28)));
    }

    #[test]
    fn kept_bytes_are_bounded() {
        let (mut memory, begun) = memory(10 * CHUNK as u64);
        for _ in 0..30 {
            let last = memory.pieces.back().unwrap();
            Appending(last.clone()).write_all(&vec![1; CHUNK + 10]).unwrap();
            assert!(memory.is_due(begun));
            assert!(memory.bytes() <= 10 * (CHUNK as u64 + 10));
            memory.begin_piece(FlightPiece::new(begun), begun);
        }
        assert!(memory.bytes() > 7 * CHUNK as u64);
        let copied: u64 = memory.copy().0.into_iter().map(|p| p.all().len() as u64).sum();
        assert_eq!(copied, memory.bytes());
    }
}
