//! The final message of a recording.

use std::io::{self, Write as _};
use std::time::Duration;

use crate::analysis::lost::Loss;
use crate::session::recorder::RecordingFigures;
use crate::ui::text;

/// Figures of a recording for the final message.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub span: Duration,
    /// Counts and losses.
    pub recorded: RecordingFigures,
    /// Headline of each array.
    pub headlines: Vec<String>,
}

/// Prints the summary to stderr.
///
/// # Errors
/// stderr cannot be written.
pub fn report(s: &Summary, name: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let recorded = &s.recorded;
    let mib = recorded.written.bytes as f64 / f64::from(1 << 20);
    write!(
        err,
        "raidtrace: {}: {:.1} s, {} requests, {} submissions, {mib:.2} MiB",
        text::clean(name),
        s.span.as_secs_f64(),
        recorded.requests,
        recorded.submissions
    )?;
    match recorded.requests {
        0 => writeln!(err)?,
        n => writeln!(err, ", {:.1} bytes a request", recorded.written.bytes as f64 / n as f64)?,
    }
    let slow = (recorded.written.dropped, "the disk was too slow");
    let reasons = recorded.lost.nonzero().map(|(loss, n)| (n, loss.label()));
    let lost: Vec<String> = reasons
        .chain([slow].into_iter().filter(|(n, _)| *n > 0))
        .map(|(n, why)| format!("{n} ({why})"))
        .collect();
    if lost.is_empty() {
        writeln!(err, "raidtrace: nothing was lost")?;
    } else {
        let hint = if recorded.lost[Loss::Ring] > 0 { "; a larger --buffer may help" } else { "" };
        writeln!(err, "raidtrace: lost: {}{hint}", lost.join(", "))?;
    }
    for headline in &s.headlines {
        writeln!(err, "raidtrace: {}", text::clean(headline))?;
    }
    Ok(())
}
