//! Slow operations in a report, as text and as JSON.

use std::io::{self, Write as _};

use super::lines::{sentence, wrapped};
use crate::analysis::slow::groups;
use crate::analysis::slow::sentence::{self as words, time};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::units;
use crate::recording::slow::SlowInterval;

/// Maximum number of operations, and of phases, in the text.
const MAX_LISTED: usize = 5;
/// Maximum number of operations in the JSON.
const MAX_JSON_OPERATIONS: usize = 20;

/// Writes a section: the longest operations, the phases of all operations, and advice.
pub fn write(out: &mut Vec<u8>, s: &SlowSnapshot) -> io::Result<()> {
    let threshold = u64::try_from(s.threshold.as_nanos()).unwrap_or(u64::MAX);
    let kinds: Vec<String> = s
        .kinds
        .iter()
        .map(|(kind, sum)| {
            let (slow, all) = (units::count(sum.slow as f64), units::count(sum.count as f64));
            format!("{slow} of {all} {}", kind.name())
        })
        .collect();
    let title = format!(
        "slow operations ({} or more): {}",
        time(threshold),
        match kinds.is_empty() {
            true => "no operation ended".to_owned(),
            false => kinds.join(", "),
        }
    );
    writeln!(out)?;
    wrapped(out, "", &title)?;
    for (i, slow) in s.operations.iter().take(MAX_LISTED).enumerate() {
        let mark = if i == 0 { "!" } else { " " };
        sentence(out, mark, &words::sentence(slow, &s.names))?;
    }
    let total: u64 = s.operations.iter().map(|o| o.operation.total_ns()).sum();
    for phase in groups::phases(s).iter().take(MAX_LISTED) {
        let share = units::percent(phase.ns as f64 / total.max(1) as f64);
        let line = format!("{} {share} {}", time(phase.ns), phase.name);
        wrapped(out, "    ", &line)?;
    }
    for found in &s.advice {
        let advice = format!("what would help: {}", found.advice.text);
        wrapped(out, "  ", &advice)?;
        for command in &found.advice.commands {
            wrapped(out, "      ", command)?;
        }
    }
    if s.lost.total() > 0 {
        let line = format!("LOST {} events of slow operations", s.lost.total());
        sentence(out, "!", &line)?;
    }
    Ok(())
}

/// The period as one interval of schema raidtrace.slow/1, with the longest operations.
pub fn json(s: &SlowSnapshot) -> SlowInterval {
    let mut s = s.clone();
    s.operations.truncate(MAX_JSON_OPERATIONS);
    s.commits.clear();
    SlowInterval::new(&s)
}
