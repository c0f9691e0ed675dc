//! Pieces that a rotating recorder makes, and what becomes of them.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Sink;
use crate::machine::output::{create, sync_folder};
use crate::recording::files;
use crate::recording::writer::{Opening, Output};

/// A piece lasts a tenth of what is kept, and between these.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);
/// Behind the batches of an Arrow stream: a message of length 0.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// FILE.0001.part and so on.
pub struct Pieces {
    /// FILE.
    path: PathBuf,
    /// How much is kept, and how long a piece lasts.
    keep: Duration,
    each: Duration,
    /// The last one is being written.
    all: VecDeque<Piece>,
    number: u64,
}

struct Piece {
    path: PathBuf,
    since: Instant,
}

/// That the next piece begins, and how many of the oldest go.
pub struct Turn(usize);

impl Pieces {
    /// Of `path`, of which the last `keep` is kept.
    pub fn new(path: &Path, keep: Duration) -> Self {
        Self {
            path: path.to_owned(),
            keep,
            each: (keep / 10).clamp(LEAST, MOST),
            all: VecDeque::new(),
            number: 1,
        }
    }

    /// Where the next one is made.
    pub fn next(&self) -> PathBuf {
        files::part(&self.path, self.number)
    }

    /// The next one is being written.
    pub fn begun(&mut self, now: Instant) {
        let path = self.next();
        self.number += 1;
        self.all.push_back(Piece { path, since: now });
    }

    /// If it is time for the next: what makes it and removes those that are too old, which takes as long as the disk does.
    pub fn turn(&self, now: Instant) -> Option<(Turn, Opening)> {
        let age = |piece: &Piece| now.saturating_duration_since(piece.since);
        if self.all.back().is_some_and(|last| age(last) < self.each) {
            return None;
        }
        // A piece ends where the next begins.
        let ends = self.all.iter().skip(1);
        let old = ends.take_while(|next| age(next) > self.keep).count();
        let goes = self.all.iter().take(old).map(|p| p.path.clone());
        let (next, goes): (_, Vec<_>) = (self.next(), goes.collect());
        let open = move || -> io::Result<Box<dyn Output>> {
            let output = Sink::file(create(&next)?);
            sync_folder(&next);
            goes.iter().for_each(|p| drop(fs::remove_file(p)));
            Ok(Box::new(output))
        };
        Some((Turn(old), Box::new(open)))
    }

    /// It is being done.
    pub fn turned(&mut self, turn: Turn, now: Instant) {
        self.all.drain(..turn.0);
        self.begun(now);
    }

    /// Those that are kept.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.all.iter().map(|p| p.path.clone()).collect()
    }
}

/// Copies the batches of `pieces` behind the schema of the first, which is that of all.
pub fn join(pieces: &[PathBuf], mut out: File) -> io::Result<u64> {
    let mut first = true;
    for piece in pieces {
        let mut file = File::open(piece)?;
        let mut left = file.metadata()?.len();
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        if !first {
            let [_, _, _, _, a, b, c, d] = head;
            let schema = 8 + u64::from(u32::from_le_bytes([a, b, c, d]));
            left = left.saturating_sub(schema);
            file.seek(SeekFrom::Start(schema))?;
        } else {
            file.rewind()?;
        }
        let mut end = [0; 8];
        let at = file.stream_position()?;
        if left >= 8 {
            file.seek(SeekFrom::End(-8))?;
            file.read_exact(&mut end)?;
            file.seek(SeekFrom::Start(at))?;
        }
        if end == END {
            left -= 8;
        }
        io::copy(&mut file.take(left), &mut out)?;
        first = false;
    }
    out.write_all(&END)?;
    out.sync_all()?;
    Ok(out.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::time::{Duration, Instant};

    use super::{END, Pieces, join};
    use crate::recording::files;

    #[test]
    fn only_so_much_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        let there = || {
            let all = files::parts(&path).into_iter();
            let names = all.map(|p| p.file_name().unwrap().to_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        let mut pieces = Pieces::new(&path, Duration::from_secs(20));
        fs::write(pieces.next(), "").unwrap();
        pieces.begun(at(0));
        assert!(pieces.turn(at(1)).is_none());
        let mut last = Vec::new();
        for second in (2..30).step_by(2) {
            let (turn, open) = pieces.turn(at(second)).unwrap();
            // The writer has no room for it: it is to be asked for again, and nothing has happened.
            drop((turn, open));
            assert_eq!(
                there(),
                last.clone()
                    .into_iter()
                    .chain(last.is_empty().then(|| "a.0001.part".to_owned()))
                    .collect::<Vec<_>>()
            );
            let (turn, open) = pieces.turn(at(second)).unwrap();
            open().unwrap().write_all(b"x").unwrap();
            pieces.turned(turn, at(second));
            last = there();
            assert_eq!(pieces.paths(), files::parts(&path));
        }
        // The last 20 seconds, and the piece in which they begin.
        assert_eq!(last.first().unwrap(), "a.0004.part");
        assert_eq!(last.last().unwrap(), "a.0015.part");
    }

    #[test]
    fn pieces_are_joined_behind_one_schema() {
        let dir = tempfile::tempdir().unwrap();
        let piece = |name: &str, batches: &[u8], end: bool| {
            let mut bytes = vec![0xff; 4];
            bytes.extend(6u32.to_le_bytes());
            bytes.extend(b"schema");
            bytes.extend(batches);
            if end {
                bytes.extend(END);
            }
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let pieces = [
            piece("1", b"one batch", true),
            piece("2", b"", true),
            piece("3", b"two", false),
        ];
        let new = dir.path().join("new");
        let bytes = join(&pieces, fs::File::create(&new).unwrap()).unwrap();
        let got = fs::read(&new).unwrap();
        assert_eq!(got.len() as u64, bytes);
        assert_eq!(&got[8..], b"schemaone batchtwo\xff\xff\xff\xff\0\0\0\0");
    }
}
