//! Output of successive intervals, as text or JSON.

use std::collections::HashSet;
use std::future::Future;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::text;
use crate::machine::signals::End;
use crate::session::engine::{Engine, Tick};

/// Writes notes that are not in `printed` to stderr, so that stdout has figures only.
pub(crate) fn print_new(notes: &[String], printed: &mut HashSet<String>) {
    for note in notes {
        if !printed.contains(note) {
            let _ = writeln!(io::stderr(), "raidtrace: note: {}", text::clean(note));
        }
    }
    *printed = notes.iter().cloned().collect();
}

/// Decrements the number of intervals that are left. Returns true after the last one. `None` means
/// no limit.
pub(crate) fn is_last(left: &mut Option<u64>) -> bool {
    match left {
        Some(n) => {
            *n -= 1;
            *n == 0
        }
        None => false,
    }
}

/// Waits for a signal, at most for `duration`.
pub(crate) async fn lasts(signal: End, duration: Option<Duration>) {
    match duration {
        Some(duration) => drop(tokio::time::timeout(duration, signal).await),
        None => signal.await,
    }
}

/// Prints the intervals of a session, at most `left`, until the last one or until the reader of a
/// pipe has closed it, and notes that are not in `printed`. When `end` completes, the interval in
/// progress is the last one.
///
/// # Errors
/// The output cannot be written. The session still has to be ended.
pub(crate) async fn print_intervals<I: Send + 'static, T: Send + 'static>(
    engine: &mut Engine<I, T>,
    mut left: Option<u64>,
    end: impl Future<Output = ()>,
    printed: &mut HashSet<String>,
    mut print: impl FnMut(I, &mut HashSet<String>) -> io::Result<()>,
) -> Result<()> {
    let mut end = std::pin::pin!(end);
    while let Some(tick) = engine.tick_or_last(&mut end).await {
        let interval = match tick {
            Tick::Started { notes, .. } | Tick::Notes(notes) => {
                print_new(&notes, printed);
                continue;
            }
            Tick::Interval(interval) => interval,
        };
        match print(interval, printed) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.context("writing the figures")?,
        }
        if is_last(&mut left) {
            break;
        }
    }
    Ok(())
}

/// Success if the reader of a pipe has closed it (`| head`).
pub(crate) fn success_if_nobody_reads(result: io::Result<()>) -> Result<()> {
    success_if_closed(result, || "writing the figures".to_owned())
}

/// Success if the reader of a pipe has closed it. `doing`: the context of any other error.
pub(crate) fn success_if_closed(
    result: io::Result<()>,
    doing: impl FnOnce() -> String,
) -> Result<()> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e).with_context(doing),
        _ => Ok(()),
    }
}
