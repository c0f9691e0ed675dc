//! Answers "did it help?" in one sentence.

use super::change::{Change, Figure, Subject};
use super::comparison::{ArrayComparison, Verdict};
use super::words::{difference, value};
use crate::analysis::units;
use crate::origin::{io_name, plural};

/// Minimum relative difference of the load that makes utilisations incomparable.
const LOAD: f64 = 1.1;
/// Minimum difference of the share of reads for the load to count as another kind of load.
const MIX: f64 = 0.1;
/// Minimum relative difference of a latency or of the disk time to affect the verdict.
const RELATIVE: f64 = 1.05;
/// Minimum difference of a utilisation to affect the verdict.
const POINTS: f64 = 0.01;
/// Minimum relative difference of a skew or a p99 to be named.
const NAMED: f64 = 1.2;

/// Returns the verdict on an array, and the sentence.
pub fn find_verdict(array: &ArrayComparison) -> (Verdict, String) {
    let name = match (&array.before.name, &array.after.name) {
        (was, now) if was == now => now.clone(),
        (was, now) => format!("{was} -> {now}"),
    };
    let find = |subject: &Subject, figure| {
        let mut changes = array.changes.iter();
        changes.find(|c| c.subject == *subject && c.figure == figure)
    };
    let Some(busiest) = find(&Subject::Array, Figure::BusiestUtilisation) else {
        return (Verdict::NoRequests, format!("{name}: its members were idle before and after"));
    };
    let load = Load {
        bytes: find(&Subject::Load, Figure::Bytes),
        bios: find(&Subject::Load, Figure::Bios),
        reads: find(&Subject::Load, Figure::ReadShare),
    };
    let disk_time = find(&Subject::Array, Figure::DiskTime);
    let verdict = if busiest.estimate.p.is_none() {
        Verdict::TooShort
    } else if load.is_another_kind() || load.is_unknown() {
        Verdict::LoadDiffers
    } else {
        decide(array, busiest, disk_time, load.more())
    };
    let several = find(&Subject::Array, Figure::MeanUtilisation).is_some();
    let mut parts = vec![format!(
        "{} {}",
        if several { "the busiest member was" } else { "it was" },
        was_now(busiest, " busy", verdict)
    )];
    parts.extend(skew(array));
    parts.extend(latency(array, several));
    let names_a_difference = parts.len() > 1 || busiest.is_significant();
    parts.push(load.describe(verdict));
    if let Some(change) = disk_time.filter(|_| load.more().is_some()) {
        parts.push(format!(
            "for each MiB submitted, members were busy for {}",
            was_now(change, "", verdict)
        ));
    }
    let start = match verdict {
        Verdict::Better => " is better: ",
        Verdict::Worse => " is worse: ",
        Verdict::Mixed => " is better and worse: ",
        Verdict::Same if names_a_difference => ": no decisive difference: ",
        Verdict::Same => ": no difference beyond noise: ",
        Verdict::LoadDiffers if load.is_unknown() => ": unclear if it helped: ",
        Verdict::LoadDiffers => ": the load differs, which may explain the rest: ",
        Verdict::TooShort => ": too few intervals to tell a difference from noise: ",
        Verdict::NoRequests => ": ",
    };
    (verdict, format!("{name}{start}{}", parts.join("; ")))
}

/// Differences of the load that tasks submitted to the array.
struct Load<'a> {
    bytes: Option<&'a Change>,
    bios: Option<&'a Change>,
    /// Share of reads in the bytes.
    reads: Option<&'a Change>,
}

impl<'a> Load<'a> {
    /// The bytes, or without any the bios, if they differ beyond noise.
    fn more(&self) -> Option<&'a Change> {
        self.bytes.or(self.bios).filter(|c| c.is_significant() && beyond(c, LOAD))
    }

    /// True if the bytes are about the same, but the bios are larger or smaller, or the share of
    /// reads differs. Neither latencies nor the disk time for each MiB are comparable then.
    fn is_another_kind(&self) -> bool {
        let is_other = |c: &&Change| c.is_significant() && beyond(c, LOAD);
        let is_mixed = |c: &&Change| {
            c.is_significant() && c.estimate.difference().is_some_and(|d| d.abs() >= MIX)
        };
        self.more().is_none()
            && (self.bios.filter(is_other).is_some() || self.reads.filter(is_mixed).is_some())
    }

    /// True if the load is not known, as for an array that is a member of another array.
    fn is_unknown(&self) -> bool {
        self.bytes.is_none() && self.bios.is_none()
    }

    fn describe(&self, verdict: Verdict) -> String {
        let was_now = |c: &Change, unit| was_now(c, unit, verdict);
        let Some(load) = self.bytes.or(self.bios) else {
            return "the load is not known".to_owned();
        };
        let unit = match load.figure {
            Figure::Bytes => " MiB/s",
            _ => " bios/s",
        };
        if let Some(load) = self.more() {
            return match load.estimate.ratio() {
                Some(times) => format!("the load was {}", compared(times)),
                None => format!("the load was {}", was_now(load, unit)),
            };
        }
        if self.is_another_kind() {
            let bios = self.bios.map(|c| was_now(c, " bios/s"));
            let reads = self.reads.map(|c| was_now(c, " reads"));
            let parts: Vec<String> = bios.into_iter().chain(reads).collect();
            return format!("the load was of another kind: {}", parts.join(", "));
        }
        let is_tested = load.estimate.p.is_some();
        if is_tested && !beyond(load, LOAD) {
            return "the load was about the same".to_owned();
        }
        format!("the load was {}", was_now(load, unit))
    }
}

/// True if the figure differs by at least the factor `by`.
fn beyond(change: &Change, by: f64) -> bool {
    match (change.estimate.before, change.estimate.after) {
        (Some(before), Some(after)) => before * by <= after || after * by <= before,
        _ => false,
    }
}

