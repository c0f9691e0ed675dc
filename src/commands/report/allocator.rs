//! The ext4 allocator in a report, as text and as JSON.

use std::io::{self, Write};

use serde::Serialize;

use super::lines::{sentence, wrapped};
use crate::analysis::alloc::figures::{
    LATENCY, REQUESTS, SEARCHES, allocator_cpus, has, has_given, tasks_at_once,
};
use crate::analysis::alloc::{Cpu, FsAlloc, Reason};
use crate::analysis::{time, units};
use crate::recording::gather::AllocSummary;
use crate::ui::rows::seconds;

/// Writes a section for each filesystem, and a line about the CPUs.
pub fn write(out: &mut Vec<u8>, allocator: &AllocSummary) -> io::Result<()> {
    let s = &allocator.whole;
    for fs in &s.filesystems {
        let mount = fs.mount.as_ref().map(|m| format!(" on {m}"));
        let secs = seconds(s.interval);
        let name = format!(
            "ext4 allocator of {}{}: {} allocations, {} blocks, {:.1} tasks in it at a time",
            fs.name,
            mount.unwrap_or_default(),
            units::count(fs.counts.requests as f64),
            units::count(fs.counts.got as f64),
            tasks_at_once(fs, secs)
        );
        writeln!(out)?;
        wrapped(out, "", &name)?;
        let whole = fs.reason.as_ref().map(|r| r.sentence.as_str());
        match whole {
            Some(headline) => sentence(out, "!", headline)?,
            None => sentence(out, " ", "nothing stands out in the whole period")?,
        }
        let busiest = allocator.busiest.get(&fs.dev);
        if let Some(b) = busiest.filter(|b| Some(b.reason.sentence.as_str()) != whole) {
            let zone = time::local();
            let line = format!(
                "busiest: {:.1} tasks from {} to {}: {}",
                b.tasks,
                time::clock_both(b.from_us, &zone),
                time::clock_both(b.to_us, &zone),
                b.reason.sentence
            );
            wrapped(out, "  ", &line)?;
        }
    }
    if let (Some(cpus), Some(cpu)) = (allocator_cpus(s), &s.cpu) {
        let hottest = cpu.hottest.as_ref().map(|(name, _)| format!(", most in {name}()"));
        let line = format!("CPU: {cpus:.1} in the allocator{}", hottest.unwrap_or_default());
        wrapped(out, "  ", &line)?;
    }
    if s.lost > 0 {
        let line = format!("LOST {} events of the allocator", s.lost);
        sentence(out, "!", &line)?;
    }
    Ok(())
}

/// The allocator in the report's JSON. Unknown figures are `null`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportAllocator<'a> {
    intervals: u64,
    interval_s: f64,
    lost: u64,
    filesystems: Vec<ReportFilesystem<'a>>,
    cpu: &'a Option<Cpu>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportFilesystem<'a> {
    name: &'a str,
    mount: &'a Option<String>,
    requests: Option<u64>,
    got_blocks: Option<u64>,
    searches: Option<u64>,
    nanoseconds: Option<u64>,
    reason: &'a Option<Reason>,
    busiest: Option<ReportBusiest<'a>>,
}

/// The busiest interval with a reason.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportBusiest<'a> {
    from: String,
    to: String,
    tasks: f64,
    reason: &'a Reason,
}

