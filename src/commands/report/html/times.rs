//! Times of a report in UTC and in the time zone of the recorded machine.

use jiff::tz::TimeZone;

use crate::analysis::time;
use crate::recording::gather::Report;

/// `2026-11-20 12:00:00.000 to 12:00:30.000`, UTC.
pub(super) fn utc(from_us: i64, to_us: i64) -> String {
    time::period_in(from_us, to_us, &TimeZone::UTC).replace(" +00:00", "")
}

/// The period in the time zones of the recorded machine and of this one, where these differ from
/// UTC: name and time.
pub(super) fn local(report: &Report) -> Vec<(String, String)> {
    let (from, to) = (report.from_us, report.to_us);
    let mut periods = Vec::new();
    let here = time::local();
    if let Some(there) = report.header.zone().filter(|z| !time::is_utc(from, z)) {
        let name = format!("Local time of {}", report.header.host);
        periods.push((name, time::period_in(from, to, &there)));
    }
    let text = time::period_in(from, to, &here);
    if !time::is_utc(from, &here) && periods.iter().all(|p| p.1 != text) {
        let name = here.iana_name().unwrap_or("this machine");
        periods.push((format!("Local time ({name})"), text));
    }
    periods
}

/// `12:00:01Z`
pub(super) fn clock(us: i64) -> String {
    let text = time::clock(us);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}
