//! Second pass: rows of intervals and of verdicts, from the snapshots that `report` reads.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::recording::dataset::columns::DatasetTable;
use crate::recording::dataset::extent::Extent;
use crate::recording::dataset::files::DatasetFiles;
use crate::recording::reader::Reader;
use crate::recording::source::IntervalReader;
use crate::ui::dataset::{CgroupWaits, FigureRows, bounds};

/// Length of the intervals that verdicts are found in, as in a report.
const SECOND: Duration = Duration::from_secs(1);

/// Writes the rows of the part of a recording that was read as `extent`. Returns the number of
/// invalid rows.
///
/// # Errors
/// The dataset cannot be written.
pub fn write(reader: Reader, extent: Extent, files: &mut DatasetFiles<'_>) -> Result<u64> {
    let end = extent.to_us.saturating_add(1);
    // The recording may have grown meanwhile.
    let mut seconds =
        IntervalReader::new(reader, SECOND, Box::new(|| None)).cut_at([i64::MIN, end]);
    let mut rows = FigureRows::default();
    let mut put = |table: DatasetTable, time_us: i64, row: Value| files.push(table, time_us, row);
    for second in seconds.by_ref() {
        if bounds(&second).1 > end {
            break;
        }
        rows.add(second, &CgroupWaits::default(), &mut put)?;
    }
    rows.finish(&mut put)?;
    Ok(seconds.reader().invalid_rows())
}
