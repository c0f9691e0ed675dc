//! Formats figures for display: short, and never wider than documented.

use std::time::Duration;

use serde::Serializer;

/// Rounds a figure in JSON to six decimals, the resolution of the measurements.
pub fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// True for 0, for serde's `skip_serializing_if`.
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// [`round`], for serde's `serialize_with`.
pub fn rounded<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64(round(*value))
}

/// Seconds, rounded, for serde's `serialize_with`.
pub fn rounded_seconds<S: Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    rounded(&time.as_secs_f64(), out)
}

/// Microseconds, for serde's `serialize_with`.
pub fn micros<S: Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(time.as_micros() as u64)
}

/// Requests a second and other counts, at most 5 columns: `0`, `0.3`, `42`, `1.2k`, `12.3k`,
/// `4.5M`.
pub fn count(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    if value < 0.1 {
        return "<0.1".to_owned();
    }
    if value < 9.95 {
        return trim_zero(format!("{value:.1}"));
    }
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// Bytes, at most 8 columns: `0 B`, `512 B`, `4.0 KiB`, `123 MiB`.
pub fn bytes(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0 B".to_owned();
    }
    scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// Bytes for a table column whose heading has the unit, at most 5 columns: `0`, `512`, `4.0K`,
/// `123M` (powers of 1024).
pub fn bytes_short(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    scaled(value, 1024.0, &["", "K", "M", "G", "T", "P", "E"])
}

/// A size that is usually whole, for chunks and disks: `512 KiB`, `1.2 TiB`.
pub fn size(bytes_: u64) -> String {
    let text = bytes(bytes_ as f64);
    match text.split_once(".0 ") {
        Some((whole, unit)) => format!("{whole} {unit}"),
        None => text,
    }
}

/// MiB/s for a column under that heading, at most 6 columns: `0`, `0.02`, `3.41`, `41.2`, `1234`.
pub fn mib(bytes_a_second: f64) -> String {
    let value = bytes_a_second / (1024.0 * 1024.0);
    if value <= 0.0 || !value.is_finite() {
        "0".to_owned()
    } else if value < 0.005 {
        "<0.01".to_owned()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else if value < 99_999.5 {
        format!("{value:.0}")
    } else {
        scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
    }
}

/// A latency, at most 5 columns: `850µs`, `1.2ms`, `84ms`, `1.2s`, `134s`; `-` if nothing was
/// measured.
pub fn latency(us: Option<u64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 1000 => format!("{us}µs"),
        Some(us) if us < 9_950 => trim_unit(us as f64 / 1e3, "ms"),
        Some(us) if us < 999_500 => format!("{:.0}ms", us as f64 / 1e3),
        Some(us) if us < 9_950_000 => trim_unit(us as f64 / 1e6, "s"),
        Some(us) => format!("{:.0}s", (us as f64 / 1e6).min(9999.0)),
    }
}

/// A share as `96 %`. Rounds only 1.0 to 100 % and only 0.0 to 0 %.
pub fn percent(share: f64) -> String {
    format!("{} %", percent_number(share))
}

/// A share as `96%`, at most 4 columns, for tables.
pub fn percent_short(share: f64) -> String {
    format!("{}%", percent_number(share))
}

fn percent_number(share: f64) -> String {
    let hundred = share.clamp(0.0, 1.0) * 100.0;
    if hundred > 0.0 && hundred < 0.5 {
        "<1".to_owned()
    } else if hundred < 100.0 {
        format!("{:.0}", hundred.round().min(99.0))
    } else if hundred >= 100.0 {
        "100".to_owned()
    } else {
        "0".to_owned() // NaN
    }
}

/// A factor, at most 6 columns: `1.0x`, `12x`, `1.2kx`; `-` for `None`.
pub fn factor(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(v) if v > 0.0 && v < 0.05 => "<0.1x".to_owned(),
        Some(v) if v < 9.95 => format!("{:.1}x", v.max(0.0)),
        Some(v) => format!("{}x", count(v)),
    }
}

/// Joins words: `a`, `a and b`, `a, b and c`.
pub fn list<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        words => words.concat(),
    }
}

