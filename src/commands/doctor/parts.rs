//! `--load`: a recording judged interval by interval, so that ten bad minutes do not vanish in the mean of twelve hours. The
//! worst part of it speaks, and says when it was.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use jiff::{Timestamp, Zoned};

use super::facts::Facts;
use super::finding::{Finding, Severity};
use super::live::compare;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::time;
use crate::analysis::timeline::length_s;
use crate::analysis::window;
use crate::recording::reader::{Reader, Wanted};
use crate::recording::source::Source;

/// Intervals at most: five minutes each of twelve hours.
const INTERVALS: usize = 192;
/// Seconds of an interval at least, as long as `top` looks back: less proves nothing.
const SHORTEST_S: i64 = 10;
/// Rules that judge how much the disks suffer, by the figure that says how much. What contradicts the layout is judged over
/// the whole recording: in each part of it only some groups are written.
const RULES: [(&str, &str); 2] = [("live-skew", "utilisation"), ("bitmap-hot", "share")];
/// A part with this share of a recording is all of it.
const ALL: f64 = 0.9;

/// A part of a recording that is worse than the whole.
#[derive(Debug)]
pub struct Part {
    finding: Finding,
    from_us: i64,
    to_us: i64,
    whole_us: (i64, i64),
}

/// Consecutive intervals with the same warning.
struct Run {
    /// All of them.
    snapshot: Snapshot,
    from_us: i64,
    /// How much in each, times its seconds.
    weight: f64,
    /// Of the first one.
    finding: Finding,
}

/// Whether two findings are the same, of different times.
fn same(a: &Finding, b: &Finding) -> bool {
    (a.id, &a.array) == (b.id, &b.array)
}

/// How much a finding says that disks suffer; `None` where it is no warning, or no rule of [`RULES`].
fn figure(finding: &Finding) -> Option<f64> {
    let (_, name) = RULES.iter().find(|(id, _)| *id == finding.id)?;
    let warns = finding.severity >= Severity::Warning;
    warns.then(|| {
        finding
            .figures
            .get(*name)
            .and_then(|f| f.as_f64())
            .unwrap_or(0.0)
    })
}

/// The worst part of the recording `file`, from `whole_us.0` to `whole_us.1`, for each thing to warn of. `keep` takes out of
/// a snapshot what is not to be judged.
///
/// # Errors
/// Where the file cannot be read.
pub fn worst(
    file: &Path,
    whole_us: (i64, i64),
    keep: impl Fn(&mut Snapshot),
    facts: &Facts,
) -> Result<Vec<Part>> {
    let length_us = whole_us.1.saturating_sub(whole_us.0);
    let length_s = length_s(length_us, INTERVALS).max(SHORTEST_S);
    let interval = Duration::from_secs(length_s.unsigned_abs());
    if length_us < length_s.saturating_mul(2_000_000) {
        return Ok(Vec::new());
    }
    let reader = Reader::open(file, Wanted::Figures)?;
    // Nothing is asked for again.
    let source = Source::new(reader, interval, Box::new(|| None));
    let (mut going, mut ended) = (Vec::<Run>::new(), Vec::<Run>::new());
    // What is left at the end may be a second.
    for mut snapshot in source.filter(|s| s.interval >= interval / 2) {
        keep(&mut snapshot);
        let seconds = snapshot.interval.as_secs_f64();
        let mut still = Vec::new();
        for finding in compare(facts, &snapshot).1 {
            let Some(weight) = figure(&finding).map(|f| f * seconds) else {
                continue;
            };
            let before = going.iter().position(|run| same(&run.finding, &finding));
            still.push(match before.map(|at| going.swap_remove(at)) {
                Some(mut run) => {
                    window::join(&mut run.snapshot, &snapshot, window::alike);
                    run.weight += weight;
                    run
                }
                None => Run {
                    from_us: begin(&snapshot),
                    snapshot: snapshot.clone(),
                    weight,
                    finding,
                },
            });
        }
        for run in std::mem::replace(&mut going, still) {
            end(&mut ended, run);
        }
    }
    for run in going {
        end(&mut ended, run);
    }
    let part = |run: Run| {
        let over_all = compare(facts, &run.snapshot).1;
        let found = over_all.into_iter().find(|f| same(f, &run.finding));
        Part {
            finding: found.filter(|f| figure(f).is_some()).unwrap_or(run.finding),
            from_us: run.from_us,
            to_us: run.snapshot.time.as_microsecond(),
            whole_us,
        }
    };
    Ok(ended.into_iter().map(part).collect())
}

