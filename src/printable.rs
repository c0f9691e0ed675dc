//! Sanitizes untrusted bytes for terminals.
//!
//! Users choose task names, cgroups, mount points and device names. These must not move the cursor,
//! change colours or hide other text.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

/// Text that is safe on a terminal: control characters become escapes such as `\x1b`; characters
/// without width, with combining marks, bidirectional controls and invalid UTF-8 become U+FFFD.
pub fn sanitize(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() {
            out.push_str(&format!("\\x{:02x}", u32::from(c)));
        } else if is_hidden(c) {
            out.push(char::REPLACEMENT_CHARACTER);
        } else {
            out.push(c);
        }
    }
    out
}

/// [`sanitize`] for file names. Invalid UTF-8 becomes escapes such as `\xff`.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&sanitize(chunk.valid().as_bytes()));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// [`sanitize`] for a `str`. Borrows if nothing changes.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| c.is_control() || is_hidden(c)) {
        Cow::Owned(sanitize(text.as_bytes()))
    } else {
        Cow::Borrowed(text)
    }
}

/// Every byte in hexadecimal; `None` if the bytes are UTF-8, so that the text alone is enough.
pub fn hex(bytes: Option<&[u8]>) -> Option<String> {
    let bytes = bytes.filter(|b| std::str::from_utf8(b).is_err())?;
    Some(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Inverse of [`hex`]; `None` if `text` is not hexadecimal.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

/// Implements `Display` for enums without data: the name in JSON.
macro_rules! show_as_in_json {
    ($($type:ty),+) => {
        $(impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        })+
    };
}
pub(crate) use show_as_in_json;

/// Bytes as printable text in JSON, for serde's `with`.
pub mod text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&super::sanitize(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        String::deserialize(from).map(String::into_bytes)
    }
}

/// True for characters without width or with an effect on their neighbours: joiners, bidi marks and
/// overrides, variation selectors, tags, combining marks, line separators.
pub fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    ) || (!c.is_control() && c.width().unwrap_or(0) == 0)
}
