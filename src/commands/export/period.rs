//! The part of a recording that is exported.

use std::path::Path;

use anyhow::{Result, bail};

use crate::analysis::item::Item;
use crate::analysis::time::{self, RecordedSpan};
use crate::recording::reader::{Reader, WantedColumns};

/// Times in µs since 1970; the end is not in the period.
#[derive(Clone, Copy, Debug)]
pub struct ExportPeriod {
    from_us: i64,
    to_us: i64,
}

impl ExportPeriod {
    pub const WHOLE: Self = Self { from_us: i64::MIN, to_us: i64::MAX };

    /// The period from `from` to `to` of the recording at `path`.
    ///
    /// # Errors
    /// The recording cannot be read, a text is not a time, or the period is empty.
    pub fn new(path: &Path, from: Option<&str>, to: Option<&str>) -> Result<Self> {
        let mut period = Self::WHOLE;
        if from.is_none() && to.is_none() {
            return Ok(period);
        }
        let mut reader = Reader::open(path, WantedColumns::Figures)?;
        let Some(first) = reader.next_item() else {
            return Ok(period);
        };
        let mut span = RecordedSpan::new(first.time_us());
        let last_us = reader.last_time();
        span.end_us = Some(last_us);
        let zone = time::local();
        if let Some(text) = from {
            let from_us = span.begin(text, &zone).map_err(anyhow::Error::msg)?;
            if from_us > last_us {
                bail!("--from is after the recording, which ends at {}", time::rfc3339(last_us));
            }
            // Rows can be older than the first state: keep them if the period begins with that
            // state or earlier.
            if from_us > first.time_us() {
                period.from_us = from_us;
            }
        }
        if let Some(text) = to {
            period.to_us = span.parse(text, &zone).map_err(anyhow::Error::msg)?;
        }
        if period.from_us >= period.to_us {
            bail!("--from must be before --to");
        }
        if period.to_us <= first.time_us() {
            bail!("--to is before the recording");
        }
        Ok(period)
    }

    /// The next item in the period, and every state: they have the numbers of arrays and members.
    pub fn next_item(self, reader: &mut Reader) -> Option<Item> {
        loop {
            let item = reader.next_item()?;
            let is_inside = (self.from_us..self.to_us).contains(&item.time_us());
            if is_inside || matches!(item, Item::State(_)) {
                return Some(item);
            }
        }
    }
}
