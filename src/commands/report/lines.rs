//! Texts that several outputs of a report share.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Result;

use super::args::ReportArgs;
use crate::analysis::units;
use crate::machine::output::Destination;
use crate::ui::lines::success_if_closed;
use crate::ui::text::{clean, escape, wrap};

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

/// The largest of `parts`, at most `most`, with their shares of `all`: `file_data 90%, journal
/// 10%`.
pub(super) fn shares<T: Display>(
    parts: impl IntoIterator<Item = (T, f64)>,
    all: f64,
    most: usize,
) -> String {
    let mut parts: Vec<_> = parts.into_iter().filter(|p| p.1 > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = parts
        .iter()
        .take(most)
        .map(|(name, n)| format!("{name} {}", units::percent_short(n / all)));
    named.collect::<Vec<_>>().join(", ")
}

/// Name of a recording without its folder.
pub(super) fn file_name(path: &Path) -> String {
    escape(path.file_name().unwrap_or(path.as_os_str()).as_bytes())
}

/// `1 s`, `15 min`, `2 h`.
pub(super) fn length(seconds: i64) -> String {
    match seconds {
        s if s > 0 && s % 3600 == 0 => format!("{} h", s / 3600),
        s if s > 0 && s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// Writes the page that `draw` makes. Checks the output first, which takes less time than reading
/// the recording.
pub(super) fn write_page(
    args: &ReportArgs,
    path: &Path,
    draw: impl FnOnce() -> Result<String>,
) -> Result<()> {
    let destination = Destination::new(path, args.force)?;
    let page = draw()?;
    let output = destination.open();
    let written = output.and_then(|output| output.write(|out| out.write_all(page.as_bytes())));
    success_if_closed(written, || format!("{}: writing the page", path.display()))
}