/// A length of time in seconds: `1 s`, `0.5 s`, `10 s`.
pub fn seconds(duration: std::time::Duration) -> String {
    let text = format!("{:.1}", duration.as_secs_f64());
    format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
}

/// Like [`seconds`], without a fraction from 10 s on: `9.5 s`, `10 s`.
pub fn seconds_about(duration: std::time::Duration) -> String {
    match duration.as_secs_f64() {
        short if short < 9.95 => seconds(duration),
        long => format!("{long:.0} s"),
    }
}

fn trim_unit(value: f64, unit: &str) -> String {
    format!("{}{unit}", trim_zero(format!("{value:.1}")))
}

fn trim_zero(text: String) -> String {
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// `value` with the first unit that keeps it below `base`, with one decimal below 10 (below 100 for
/// k, M).
fn scaled(mut value: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would be printed as 1000: use the next unit.
    while value >= base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < if base == 1000.0 { 99.95 } else { 9.95 });
    format!("{value:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::{bytes, bytes_short, count, factor, latency, mib, percent, percent_short, size};
    use proptest::prelude::*;

    #[test]
    fn counts() {
        for (value, text) in [
            (0.0, "0"),
            (f64::NAN, "0"),
            (0.01, "<0.1"),
            (0.25, "0.2"),
            (3.0, "3"),
            (9.96, "10"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (12_345.0, "12.3k"),
            (99_960.0, "100k"),
            (4_500_000.0, "4.5M"),
        ] {
            assert_eq!(count(value), text, "{value}");
        }
    }

    #[test]
    fn byte_figures() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(4096.0), "4.0 KiB");
        assert_eq!(bytes(1023.6 * 1024.0), "1.0 MiB");
        assert_eq!(bytes_short(15.6 * 1048576.0), "16M");
        assert_eq!(size(512 * 1024), "512 KiB");
        assert_eq!(size(64 * 1024), "64 KiB");
        assert_eq!(size(1024 * 1024), "1 MiB");
        assert_eq!(size(1200 << 30), "1.2 TiB");
        assert_eq!(mib(0.0), "0");
        assert_eq!(mib(100.0), "<0.01");
        assert_eq!(mib(1048576.0 * 3.41), "3.41");
    }

    #[test]
    fn latencies() {
        for (us, text) in [
            (None, "-"),
            (Some(0), "0µs"),
            (Some(850), "850µs"),
            (Some(1200), "1.2ms"),
            (Some(2000), "2ms"),
            (Some(84_000), "84ms"),
            (Some(999_600), "1s"),
            (Some(1 << 27), "134s"),
            (Some(u64::MAX), "9999s"),
        ] {
            assert_eq!(latency(us), text, "{us:?}");
        }
    }

    #[test]
    fn factors() {
        for (value, text) in [
            (None, "-"),
            (Some(0.0), "0.0x"),
            (Some(0.004), "<0.1x"),
            (Some(1.0), "1.0x"),
            (Some(3.96), "4.0x"),
            (Some(9.96), "10x"),
            (Some(1234.0), "1.2kx"),
        ] {
            assert_eq!(factor(value), text, "{value:?}");
        }
    }

    #[test]
    fn only_exact_shares_are_0_or_100_percent() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.001), "<1 %");
        assert_eq!(percent(0.9999), "99 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent_short(0.964), "96%");
        assert_eq!(percent(f64::NAN), "0 %");
    }

    proptest! {
        #[test]
        fn no_figure_is_wider_than_its_column(value in any::<f64>(), us in any::<u64>()) {
            let value = value.abs().min(9e18);
            prop_assert!(count(value).len() <= 5, "{}", count(value));
            prop_assert!(bytes(value).len() <= 8, "{}", bytes(value));
            prop_assert!(bytes_short(value).len() <= 5, "{}", bytes_short(value));
            prop_assert!(mib(value).len() <= 6, "{}", mib(value));
            prop_assert!(latency(Some(us)).chars().count() <= 5, "{}", latency(Some(us)));
            prop_assert!(percent_short(value).len() <= 4);
            prop_assert!(factor(Some(value)).len() <= 6, "{}", factor(Some(value)));
        }
    }
}
