//! Facts that limit a comparison of two recordings.

use super::compared::Recording;
use crate::analysis::compare::comparison::Comparison;
use crate::analysis::compare::resample::ENOUGH_INTERVALS;
use crate::analysis::units;
use crate::commands::report::text;

/// Minimum ratio of two lengths to be mentioned.
const LONGER: f64 = 2.0;

/// One sentence for each fact, the most important first.
pub fn notes(
    before: &Recording<'_>,
    after: &Recording<'_>,
    comparison: &Comparison,
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(times(before, after));
    for (which, recording) in [("BEFORE", before), ("AFTER", after)] {
        notes.extend(recording_notes(which, recording));
    }
    let (was, now) = (&before.report.header, &after.report.header);
    for (what, was, now) in [
        ("host", &was.host, &now.host),
        ("kernel", &was.kernel, &now.kernel),
        ("machine", &was.machine, &now.machine),
        ("version of raidtrace", &was.version, &now.version),
    ] {
        if was != now {
            notes.push(format!("another {what}: {was} before, {now} after"));
        }
    }
    for (which, names) in [("BEFORE", &comparison.only_before), ("AFTER", &comparison.only_after)] {
        if !names.is_empty() {
            notes.push(format!(
                "only in {which}, not compared: {} (--pair BEFORE=AFTER chooses pairs)",
                units::list(names)
            ));
        }
    }
    match (&before.report.slow, &after.report.slow) {
        (Some(was), Some(now)) if was.threshold != now.threshold => notes.push(format!(
            "operations are slow from {} before and from {} after: shares of slow operations are \
             not compared",
            units::seconds(was.threshold),
            units::seconds(now.threshold)
        )),
        (Some(_), None) => notes.push("slow operations are only in BEFORE".to_owned()),
        (None, Some(_)) => notes.push("slow operations are only in AFTER".to_owned()),
        _ => {}
    }
    notes
}

/// Notes on the periods.
fn times(before: &Recording<'_>, after: &Recording<'_>) -> Vec<String> {
    let (was, now) = (&before.report, &after.report);
    let mut notes = Vec::new();
    let same_recording = was.header == now.header && was.recorded_us.0 == now.recorded_us.0;
    if same_recording && (was.from_us, was.to_us) == (now.from_us, now.to_us) {
        notes.push(
            "BEFORE and AFTER are the same recording and period: nothing can differ".to_owned(),
        );
        return notes;
    }
    if was.from_us > now.from_us {
        notes.push("AFTER was recorded earlier than BEFORE: are the two files swapped?".to_owned());
    }
    let overlap = was.to_us.min(now.to_us) - was.from_us.max(now.from_us);
    if overlap > 0 {
        let length = units::count(overlap as f64 / 1e6);
        if was.header.host == now.header.host {
            notes.push(format!(
                "the periods overlap by {length} s: the same requests are in both, so differences \
                 look smaller than they are"
            ));
        } else {
            notes.push(format!("the periods overlap by {length} s, on two hosts"));
        }
    }
    let (b, a) = (was.snapshot.interval.as_secs_f64(), now.snapshot.interval.as_secs_f64());
    if b.max(a) >= LONGER * b.min(a) {
        notes.push(format!(
            "the periods differ in length ({} and {}): figures are per second, and a rare event \
             may be in the longer one only",
            units::seconds(was.snapshot.interval),
            units::seconds(now.snapshot.interval)
        ));
    }
    notes
}

fn recording_notes(which: &str, recording: &Recording<'_>) -> Vec<String> {
    let (report, series) = (&recording.report, &recording.series);
    let mut notes = Vec::new();
    let intervals = series.intervals.len();
    if intervals < ENOUGH_INTERVALS {
        let have = match intervals {
            1 => "1 interval".to_owned(),
            n => format!("{n} intervals"),
        };
        notes.push(format!(
            "{which} has {have} of about a second, and {ENOUGH_INTERVALS} are needed to tell a \
             difference from noise: differences have no interval, and none is called significant"
        ));
    }
    if report.requests == 0 {
        notes.push(format!(
            "{which} has no requests: utilisation is that of the kernel's statistics"
        ));
    }
    if report.errors > 0 {
        notes.push(format!(
            "{which}: {} requests failed, and the time of a failed request says nothing",
            report.errors
        ));
    }
    if report.ending.is_cut() {
        notes.push(format!("{which}: {}", report.ending));
    }
    if series.gaps_us > 0 {
        notes.push(format!(
            "{which}: intervals of {} s in total are left out, because states are missing in them",
            units::count(series.gaps_us as f64 / 1e6)
        ));
    }
    let lost = report.snapshot.lost.events();
    if lost > 0 || series.with_losses > 0 {
        notes.push(format!(
            "{which} lost {lost} {}, in {} of {intervals} intervals: its figures are too low",
            if lost == 1 { "event" } else { "events" },
            series.with_losses
        ));
    }
    if report.invalid_rows > 0 {
        notes.push(format!(
            "{which}: {} rows could not be read or assigned to an array, and are left out",
            report.invalid_rows
        ));
    }
    let own = text::notes(report).len();
    if own > 0 {
        let (have, them) = match own {
            1 => ("1 note".to_owned(), "it"),
            n => (format!("{n} notes"), "them"),
        };
        notes.push(format!(
            "{which} has {have} of the recorder: raidtrace report {} prints {them}",
            crate::advice::quote::quote(recording.path)
        ));
    }
    notes
}
