//! Moments of a recording, as a person types them.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;

const DAY_US: i64 = 86_400_000_000;

/// `text` in a recording that began at `start_us`, µs since 1970: RFC 3339; `12:00:30`, the first such time after the
/// start, UTC; or `+90`, `+1.5s`, `+2m` from the start.
pub fn parse(text: &str, start_us: i64) -> Result<i64, String> {
    if let Some(after) = text.strip_prefix('+') {
        let units = [('s', 1e6), ('m', 60e6), ('h', 3600e6)];
        let found = units
            .iter()
            .find_map(|(c, us)| Some((after.strip_suffix(*c)?, *us)));
        let (digits, us) = found.unwrap_or((after, 1e6));
        let number: f64 = digits.parse().map_err(|_| wrong(text))?;
        if !(0.0..=1e12).contains(&(number * us / 1e6)) {
            return Err(wrong(text));
        }
        return Ok(start_us.saturating_add((number * us) as i64));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_microsecond());
    }
    let clock: Time = text
        .trim_end_matches(['Z', 'z'])
        .parse()
        .map_err(|_| wrong(text))?;
    let start = Timestamp::from_microsecond(start_us).unwrap_or_default();
    let day = start.to_zoned(TimeZone::UTC).date();
    let time = day
        .to_datetime(clock)
        .to_zoned(TimeZone::UTC)
        .map_err(|_| wrong(text))?;
    let us = time.timestamp().as_microsecond();
    // A recording that began before midnight. The second in which it began is its first.
    Ok(if us < start_us - start_us.rem_euclid(1_000_000) {
        us + DAY_US
    } else {
        us
    })
}

fn wrong(text: &str) -> String {
    format!(
        "'{text}' is no time: 2026-11-20T12:00:30Z, 12:00:30 (UTC) or +30 (seconds from the start)"
    )
}

/// `12:00:01.250Z`
pub fn clock(us: i64) -> String {
    let time = Timestamp::from_microsecond(us).unwrap_or_default();
    time.strftime("%H:%M:%S.%3fZ").to_string()
}

/// `2026-11-20T12:00:01.250000Z`
pub fn rfc3339(us: i64) -> String {
    let time = Timestamp::from_microsecond(us).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::{DAY_US, clock, parse, rfc3339};

    #[test]
    fn times() {
        // 2026-11-20T23:59:58.5Z
        let start = 1_795_176_000_000_000 + DAY_US / 2 - 1_500_000;
        assert_eq!(rfc3339(start), "2026-11-20T23:59:58.500000Z");
        assert_eq!(clock(start), "23:59:58.500Z");
        assert_eq!(parse("+0", start), Ok(start));
        assert_eq!(parse("+1.5s", start), Ok(start + 1_500_000));
        assert_eq!(parse("+2m", start), Ok(start + 120_000_000));
        assert_eq!(parse("2026-11-20T23:59:59Z", start), Ok(start + 500_000));
        assert_eq!(parse("23:59:59", start), Ok(start + 500_000));
        assert_eq!(parse("23:59:58", start), Ok(start - 500_000));
        assert_eq!(parse("00:00:10Z", start), Ok(start + 11_500_000));
        for text in ["", "+", "+x", "+-1", "25:00:00", "noon", "+1e99", "+NaN"] {
            assert!(parse(text, start).is_err(), "{text}");
        }
    }
}
