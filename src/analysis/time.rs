//! Parsing and formatting of times in a recording.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// Start and end of a recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordedSpan {
    /// Time of the first item, µs since 1970.
    pub start_us: i64,
    /// Time of the last item; `None` if not known yet. See [`needs_end`].
    pub end_us: Option<i64>,
}

/// True if `text` depends on the end of the recording: a time without a date, or a time counted
/// back from the end.
pub fn needs_end(text: &str) -> bool {
    text.starts_with('-') || clock_of(text).is_some()
}

/// The time zone of this machine and user (`TZ`, else /etc/localtime); UTC without either.
pub fn local() -> TimeZone {
    if cfg!(test) {
        return TimeZone::UTC; // wherever unit tests run
    }
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

/// Parses a time without a date: the time, its precision (a minute for `11:47`), and true for UTC
/// (`11:47Z`).
fn clock_of(text: &str) -> Option<(Time, i64, bool)> {
    let plain = text.trim_end_matches(['Z', 'z']);
    let time: Time = plain.parse().ok()?;
    let minute = plain.matches(':').count() < 2;
    let length = if minute { 60_000_000 } else { 1_000_000 };
    // jiff also parses `T12` and `2026-11-22 11:47` as a time.
    let clock = plain.starts_with(|c: char| c.is_ascii_digit()) && plain.find(':') == Some(2);
    clock.then_some((time, length, plain.len() < text.len()))
}

/// All times at which clocks in `zone` showed `at`: two if the clocks were set back in between.
fn moments(at: DateTime, zone: &TimeZone) -> Vec<i64> {
    let time = zone.to_ambiguous_timestamp(at);
    let both = match time.offset() {
        AmbiguousOffset::Fold { .. } => vec![time.earlier(), time.later()],
        _ => vec![time.compatible()],
    };
    both.into_iter().flatten().map(|t| t.as_microsecond()).collect()
}

fn date(us: i64, zone: &TimeZone) -> Date {
    stamp(us).to_zoned(zone.clone()).date()
}

fn stamp(us: i64) -> Timestamp {
    Timestamp::from_microsecond(us).unwrap_or_default()
}

impl RecordedSpan {
    /// Span of a recording that began at `start_us`.
    pub fn new(start_us: i64) -> Self {
        Self { start_us, end_us: None }
    }

    /// Like [`RecordedSpan::parse`], but not before the start.
    pub fn begin(&self, text: &str, zone: &TimeZone) -> Result<i64, String> {
        Ok(self.parse(text, zone)?.max(self.start_us))
    }

    /// Parses `text` as a time in this recording, µs since 1970:
    ///
    /// * `+90`, `+1.5s`, `+2m`, `+1h` from the start; `-30` before the end.
    /// * `2026-11-22T11:47:30Z`, `2026-11-22 11:47`; without `Z` or an offset, in `zone`.
    /// * `11:47`, `11:47:30`, `11:47Z`: on the day of the recording, and on the next day if it
    ///   reaches midnight.
    pub fn parse(&self, text: &str, zone: &TimeZone) -> Result<i64, String> {
        if let Some(after) = text.strip_prefix('+') {
            let us = duration(after).ok_or_else(|| wrong(text))?;
            return Ok(self.start_us.saturating_add(us));
        }
        if let Some(before) = text.strip_prefix('-') {
            let us = duration(before).ok_or_else(|| wrong(text))?;
            let end = self.end_us.ok_or("the recording's end is not known")?;
            return Ok(end.saturating_sub(us));
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(time.as_microsecond());
        }
        if let Some(clock) = clock_of(text) {
            return self.on_its_day(text, clock, zone);
        }
        let plain = text.trim_end_matches(['Z', 'z']);
        let zone = if plain.len() < text.len() { &TimeZone::UTC } else { zone };
        let at: DateTime = plain.parse().map_err(|_| wrong(text))?;
        match moments(at, zone)[..] {
            [time] => Ok(time),
            [] => Err(wrong(text)),
            ref several => Err(ambiguous(text, several, zone)),
        }
    }

    fn on_its_day(
        &self,
        text: &str,
        (clock, length, utc): (Time, i64, bool),
        zone: &TimeZone,
    ) -> Result<i64, String> {
        let end_us = self.end_us.unwrap_or(i64::MAX);
        let all = |zone: &TimeZone| -> Vec<i64> {
            // For a recording of weeks the first days suffice to report an ambiguous time.
            let last = date(self.end_us.unwrap_or(self.start_us), zone);
            let days = date(self.start_us, zone)
                .series(jiff::Span::new().days(1))
                .take_while(|day| *day <= last)
                .take(32);
            days.flat_map(|day| moments(day.to_datetime(clock), zone)).collect()
        };
        let inside = |times: &[i64]| -> Vec<i64> {
            let within = |t: &i64| t.saturating_add(length) > self.start_us && *t <= end_us;
            times.iter().copied().filter(within).collect()
        };
        let own = if utc { &TimeZone::UTC } else { zone };
        let times = all(own);
        match inside(&times)[..] {
            [time] => Ok(time),
            [] => {
                let in_utc = inside(&all(&TimeZone::UTC));
                if !utc && !in_utc.is_empty() {
                    let offset = own.to_offset(stamp(self.start_us));
                    return Err(format!(
                        "{text} is local time (UTC{offset}) and outside the recording, which \
                         begins at {}; {text}Z (UTC) is inside",
                        clock_both(self.start_us, own)
                    ));
                }
                times.first().copied().ok_or_else(|| wrong(text))
            }
            ref several => Err(ambiguous(text, several, own)),
        }
    }
}

/// Parses `90`, `1.5s`, `2m` or `1h`; the result is in µs.
fn duration(text: &str) -> Option<i64> {
    let seconds = seconds(text).filter(|s| (0.0..=1e12).contains(s))?;
    Some((seconds * 1e6) as i64)
}

/// Parses `90`, `1.5s`, `2m` or `1h`; the result is in seconds.
pub fn seconds(text: &str) -> Option<f64> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let found = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (digits, unit) = found?;
    Some(digits.parse::<f64>().ok()? * unit)
}