fn begin(snapshot: &Snapshot) -> i64 {
    let length = i64::try_from(snapshot.interval.as_micros()).unwrap_or(i64::MAX);
    snapshot.time.as_microsecond().saturating_sub(length)
}

/// Of runs with the same warning the worst is kept.
fn end(ended: &mut Vec<Run>, run: Run) {
    match ended.iter_mut().find(|r| same(&r.finding, &run.finding)) {
        Some(other) if other.weight >= run.weight => {}
        Some(other) => *other = run,
        None => ended.push(run),
    }
}

/// Puts the findings of parts in the place of those of the whole recording, which average over it.
pub fn speak(found: &mut Vec<Finding>, parts: Vec<Part>) {
    for part in parts {
        let of_whole = found.iter().position(|f| same(f, &part.finding));
        match of_whole {
            Some(at) if part.is_all() && figure(&found[at]).is_some() => {}
            Some(at) => found[at] = part.told(),
            None => found.push(part.told()),
        }
    }
}

impl Part {
    fn share(&self) -> f64 {
        let whole = self.whole_us.1.saturating_sub(self.whole_us.0).max(1);
        self.to_us.saturating_sub(self.from_us) as f64 / whole as f64
    }

    fn is_all(&self) -> bool {
        self.share() >= ALL
    }

    /// The finding, with its time.
    fn told(self) -> Finding {
        let seconds = |(from, to): (i64, i64)| to.saturating_sub(from) as f64 / 1e6;
        let (part, whole) = (seconds((self.from_us, self.to_us)), seconds(self.whole_us));
        let (unit, word) = if whole < 1200.0 {
            (1.0, "s")
        } else {
            (60.0, "min")
        };
        let from_to = between(self.from_us, self.to_us, self.whole_us);
        let finding = self.finding;
        Finding {
            title: format!("{from_to}: {}", finding.title),
            ..finding
        }
        .seen(format!(
            "for {:.0} of {:.0} {word} recorded, the worst part of it",
            part / unit,
            whole / unit
        ))
        .figure("from", time::rfc3339(self.from_us))
        .figure("to", time::rfc3339(self.to_us))
    }
}

/// `between 03:10 and 03:20`, local time; with seconds where that is not long, and a date where the recording has several.
fn between(from_us: i64, to_us: i64, whole_us: (i64, i64)) -> String {
    let zone = time::local();
    let at = |us: i64| -> Zoned {
        let stamp = Timestamp::from_microsecond(us).unwrap_or_default();
        stamp.to_zoned(zone.clone())
    };
    // Intervals end with a state, a moment after the second.
    let (clock, half) = if to_us.saturating_sub(from_us) < 120_000_000 {
        ("%H:%M:%S", 500_000)
    } else {
        ("%H:%M", 30_000_000)
    };
    let (from, to) = (
        at(from_us.saturating_add(half)),
        at(to_us.saturating_add(half)),
    );
    let (day, until) = if at(whole_us.0).date() == at(whole_us.1).date() {
        (String::new(), clock.to_owned())
    } else if from.date() == to.date() {
        (format!("{} ", from.date()), clock.to_owned())
    } else {
        (format!("{} ", from.date()), format!("%Y-%m-%d {clock}"))
    };
    format!(
        "{day}between {} and {}",
        from.strftime(clock),
        to.strftime(&until)
    )
}

#[cfg(test)]
mod tests;
