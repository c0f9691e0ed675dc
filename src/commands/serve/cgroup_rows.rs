//! Rows of the dataset's table `cgroups`: one for each minute, array and cgroup.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::cgroups::{CgroupFigures, CgroupInterval, CgroupTotals, DIRTIED};
use crate::analysis::cube::Amount as _;
use crate::origin::Op;
use crate::recording::dataset::columns::DatasetTable;
use crate::ui::dataset::{CgroupWaits, RowSink};

/// Length of the time of a row in µs. Minutes end at a multiple of it, so that those of all hosts
/// are of the same time.
const MINUTE_US: i64 = 60_000_000;
/// Operations with a column of their own.
const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Discard];

/// The minute that is collected.
#[derive(Debug)]
pub struct CgroupRows {
    max: usize,
    /// Start in µs since 1970, length of its seconds in µs, and sums.
    minute: Option<(i64, i64, CgroupTotals)>,
}

impl CgroupRows {
    /// Each minute has rows of at most `max` cgroups; the smallest others are together.
    pub fn new(max: usize) -> Self {
        Self { max, minute: None }
    }

    /// Adds an interval from `from` to `to`, and the rows that it completes.
    ///
    /// # Errors
    /// `put` returned it.
    pub fn add(
        &mut self,
        interval: CgroupInterval,
        (from, to): (i64, i64),
        put: &mut RowSink<'_>,
    ) -> Result<()> {
        let slot = from.div_euclid(MINUTE_US);
        // Also if the clock was set back.
        if self.minute.as_ref().is_some_and(|minute| minute.0.div_euclid(MINUTE_US) != slot) {
            self.finish(put)?;
        }
        let (_, length, totals) =
            self.minute.get_or_insert_with(|| (from, 0, CgroupTotals::default()));
        *length = length.saturating_add(to.saturating_sub(from));
        // Without time, only size decides later which are kept.
        totals.add(interval, Duration::ZERO, usize::MAX);
        Ok(())
    }

    /// Adds the rows of a minute that is not complete.
    ///
    /// # Errors
    /// `put` returned it.
    pub fn finish(&mut self, put: &mut RowSink<'_>) -> Result<()> {
        let Some((from, length, mut totals)) = self.minute.take() else { return Ok(()) };
        totals.add(CgroupInterval::default(), Duration::ZERO, self.max);
        for ((array, cgroup), figures) in &totals.sums {
            let mut row = row(figures);
            row["interval_us"] = length.into();
            row["array"] = array.as_str().into();
            row["cgroup"] = cgroup.as_str().into();
            put(DatasetTable::Cgroups, from, row)?;
        }
        Ok(())
    }
}

/// The times in `interval` that tasks waited. Where somebody made them wait, with that cgroup.
pub fn waits(interval: &CgroupInterval) -> CgroupWaits {
    let each = interval.iter().flat_map(|((array, cgroup), figures)| {
        let known = figures.made_wait_us.iter().map(|(by, us)| (Some(by.clone()), *us));
        let rest = figures.waiting_us.total().since(&figures.made_wait_us.total());
        let all = known.chain([(None, rest)]);
        all.map(|(by, us)| ((array.clone(), cgroup.clone(), by), us))
    });
    each.collect()
}

fn row(figures: &CgroupFigures) -> Value {
    let others = figures.submitted.group_by(|op| (!OPS.contains(op)).then_some(()));
    let waiting = figures.waiting_us.iter();
    let made_wait = figures.made_wait_us.iter();
    let mut row = json!({
        "other_bytes": others.total(),
        "waiting_us": figures.waiting_us.total(),
        "waiting": waiting.map(|(cause, us)| json!({"cause": cause, "us": us})).collect::<Vec<_>>(),
        "made_wait": made_wait.map(|(by, us)| json!({"by": by, "us": us})).collect::<Vec<_>>(),
    });
    for op in OPS {
        row[format!("{}_bytes", op.name())] = figures.submitted.sum(&op).into();
    }
    for (kind, bytes) in DIRTIED.into_iter().zip(figures.dirtied) {
        row[format!("dirtied_{kind}_bytes")] = bytes.into();
    }
    row
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{CgroupFigures, CgroupInterval, CgroupRows};
    use crate::analysis::verdict::CauseKind;
    use crate::origin::Op;

    fn one(cgroup: &str, op: Op, bytes: u64) -> CgroupInterval {
        let figures = CgroupFigures {
            submitted: [(op, bytes)].into(),
            dirtied: [bytes, 1],
            waiting_us: [(CauseKind::Load, 2)].into(),
            made_wait_us: [("/b".to_owned(), 2)].into(),
        };
        [(("md0".to_owned(), cgroup.to_owned()), figures)].into()
    }

    #[test]
    fn a_minute_has_a_row_for_each_cgroup() {
        let (mut rows, mut put) = (CgroupRows::new(2), Vec::<(i64, Value)>::new());
        let seconds = [
            (0, one("/a", Op::Read, 8)),
            (1, one("/a", Op::Flush, 4)),
            (2, one("/b", Op::Discard, 50)),
            (59, one("/c", Op::Write, 70)),
            (60, one("/a", Op::Write, 1)),
        ];
        for (second, interval) in seconds {
            let bounds = (second * 1_000_000, (second + 1) * 1_000_000);
            rows.add(interval, bounds, &mut |_, at, row| {
                put.push((at, row));
                Ok(())
            })
            .unwrap();
        }
        let cgroups = |put: &[(i64, Value)]| -> Vec<(i64, String)> {
            put.iter().map(|(at, row)| (*at, row["cgroup"].as_str().unwrap().to_owned())).collect()
        };
        let of = |at, names: [&str; 3]| names.map(|name| (at, name.to_owned()));
        assert_eq!(cgroups(&put), of(0, ["/b", "/c", "other"]));
        let expected = json!({
            "interval_us": 4_000_000, "array": "md0", "cgroup": "other",
            "read_bytes": 8, "write_bytes": 0, "discard_bytes": 0, "other_bytes": 4,
            "dirtied_data_bytes": 12, "dirtied_metadata_bytes": 2, "waiting_us": 4,
            "waiting": [{"cause": "load", "us": 4}], "made_wait": [{"by": "/b", "us": 4}],
        });
        assert_eq!(put[2].1, expected);
        put.clear();
        rows.finish(&mut |_, at, row| {
            put.push((at, row));
            Ok(())
        })
        .unwrap();
        assert_eq!(cgroups(&put), [(60_000_000, "/a".to_owned())]);
        rows.finish(&mut |_, _, _| panic!("nothing is left")).unwrap();
    }
}
