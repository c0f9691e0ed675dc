//! Answers "did it help?" in one sentence.

use super::change::{self as figure, Change, Figure, Subject};
use super::comparison::{ArrayComparison, ComparisonVerdict};
use super::words::{difference, values};
use crate::origin::{io_name, plural};

/// Minimum relative difference of the load that makes utilisations incomparable.
const MIN_LOAD_RATIO: f64 = 1.1;
/// Minimum difference of the share of reads for the load to count as another kind of load.
const MIN_READ_SHARE: f64 = 0.1;
/// Minimum relative difference of a latency or of the disk time to affect the verdict.
const MIN_TIME_RATIO: f64 = 1.05;
/// Minimum difference of a utilisation to affect the verdict.
const MIN_POINTS: f64 = 0.01;
/// Minimum relative difference of a skew or a p99 to be named.
const MIN_NAMED_RATIO: f64 = 1.2;

/// Returns the verdict on an array, and the sentence.
pub fn find_verdict(array: &ArrayComparison) -> (ComparisonVerdict, String) {
    let name = array.name();
    let find = |subject: Subject, figure: &Figure| {
        let mut changes = array.changes.iter();
        changes.find(|c| c.subject == subject && c.figure == figure)
    };
    let Some(busiest) = find(Subject::Array, &figure::BUSIEST_UTILISATION) else {
        return (
            ComparisonVerdict::NoRequests,
            format!("{name}: its members were idle before and after"),
        );
    };
    let several = find(Subject::Array, &figure::MEAN_UTILISATION).is_some();
    let disk_time = find(Subject::Array, &figure::DISK_TIME);
    let bios = find(Subject::Load, &figure::BIOS);
    let load = find(Subject::Load, &figure::BYTES).or(bios);
    let reads = find(Subject::Load, &figure::READ_SHARE);
    let is_other = |c: &&Change| c.significant && c.is_beyond(MIN_LOAD_RATIO);
    let is_mixed = |c: &&Change| {
        c.significant && c.estimate.difference.is_some_and(|d| d.abs() >= MIN_READ_SHARE)
    };
    let other_load = load.filter(is_other);
    // With about the same bytes, but more or fewer bios, or another share of reads, neither
    // latencies nor the disk time for each MiB are comparable.
    let is_other_kind =
        other_load.is_none() && bios.filter(is_other).or(reads.filter(is_mixed)).is_some();
    let verdict = match load {
        _ if busiest.estimate.p.is_none() => ComparisonVerdict::TooShort,
        // The load of an array that is a member of another array is unknown.
        None => ComparisonVerdict::LoadDiffers,
        _ if is_other_kind => ComparisonVerdict::LoadDiffers,
        _ => decide(array, busiest, disk_time, other_load),
    };
    let was_now = |c: &Change, what: &str| was_now(c, what, verdict);
    let member = if several { "the busiest member was" } else { "it was" };
    let mut parts = vec![format!("{member} {}", was_now(busiest, " busy"))];
    parts.extend(skew(array));
    parts.extend(latency(array, several));
    let names_a_difference = parts.len() > 1 || busiest.significant;
    parts.push(match load {
        None => "the load is not known".to_owned(),
        Some(_) if is_other_kind => {
            let reads = reads.map(|c| was_now(c, " reads"));
            let both = bios.map(|c| was_now(c, " bios/s")).into_iter().chain(reads);
            format!("the load was of another kind: {}", both.collect::<Vec<_>>().join(", "))
        }
        Some(load) => format!("the load was {}", was_now(load, &format!(" {}", load.figure.label))),
    });
    if let Some(change) = disk_time.filter(|_| other_load.is_some()) {
        let busy = was_now(change, "");
        parts.push(format!("for each MiB submitted, members were busy for {busy}"));
    }
    let start = match verdict {
        ComparisonVerdict::Better => " is better: ",
        ComparisonVerdict::Worse => " is worse: ",
        ComparisonVerdict::Mixed => " is better and worse: ",
        ComparisonVerdict::Same if names_a_difference => ": no decisive difference: ",
        ComparisonVerdict::Same => ": no difference beyond noise: ",
        ComparisonVerdict::LoadDiffers if load.is_none() => ": unclear if it helped: ",
        ComparisonVerdict::LoadDiffers => ": the load differs, which may explain the rest: ",
        ComparisonVerdict::TooShort => ": too few intervals to tell a difference from noise: ",
        ComparisonVerdict::NoRequests => ": ",
    };
    (verdict, format!("{name}{start}{}", parts.join("; ")))
}

