//! Building blocks of self-contained HTML pages: no script, no outside resource, every figure also
//! as text.
//!
//! * [`page`]: the frame of a page, its sections and its messages. [`table`]: tables of figures.
//!   [`figure`]: a picture with its legend and its figures in a table. [`plot`]: shapes over time,
//!   drawn as SVG. [`flame`]: flame graphs. [`colour`]: colours of the origins, as CSS.
//!
//! A page is well-formed XML too, so that tests parse it. Text from a recording goes through
//! [`text`], which escapes control characters; `maud` escapes HTML.

pub mod colour;
pub mod figure;
pub mod flame;
pub mod page;
pub mod plot;
pub mod table;

use std::borrow::Cow;

use crate::ui::text::{clean, cut};

/// Maximum length of a text, in columns, so that a recording cannot make a page arbitrarily large.
const MAX_COLUMNS: usize = 2000;

/// Untrusted text, printable: control characters and bidirectional marks are escaped, and very long
/// text is cut. `maud` escapes HTML when the text is put into a page.
pub fn text(untrusted: &str) -> Cow<'_, str> {
    match clean(untrusted) {
        Cow::Borrowed(text) => cut(text, MAX_COLUMNS),
        Cow::Owned(text) => Cow::Owned(cut(&text, MAX_COLUMNS).into_owned()),
    }
}

/// [`text`] for a name that appears many times, such as that of a member.
pub fn name(untrusted: &str) -> String {
    cut(&clean(untrusted), 60).into_owned()
}
