//! Building blocks of self-contained HTML pages: no script, no outside resource, every figure also as text.
//!
//! * [`page`]: the frame of a page, its sections and its messages. [`table`]: tables of figures. [`figure`]: a picture with its
//!   legend and its figures in a table. [`plot`]: shapes over time, drawn as SVG. [`flame`]: flame graphs. [`colour`]: colours of
//!   the origins, as CSS.
//!
//! A page is well-formed XML too, so that tests parse it. Text from a recording goes through [`text`], which escapes control
//! characters; `maud` escapes HTML.

pub mod colour;
pub mod figure;
pub mod flame;
pub mod page;
pub mod plot;
pub mod table;

use std::borrow::Cow;

/// Untrusted text, printable: control characters and bidirectional marks are escaped. `maud` escapes HTML when the text is
/// put into a page.
pub fn text(untrusted: &str) -> Cow<'_, str> {
    crate::ui::text::clean(untrusted)
}
