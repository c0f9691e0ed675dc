//! The result of an export.

use std::collections::BTreeMap;

/// Number of rows, requests or submissions that were exported, and what was left out or changed.
#[derive(Debug, Default)]
pub struct Written {
    /// Number of rows, requests or submissions.
    pub count: u64,
    /// Unit of `count`, in the plural.
    pub unit: &'static str,
    /// Data that the format cannot hold, and assumptions; one line each.
    pub notes: Vec<String>,
    /// A command that uses the output.
    pub hint: Option<String>,
}

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

    /// A line for each reason.
    pub fn notes(self) -> Vec<String> {
        let reasons = self.0.into_iter();
        reasons
            .map(|(reason, count)| format!("{reason}: {count}"))
            .collect()
    }
}
