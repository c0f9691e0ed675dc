//! Text fitted into columns.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub use crate::printable::{clean, escape, is_hidden, sanitize};

/// Width of `text` in columns.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The last of `chars` that fit into `columns` beside a mark of one column.
fn last_fitting(
    chars: impl Iterator<Item = (usize, char)>,
    columns: usize,
) -> Option<(usize, char)> {
    let mut used = 0;
    chars
        .take_while(|(_, c)| {
            used += c.width().unwrap_or(0);
            used < columns
        })
        .last()
}

/// `text` in at most `columns`, cut with `…`.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let end = last_fitting(text.char_indices(), columns).map_or(0, |(at, c)| at + c.len_utf8());
    let mark = if columns > 0 { "…" } else { "" };
    Cow::Owned(format!("{}{mark}", &text[..end]))
}

/// The end of `text` in at most `columns`, cut with `…`.
pub fn end(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let first = last_fitting(text.char_indices().rev(), columns);
    let from = first.map_or(text.len(), |(at, _)| at);
    let mark = if columns > 0 { "…" } else { "" };
    Cow::Owned(format!("{mark}{}", &text[from..]))
}

/// Replaces spaces with no-break spaces, where [`wrap`] does not break.
pub fn glue(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// `text` in exactly `columns`, flush left.
pub fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let pad = columns.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(pad))
}

/// `text` in exactly `columns`, flush right.
pub fn right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let pad = columns.saturating_sub(width(&text));
    format!("{}{text}", " ".repeat(pad))
}

/// Breaks `text` at spaces into at most `lines` lines of at most `columns`, and cuts the last line.
/// A no-break space keeps a figure and its unit together, and becomes a space.
pub fn wrap(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let full = out.len() >= lines;
        match out.last_mut() {
            Some(line) if full || width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => out.push(word.to_owned()),
        }
    }
    out.iter().map(|line| cut(line, columns).replace('\u{a0}', " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::{clean, cut, end, escape, left, right, sanitize, width, wrap};
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_visible() {
        for (bytes, text) in [
            (&b"postgres"[..], "postgres"),
            (b"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
            (b"\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            (b"a\nb\tc\r\0\x7f", "a\\x0ab\\x09c\\x0d\\x00\\x7f"),
            ("\u{9b}31m".as_bytes(), "\\x9b31m"),
            (b"caf\xe9", "caf\u{fffd}"),
            ("caf\u{e9} \u{65e5}\u{672c}".as_bytes(), "caf\u{e9} \u{65e5}\u{672c}"),
            (
                "a\u{202e}b\u{200b}c\u{2066}d\u{feff}".as_bytes(),
                "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}",
            ),
        ] {
            assert_eq!(sanitize(bytes), text);
        }
    }

    #[test]
    fn invalid_utf8_is_escaped() {
        assert_eq!(escape(b"a\nb\xffc\xc3"), "a\\x0ab\\xffc\\xc3");
        assert_eq!(escape("caf\u{e9} \u{202e}".as_bytes()), "caf\u{e9} \u{fffd}");
    }

    #[test]
    fn text_is_fitted_into_columns() {
        assert_eq!(left("loop1", 7), "loop1  ");
        assert_eq!(right("12", 4), "  12");
        assert_eq!(right("123456", 4), "123…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(left("日本語", 4), "日… ");
        assert_eq!(cut("x", 0), "");
        assert_eq!(end("/srv/db/a", 9), "/srv/db/a");
        assert_eq!(end("/srv/db/a", 6), "…/db/a");
        assert_eq!(end("日本語", 4), "…語");
        assert_eq!((end("xy", 1), end("xy", 0)), ("…".into(), "".into()));
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("", 9, 2), [""]);
        assert_eq!(wrap("one 4\u{a0}KiB", 7, 2), ["one", "4 KiB"]);
    }

    proptest! {
        #[test]
        fn nothing_printed_is_a_control_character(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let text = sanitize(&bytes);
            prop_assert!(!text.chars().any(char::is_control), "{text:?}");
            prop_assert_eq!(clean(&text), text.as_str());
            prop_assert!(!escape(&bytes).chars().any(char::is_control));
        }

        #[test]
        fn nothing_printed_is_hidden(text in any::<String>()) {
            let text = sanitize(text.as_bytes());
            prop_assert!(!text.chars().any(|c| c.is_control() || super::is_hidden(c)), "{text:?}");
        }

        #[test]
        fn a_column_is_never_wider(
            text in "\\PC{0,20}",
            columns in 0usize..30,
            lines in 1usize..4,
        ) {
            let text = sanitize(text.as_bytes());
            prop_assert!(width(&cut(&text, columns)) <= columns);
            prop_assert!(width(&end(&text, columns)) <= columns);
            for line in wrap(&text, columns.max(1), lines) {
                prop_assert!(width(&line) <= columns.max(1));
            }
        }
    }
}
