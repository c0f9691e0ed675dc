//! Rows of slow operations and of commits.

use anyhow::Result;
use serde_json::Value;

use crate::recording::dataset::columns::{DatasetTable, time_us};
use crate::recording::dataset::files::DatasetFiles;
use crate::recording::dataset::source::DatasetSource;
use crate::recording::slow::SlowInterval;

/// Operations that had not ended in the last interval, and its end.
#[derive(Debug, Default)]
pub struct OperationRows {
    unended: Vec<Value>,
    end_us: i64,
}

impl OperationRows {
    /// Adds an interval. False if it is invalid.
    pub fn add(
        &mut self,
        end_us: i64,
        json: &str,
        identity: &DatasetSource,
        files: &mut DatasetFiles<'_>,
    ) -> Result<bool> {
        let Ok(snapshot) = SlowInterval::parse(end_us, json) else { return Ok(false) };
        let mut interval = serde_json::to_value(SlowInterval::new(&snapshot))?;
        for operation in rows(&mut interval, "operations") {
            put(operation, true, end_us, files)?;
        }
        for mut commit in rows(&mut interval, "commits") {
            let filesystem = commit.get("filesystem").and_then(Value::as_str);
            let array = filesystem.and_then(|name| identity.filesystems.get(name)).cloned();
            commit["array"] = array.into();
            let end = end(&commit).unwrap_or(end_us);
            files.push(DatasetTable::Commits, end, commit)?;
        }
        (self.unended, self.end_us) = (rows(&mut interval, "unended"), end_us);
        Ok(true)
    }

    /// Adds the operations that have not ended.
    pub fn finish(self, files: &mut DatasetFiles<'_>) -> Result<()> {
        for operation in self.unended {
            put(operation, false, self.end_us, files)?;
        }
        Ok(())
    }
}

fn rows(interval: &mut Value, name: &str) -> Vec<Value> {
    match interval.get_mut(name).map(Value::take) {
        Some(Value::Array(rows)) => rows,
        _ => Vec::new(),
    }
}

fn put(mut operation: Value, ended: bool, end_us: i64, files: &mut DatasetFiles<'_>) -> Result<()> {
    operation["ended"] = ended.into();
    let end = end(&operation).filter(|_| ended).unwrap_or(end_us);
    files.push(DatasetTable::Operations, end, operation)
}

/// Start and length of a row, added up.
fn end(row: &Value) -> Option<i64> {
    time_us(row.get("start")?)?.checked_add(row.get("total_us")?.as_i64()?)
}
