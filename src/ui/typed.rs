//! Parsers of times and datasets on the command line.

use std::ffi::OsStr;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

use crate::recording::dataset_name::DatasetName;

/// Parses the name of a dataset. clap would repeat the argument in its message, and with it a
/// password.
#[derive(Clone)]
pub struct DatasetParser;

impl TypedValueParser for DatasetParser {
    type Value = DatasetName;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<DatasetName, Error> {
        DatasetName::parse(value).map_err(|why| {
            Error::raw(ErrorKind::ValueValidation, format!("--dataset: {why}\n")).with_cmd(command)
        })
    }
}

/// Parses an interval of 0.1 to 3600 seconds.
///
/// # Errors
/// Not a number, or out of range.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.trim_end_matches('s').parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&number) {
        Ok(Duration::from_secs_f64(number))
    } else {
        Err("must be 0.1 to 3600 seconds".to_owned())
    }
}

/// Parses a time with a unit: `90`, `90s`, `5m`, `2h`.
///
/// # Errors
/// Not a time, or out of range (0.1 to 1e9 seconds).
pub fn time(text: &str) -> Result<Duration, String> {
    let seconds = crate::analysis::time::seconds(text).ok_or("not a time such as 90s, 5m or 2h")?;
    if (0.1..=1e9).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be 0.1 to 1e9 seconds".to_owned())
    }
}

/// Parses a short time with a unit: `500us`, `10ms`, `2s`.
///
/// # Errors
/// Not a time, no unit, or not between 1 µs and 1 hour.
pub fn short_time(text: &str) -> Result<Duration, String> {
    let units = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let found = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (digits, unit) = found.ok_or("a time needs a unit: 500us, 10ms or 2s")?;
    let number: f64 =
        digits.trim().parse().map_err(|_| "not a time such as 500us, 10ms or 2s".to_owned())?;
    let seconds = number * unit;
    if (1e-6..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be 1us to 3600s".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{seconds, time};

    #[test]
    fn times() {
        for (text, ms) in [("60s", 60_000), ("1.5", 1500), ("2m", 120_000), ("1h", 3_600_000)] {
            assert_eq!(time(text).unwrap().as_millis(), ms, "{text}");
        }
        for wrong in ["", "x", "-1", "0", "NaN", "inf", "1e300", "1X"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn intervals() {
        assert_eq!(seconds("2").unwrap().as_millis(), 2000);
        assert_eq!(seconds("0.5s").unwrap().as_millis(), 500);
        for wrong in ["0", "-1", "NaN", "inf", "1e9", "", "1m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
