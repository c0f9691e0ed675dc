//! Lines of the report's text.

use std::io::{self, Write as _};

use crate::ui::text::{clean, wrap};

pub(super) const COLUMNS: usize = 80;

/// Writes `text` on as many lines as it needs, each after `indent`.
pub(super) fn wrapped(out: &mut Vec<u8>, indent: &str, text: &str) -> io::Result<()> {
    for line in wrap(&clean(text), COLUMNS - indent.len(), usize::MAX) {
        writeln!(out, "{indent}{line}")?;
    }
    Ok(())
}

/// Writes `text` after a mark, on at most six lines.
pub(super) fn sentence(out: &mut Vec<u8>, mark: &str, text: &str) -> io::Result<()> {
    for (i, line) in wrap(&clean(text), COLUMNS - 2, 6).iter().enumerate() {
        writeln!(out, "{} {line}", if i == 0 { mark } else { " " })?;
    }
    Ok(())
}