/// Decides from the utilisation and the latencies of the array. If the amount of load differs, uses
/// the disk time for each MiB instead of the utilisation, and ignores latencies that the load
/// explains.
fn decide(
    array: &ArrayComparison,
    busiest: &Change,
    disk_time: Option<&Change>,
    other_load: Option<&Change>,
) -> ComparisonVerdict {
    let difference = |c: &Change| c.estimate.difference.unwrap_or(0.0);
    let mut deltas = Vec::new();
    if other_load.is_some() {
        let change = disk_time.filter(|c| c.significant && c.is_beyond(MIN_TIME_RATIO));
        deltas.extend(change.map(difference));
    } else if busiest.significant && difference(busiest).abs() >= MIN_POINTS {
        // The maximum of several noisy figures grows with their noise, so that the shorter
        // recording seems to have a busier member.
        let of_members = [&figure::UTILISATION, &figure::MEAN_UTILISATION];
        let mut others = array.changes.iter().filter(|c| of_members.contains(&c.figure)).peekable();
        let confirms = |c: &Change| c.significant && difference(c) * difference(busiest) > 0.0;
        if others.peek().is_none() || others.any(confirms) {
            deltas.push(difference(busiest));
        }
    }
    let latencies = array.changes.iter().filter(|c| {
        let is_latency = [&figure::P50, &figure::P99].contains(&c.figure);
        let is_whole = c.subject == Subject::Array;
        is_latency && is_whole && c.significant && c.is_beyond(MIN_TIME_RATIO)
    });
    // A higher load makes requests wait, a lower load makes them wait less.
    let is_explained = |delta: f64| other_load.is_some_and(|c| difference(c) * delta > 0.0);
    deltas.extend(latencies.map(difference).filter(|delta| !is_explained(*delta)));
    match (deltas.iter().any(|d| *d < 0.0), deltas.iter().any(|d| *d > 0.0)) {
        (true, true) => ComparisonVerdict::Mixed,
        (true, false) => ComparisonVerdict::Better,
        (false, true) => ComparisonVerdict::Worse,
        _ if other_load.is_some() => ComparisonVerdict::LoadDiffers,
        _ => ComparisonVerdict::Same,
    }
}

/// `92 % busy, now 41 % (-51 points, 95 % interval -55 to -47)`
///
/// With [`ComparisonVerdict::Same`], the start of the sentence already says that the difference is
/// noise.
fn was_now(change: &Change, what: &str, verdict: ComparisonVerdict) -> String {
    let [was, now] = values(change);
    let how = match (change.estimate.p, change.significant) {
        (_, true) => format!(" ({})", difference(change)),
        (Some(_), false) if verdict != ComparisonVerdict::Same => {
            " (no difference beyond noise)".to_owned()
        }
        _ => String::new(),
    };
    format!("{was}{what}, now {now}{how}")
}

/// The largest change of an origin's skew: `skew of block_bitmap reads 6.1x -> 1.2x`.
fn skew(array: &ArrayComparison) -> Option<String> {
    let found = largest(array, |c| matches!(c.subject, Subject::Origin { .. }), &figure::SKEW)?;
    let Subject::Origin { origin, op } = found.subject else { return None };
    let [was, now] = values(found);
    Some(format!("skew of {} {} {was} -> {now}", io_name(origin, op), plural(op)))
}

/// The largest change of a p99 of a member, or else of the array; or else of a median of the array.
fn latency(array: &ArrayComparison, several: bool) -> Option<String> {
    let whole = |c: &Change| c.subject == Subject::Array;
    let found = largest(array, |c| matches!(c.subject, Subject::Member { .. }), &figure::P99)
        .or_else(|| largest(array, whole, &figure::P99))
        .or_else(|| largest(array, whole, &figure::P50))?;
    let on = match &found.subject {
        Subject::Member { member_before, member_after, .. }
            if several && member_before == member_after =>
        {
            format!(" on {member_after}")
        }
        Subject::Member { slot: Some(slot), .. } if several => format!(" on slot {slot}"),
        _ => String::new(),
    };
    let [was, now] = values(found);
    Some(format!("{} of {}{on} {was} -> {now}", found.figure.label, plural(found.op?)))
}

/// The significant change of `figure` with the largest ratio among those that `keep` accepts.
fn largest<'a>(
    array: &'a ArrayComparison,
    keep: impl Fn(&Change) -> bool,
    figure: &Figure,
) -> Option<&'a Change> {
    let named = array.changes.iter().filter(|c| c.significant && c.is_beyond(MIN_NAMED_RATIO));
    let kept = named.filter(|c| c.figure == figure && keep(c) && c.estimate.ratio.is_some());
    kept.max_by(|a, b| a.size().total_cmp(&b.size()))
}
