//! Facts that limit a comparison of two recordings.

use super::compared::ComparedRecording;
use crate::advice::quote::quote;
use crate::analysis::compare::bootstrap::MIN_INTERVALS;
use crate::analysis::compare::differences::Comparison;
use crate::analysis::units::{count, list, seconds};
use crate::commands::report::text;

/// Minimum ratio of two lengths to be mentioned.
const MIN_LENGTH_RATIO: f64 = 2.0;

/// One sentence for each fact, the most important first.
pub fn notes(recordings: &[ComparedRecording<'_>; 2], comparison: &Comparison) -> Vec<String> {
    let [was, now] = recordings.each_ref().map(|recording| &recording.report);
    let mut notes = times(recordings);
    for (which, recording) in ["BEFORE", "AFTER"].into_iter().zip(recordings) {
        notes.extend(recording_notes(which, recording));
    }
    for (what, was, now) in [
        ("host", &was.header.host, &now.header.host),
        ("kernel", &was.header.kernel, &now.header.kernel),
        ("machine", &was.header.machine, &now.header.machine),
        ("version of raidtrace", &was.header.version, &now.header.version),
    ] {
        if was != now {
            notes.push(format!("another {what}: {was} before, {now} after"));
        }
    }
    for (which, names) in [("BEFORE", &comparison.only_before), ("AFTER", &comparison.only_after)] {
        if !names.is_empty() {
            let names = list(names);
            notes.push(format!(
                "only in {which}, not compared: {names} (--pair BEFORE=AFTER chooses pairs)"
            ));
        }
    }
    let thresholds = [was, now].map(|report| report.slow.as_ref().map(|slow| slow.threshold));
    match thresholds {
        [Some(was), Some(now)] if was != now => notes.push(format!(
            "operations are slow from {} before and from {} after: shares of slow operations are \
             not compared",
            seconds(was),
            seconds(now)
        )),
        [Some(_), None] => notes.push("slow operations are only in BEFORE".to_owned()),
        [None, Some(_)] => notes.push("slow operations are only in AFTER".to_owned()),
        _ => {}
    }
    notes
}

/// Notes on the periods.
fn times(recordings: &[ComparedRecording<'_>; 2]) -> Vec<String> {
    let [was, now] = recordings.each_ref().map(|recording| &recording.report);
    let same_recording = was.header == now.header && was.recorded_us.0 == now.recorded_us.0;
    if same_recording && (was.from_us, was.to_us) == (now.from_us, now.to_us) {
        let same = "BEFORE and AFTER are the same recording and period: nothing can differ";
        return vec![same.to_owned()];
    }
    let overlap = was.to_us.min(now.to_us) - was.from_us.max(now.from_us);
    let length = count(overlap as f64 / 1e6);
    let (b, a) = (was.snapshot.interval, now.snapshot.interval);
    chosen([
        (
            was.from_us > now.from_us,
            "AFTER was recorded earlier than BEFORE: are the two files swapped?".to_owned(),
        ),
        (
            overlap > 0 && was.header.host == now.header.host,
            format!(
                "the periods overlap by {length} s: the same requests are in both, so differences \
                 look smaller than they are"
            ),
        ),
        (
            b.max(a) >= b.min(a).mul_f64(MIN_LENGTH_RATIO),
            format!(
                "the periods differ in length ({} and {}): figures are per second, and a rare \
                 event may be in the longer one only",
                seconds(b),
                seconds(a)
            ),
        ),
    ])
}

/// The sentences whose condition is true.
fn chosen(notes: impl IntoIterator<Item = (bool, String)>) -> Vec<String> {
    notes.into_iter().filter_map(|(is, note)| is.then_some(note)).collect()
}

fn recording_notes(which: &str, recording: &ComparedRecording<'_>) -> Vec<String> {
    let (report, series) = (&recording.report, &recording.series);
    let (n, with_losses) = (series.seconds.len(), series.with_losses);
    let (lost, errors) = (report.snapshot.lost.events(), report.errors);
    let (invalid, own) = (report.invalid_rows, text::notes(report).len());
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    let (intervals, events, notes) = (plural(n as u64), plural(lost), plural(own as u64));
    let gaps = count(series.gaps.as_secs_f64());
    let path = quote(recording.path);
    chosen([
        (
            n < MIN_INTERVALS,
            format!(
                "{which} has {n} interval{intervals} of about a second, and {MIN_INTERVALS} are \
                 needed to tell a difference from noise: differences have no interval, and none is \
                 called significant"
            ),
        ),
        (
            report.requests == 0,
            format!("{which} has no requests: utilisation is that of the kernel's statistics"),
        ),
        (
            errors > 0,
            format!(
                "{which}: {errors} requests failed, and the time of a failed request says nothing"
            ),
        ),
        (report.ending.is_cut(), format!("{which}: {}", report.ending)),
        (
            !series.gaps.is_zero(),
            format!(
                "{which}: intervals of {gaps} s in total are left out, because states are missing \
                 in them"
            ),
        ),
        (
            lost > 0 || with_losses > 0,
            format!(
                "{which} lost {lost} event{events}, in {with_losses} of {n} intervals: its \
                 figures are too low"
            ),
        ),
        (
            invalid > 0,
            format!(
                "{which}: {invalid} rows could not be read or assigned to an array, and are left \
                 out"
            ),
        ),
        (
            own > 0,
            format!("{which} has {own} note{notes} of the recorder, see raidtrace report {path}"),
        ),
    ])
}
