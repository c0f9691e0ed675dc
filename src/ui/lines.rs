//! Lines of text or JSON, an interval after the other.

use std::collections::HashSet;
use std::io::{self, Write as _};

use anyhow::{Context as _, Result};

use super::text;

/// Notes that are new. To stderr: a script that reads stdout should not have to tell them apart.
pub(crate) fn say(notes: &[String], said: &mut HashSet<String>) {
    for note in notes {
        if !said.contains(note) {
            let _ = writeln!(io::stderr(), "raidtrace: note: {}", text::clean(note));
        }
    }
    *said = notes.iter().cloned().collect();
}

/// Whether the last of so many intervals was shown; `None`: there is no last one.
pub(crate) fn ended(left: &mut Option<u64>) -> bool {
    match left {
        Some(n) => {
            *n -= 1;
            *n == 0
        }
        None => false,
    }
}

/// The reader of a pipe that has had enough (`| head`) is no failure.
pub(crate) fn success_if_nobody_reads(result: io::Result<()>) -> Result<()> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e).context("writing the figures"),
        _ => Ok(()),
    }
}
