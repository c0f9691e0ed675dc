//! The result of an export.

use std::collections::BTreeMap;

/// Number of rows, requests or submissions that were exported, and what was left out or changed.
#[derive(Debug, Default)]
pub struct ExportSummary {
    pub count: u64,
    /// Unit of `count`, in the plural.
    pub unit: &'static str,
    /// Data that the format cannot hold, and assumptions; one line each.
    pub notes: Vec<String>,
    /// A command that uses the output.
    pub hint: Option<String>,
}

/// The start of a name from a recording as a part of a file name: it is untrusted, and must not
/// lead out of a directory.
pub fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.chars().take(64).map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Nanoseconds since 1970; 0 for times before.
pub fn nanoseconds(time_us: i64) -> u64 {
    u64::try_from(time_us).unwrap_or(0).saturating_mul(1000)
}

/// Rows whose member or array is unknown, or whose text is invalid.
pub const INVALID_ROWS: &str =
    "invalid rows (unknown member or array, or invalid text), in the whole recording";

/// Counts of rows by the reason why they are not, or not exactly, in the output.
#[derive(Debug, Default)]
pub struct Reasons(BTreeMap<&'static str, u64>);

impl Reasons {
    /// Adds `count` rows. `reason`: the rows and what became of them, without a number.
    pub fn add(&mut self, reason: &'static str, count: u64) {
        if count > 0 {
            let sum = self.0.entry(reason).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    pub fn notes(self) -> Vec<String> {
        self.0.into_iter().map(|(reason, count)| format!("{reason}: {count}")).collect()
    }
}
