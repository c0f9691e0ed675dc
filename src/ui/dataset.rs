//! Rows of a dataset's tables `intervals` and `verdicts`.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use serde_json::{Value, json};

use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::figures::{self, COUNTED};
use crate::analysis::hist::Hist;
use crate::analysis::snapshot::{MemberSnapshot, Snapshot};
use crate::analysis::verdict::Verdict;
use crate::analysis::window::joined;
use crate::recording::dataset::columns::{DatasetTable, INTERVAL_OPS};
use crate::ui::json::JsonArray;

/// Length of an interval in µs. Intervals end at the first state after a multiple of it, so that
/// those of all hosts are of the same time.
const INTERVAL_US: i64 = 10_000_000;
/// Maximum time in µs between two seconds of one verdict. The clock that dates an interval is not
/// the one that measures its length, and may be set.
const MAX_GAP_US: u64 = 500_000;

/// Number of cgroups in a row of a verdict, and of those that are added up for it.
const MAX_CGROUPS: usize = 8;
const MAX_SUMMED_CGROUPS: usize = 4096;

/// Time that tasks waited, µs, by array, their cgroup, and the cgroup that made them wait; `None`
/// if that is not known.
pub type CgroupWaits = Cube<(String, String, Option<String>), u64>;

/// Takes the rows, with their times in µs since 1970.
pub type RowSink<'a> = dyn FnMut(DatasetTable, i64, Value) -> Result<()> + 'a;

/// Rows of the tables `intervals` and `verdicts`, from the snapshots of consecutive seconds.
#[derive(Default)]
pub struct FigureRows {
    whole: Option<Snapshot>,
    runs: VerdictRuns,
}

impl FigureRows {
    /// Adds a second, in which tasks waited for `waits`, and the rows that it completes.
    ///
    /// # Errors
    /// `put` returned it.
    pub fn add(
        &mut self,
        second: Snapshot,
        waits: &CgroupWaits,
        put: &mut RowSink<'_>,
    ) -> Result<()> {
        self.runs.add(&second, waits, put)?;
        let slot = bounds(&second).0.div_euclid(INTERVAL_US);
        // Also if the clock was set back.
        let ended = self.whole.take_if(|whole| bounds(whole).0.div_euclid(INTERVAL_US) != slot);
        if let Some(ended) = ended {
            interval(&ended, put)?;
        }
        self.whole = Some(joined(self.whole.take(), second));
        Ok(())
    }

    /// Adds the rows that are not complete.
    ///
    /// # Errors
    /// `put` returned it.
    pub fn finish(&mut self, put: &mut RowSink<'_>) -> Result<()> {
        if let Some(last) = self.whole.take() {
            interval(&last, put)?;
        }
        std::mem::take(&mut self.runs).finish(put)
    }
}

/// Start and end in µs since 1970.
pub fn bounds(snapshot: &Snapshot) -> (i64, i64) {
    let end = snapshot.time.as_microsecond();
    let length = i64::try_from(snapshot.interval.as_micros()).unwrap_or(i64::MAX);
    (end.saturating_sub(length), end)
}

/// Adds a row for each member.
fn interval(snapshot: &Snapshot, put: &mut RowSink<'_>) -> Result<()> {
    let (from, to) = bounds(snapshot);
    for array in &snapshot.arrays {
        let mut printed = serde_json::to_value(JsonArray::new(array, snapshot.interval))?;
        let rows = printed.get_mut("members").and_then(Value::as_array_mut);
        for (row, member) in rows.into_iter().flatten().zip(&array.members) {
            let mut row = row.take();
            row["interval_us"] = to.saturating_sub(from).into();
            row["array"] = array.info.name.as_str().into();
            row["level"] = array.info.level.as_str().into();
            row["chunk_bytes"] = array.info.chunk_bytes.into();
            row["array_health"] = array.info.health.as_deref().into();
            row["lost_events"] = snapshot.lost.events().into();
            sums(&mut row, member);
            put(DatasetTable::Intervals, from, row)?;
        }
    }
    Ok(())
}

