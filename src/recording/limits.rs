//! Limits on lists in untrusted JSON. Three bytes of text (`{},`) can take hundreds of bytes in
//! memory, so a list is rejected as soon as it is too long, not after it has been read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

struct AtMost<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for AtMost<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::custom(format_args!("more than {MOST} in a list")));
            }
            all.push(one);
        }
        Ok(all)
    }
}

/// Deserializes a list of at most `MOST` elements.
pub(in crate::recording) fn at_most<
    'de,
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    const MOST: usize,
>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(AtMost::<T, MOST>(PhantomData))
}
