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

/// Writes a section: operations that had not ended at the end of the period and the longest ones,
/// the phases of all that ended, and advice.
pub fn write(out: &mut Vec<u8>, s: &SlowSnapshot) -> io::Result<()> {
    let threshold = u64::try_from(s.threshold.as_nanos()).unwrap_or(u64::MAX);
    let kinds: Vec<String> = s
        .kinds
        .iter()
        .map(|(kind, sum)| {
            let (slow, all) = (units::count(sum.slow as f64), units::count(sum.count as f64));
            format!("{slow} of {all} {kind}")
        })
        .collect();
    let unended = match s.unended_count {
        0 => String::new(),
        n => format!("{} not ended at the end, ", units::count(n as f64)),
    };
    let title = format!(
        "slow operations ({} or more): {unended}{}",
        time(threshold),
        match kinds.is_empty() {
            true => "no operation ended".to_owned(),
            false => kinds.join(", "),
        }
    );
    writeln!(out)?;
    wrapped(out, "", &title)?;
    for (i, slow) in s.unended.iter().chain(&s.operations).take(MAX_LISTED).enumerate() {
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
    s.unended.truncate(MAX_JSON_OPERATIONS);
    s.commits.clear();
    SlowInterval::new(&s)
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::analysis::slow::fixture::{interval, unended};

    #[test]
    fn operations_that_have_not_ended_come_first() {
        let mut s = interval();
        (s.unended, s.unended_count) = (vec![unended()], 312);
        let mut out = Vec::new();
        write(&mut out, &s).expect("a vector takes all");
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.contains("312 not ended at the end, "), "{text}");
        let lines: Vec<_> = text.lines().filter(|l| l.starts_with('!')).collect();
        assert!(matches!(lines[..], [line] if line.contains(" so far")), "{text}");
    }
}