fn wrong(text: &str) -> String {
    format!(
        "'{text}' is not a time: 11:47 (local), 11:47:30Z (UTC), 2026-11-20 11:47, \
         2026-11-20T12:00:30Z, +30 (seconds from the start) or -30 (before the end)"
    )
}

fn ambiguous(text: &str, times: &[i64], zone: &TimeZone) -> String {
    let mut each: Vec<String> = times.iter().take(4).map(|&us| rfc3339_in(us, zone)).collect();
    if times.len() > each.len() {
        each.push("...".to_owned());
    }
    format!("'{text}' is ambiguous: {}", each.join(" or "))
}

/// `12:00:01.250Z`
pub fn clock(us: i64) -> String {
    stamp(us).strftime("%H:%M:%S.%3fZ").to_string()
}

/// `12:00:01.250Z (13:00:01 local)`; without the local time if `zone` is UTC.
pub fn clock_both(us: i64, zone: &TimeZone) -> String {
    if is_utc(us, zone) {
        return clock(us);
    }
    let local = stamp(us).to_zoned(zone.clone());
    format!("{} ({} local)", clock(us), local.strftime("%H:%M:%S"))
}

/// True if `zone` is UTC at that time.
pub fn is_utc(us: i64, zone: &TimeZone) -> bool {
    zone.to_offset(stamp(us)) == Offset::UTC
}

