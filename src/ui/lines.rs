//! Output of successive intervals, as text or JSON.

use std::collections::HashSet;
use std::io::{self, Write as _};

use anyhow::{Context as _, Result};

use super::text;

/// Writes notes that are not in `printed` to stderr, so that stdout has figures only.
pub(crate) fn print_new(notes: &[String], printed: &mut HashSet<String>) {
    for note in notes {
        if !printed.contains(note) {
            let _ = writeln!(io::stderr(), "raidtrace: note: {}", text::clean(note));
        }
    }
    *printed = notes.iter().cloned().collect();
}

/// Decrements the number of intervals that are left. Returns true after the last one. `None` means no limit.
pub(crate) fn is_last(left: &mut Option<u64>) -> bool {
    match left {
        Some(n) => {
            *n -= 1;
            *n == 0
        }
        None => false,
    }
}

/// Success if the reader of a pipe has closed it (`| head`).
pub(crate) fn success_if_nobody_reads(result: io::Result<()>) -> Result<()> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e).context("writing the figures"),
        _ => Ok(()),
    }
}