impl<'a> ReportAllocator<'a> {
    pub fn new(allocator: &'a AllocSummary) -> Self {
        let s = &allocator.whole;
        let filesystem = |fs: &'a FsAlloc| {
            let c = &fs.counts;
            ReportFilesystem {
                name: &fs.name,
                mount: &fs.mount,
                requests: has(s, REQUESTS, c.requests > 0).then_some(c.requests),
                got_blocks: has_given(s, c).then_some(c.got),
                searches: has(s, SEARCHES, c.searches > 0).then_some(c.searches),
                nanoseconds: has(s, LATENCY, c.nanoseconds > 0).then_some(c.nanoseconds),
                reason: &fs.reason,
                busiest: allocator.busiest.get(&fs.dev).map(|b| ReportBusiest {
                    from: time::rfc3339(b.from_us),
                    to: time::rfc3339(b.to_us),
                    tasks: crate::analysis::units::round(b.tasks),
                    reason: &b.reason,
                }),
            }
        };
        Self {
            intervals: allocator.intervals,
            interval_s: s.interval.as_secs_f64(),
            lost: s.lost,
            filesystems: s.filesystems.iter().map(filesystem).collect(),
            cpu: &s.cpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::analysis::alloc::fixture;
    use crate::analysis::item::{Item, State};
    use crate::analysis::profile::Profile;
    use crate::recording;
    use crate::recording::alloc::AllocInterval;
    use crate::recording::gather::{Report, gather};

    const START: i64 = recording::fixture::START;

    fn report(items: &[Item], from: Option<&str>) -> Report {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), recording::fixture::file_of(items, 2)).unwrap();
        gather(file.path(), from, None).unwrap()
    }

    /// Three intervals of one second; the third is `linear`.
    fn intervals() -> Vec<Item> {
        let mut all = vec![fixture::healthy(), fixture::healthy(), fixture::linear()];
        for (second, s) in (1..).zip(&mut all) {
            s.time = jiff::Timestamp::from_microsecond(START + second * 1_000_000).unwrap();
            // Use the same filesystem in all three.
            (s.filesystems[0].dev, s.filesystems[0].name) = (9 << 20 | 127, "md127".to_owned());
        }
        let item = |s| AllocInterval::item(s, &Profile::default()).unwrap();
        all.iter().map(item).collect()
    }

    #[test]
    fn a_recording_with_only_the_allocator() {
        let time_us = START;
        let state = State { time_us, ..State::default() };
        let mut items = vec![Item::State(Box::new(state))];
        items.extend(intervals());
        let json = "{".to_owned();
        let time_us = START + 3_000_000;
        items.push(Item::Alloc { time_us, json });
        let report = report(&items, None);
        assert_eq!((report.invalid_rows, report.requests), (1, 0));
        let value =
            serde_json::to_value(super::ReportAllocator::new(report.allocator.as_ref().unwrap()))
                .unwrap();
        assert_eq!(value["intervals"], 3);
        assert_eq!(value["interval_s"], 3.0);
        let fs = &value["filesystems"][0];
        assert_eq!(fs["requests"], 2 * 5120 + 22);
        assert_eq!(fs["busiest"]["from"], "2026-11-20T12:00:02.000000Z");
        assert_eq!(fs["busiest"]["reason"]["id"], json!("linear_scan"));
        let mut text = Vec::new();
        super::super::text::write(&mut text, std::path::Path::new("a.rtrace"), &report).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("ext4 allocator of md127"), "{text}");
        assert!(text.contains("linear scan"), "{text}");
    }

    #[test]
    fn allocator_intervals_do_not_change_other_figures() {
        let mut items = recording::fixture::items(400, 4);
        items.retain(|item| !matches!(item, Item::Alloc { .. }));
        let plain = report(&items, None);
        let at = |time_us| move |item: &Item| item.time_us() <= time_us;
        for interval in intervals() {
            let index = items.partition_point(at(interval.time_us()));
            items.insert(index, interval);
        }
        let both = report(&items, None);
        assert_eq!(both.allocator.as_ref().unwrap().intervals, 3);
        assert!(plain.allocator.is_none());
        let arrays = |r: &Report| format!("{:?}", r.snapshot.arrays);
        assert_eq!((both.requests, both.invalid_rows), (plain.requests, 0));
        assert_eq!(arrays(&both), arrays(&plain));
        assert_eq!(report(&items, Some("+2")).allocator.unwrap().intervals, 1);
    }
}
