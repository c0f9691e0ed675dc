//! Origins of IO ([`Origin`]) and operations ([`Op`]).
//!
//! `build.rs` generates both from `bpf/shared/origins.h`, so that BPF programs, screen and JSON use
//! the same names and numbers.

include!(concat!(env!("OUT_DIR"), "/origins.rs"));

/// Layer that an origin belongs to, for grouping on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Blocks of a filesystem: ext4, ext3, ext2 or XFS.
    Filesystem,
    /// IO of md itself on a member.
    Md,
    /// Raw devices and IO of unknown origin.
    Else,
}

impl Origin {
    /// True for filesystem metadata: all of its blocks except file data.
    pub fn is_metadata(self) -> bool {
        self.group() == Group::Filesystem && self != Self::FileData
    }
}

/// Requests of an operation, in the plural: `reads`.
pub fn plural(op: Op) -> &'static str {
    match op {
        Op::Read => "reads",
        Op::Write => "writes",
        Op::Flush => "flushes",
        Op::Discard => "discards",
        Op::WriteZeroes => "zeroing writes",
        Op::Other => "other requests",
    }
}

/// Display name of an origin and operation. Discarded file data is `free_space`, because the blocks
/// no longer belong to a file; in JSON and recordings it is `file_data` with the operation
/// `discard`.
pub fn io_name(origin: Origin, op: Op) -> &'static str {
    match (origin, op) {
        (Origin::FileData, Op::Discard) => "free_space",
        _ => origin.name(),
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl serde::Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl serde::Serialize for Op {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Origin {
    /// Unknown names, possibly of a later version, become [`Origin::Unknown`].
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(d)?.parse().unwrap_or(Self::Unknown))
    }
}

impl<'de> serde::Deserialize<'de> for Op {
    /// Unknown names, possibly of a later version, become [`Op::Other`].
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(d)?.parse().unwrap_or(Self::Other))
    }
}

#[cfg(test)]
mod tests {
    use super::{Group, Op, Origin};

    #[test]
    fn numbers_are_dense_and_round_trip() {
        for (i, o) in Origin::ALL.iter().enumerate() {
            assert_eq!(*o as usize, i);
            assert_eq!(Origin::from_u8(i as u8), Some(*o));
            assert_eq!(o.name().parse(), Ok(*o));
        }
        assert_eq!(Origin::from_u8(Origin::ALL.len() as u8), None);
        for (i, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
            assert_eq!(Op::from_u8(i as u8), Some(*op));
            assert_eq!(op.name().parse(), Ok(*op));
        }
    }

    #[test]
    fn groups_of_origins() {
        assert_eq!(Origin::BlockBitmap.group(), Group::Filesystem);
        assert!(Origin::Journal.is_metadata());
        assert!(!Origin::FileData.is_metadata());
        assert_eq!(Origin::Parity.group(), Group::Md);
        assert_eq!(Origin::Unknown.group(), Group::Else);
    }
}
