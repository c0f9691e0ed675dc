//! The messages of an Arrow IPC stream, and nothing of what they mean. Every length is checked against the file before
//! anything of that length is allocated.

use std::io::{self, Read, Seek, SeekFrom};

/// Of a message without its body. The schema has the header with the layout in it; 20,000 ranges are 1 MiB.
const METADATA: u64 = 32 << 20;
/// Of a body: 65,536 rows are at most 10 MiB before compression, and the states' text.
const BODY: u64 = 128 << 20;
/// Before each message, since Arrow 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// What a recording is read from.
pub trait Input: Read + Seek + Send {}
impl<T: Read + Seek + Send> Input for T {}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A message; it begins here.
    Message(u64),
    /// The stream was ended by its writer.
    End,
    /// The file ends, in a message or between two.
    CutShort,
    /// This is no message.
    Corrupt(&'static str),
}

/// Reads one message after another.
pub struct Frames {
    input: Box<dyn Input>,
    /// Of the input.
    size: u64,
    at: u64,
    /// The flatbuffer of the last message, and its body.
    pub metadata: Vec<u8>,
    /// Not read with the message: its length is in the metadata.
    pub body: Vec<u8>,
}

impl Frames {
    /// Of all of `input`.
    pub fn new(mut input: Box<dyn Input>) -> io::Result<Self> {
        let size = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        Ok(Self {
            input,
            size,
            at: 0,
            metadata: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Where the next message begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Of the input, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Goes on at the message that begins at `at`.
    pub fn seek(&mut self, at: u64) -> io::Result<()> {
        self.at = self.input.seek(SeekFrom::Start(at))?;
        Ok(())
    }

    /// Reads the metadata of the next message; its body is to be read or skipped then.
    pub fn next(&mut self) -> io::Result<Next> {
        let begin = self.at;
        let Some(word) = self.word()? else {
            return Ok(Next::CutShort);
        };
        if word == [0; 4] {
            // What a power cut leaves of what was not written yet.
            return Ok(if self.is_zero_to_the_end()? {
                Next::CutShort
            } else {
                Next::Corrupt("there is no message")
            });
        }
        if word != CONTINUATION {
            return Ok(Next::Corrupt("there is no message"));
        }
        let Some(length) = self.word()? else {
            return Ok(Next::CutShort);
        };
        let length = i32::from_le_bytes(length);
        match u64::try_from(length) {
            Ok(0) => Ok(Next::End),
            Ok(length) if length > METADATA => Ok(Next::Corrupt("a message is too long")),
            Ok(length) if length > self.size.saturating_sub(self.at) => Ok(Next::CutShort),
            Ok(length) => {
                self.at += length;
                fill(&mut self.input, &mut self.metadata, length)?;
                Ok(Next::Message(begin))
            }
            Err(_) => Ok(Next::Corrupt("a message has no length")),
        }
    }

    /// Reads the body of the message. `None`: it is whole no more. Of a length that cannot be right: the reason.
    pub fn read_body(&mut self, length: i64) -> io::Result<Result<(), Next>> {
        match u64::try_from(length) {
            Ok(length) if length > BODY => Ok(Err(Next::Corrupt("a batch is too long"))),
            Ok(length) if length > self.size.saturating_sub(self.at) => Ok(Err(Next::CutShort)),
            Ok(length) => {
                self.at += length;
                fill(&mut self.input, &mut self.body, length)?;
                Ok(Ok(()))
            }
            Err(_) => Ok(Err(Next::Corrupt("a batch has no length"))),
        }
    }

    /// Whether nothing follows.
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

    /// Whether nothing but zeros follows.
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

/// `length` was checked.
fn fill(input: &mut Box<dyn Input>, into: &mut Vec<u8>, length: u64) -> io::Result<()> {
    into.resize(usize::try_from(length).unwrap_or(0), 0);
    input.read_exact(into)
}
