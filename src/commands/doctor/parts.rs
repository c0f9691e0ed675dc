//! `--load`: evaluates a recording interval by interval, so that ten bad minutes are not averaged
//! over twelve hours. Reports the worst part of the recording, with its time.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use jiff::{Timestamp, Zoned};

use super::facts::Facts;
use super::finding::{Finding, FindingSeverity};
use super::live::compare;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::time;
use crate::analysis::timeline::length_s;
use crate::analysis::window;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::source::IntervalReader;

/// Maximum number of intervals. Their length is round: twelve hours have 144 intervals of five
/// minutes.
const MAX_INTERVALS: usize = 192;
/// Minimum length of an interval in seconds: the window of `top`. Shorter intervals are not
/// conclusive.
const MIN_INTERVAL_S: i64 = 10;
/// Rules about slow IO, each with the figure that measures it. `live-disagrees` is evaluated over
/// the whole recording only, as each part of it writes only some groups.
const RULES: [(&str, &str); 2] = [("live-skew", "utilisation"), ("bitmap-hot", "share")];
/// Minimum share of a recording for a part to count as the whole.
const MIN_WHOLE_SHARE: f64 = 0.9;

/// A time span in microseconds since the epoch: start and end.
type TimeSpan = (i64, i64);

/// Length of a span in seconds.
fn seconds((from, to): TimeSpan) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}

/// The worst part of a recording.
#[derive(Debug)]
pub struct WorstPart {
    finding: Finding,
    span: TimeSpan,
    whole: TimeSpan,
}

/// Consecutive intervals with the same warning.
struct WarningRun {
    /// The intervals, merged.
    snapshot: Snapshot,
    from_us: i64,
    /// Sum of the rule's figure times seconds.
    weight: f64,
    /// Finding of the first interval.
    finding: Finding,
}

/// True if two findings differ only in time.
fn same(a: &Finding, b: &Finding) -> bool {
    (a.id, &a.array) == (b.id, &b.array)
}

/// Figure of a warning by one of [`RULES`]; `None` for other findings.
fn figure(finding: &Finding) -> Option<f64> {
    let (_, name) = RULES.iter().find(|(id, _)| *id == finding.id)?;
    let figure = finding.figures.get(*name).and_then(|f| f.as_f64());
    (finding.severity >= FindingSeverity::Warning).then_some(figure.unwrap_or(0.0))
}

/// Finds the worst part of a recording that spans `whole`, for each rule and array. `keep` removes
/// arrays that are not evaluated from a snapshot.
///
/// # Errors
/// If the file cannot be read.
pub fn worst(
    file: &Path,
    whole: TimeSpan,
    keep: impl Fn(&mut Snapshot),
    facts: &Facts,
) -> Result<Vec<WorstPart>> {
    let length_us = whole.1.saturating_sub(whole.0);
    let length_s = length_s(length_us, MAX_INTERVALS).max(MIN_INTERVAL_S);
    let interval = Duration::from_secs(length_s.unsigned_abs());
    if length_us < length_s.saturating_mul(2_000_000) {
        return Ok(Vec::new());
    }
    let reader = Reader::open(file, WantedColumns::Figures)?;
    let source = IntervalReader::new(reader, interval, Box::new(|| None));
    let (mut current, mut ended) = (Vec::<WarningRun>::new(), Vec::<WarningRun>::new());
    // Ignore a short interval at the end.
    for mut snapshot in source.filter(|s| s.interval >= interval / 2) {
        keep(&mut snapshot);
        let seconds = snapshot.interval.as_secs_f64();
        let mut continued = Vec::new();
        for finding in compare(facts, &snapshot).1 {
            let Some(weight) = figure(&finding).map(|f| f * seconds) else {
                continue;
            };
            let before = current.iter().position(|run| same(&run.finding, &finding));
            continued.push(match before.map(|at| current.swap_remove(at)) {
                Some(mut run) => {
                    window::join(&mut run.snapshot, &snapshot, window::alike);
                    run.weight += weight;
                    run
                }
                None => WarningRun {
                    from_us: start_us(&snapshot),
                    snapshot: snapshot.clone(),
                    weight,
                    finding,
                },
            });
        }
        for run in std::mem::replace(&mut current, continued) {
            keep_worst(&mut ended, run);
        }
    }
    for run in current {
        keep_worst(&mut ended, run);
    }
    let part = |run: WarningRun| {
        // Evaluate the merged intervals.
        let found = compare(facts, &run.snapshot)
            .1
            .into_iter()
            .filter(|f| figure(f).is_some())
            .find(|f| same(f, &run.finding));
        WorstPart {
            finding: found.unwrap_or(run.finding),
            span: (run.from_us, run.snapshot.time.as_microsecond()),
            whole,
        }
    };
    Ok(ended.into_iter().map(part).collect())
}

fn start_us(snapshot: &Snapshot) -> i64 {
    let length = i64::try_from(snapshot.interval.as_micros()).unwrap_or(i64::MAX);
    snapshot.time.as_microsecond().saturating_sub(length)
}

/// Keeps the worst of the runs with the same warning.
fn keep_worst(ended: &mut Vec<WarningRun>, run: WarningRun) {
    match ended.iter_mut().find(|r| same(&r.finding, &run.finding)) {
        Some(other) if other.weight >= run.weight => {}
        Some(other) => *other = run,
        None => ended.push(run),
    }
}

/// Replaces findings on the whole recording, which are averages, by those of its worst parts.
pub fn merge(found: &mut Vec<Finding>, parts: Vec<WorstPart>) {
    for part in parts {
        let is_whole = seconds(part.span) >= MIN_WHOLE_SHARE * seconds(part.whole);
        match found.iter().position(|f| same(f, &part.finding)) {
            Some(at) if is_whole && figure(&found[at]).is_some() => {}
            Some(at) => found[at] = part.into_finding(),
            None => found.push(part.into_finding()),
        }
    }
}

impl WorstPart {
    /// The finding, with its time.
    fn into_finding(self) -> Finding {
        let (part, whole) = (seconds(self.span), seconds(self.whole));
        let (unit, word) = if whole < 1200.0 { (1.0, "s") } else { (60.0, "min") };
        let title = format!("{}: {}", between(self.span, self.whole), self.finding.title);
        Finding { title, ..self.finding }
            .seen(format!(
                "in the worst part of the recording: {:.0} of {:.0} {word}",
                part / unit,
                whole / unit
            ))
            .figure("from", time::rfc3339(self.span.0))
            .figure("to", time::rfc3339(self.span.1))
    }
}

/// `between 03:10 and 03:20`, local time; with seconds if the span is short, and with a date if the
/// recording spans several days.
fn between(span: TimeSpan, whole: TimeSpan) -> String {
    let zone = time::local();
    let at = |us: i64| -> Zoned {
        Timestamp::from_microsecond(us).unwrap_or_default().to_zoned(zone.clone())
    };
    // Round: an interval ends with a state, which is recorded a moment after the second.
    let (clock, half) =
        if seconds(span) < 120.0 { ("%H:%M:%S", 500_000) } else { ("%H:%M", 30_000_000) };
    let (from, to) = (at(span.0.saturating_add(half)), at(span.1.saturating_add(half)));
    let one_day = at(whole.0).date() == at(whole.1).date();
    let day = if one_day { String::new() } else { format!("{} ", from.date()) };
    let until = if one_day || from.date() == to.date() {
        clock.to_owned()
    } else {
        format!("%Y-%m-%d {clock}")
    };
    format!("{day}between {} and {}", from.strftime(clock), to.strftime(&until))
}

#[cfg(test)]
mod tests;
