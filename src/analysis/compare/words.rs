//! Figures and differences as text.

use super::change::{Change, Unit};
use crate::analysis::units;

/// The figure before and after: `92 %`, `41 %`.
pub fn values(change: &Change) -> [String; 2] {
    [change.estimate.before, change.estimate.after].map(|v| value(change.figure.unit, v))
}

/// A value, with its unit if it has one, at most 7 columns: `92 %`, `84ms`, `6.1x`, `1.2k`.
fn value(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value.filter(|v| v.is_finite()) else {
        return "-".to_owned();
    };
    match unit {
        Unit::Rate => units::count(value),
        Unit::Bytes => units::mib(value),
        Unit::Share => units::percent(value),
        Unit::Us => units::latency(Some(value.max(0.0) as u64)),
        Unit::Times => format!("{:.1}x", value.clamp(0.0, 9999.0)),
    }
}

/// A signed figure: `-51`, `+12ms`.
fn signed(unit: Unit, difference: f64) -> String {
    let size = difference.abs();
    let text = match unit {
        Unit::Share => format!("{:.0}", size * 100.0),
        _ => value(unit, Some(size)),
    };
    let is_zero = text.starts_with('0') && !text.contains(|c: char| ('1'..='9').contains(&c));
    let sign = if is_zero {
        ""
    } else if difference < 0.0 {
        "-"
    } else {
        "+"
    };
    format!("{sign}{text}")
}

/// `-51 points`, and its interval: `-55 to -47`.
fn parts(change: &Change) -> (String, Option<String>) {
    let unit = change.figure.unit;
    let points = if unit == Unit::Share { " points" } else { "" };
    let difference = change.estimate.difference;
    let interval = change.estimate.interval;
    (
        difference.map(|d| signed(unit, d) + points).unwrap_or_default(),
        interval.map(|(low, high)| format!("{} to {}", signed(unit, low), signed(unit, high))),
    )
}

/// `-51 points, 95 % interval -55 to -47`; without the interval if there is none.
pub fn difference(change: &Change) -> String {
    match parts(change) {
        (difference, Some(interval)) => format!("{difference}, 95 % interval {interval}"),
        (difference, None) => difference,
    }
}

/// The difference for a table: `-51 points (-55 to -47)`; `noise (-1 to +2)` if it is not beyond
/// noise, or `undecided (-1 to +70)`; without an interval if there is none.
pub fn difference_short(change: &Change) -> String {
    match parts(change) {
        (difference, None) => difference,
        (difference, Some(interval)) if change.significant => format!("{difference} ({interval})"),
        (_, Some(interval)) if change.is_undecided() => format!("undecided ({interval})"),
        (_, Some(interval)) => format!("noise ({interval})"),
    }
}