/// Decides from the utilisation and the latencies of the array. If the amount of load differs, uses
/// the disk time for each MiB instead of the utilisation, and ignores latencies that the load
/// explains.
fn decide(
    array: &ArrayComparison,
    busiest: &Change,
    disk_time: Option<&Change>,
    other_load: Option<&Change>,
) -> Verdict {
    let difference = |c: &Change| c.estimate.difference().unwrap_or(0.0);
    let (mut better, mut worse) = (false, false);
    let mut count = |delta: f64| {
        better |= delta < 0.0;
        worse |= delta > 0.0;
    };
    // The maximum of several noisy figures grows with their noise, so that the shorter recording
    // seems to have a busier member.
    let is_confirmed = || {
        let mut others = array.changes.iter().filter(|c| {
            matches!(c.figure, Figure::Utilisation | Figure::MeanUtilisation) && c.is_significant()
        });
        let is_single = !array.changes.iter().any(|c| c.figure == Figure::MeanUtilisation);
        is_single || others.any(|c| (difference(c) > 0.0) == (difference(busiest) > 0.0))
    };
    match other_load {
        None if busiest.is_significant()
            && difference(busiest).abs() >= POINTS
            && is_confirmed() =>
        {
            count(difference(busiest));
        }
        Some(_) => {
            let change = disk_time.filter(|c| c.is_significant() && beyond(c, RELATIVE));
            change.into_iter().for_each(|c| count(difference(c)));
        }
        None => {}
    }
    let more_load = other_load.map(|c| difference(c) > 0.0);
    let latencies = array.changes.iter().filter(|c| {
        c.subject == Subject::Array
            && matches!(c.figure, Figure::P50(_) | Figure::P99(_))
            && c.is_significant()
            && beyond(c, RELATIVE)
    });
    for change in latencies {
        let delta = difference(change);
        // A higher load makes requests wait, a lower load makes them wait less.
        if more_load != Some(delta > 0.0) {
            count(delta);
        }
    }
    match (better, worse) {
        (true, true) => Verdict::Mixed,
        (true, false) => Verdict::Better,
        (false, true) => Verdict::Worse,
        _ if other_load.is_some() => Verdict::LoadDiffers,
        _ => Verdict::Same,
    }
}

/// `92 % busy, now 41 % (-51 points, 95 % interval -55 to -47)`
///
/// With [`Verdict::Same`], the start of the sentence already says that the difference is noise.
fn was_now(change: &Change, what: &str, verdict: Verdict) -> String {
    let unit = change.figure.unit();
    let [was, now] = [change.estimate.before, change.estimate.after].map(|v| value(unit, v));
    let how = match (change.estimate.p, change.is_significant()) {
        (None, _) | (_, false) if verdict == Verdict::Same => String::new(),
        (None, _) => String::new(),
        (_, true) => format!(" ({})", difference(change)),
        _ => " (no difference beyond noise)".to_owned(),
    };
    format!("{was}{what}, now {now}{how}")
}

/// The largest change of an origin's skew.
fn skew(array: &ArrayComparison) -> Option<String> {
    let largest =
        largest(array, |c| matches!(c.subject, Subject::Origin(..)) && c.figure == Figure::Skew)?;
    let Subject::Origin(origin, op) = largest.subject else {
        return None;
    };
    let what = format!("skew of {} {}", io_name(origin, op), plural(op));
    Some(from_to(&what, largest))
}

/// `skew of block_bitmap reads 6.1x -> 1.2x`
fn from_to(what: &str, change: &Change) -> String {
    let unit = change.figure.unit();
    let [was, now] = [change.estimate.before, change.estimate.after].map(|v| value(unit, v));
    format!("{what} {was} -> {now}")
}

/// The largest change of a p99 of a member, or else of the array; or else of a median of the array.
fn latency(array: &ArrayComparison, several: bool) -> Option<String> {
    let is_p99 = |c: &Change| matches!(c.figure, Figure::P99(_));
    let is_p50 = |c: &Change| matches!(c.figure, Figure::P50(_));
    let member = largest(array, |c| matches!(c.subject, Subject::Member { .. }) && is_p99(c));
    let whole =
        |of: &dyn Fn(&Change) -> bool| largest(array, |c| c.subject == Subject::Array && of(c));
    let found = member.or_else(|| whole(&is_p99)).or_else(|| whole(&is_p50))?;
    let op = plural(found.figure.op()?);
    let what = match &found.subject {
        Subject::Member { before, after, .. } if several && before == after => {
            format!("{op} on {after}")
        }
        Subject::Member { slot: Some(slot), .. } if several => format!("{op} on slot {slot}"),
        _ => op.to_owned(),
    };
    let what = format!("{} of {what}", found.figure.label());
    Some(from_to(&what, found))
}

/// The significant change with the largest ratio among those that `keep` accepts.
fn largest(array: &ArrayComparison, keep: impl Fn(&Change) -> bool) -> Option<&Change> {
    let size = |c: &Change| c.estimate.ratio().map_or(0.0, |r| r.max(1e-9).ln().abs());
    array
        .changes
        .iter()
        .filter(|c| c.is_significant() && beyond(c, NAMED) && keep(c))
        .max_by(|a, b| size(a).total_cmp(&size(b)))
}

/// `2.1 times as high`, `31 % higher`, `52 % lower`.
fn compared(times: f64) -> String {
    if times >= 2.0 {
        format!("{} times as high", units::count(times))
    } else if times >= 1.0 {
        format!("{} higher", units::percent(times - 1.0))
    } else {
        format!("{} lower", units::percent(1.0 - times))
    }
}
