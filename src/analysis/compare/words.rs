//! Figures and differences as text.

use super::change::{Change, Unit};
use crate::analysis::units;

/// A value, with its unit if it has one, at most 7 columns: `92 %`, `84ms`, `6.1x`, `1.2k`.
pub fn value(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value.filter(|v| v.is_finite()) else {
        return "-".to_owned();
    };
    match unit {
        Unit::Rate => units::count(value),
        Unit::Bytes => units::mib(value),
        Unit::Share => units::percent(value),
        Unit::Us | Unit::UsPerMib => units::latency(Some(value.max(0.0) as u64)),
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
    let is_zero = text.starts_with("0") && !text.contains(|c: char| ('1'..='9').contains(&c));
    match difference {
        _ if is_zero => text,
        d if d < 0.0 => format!("-{text}"),
        _ => format!("+{text}"),
    }
}

/// `-51 points, 95 % interval -55 to -47`; without the interval if there is none.
pub fn difference(change: &Change) -> String {
    let unit = change.figure.unit();
    let Some(difference) = change.estimate.difference() else {
        return String::new();
    };
    let points = if unit == Unit::Share { " points" } else { "" };
    let mut text = format!("{}{points}", signed(unit, difference));
    if let Some((low, high)) = change.estimate.interval {
        let (low, high) = (signed(unit, low), signed(unit, high));
        text += &format!(", 95 % interval {low} to {high}");
    }
    text
}

/// The difference for a table: `-51 points (-55 to -47)`; `noise (-1 to +2)` if it is not beyond
/// noise, or `undecided (-1 to +70)`; without an interval if there is none.
pub fn difference_short(change: &Change) -> String {
    let long = difference(change);
    let noise = if change.is_undecided() { "undecided" } else { "noise" };
    let Some((difference, interval)) = long.split_once(", 95 % interval ") else {
        return match change.estimate.p {
            Some(_) if !change.is_significant() => noise.to_owned(),
            _ => long,
        };
    };
    match change.is_significant() {
        true => format!("{difference} ({interval})"),
        false => format!("{noise} ({interval})"),
    }
}
