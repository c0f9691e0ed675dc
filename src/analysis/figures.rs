//! Figures that the BPF programs add up by member and operation, besides requests, bytes and their
//! times.
//!
//! An entry of [`COUNTED`] is all that a new one needs outside the BPF programs: recordings, JSON,
//! screens, reports, pages, comparisons and metrics read this table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cube::{Cube, amount};
use crate::contract;
use crate::origin::Op;

/// Number of figures: the length of `rt_row.counted`.
pub const COUNT: usize = contract::COUNTED as usize;

/// Unit of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedUnit {
    /// Events; shown per second.
    Events,
    /// Nanoseconds, of events that another entry counts; shown as the mean of an event.
    TimeOf(usize),
}

/// A figure of a member, by operation.
#[derive(Debug)]
pub struct CountedFigure {
    /// The sum in JSON and recordings, and the metric `raidtrace_member_NAME`: with
    /// `_us` or `_seconds` if it is a time.
    pub name: &'static str,
    /// The shown figure in comparisons: the rate or the mean.
    pub compared: &'static str,
    /// Heading of a column.
    pub title: &'static str,
    pub unit: CountedUnit,
    /// Description of the sum in metrics, pages and the help; begins with a small letter.
    pub help: &'static str,
}

/// The figures, in the order of `rt_row.counted`.
pub static COUNTED: [CountedFigure; COUNT] = [
    CountedFigure {
        name: "requeues",
        compared: "requeues_per_s",
        title: "requ/s",
        unit: CountedUnit::Events,
        help: "requests that the driver gave back (busy, or no resources)",
    },
    CountedFigure {
        name: "requeue",
        compared: "requeue_mean_us",
        title: "requ t",
        unit: CountedUnit::TimeOf(0),
        help: "time from the return of a request to its next issue",
    },
];

impl CountedFigure {
    /// Name of the sum in JSON.
    pub fn json_name(&self) -> String {
        let unit = if self.unit == CountedUnit::Events { "" } else { "_us" };
        self.name.to_owned() + unit
    }

    /// Units of the sum in one of JSON.
    fn per_public(&self) -> u64 {
        if self.unit == CountedUnit::Events { 1 } else { 1000 }
    }
}

/// Sums of all figures, in the order of [`COUNTED`]: events, or nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, u64>", from = "BTreeMap<String, u64>")]
pub struct Counted(pub [u64; COUNT]);

/// Sums by operation, without those that are zero.
pub type CountedByOp = Cube<Op, Counted>;

amount!(Counted { 0 });

impl Counted {
    /// A sum in the unit of its [`CountedFigure::json_name`].
    fn public(&self, figure: usize) -> u64 {
        self.0[figure] / COUNTED[figure].per_public()
    }
}

/// `{"requeues": {"write": 3}}`: the nonzero sums by name in JSON and operation.
pub fn by_name(by_op: &CountedByOp) -> BTreeMap<String, BTreeMap<Op, u64>> {
    let mut all: BTreeMap<_, BTreeMap<Op, u64>> = BTreeMap::new();
    for (op, counted) in by_op {
        for (name, n) in BTreeMap::from(*counted) {
            all.entry(name).or_default().insert(*op, n);
        }
    }
    all
}

/// The nonzero sums by [`CountedFigure::json_name`].
impl From<Counted> for BTreeMap<String, u64> {
    fn from(counted: Counted) -> Self {
        let sums = COUNTED.iter().enumerate().map(|(at, f)| (f.json_name(), counted.public(at)));
        sums.filter(|(_, n)| *n > 0).collect()
    }
}

/// Leaves out sums with other names: they are those of a newer version.
impl From<BTreeMap<String, u64>> for Counted {
    fn from(sums: BTreeMap<String, u64>) -> Self {
        let sum = |figure: &CountedFigure| {
            let n = sums.get(&figure.json_name()).copied().unwrap_or(0);
            n.saturating_mul(figure.per_public())
        };
        Self(COUNTED.each_ref().map(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNT, COUNTED, Counted, CountedByOp, CountedUnit, by_name};
    use crate::origin::Op;

    #[test]
    fn json_has_the_sums_that_are_not_zero() {
        let sums = Counted(std::array::from_fn(|at| 5000 * at as u64));
        let json = serde_json::to_value(sums).unwrap();
        assert_eq!(json.as_object().unwrap().len(), COUNT - 1);
        assert_eq!(serde_json::from_value::<Counted>(json).unwrap(), sums);
        let newer = serde_json::json!({"later": 1});
        assert_eq!(serde_json::from_value::<Counted>(newer).unwrap(), Counted::default());
        let by_op = CountedByOp::from([(Op::Write, sums), (Op::Read, Counted::default())]);
        let names = by_name(&by_op);
        assert!(names.values().all(|ops| ops.keys().eq([&Op::Write])), "{names:?}");
    }

    #[test]
    fn times_are_those_of_events() {
        for figure in &COUNTED {
            let CountedUnit::TimeOf(of) = figure.unit else { continue };
            assert_eq!(COUNTED[of].unit, CountedUnit::Events, "{}", figure.name);
        }
    }

    #[test]
    fn documents_have_every_figure() {
        for figure in &COUNTED {
            let unit = if figure.unit == CountedUnit::Events { "" } else { "_seconds" };
            let json = format!("`{}`", figure.json_name());
            let line = format!("| `raidtrace_member_{}{unit}_total` |", figure.name);
            let top = include_str!("../../docs/top.md");
            assert!(
                top.contains(&json)
                    || top.contains(&format!("`members[].{}`", &json[1..json.len() - 1])),
                "{json}"
            );
            let serve = include_str!("../../docs/serve.md");
            let row = serve.lines().find(|l| l.starts_with(&line));
            assert!(row.is_some_and(|row| row.contains(figure.help)), "{line}");
        }
    }
}