/// `2026-11-20T12:00:01.250000Z`
pub fn rfc3339(us: i64) -> String {
    stamp(us).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// `2026-11-20T13:00:01.250000+01:00`
pub fn rfc3339_in(us: i64, zone: &TimeZone) -> String {
    stamp(us).to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S.%6f%:z").to_string()
}

/// `2026-11-20 13:00:01.250 to 13:00:31.000 +01:00`; both dates if the day changes.
pub fn period_in(from_us: i64, to_us: i64, zone: &TimeZone) -> String {
    let [from, to] = [from_us, to_us].map(|us| stamp(us).to_zoned(zone.clone()));
    let same = from.date() == to.date() && from.offset() == to.offset();
    let to = if same {
        to.strftime("%H:%M:%S.%3f %:z")
    } else {
        to.strftime("%Y-%m-%d %H:%M:%S.%3f %:z")
    };
    format!("{} to {to}", from.strftime("%Y-%m-%d %H:%M:%S.%3f"))
}

#[cfg(test)]
mod tests {
    use super::{RecordedSpan, clock, clock_both, needs_end, period_in, rfc3339, rfc3339_in};
    use jiff::tz::{Offset, TimeZone};

    const SECOND: i64 = 1_000_000;
    const DAY: i64 = 86_400 * SECOND;
    /// 2026-11-20T00:00:00Z
    const MIDNIGHT: i64 = 1_795_176_000_000_000 - DAY / 2;

    fn at(hour: i64, minute: i64, second: i64) -> i64 {
        MIDNIGHT + (hour * 3600 + minute * 60 + second) * SECOND
    }

    fn span(start_us: i64, seconds: i64) -> RecordedSpan {
        RecordedSpan { start_us, end_us: Some(start_us + seconds * SECOND) }
    }

    #[test]
    fn times() {
        let start = at(23, 59, 58) + 500_000;
        let span = span(start, 600);
        let parse = |text| span.parse(text, &TimeZone::UTC);
        assert_eq!(rfc3339(start), "2026-11-20T23:59:58.500000Z");
        assert_eq!(clock(start), "23:59:58.500Z");
        assert_eq!(parse("+0"), Ok(start));
        assert_eq!(parse("+1.5s"), Ok(start + 1_500_000));
        assert_eq!(parse("+2m"), Ok(start + 120_000_000));
        assert_eq!(parse("-2m"), Ok(start + 480_000_000));
        assert_eq!(parse("2026-11-20T23:59:59Z"), Ok(start + 500_000));
        assert_eq!(parse("2026-11-20 23:59:59"), Ok(start + 500_000));
        assert_eq!(parse("2026-11-21 00:01Z"), Ok(start + 61_500_000));
        assert_eq!(parse("23:59:59"), Ok(start + 500_000));
        assert_eq!(parse("23:59:58"), Ok(start - 500_000));
        assert_eq!(parse("00:00:10Z"), Ok(start + 11_500_000));
        for text in ["", "+", "-", "+x", "+-1", "25:00:00", "noon", "+1e99", "+NaN", "Z", "11"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(needs_end("11:47") && needs_end("-3") && needs_end("11:47:01Z"));
        assert!(!needs_end("+3") && !needs_end("2026-11-20 11:47") && !needs_end("noon"));
    }

    #[test]
    fn a_time_without_date_is_on_the_day_of_the_recording() {
        // From 11:47:37 to 11:50.
        let span = span(at(11, 47, 37), 143);
        let begin = |text| span.begin(text, &TimeZone::UTC);
        assert_eq!(begin("11:47"), Ok(span.start_us));
        assert_eq!(begin("11:47:30"), Ok(span.start_us));
        assert_eq!(begin("11:30"), Ok(span.start_us), "before it: all of it");
        assert_eq!(begin("11:48"), Ok(at(11, 48, 0)));
        assert_eq!(begin("11:55"), Ok(at(11, 55, 0)), "not yesterday's");
    }

    #[test]
    fn the_next_day_is_used_only_if_the_recording_reaches_it() {
        let span = span(at(23, 50, 0), 1200);
        let parse = |text| span.parse(text, &TimeZone::UTC);
        assert_eq!(parse("23:55"), Ok(at(23, 55, 0)));
        assert_eq!(parse("00:05"), Ok(at(24, 5, 0)));
        assert_eq!(span.begin("23:40", &TimeZone::UTC), Ok(span.start_us));
    }

    #[test]
    fn a_time_on_two_days_is_ambiguous() {
        let span = span(at(11, 0, 0), 2 * 86_400);
        let why = span.parse("12:30", &TimeZone::UTC).unwrap_err();
        assert_eq!(
            why,
            "'12:30' is ambiguous: 2026-11-20T12:30:00.000000+00:00 or \
             2026-11-21T12:30:00.000000+00:00"
        );
        assert_eq!(span.parse("2026-11-21 12:30", &TimeZone::UTC), Ok(at(36, 30, 0)));
    }

    #[test]
    fn times_without_z_are_local() {
        let zone = TimeZone::fixed(Offset::constant(5));
        let span = span(at(11, 47, 37), 600);
        assert_eq!(span.parse("16:50", &zone), Ok(at(11, 50, 0)));
        assert_eq!(span.parse("2026-11-20 16:50", &zone), Ok(at(11, 50, 0)));
        assert_eq!(span.parse("11:50Z", &zone), Ok(at(11, 50, 0)));
        let why = span.parse("11:50", &zone).unwrap_err();
        assert!(why.contains("local time (UTC+05)") && why.contains("11:50Z (UTC) is"), "{why}");
        let start = span.start_us;
        assert_eq!(clock_both(start, &zone), "11:47:37.000Z (16:47:37 local)");
        assert_eq!(clock_both(start, &TimeZone::UTC), "11:47:37.000Z");
        assert_eq!(rfc3339_in(start, &zone), "2026-11-20T16:47:37.000000+05:00");
        assert_eq!(
            period_in(start, start + 3 * SECOND, &zone),
            "2026-11-20 16:47:37.000 to 16:47:40.000 +05:00"
        );
    }
}
