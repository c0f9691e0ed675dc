//! Untrusted bytes made printable.
//!
//! Comms, cgroups, mount points and device names are whatever someone chose. Nothing in them may move the cursor,
//! change colours or hide what follows.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

/// `bytes` as text that is safe on a terminal: control characters become `\x1b`, what is invisible or turns the
/// direction of writing becomes U+FFFD, and so does what is not UTF-8.
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

/// [`sanitize`] for names of files, which need not be UTF-8: bytes that are not become `\xff`.
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

/// [`sanitize`] for what is a `str` already; borrows in the usual case.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| c.is_control() || is_hidden(c)) {
        Cow::Owned(sanitize(text.as_bytes()))
    } else {
        Cow::Borrowed(text)
    }
}

/// Takes no column, or changes how its neighbours are shown: joiners, bidi marks and overrides, variation
/// selectors, tags, combining marks, line separators.
pub fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    ) || (!c.is_control() && c.width().unwrap_or(0) == 0)
}
