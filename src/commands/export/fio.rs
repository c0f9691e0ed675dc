//! An I/O log for fio (`--read_iolog`, version 3): the reads, writes, discards and flushes that
//! were submitted to an array.

use std::io::{self, Write};

use anyhow::{Result, bail};

use super::period::ExportPeriod;
use super::written::{ExportSummary, INVALID_ROWS, Reasons, plain};
use crate::analysis::item::{Item, RequestFlags, Submission};
use crate::analysis::reorder::ReorderBuffer;
use crate::origin::Op;
use crate::recording::header::Header;
use crate::recording::reader::Reader;

/// Submissions that are held until they can be written in order of time.
const MAX_HELD: usize = 1 << 20;
/// Longest discard of a line. fio allocates buffers of the longest line for each request in flight.
const MAX_DISCARD: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// Name of the array to export: `wanted`, or the only one of the recording.
///
/// # Errors
/// There are several arrays or none, or none with that name.
pub fn choose(header: &Header, wanted: Option<&str>) -> Result<String> {
    let mut names: Vec<&str> = header.arrays.iter().map(|a| a.name.as_str()).collect();
    let list = || crate::printable::clean(&names.join(", ")).into_owned();
    match wanted.map(|name| name.strip_prefix("/dev/").unwrap_or(name)) {
        // Arrays that appeared later are not in the header.
        Some(name) if names.is_empty() || names.contains(&name) => Ok(name.to_owned()),
        Some(name) => bail!("the recording has no array {name}; it has {}", list()),
        None if names.len() == 1 => Ok(names.remove(0).to_owned()),
        None if names.is_empty() => bail!("the recording's header names no array: pass --array"),
        None => bail!("the recording has several arrays: pass --array with one of {}", list()),
    }
}

/// Writes the submissions to `array` in the period. `file`: name of the log, for the command that
/// replays it.
pub fn write(
    reader: &mut Reader,
    period: ExportPeriod,
    array: &str,
    file: &str,
    out: impl Write,
) -> io::Result<ExportSummary> {
    let mut log = FioLog {
        name: log_name(array),
        out,
        start_us: None,
        count: 0,
        destructive: 0,
        reasons: Reasons::default(),
    };
    let name = &log.name;
    writeln!(log.out, "fio version 3 iolog\n0 {name} add\n0 {name} open")?;
    let mut held = ReorderBuffer::new(MAX_HELD);
    let mut number = None;
    while let Some(item) = period.next_item(reader) {
        match item {
            Item::State(state) => {
                let mut numbers = (0..).zip(&state.arrays);
                let found = numbers.find(|(_, subject)| subject.info.name == array);
                number = found.map(|(number, _)| number);
            }
            Item::Submission(s) if Some(s.array) == number => {
                if let Some((_, s)) = held.push(s.time_us, s) {
                    log.submission(&s)?;
                }
            }
            Item::Lost { count, .. } => log.reasons.add(LOST, count),
            _ => {}
        }
    }
    while let Some((_, s)) = held.pop() {
        log.submission(&s)?;
    }
    log.out.flush()?;
    log.reasons.add(LATE, held.late());
    log.reasons.add(INVALID_ROWS, reader.invalid_rows());
    let hint = log.hint(file);
    Ok(ExportSummary {
        count: log.count,
        unit: "submissions",
        notes: log.reasons.notes(),
        hint: Some(hint),
    })
}

const LOST: &str = "events lost while recording, so that submissions may be missing";
const LATE: &str = "submissions not in order of time, because they arrived too late";
const FUA: &str = "writes with FUA, which fio cannot request, exported as plain writes";
const PREFLUSH: &str = "writes with a preflush, exported as a sync and a write";
const ZEROES: &str =
    "write_zeroes and other operations left out, because fio has no action for them";
const INVALID: &str = "submissions left out, because their length or sector is impossible";

struct FioLog<W> {
    /// Name of the file in the log, which `--replay_redirect` replaces.
    name: String,
    out: W,
    start_us: Option<i64>,
    count: u64,
    /// Writes and discards.
    destructive: u64,
    reasons: Reasons,
}

impl<W: Write> FioLog<W> {
    fn submission(&mut self, s: &Submission) -> io::Result<()> {
        let start_us = *self.start_us.get_or_insert(s.time_us);
        let at_us = s.time_us.saturating_sub(start_us).max(0);
        let length = u64::from(s.length);
        let action = match s.op {
            Op::Flush => return self.sync(at_us),
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            _ => {
                self.reasons.add(ZEROES, 1);
                return Ok(());
            }
        };
        let is_preflush = s.flags.contains(RequestFlags::PREFLUSH);
        // A flush without data. The kernel submits it as an empty write with PREFLUSH; raidtrace
        // records it as `Op::Flush`.
        if is_preflush && length == 0 {
            return self.sync(at_us);
        }
        let offset = s.array_sector.checked_mul(SECTOR);
        let is_valid = |o: &u64| {
            length > 0 && length.is_multiple_of(SECTOR) && o.checked_add(length).is_some()
        };
        let Some(offset) = offset.filter(is_valid) else {
            self.reasons.add(INVALID, 1);
            return Ok(());
        };
        if is_preflush {
            self.reasons.add(PREFLUSH, 1);
            writeln!(self.out, "{at_us} {} sync 0 0", self.name)?;
        }
        self.reasons.add(FUA, u64::from(s.flags.contains(RequestFlags::FUA)));
        self.destructive += u64::from(s.op != Op::Read);
        self.count += 1;
        let piece = if s.op == Op::Discard { MAX_DISCARD } else { length };
        for from in (0..length).step_by(usize::try_from(piece).unwrap_or(usize::MAX)) {
            let bytes = piece.min(length - from);
            let name = &self.name;
            writeln!(self.out, "{at_us} {name} {action} {} {bytes}", offset + from)?;
        }
        Ok(())
    }

    fn sync(&mut self, at_us: i64) -> io::Result<()> {
        self.count += 1;
        writeln!(self.out, "{at_us} {} sync 0 0", self.name)
    }

    /// The command that replays the log.
    fn hint(&self, file: &str) -> String {
        let risk = match self.destructive {
            0 => "the log has no writes".to_owned(),
            n => format!("{n} writes and discards destroy the data on DEVICE"),
        };
        format!(
            "fio --name=replay --read_iolog={} --replay_redirect=DEVICE --ioengine=libaio \
             --iodepth=64 --direct=1   # {risk}",
            // fio takes a colon for the end of the name.
            crate::advice::quote::quote(file.replace(':', "\\:"))
        )
    }
}

/// A file name that is no path: without `--replay_redirect` fio must not write to the recorded
/// array.
fn log_name(array: &str) -> String {
    format!("raidtrace-{}", plain(array))
}