/// Adds sums and times over all origins.
fn sums(row: &mut Value, member: &MemberSnapshot) {
    let (requests, bytes) = member.sum(|_| true);
    row["requests"] = requests.into();
    row["bytes"] = bytes.into();
    for op in INTERVAL_OPS {
        let name = op.name();
        let (requests, bytes) = member.sum(|cell| cell.op == op);
        row[format!("{name}_requests")] = requests.into();
        row[format!("{name}_bytes")] = bytes.into();
        let mut device = Hist::default();
        for cell in member.io.iter().filter(|cell| cell.op == op) {
            device.add(&cell.device);
        }
        row[format!("{name}_p50_us")] = device.quantile(0.5).into();
        row[format!("{name}_p99_us")] = device.quantile(0.99).into();
        row[format!("{name}_max_us")] = device.max().into();
    }
    let total = BTreeMap::from(member.counted.total());
    for name in COUNTED.iter().map(figures::CountedFigure::json_name) {
        let sum = total.get(&name).copied().unwrap_or(0);
        row[name] = sum.into();
    }
}

/// The current verdict of each array.
#[derive(Default)]
struct VerdictRuns {
    arrays: HashMap<String, VerdictRun>,
}

/// Seconds with the same verdict.
struct VerdictRun {
    from: i64,
    to: i64,
    level: String,
    /// The verdict with the longest wait.
    worst: Verdict,
    /// Time that tasks waited, µs, by their cgroup and the one that made them wait.
    waits: Cube<(String, Option<String>), u64>,
}

impl VerdictRuns {
    /// Adds the verdicts of a second, and writes those that they replace.
    fn add(&mut self, second: &Snapshot, waits: &CgroupWaits, put: &mut RowSink<'_>) -> Result<()> {
        let (from, to) = bounds(second);
        for array in &second.arrays {
            let Some(verdict) = &array.verdict else { continue };
            let name = &array.info.name;
            let waits = waits.group_by(|(array, cgroup, by)| {
                (array == name).then(|| (cgroup.clone(), by.clone()))
            });
            let run = self.arrays.get_mut(name);
            let follows = |run: &VerdictRun| run.to.abs_diff(from) <= MAX_GAP_US;
            match run.filter(|run| follows(run) && is_same(&run.worst, verdict)) {
                Some(run) => {
                    run.to = to;
                    for (key, us) in waits {
                        if run.waits.len() < MAX_SUMMED_CGROUPS || run.waits.contains_key(&key) {
                            run.waits.add(key, &us);
                        }
                    }
                    if verdict.waiting.us > run.worst.waiting.us {
                        run.worst = verdict.clone();
                    }
                }
                None => {
                    let (level, worst) = (array.info.level.clone(), verdict.clone());
                    let new = VerdictRun { from, to, level, worst, waits };
                    if let Some(old) = self.arrays.insert(name.clone(), new) {
                        old.write(name, put)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self, put: &mut RowSink<'_>) -> Result<()> {
        let mut last: Vec<_> = self.arrays.into_iter().collect();
        last.sort_by(|a, b| a.0.cmp(&b.0));
        last.into_iter().try_for_each(|(array, run)| run.write(&array, put))
    }
}

impl VerdictRun {
    fn write(self, array: &str, put: &mut RowSink<'_>) -> Result<()> {
        let mut row = serde_json::to_value(&self.worst)?;
        row["until"] = json!(self.to);
        row["duration_us"] = json!(self.to.saturating_sub(self.from));
        row["array"] = array.into();
        row["level"] = self.level.into();
        let mut waits: Vec<_> = self.waits.into_iter().collect();
        waits.sort_by_key(|(_, us)| std::cmp::Reverse(*us));
        waits.truncate(MAX_CGROUPS);
        let wait = |((cgroup, by), us)| json!({"cgroup": cgroup, "by": by, "us": us});
        row["cgroups"] = waits.into_iter().map(wait).collect();
        put(DatasetTable::Verdicts, self.from, row)
    }
}

/// True if the verdicts differ only in their figures and words.
fn is_same(a: &Verdict, b: &Verdict) -> bool {
    (a.severity, a.cause.kind, &a.cause.name, &a.accused)
        == (b.severity, b.cause.kind, &b.cause.name, &b.accused)
}
