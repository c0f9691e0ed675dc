//! How long the lists of a line may be. A line is untrusted, and three bytes of it (`{},`) can be hundreds in memory: a list is
//! refused where it gets too long, not when it has been read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

const FILESYSTEMS: usize = 256;
/// Of all filesystems of a line.
pub(super) const MEMBERS: usize = 4096;
/// Tasks or files of a filesystem; CPUs; threads.
const ROWS: usize = 16_384;
/// Criteria, notes.
const TEXTS: usize = 4096;

/// A list of at most `most`, which are `what`.
struct AtMost<T> {
    most: usize,
    what: &'static str,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} {}", self.most, self.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            if all.len() == self.most {
                let (most, what) = (self.most, self.what);
                return Err(A::Error::custom(format_args!("more than {most} {what}")));
            }
            all.push(one);
        }
        Ok(all)
    }
}

fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
    most: usize,
    what: &'static str,
) -> Result<Vec<T>, D::Error> {
    let of = PhantomData;
    from.deserialize_seq(AtMost { most, what, of })
}

pub(super) fn filesystems<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    at_most(from, FILESYSTEMS, "filesystems")
}

pub(super) fn members<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    at_most(from, MEMBERS, "members")
}

pub(super) fn rows<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    at_most(from, ROWS, "rows of tasks, files, CPUs or threads")
}

pub(super) fn texts<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    at_most(from, TEXTS, "criteria or notes")
}
