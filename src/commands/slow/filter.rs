//! Filter for slow operations, from the command line.

use std::time::Duration;

use super::args::SlowArgs;
use crate::analysis::slow::names::SlowOperation;
use crate::analysis::slow::snapshot::SlowSnapshot;

#[derive(Clone, Debug, Default)]
pub struct SlowFilter {
    /// Task name, thread id or process id.
    task: Option<String>,
    path: Option<String>,
    /// Minimum duration; `None` keeps all traced operations.
    threshold: Option<Duration>,
}

impl SlowFilter {
    pub fn new(args: &SlowArgs) -> Self {
        Self { task: args.task.clone(), path: args.path.clone(), threshold: args.threshold }
    }

    /// Removes operations that do not match.
    pub fn apply(&self, snapshot: &mut SlowSnapshot) {
        let mut operations = std::mem::take(&mut snapshot.operations);
        operations.retain(|slow| self.keeps(slow, snapshot));
        snapshot.operations = operations;
        let before = snapshot.unended.len();
        let mut unended = std::mem::take(&mut snapshot.unended);
        unended.retain(|slow| self.keeps(slow, snapshot));
        if unended.len() < before {
            snapshot.unended_count = unended.len() as u64;
        }
        snapshot.unended = unended;
        if let Some(threshold) = self.threshold {
            snapshot.threshold = snapshot.threshold.max(threshold);
        }
    }

    fn keeps(&self, slow: &SlowOperation, snapshot: &SlowSnapshot) -> bool {
        let op = &slow.operation;
        let is_long =
            self.threshold.is_none_or(|least| Duration::from_nanos(op.total_ns()) >= least);
        let task = self.task.as_ref().is_none_or(|wanted| {
            op.task.comm == wanted.as_bytes()
                || *wanted == op.task.pid.to_string()
                || *wanted == op.tgid.to_string()
        });
        let path = self.path.as_ref().is_none_or(|wanted| {
            let path = op.file.as_ref().and_then(|f| snapshot.names.path(f));
            path.is_some_and(|p| p.starts_with(wanted.as_bytes()))
        });
        is_long && task && path
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::SlowFilter;
    use crate::analysis::slow::fixture::interval;

    fn kept(filter: SlowFilter) -> usize {
        let mut s = interval();
        filter.apply(&mut s);
        s.operations.len()
    }

    #[test]
    fn operations_are_kept_by_task_path_and_length() {
        let task = |name: &str| SlowFilter { task: Some(name.to_owned()), ..SlowFilter::default() };
        let path =
            |start: &str| SlowFilter { path: Some(start.to_owned()), ..SlowFilter::default() };
        let least =
            |ms| SlowFilter { threshold: Some(Duration::from_millis(ms)), ..SlowFilter::default() };
        for (filter, number) in [
            (SlowFilter::default(), 1),
            (task("mysqld"), 1),
            (task("mysql"), 0),
            (task("812"), 1),
            (path("/srv/db"), 1),
            (path("/srv/backup"), 0),
            (least(1800), 1),
            (least(1801), 0),
        ] {
            assert_eq!(kept(filter.clone()), number, "{filter:?}");
        }
    }
}
