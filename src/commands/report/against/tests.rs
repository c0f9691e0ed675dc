use std::io::Write as _;

use serde_json::Value;

use super::command::read;
use super::compared::{Compared, ComparedRecording};
use super::{html, json, text};
use crate::analysis::compare::change::{self as figure, Change, Subject};
use crate::analysis::compare::comparison::ComparisonVerdict;
use crate::analysis::compare::series::{Quantity, SumSubject};
use crate::analysis::item::{Item, Request, State};
use crate::cli::{Cli, Command};
use crate::commands::report::args::ReportArgs;
use crate::origin::{Op, Origin};
use crate::recording::fixture;
use crate::recording::fixture::{Numbers, START};

/// Seconds of the recordings.
const SECONDS: i64 = 60;
const REQUESTS: u64 = 12_000;

/// A recording that starts `later` seconds after the fixture. The utilisation of its disks is that
/// of its requests.
fn items(requests: u64, seconds: i64, later: i64) -> Vec<Item> {
    let mut items = fixture::items(requests, seconds);
    for item in &mut items {
        match item {
            Item::State(s) => {
                s.time_us += later * 1_000_000;
                let members = s.arrays.iter_mut().flat_map(|a| &mut a.members);
                members.filter_map(|m| m.disk.as_mut()).for_each(|d| d.in_flight = 0);
            }
            Item::Request(r) => {
                r.time_us += later * 1_000_000;
                // About 8 % busy for each member at 40 requests a second. Few different times make
                // tests faster.
                r.device_us = r.device_us.map(|us| us / 1000 * 200 + 50);
            }
            Item::Part(p) => p.time_us += later * 1_000_000,
            Item::Submission(s) => s.time_us += later * 1_000_000,
            Item::Dirtied(d) => d.time_us += later * 1_000_000,
            Item::Alloc { time_us, .. }
            | Item::Slow { time_us, .. }
            | Item::Note { time_us, .. }
            | Item::Lost { time_us, .. } => *time_us += later * 1_000_000,
        }
    }
    items
}

fn requests(items: &mut [Item]) -> impl Iterator<Item = &mut Request> {
    items.iter_mut().filter_map(|item| match item {
        Item::Request(r) => Some(r),
        _ => None,
    })
}

fn states(items: &mut [Item]) -> impl Iterator<Item = &mut State> {
    items.iter_mut().filter_map(|item| match item {
        Item::State(s) => Some(&mut **s),
        _ => None,
    })
}

/// Other random numbers than those of the fixture, for another recording of the same process.
fn reshuffle(items: &mut [Item], seed: u64) {
    let mut numbers = Numbers(seed);
    for r in requests(items) {
        r.device_us = r.device_us.map(|_| numbers.next(20) as u32 * 200 + 50);
        r.member = numbers.next(5) as u32;
    }
}

struct Files(tempfile::TempDir);

