//! Errors of opening a recording, and the ways in which it can end.

use std::fmt;
use std::path::PathBuf;

/// Maximum number of files named in the message.
const MAX_NAMED: usize = 4;

/// Error of opening a recording.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A system call failed.
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, std::io::Error),
    /// Not a regular file: its type.
    #[error(
        "{path}: is {1}, not a regular file: reading a recording takes seeks",
        path = .0.display(),
    )]
    NoFile(PathBuf, &'static str),
    /// An empty file.
    #[error("{}: is empty: the recorder ended before it wrote the header", .0.display())]
    Empty(PathBuf),
    /// Not a recording: the reason.
    #[error("{path}: not a raidtrace recording ({1})", path = .0.display())]
    NotOurs(PathBuf, String),
    /// Recording with a later schema version.
    #[error(
        "{path}: has schema {1}, which is newer than this raidtrace: use a newer one",
        path = .0.display(),
    )]
    Newer(PathBuf, String),
}

/// How a recording ended. All items before the end have been returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// The end has not been reached yet.
    #[default]
    Open,
    /// Ended by the recorder.
    Whole,
    /// The recorder was killed, the file was not copied completely, or it is still being written.
    CutShort {
        /// Time of the last complete item, µs since 1970.
        after_us: i64,
    },
    /// The rest cannot be read.
    Corrupt {
        /// See `CutShort`.
        after_us: i64,
        reason: String,
    },
    /// In a rotated recording, at least one part before the last could not be read to its end. All
    /// other parts have been read.
    Gaps(Vec<String>),
}

impl Ending {
    /// True if something is missing.
    pub fn is_cut(&self) -> bool {
        matches!(self, Self::CutShort { .. } | Self::Corrupt { .. } | Self::Gaps(_))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |us: &i64| match jiff::Timestamp::from_microsecond(*us) {
            Ok(time) if *us != 0 => time.strftime("%Y-%m-%d %H:%M:%S.%3fZ").to_string(),
            _ => "the start".to_owned(),
        };
        match self {
            Self::Open | Self::Whole => f.write_str("the recording is complete"),
            Self::CutShort { after_us } => {
                write!(f, "the recording is truncated: data after {} is missing", time(after_us))
            }
            Self::Corrupt { after_us, reason } => write!(
                f,
                "the recording is damaged ({reason}): data after {} cannot be read",
                time(after_us)
            ),
            Self::Gaps(wrong) => {
                let named =
                    wrong.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
                write!(f, "parts of the recording are missing or damaged: {named}")?;
                match wrong.len().saturating_sub(MAX_NAMED) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more files"),
                }
            }
        }
    }
}
