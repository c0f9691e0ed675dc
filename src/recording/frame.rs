//! Reads the messages of an Arrow IPC stream without decoding them. Every length is checked against
//! the file before memory of that length is allocated.

use std::io::{self, Read, Seek, SeekFrom};

/// Maximum bytes of a message's metadata. The schema contains the header, in which 20,000 layout
/// ranges take 1 MiB.
const MAX_METADATA_BYTES: u64 = 32 << 20;
/// Maximum bytes of a body. 65,536 rows take at most 10 MiB before compression, plus their texts.
const MAX_BODY_BYTES: u64 = 128 << 20;
/// Marker before each message, since Arrow 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Source of a recording.
pub trait RecordingInput: Read + Seek + Send {}
impl<T: Read + Seek + Send> RecordingInput for T {}

/// Result of [`Frames::next`].
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A message that begins at this offset.
    Message(u64),
    /// End marker of the stream.
    End,
    /// The file ends within a message, after a message without an end marker, or with zeros (data
    /// not yet written at a power failure).
    CutShort,
    /// Invalid data.
    Corrupt(&'static str),
}

/// Reads one message after another.
pub struct Frames {
    input: Box<dyn RecordingInput>,
    /// Bytes of the input.
    size: u64,
    at: u64,
    /// Flatbuffer of the last message.
    pub metadata: Vec<u8>,
    /// Body of the last message, read by [`Frames::read_body`]. The metadata has its length.
    pub body: Vec<u8>,
}

impl Frames {
    /// Begins at the start of `input`.
    pub fn new(mut input: Box<dyn RecordingInput>) -> io::Result<Self> {
        let size = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        Ok(Self { input, size, at: 0, metadata: Vec::new(), body: Vec::new() })
    }

    /// Offset of the next message.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Bytes of the input.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Continues at the message at offset `at`.
    pub fn seek(&mut self, at: u64) -> io::Result<()> {
        self.at = self.input.seek(SeekFrom::Start(at))?;
        Ok(())
    }

    /// Reads the metadata of the next message. Its body must be read before the next call.
    pub fn next(&mut self) -> io::Result<Next> {
        let begin = self.at;
        let Some(word) = self.word()? else {
            return Ok(Next::CutShort);
        };
        if word == [0; 4] {
            // A power cut leaves zeros where data was not written yet.
            return Ok(if self.is_zero_to_the_end()? {
                Next::CutShort
            } else {
                Next::Corrupt("a message has no marker")
            });
        }
        if word != CONTINUATION {
            return Ok(Next::Corrupt("a message has no marker"));
        }
        let Some(length) = self.word()? else {
            return Ok(Next::CutShort);
        };
        let length = i32::from_le_bytes(length);
        match u64::try_from(length) {
            Ok(0) => Ok(Next::End),
            Ok(length) if length > MAX_METADATA_BYTES => Ok(Next::Corrupt("a message is too long")),
            Ok(length) if length > self.size.saturating_sub(self.at) => Ok(Next::CutShort),
            Ok(length) => {
                self.at += length;
                fill(&mut self.input, &mut self.metadata, length)?;
                Ok(Next::Message(begin))
            }
            Err(_) => Ok(Next::Corrupt("a message has a negative length")),
        }
    }

    /// Reads the body of the message. The inner error is the reason why the body is missing or
    /// invalid.
    pub fn read_body(&mut self, length: i64) -> io::Result<Result<(), Next>> {
        match u64::try_from(length) {
            Ok(length) if length > MAX_BODY_BYTES => Ok(Err(Next::Corrupt("a batch is too long"))),
            Ok(length) if length > self.size.saturating_sub(self.at) => Ok(Err(Next::CutShort)),
            Ok(length) => {
                self.at += length;
                fill(&mut self.input, &mut self.body, length)?;
                Ok(Ok(()))
            }
            Err(_) => Ok(Err(Next::Corrupt("a batch has a negative length"))),
        }
    }

    /// True if nothing follows.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.size
    }

    fn word(&mut self) -> io::Result<Option<[u8; 4]>> {
        if self.size.saturating_sub(self.at) < 4 {
            return Ok(None);
        }
        let mut word = [0; 4];
        self.input.read_exact(&mut word)?;
        self.at += 4;
        Ok(Some(word))
    }

    /// True if only zeros follow.
    pub fn is_zero_to_the_end(&mut self) -> io::Result<bool> {
        let mut piece = vec![0; 1 << 16];
        loop {
            let read = self.input.read(&mut piece)?;
            if read == 0 {
                return Ok(true);
            }
            if piece.iter().take(read).any(|&b| b != 0) {
                return Ok(false);
            }
        }
    }
}

/// Reads `length` bytes. The caller has checked `length`.
fn fill(input: &mut Box<dyn RecordingInput>, into: &mut Vec<u8>, length: u64) -> io::Result<()> {
    into.resize(usize::try_from(length).unwrap_or(0), 0);
    input.read_exact(into)
}
