//! Rewrites a recording, or a period of it, in larger batches, with the strongest compression. Made
//! the recordings that are built into raidtrace.
//!
//! `cargo run --release --example repack -- FROM TO [FIRST LAST]`, with the period in seconds since
//! 1970; TO is compressed as a whole too if its name ends in `.zst`.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use raidtrace::analysis::counters::TaskId;
use raidtrace::analysis::files::FileId;
use raidtrace::analysis::item::Item;
use raidtrace::recording::error::Ending;
use raidtrace::recording::reader::{Reader, WantedColumns};
use raidtrace::recording::writer::{Writer, WriterOptions};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let from = arguments.next().context("FROM which file?")?;
    let to = arguments.next().context("TO which file?")?;
    let mut time_us = || -> Result<Option<i64>> {
        let seconds: Option<f64> = arguments.next().map(|text| text.parse()).transpose()?;
        Ok(seconds.map(|s| (s * 1e6) as i64))
    };
    let (first_us, last_us) = (time_us()?.unwrap_or(i64::MIN), time_us()?.unwrap_or(i64::MAX));
    let mut reader = Reader::open(Path::new(&from), WantedColumns::Everything)?;
    let options = WriterOptions { level: 19, rows: 4096, waiting: 1 << 10 };
    let mut writer = Writer::create(File::create(&to)?, reader.header(), options)?;
    // By number, as the last state has them: names of the arrays, arrays of the members.
    let (mut arrays, mut members) = (Vec::new(), Vec::new());
    // The last state before the period, which the figures of the first interval are relative to.
    let mut before = None;
    while let Some(item) = reader.next_item() {
        let task = |array: Option<u32>, pid: Option<u32>| {
            let (array, pid) = (array?, pid?);
            Some(TaskId { array, pid })
        };
        let (task, file) = match &item {
            Item::Request(r) => (task(members.get(r.member as usize).copied(), r.pid), r.file),
            Item::Submission(s) => (task(Some(s.array), Some(s.pid)), s.file),
            Item::Dirtied(d) => (task(Some(d.array), Some(d.pid)), d.file),
            Item::State(state) => {
                arrays = state.arrays.iter().map(|a| a.info.name.clone()).collect();
                let of = (0u32..).zip(&state.arrays);
                members =
                    of.flat_map(|(number, a)| a.members.iter().map(move |_| number)).collect();
                (None, None)
            }
            _ => (None, None),
        };
        match (item.time_us(), &item) {
            (time, Item::State(_)) if time < first_us => before = Some(item),
            (time, Item::Note { .. }) if time < first_us => writer.push(&item)?,
            (time, _) if time < first_us || time > last_us => {}
            _ => {
                before.take().map_or(Ok(()), |state| writer.push(&state))?;
                name(&mut writer, &reader, &arrays, task, file);
                writer.push(&item)?;
            }
        }
    }
    ensure!(*reader.ending() == Ending::Whole, "{}", reader.ending());
    let written = writer.finish()?;
    ensure!(written.dropped == 0, "the disk was too slow");
    let mut bytes = written.bytes;
    if to.ends_with(".zst") {
        let whole = zstd::encode_all(&fs::read(&to)?[..], 22)?;
        bytes = whole.len() as u64;
        fs::write(&to, whole)?;
    }
    println!("{} rows, {bytes} bytes", written.rows);
    Ok(())
}

fn name(
    writer: &mut Writer,
    reader: &Reader,
    arrays: &[String],
    task: Option<TaskId>,
    file: Option<FileId>,
) {
    if let Some(task) = task
        && let Some(array) = arrays.get(task.array as usize)
        && let Some(info) = reader.task(task.pid, array)
    {
        writer.task(task, &info);
    }
    if let Some((id, location)) = file.and_then(|id| Some((id, reader.file_location(&id)?))) {
        writer.file_location(id, &location);
    }
}