impl Files {
    fn new(before: &[Item], after: &[Item]) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        for (name, items) in [("before", before), ("after", after)] {
            let path = files.0.path().join(name);
            let mut file = std::fs::File::create(path).unwrap();
            file.write_all(&fixture::file_of(items, 500)).unwrap();
        }
        files
    }

    fn run<T>(&self, options: &[&str], then: impl FnOnce(&Compared<'_>) -> T) -> T {
        self.try_run(options, then).unwrap()
    }

    fn try_run<T>(
        &self,
        options: &[&str],
        then: impl FnOnce(&Compared<'_>) -> T,
    ) -> anyhow::Result<T> {
        let path = |name: &str| self.0.path().join(name).display().to_string();
        let (before, after) = (path("before"), path("after"));
        let arguments = ["raidtrace", "report", &after, "--against", &before];
        let args = parse(&[&arguments, options].concat());
        let before = args.against.clone().unwrap();
        Ok(then(&read(&args, &before)?))
    }
}

fn parse(arguments: &[&str]) -> ReportArgs {
    use clap::Parser as _;
    match Cli::try_parse_from(arguments).unwrap().command {
        Command::Report(args) => args,
        _ => unreachable!(),
    }
}

fn as_text(compared: &Compared<'_>) -> String {
    let mut out = Vec::new();
    text::write(&mut out, compared).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    text
}

fn as_json(compared: &Compared<'_>) -> Value {
    let mut out = Vec::new();
    json::write(&mut out, compared).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_change_is_distinguished_from_noise() {
    let before = items(REQUESTS, SECONDS, 0);
    let mut after = items(REQUESTS, SECONDS, 100);
    reshuffle(&mut after, 77);
    // Bitmap writes move to loop1, and loop3 needs a quarter of the time.
    for r in requests(&mut after) {
        if r.origin == Origin::BlockBitmap && r.member < 4 {
            r.member = 0;
        }
        if r.member == 2 {
            r.device_us = r.device_us.map(|us| us / 4);
        }
    }
    Files::new(&before, &after).run(&[], |compared| {
        let text = as_text(compared);
        insta::assert_snapshot!("against", text);
        let value = as_json(compared);
        assert_eq!(value["schema"], "raidtrace.report-against/1");
        let changes = value["arrays"][0]["changes"].as_array().unwrap();
        let find = |figure: &str, key: &str, name: &str| {
            let mut changes = changes.iter();
            let found = changes.find(|c| c["figure"] == figure && c[key] == name);
            found.unwrap_or_else(|| panic!("{figure} {name}")).clone()
        };
        let loop3 = find("device_p99_us", "member_after", "loop3");
        assert_eq!(loop3["significant"], true, "{loop3}");
        assert!(loop3["ratio"].as_f64().unwrap() < 0.3, "{loop3}");
        let bitmaps = find("skew", "origin", "block_bitmap");
        assert_eq!(bitmaps["significant"], true, "{bitmaps}");
        assert_eq!(bitmaps["after"], 4.0, "{bitmaps}");
        for change in changes {
            let [low, high] = [0, 1].map(|i| change["interval"][i].as_f64());
            if let (Some(low), Some(high), Some(d)) = (low, high, change["difference"].as_f64()) {
                assert!(low <= d && d <= high, "{change}");
            }
        }
        let load = find("bytes_per_s", "subject", "load");
        assert_eq!(load["significant"], false, "{load}");
    });
}

#[test]
fn the_same_process_twice_is_noise() {
    let mut different = 0;
    for seed in 1..5 {
        let mut before = items(REQUESTS, SECONDS, 0);
        let mut after = items(REQUESTS, SECONDS, 100);
        reshuffle(&mut before, seed);
        reshuffle(&mut after, seed + 100);
        let files = Files::new(&before, &after);
        files.run(&[], |compared| {
            let array = &compared.comparison.arrays[0];
            assert_eq!(array.verdict, ComparisonVerdict::Same, "{}", array.headline);
            different += compared.comparison.method.different;
        });
    }
    assert!(different <= 2, "{different}");
}

#[test]
fn less_load_is_no_improvement() {
    let before = items(REQUESTS, SECONDS, 0);
    let mut after = items(REQUESTS / 2, SECONDS, 100);
    reshuffle(&mut after, 3);
    let files = Files::new(&before, &after);
    files.run(&[], |compared| {
        let array = &compared.comparison.arrays[0];
        assert_eq!(array.verdict, ComparisonVerdict::LoadDiffers, "{}", array.headline);
        assert!(array.headline.contains("the load was 1.46 MiB/s, now 0.73"), "{}", array.headline);
        assert!(array.headline.contains("for each MiB submitted"));
    });
}

#[test]
fn limits_of_the_comparison_are_noted() {
    let before = items(REQUESTS, SECONDS, 0);
    let files = Files::new(&before, &before);
    let notes = |options: &[&str]| files.run(options, |c| joined(&as_text(c)));
    assert!(notes(&[]).contains("are the same recording and period: nothing can differ"));
    let swapped = notes(&["--to", "+30", "--against-from", "+30"]);
    assert!(swapped.contains("are the two files swapped?"), "{swapped}");
    let overlap = notes(&["--from", "+10", "--against-to", "+40"]);
    assert!(overlap.contains("the periods overlap by 30 s"), "{overlap}");
    let short = notes(&["--from", "+52"]);
    assert!(short.contains("AFTER has 8 intervals of about a second, and 10 are needed"));
    assert!(short.contains("too few intervals to tell a difference from noise"));
    assert!(short.contains("the periods differ in length (60 s and 8 s)"));
    assert!(!short.contains("(95 % interval -") && !short.contains(" noise ("), "{short}");
    // A period may begin and end between two states.
    let cut = ["--from", "+10.3", "--to", "+25.7", "--against-to", "+10.3"];
    files.run(&cut, |compared| {
        let seconds = compared.recordings.each_ref().map(|r| r.series.seconds.iter().sum::<f64>());
        assert!((seconds[0] - 10.3).abs() < 1e-3 && (seconds[1] - 15.4).abs() < 1e-3);
        assert_eq!(compared.comparison.method.intervals, [10, 16]);
        for recording in &compared.recordings {
            let sums = recording.series.arrays.values();
            let requests = sums.filter_map(|sums| sums.get(&(SumSubject::Array, Quantity::Count)));
            assert_eq!(requests.flatten().sum::<f64>(), recording.report.requests as f64);
        }
    });
    let wrong =
        files.try_run(&["--against-to", "2000-01-01T00:00:00Z"], |_| ()).unwrap_err().to_string();
    assert!(wrong.starts_with("--against-to 2000"), "{wrong}");
    let wrong = files.try_run(&["--pair", "md1=md127"], |_| ()).unwrap_err();
    assert!(wrong.to_string().contains("BEFORE has no array md1"));
}

#[test]
fn other_arrays_members_and_hosts_are_compared_as_far_as_possible() {
    let before = items(REQUESTS, SECONDS, 0);
    let mut after = items(REQUESTS, SECONDS, 100);
    for state in states(&mut after) {
        let array = &mut state.arrays[0];
        array.info.name = "md0".to_owned();
        array.info.level = "raid10".to_owned();
        array.info.chunk_bytes = 65_536;
        array.members[0].name = "sdx".to_owned();
        state.arrays[1].info.name = "sdq".to_owned();
        state.arrays[1].members[0].name = "sdq".to_owned();
    }
    let files = Files::new(&before, &after);
    files.run(&[], |compared| {
        let text = joined(&as_text(compared));
        for words in [
            "md127 -> md0:",
            "the level was raid0, now raid10",
            "the chunk was 512 KiB, now 64 KiB",
            "1 of 4 members have another name now; members are compared by slot",
            "0: loop1 -> sdx busy",
            "sda -> sdq",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(as_json(compared)["arrays"][0]["paired_by"], "only_one");
    });
    for state in states(&mut after) {
        state.arrays[0].members[3].health = Some("missing".to_owned());
    }
    for r in requests(&mut after) {
        r.member = if r.member == 3 { 2 } else { r.member };
    }
    let files = Files::new(&before, &after);
    files.run(&[], |compared| {
        let text = joined(&as_text(compared));
        let words = "4 members before, 3 after: members are not compared one by one";
        assert!(text.contains(words), "{text}");
        assert!(!text.contains("loop2 busy"), "{text}");
    });
}

#[test]
fn gaps_and_recordings_without_requests_are_noted() {
    let before = items(REQUESTS, SECONDS, 0);
    let mut idle = items(REQUESTS, SECONDS, 100);
    idle.retain(|item| matches!(item, Item::State(_)));
    let files = Files::new(&before, &idle);
    files.run(&[], |compared| {
        let text = joined(&as_text(compared));
        assert!(text.contains("AFTER has no requests"), "{text}");
    });
    let gone = START + 20_000_000..START + 45_000_000;
    let mut gap = before.clone();
    gap.retain(|item| !gone.contains(&item.time_us()));
    let files = Files::new(&gap, &items(REQUESTS, SECONDS, 100));
    files.run(&[], |compared| {
        let text = joined(&as_text(compared));
        assert!(text.contains("BEFORE: intervals of 26 s in total are left out"), "{text}");
        assert_eq!(compared.comparison.method.intervals, [34, 60]);
        // The rate is that of the rest.
        let array = &compared.comparison.arrays[0];
        let is_load = |c: &&Change| (&c.subject, c.figure) == (&Subject::Load, &figure::BIOS);
        let ratio = array.changes.iter().find(is_load).unwrap().estimate.ratio.unwrap();
        assert!((ratio - 1.0).abs() < 0.03, "{ratio}");
    });
}

#[test]
fn hostile_names_are_printable() {
    let hostile = "a\u{1b}[31m\u{202e}<script>\u{0}\n";
    let mut before = items(REQUESTS, SECONDS, 0);
    for state in states(&mut before) {
        state.arrays[0].info.name = hostile.to_owned();
        state.arrays[0].members[1].name = hostile.to_owned();
        state.arrays[0].info.health = Some(hostile.to_owned());
        state.notes.push(hostile.to_owned());
    }
    let files = Files::new(&before, &items(REQUESTS, SECONDS, 100));
    files.run(&[], |compared| {
        let text = as_text(compared);
        let bad = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.contains(bad), "{text:?}");
        let page = html::draw(compared);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
        assert!(!document.descendants().any(|n| n.has_tag_name("script")));
        assert!(page.contains("&lt;script&gt;"));
        assert!(!page.contains(bad));
        let mut out = Vec::new();
        json::write(&mut out, compared).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(!line.trim_end().contains(bad), "{line:?}");
    });
}

#[test]
fn long_recordings_are_compared_in_longer_intervals() {
    let before = items(REQUESTS, 700, 0);
    let mut after = items(REQUESTS, 700, 1000);
    for r in requests(&mut after) {
        r.op = if r.op == Op::Read { Op::Write } else { r.op };
    }
    let files = Files::new(&before, &after);
    files.run(&[], |compared| {
        let method = &compared.comparison.method;
        assert!((64..=128).contains(&method.intervals[0]), "{method:?}");
        assert!(method.different > 5, "{method:?}");
        let [before, after] = &compared.recordings;
        let total = |recording: &ComparedRecording<'_>, quantity| -> f64 {
            let arrays = recording.series.arrays.values();
            arrays.filter_map(|sums| sums.get(&(SumSubject::Array, quantity))).flatten().sum()
        };
        assert_eq!(total(before, Quantity::Count), REQUESTS as f64);
        assert_eq!(total(after, Quantity::Count), REQUESTS as f64);
        let snapshot = &before.report.snapshot;
        let members = snapshot.arrays.iter().flat_map(|a| &a.members);
        let whole: f64 = members.map(|m| m.disk.unwrap().utilisation).sum();
        let whole = whole * snapshot.interval.as_secs_f64();
        let found = total(before, Quantity::Busy);
        assert!((found - whole).abs() < 1e-4, "{found} {whole}");
    });
}
