//! A recording, compared with `top` during the same time (`tests/lab/record.sh`).

use std::collections::BTreeMap;

use raidtrace::analysis::item::Item;
use raidtrace::origin::{Op, Origin};
use raidtrace::recording::error::Ending;
use raidtrace::recording::reader::{Reader, WantedColumns};

use super::output::{count, each, lines, word};
use super::{intervals, lab, text};

type Cells = BTreeMap<(String, String, String), (u64, u64)>;

pub(super) fn a_recording_matches_top(kernel: &str) {
    let Some(dir) = lab(kernel, "record") else {
        return;
    };
    for what in ["record", "top"] {
        let status = text(dir.join(format!("{what}.status")));
        assert_eq!(status.trim(), "0", "{what}");
    }
    assert!(text(dir.join("record.err")).contains("nothing was lost"));

    let mut by_top = Cells::new();
    for interval in intervals(dir.join("top.out")) {
        assert_eq!(interval["lost"]["events"], 0, "{}", interval["lost"]);
        let arrays = interval["arrays"].as_array().expect("arrays");
        for member in arrays.iter().flat_map(|a| a["members"].as_array().expect("members")) {
            for cell in member["io"].as_array().expect("io") {
                let word = |v: &serde_json::Value| v.as_str().expect("text").to_owned();
                let key = (word(&member["name"]), word(&cell["origin"]), word(&cell["op"]));
                let sum = by_top.entry(key).or_default();
                sum.0 += cell["requests"].as_u64().expect("requests");
                sum.1 += cell["bytes"].as_u64().expect("bytes");
            }
        }
    }

    let path = dir.join("a.rtrace");
    let mut reader = Reader::open(&path, WantedColumns::Everything).expect("a recording");
    let (mut names, mut recorded) = (Vec::new(), Cells::new());
    // Writes of file data, and those whose submitter was found.
    let (mut writes, mut joined) = (0, 0);
    while let Some(item) = reader.next_item() {
        let (member, origin, op, requests, bytes) = match item {
            Item::State(state) => {
                assert!(!state.restart);
                let members = state.arrays.iter().flat_map(|a| &a.members);
                names = members.map(|m| m.name.clone()).collect();
                continue;
            }
            Item::Request(r) => {
                if (r.origin, r.op) == (Origin::FileData, Op::Write) {
                    writes += 1;
                    joined += u32::from(r.pid.is_some());
                }
                let has_array_sector =
                    !matches!(r.origin, Origin::Parity | Origin::MdSuperblock | Origin::MdBitmap);
                assert!(r.array_sector.is_some() == (has_array_sector && r.length > 0), "{r:?}");
                assert!(has_array_sector || r.pid.is_none(), "{r:?}");
                (r.member, r.origin, r.op, 1, r.bytes)
            }
            Item::Part(p) => (p.member, p.origin, p.op, 0, p.bytes),
            _ => continue,
        };
        let name: &String = &names[member as usize];
        let key = (name.clone(), origin.name().to_owned(), op.name().to_owned());
        let sum = recorded.entry(key).or_default();
        sum.0 += requests;
        sum.1 += u64::from(bytes);
    }
    assert_eq!(*reader.ending(), Ending::Whole);
    // The command that starts later reads md's superblocks while the other one traces.
    let without_superblock_reads = |cells: &mut Cells| {
        cells.retain(|(_, origin, op), _| {
            (origin.as_str(), op.as_str()) != ("md_superblock", "read")
        });
    };
    without_superblock_reads(&mut recorded);
    without_superblock_reads(&mut by_top);
    assert_eq!(recorded, by_top);
    for origin in ["parity", "rmw_read", "journal", "md_bitmap", "file_data"] {
        assert!(recorded.keys().any(|k| k.1 == origin), "{origin}: {recorded:#?}");
    }
    println!("{joined} of {writes} writes of file data have their submitter");
    assert!(writes > 100 && joined * 20 >= writes * 19, "{joined} of {writes}");
}

/// Programs are reloaded under full load: every request is in the recording exactly once, according
/// to the kernel's statistics, and counted exactly once by `top`.
pub(super) fn a_reload_loses_nothing(kernel: &str) {
    let Some(dir) = lab(kernel, "record_reload") else {
        return;
    };
    assert_eq!(text(dir.join("record.status")).trim(), "0");
    let said = text(dir.join("record.err"));
    assert!(said.contains("tracing reloaded"), "{said}");
    // 7.2 and later lose tasks of bios if the CPUs are busy (`lost.missed`).
    assert!(!said.contains("the kernel counts more"), "{said}");
    let mut reader =
        Reader::open(&dir.join("a.rtrace"), WantedColumns::Everything).expect("a recording");
    let (mut names, mut recorded) = (Vec::new(), BTreeMap::<String, u64>::new());
    let (mut restarts, mut intervals) = (0, 0);
    while let Some(item) = reader.next_item() {
        match item {
            Item::State(state) => {
                restarts += u32::from(state.restart);
                let members = state.arrays.iter().flat_map(|a| &a.members);
                names = members.map(|m| m.name.clone()).collect();
            }
            Item::Request(r) => *recorded.entry(names[r.member as usize].clone()).or_default() += 1,
            Item::Alloc { .. } => intervals += 1,
            _ => {}
        }
    }
    assert_eq!(*reader.ending(), Ending::Whole);
    assert!(restarts > 0 && intervals > 5, "{restarts} {intervals}");
    let stat = text(dir.join("stat"));
    let members: Vec<(&str, u64)> = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, n)| (name, n.parse().expect("a number")))
        .collect();
    assert_eq!(members.len(), 2, "{stat}");
    let intervals = lines(&dir, "top");
    // The kernel's count over the same time: also has reads of record's start.
    let mut counted = BTreeMap::<&str, [u64; 3]>::new();
    for member in intervals.iter().flat_map(|i| each(i, "arrays")).flat_map(|a| each(a, "members"))
    {
        let io = each(member, "io").iter().map(|cell| count(cell, "requests")).sum::<u64>();
        let [kernel, uncounted] = ["requests", "uncounted"].map(|of| count(&member["disk"], of));
        let sum = counted.entry(word(member, "name")).or_default();
        *sum = [sum[0] + io, sum[1] + kernel, sum[2] + uncounted];
    }
    for (name, completed) in members {
        println!("{name}: {completed} completed");
        assert!(completed > 1000, "{name}: {completed}");
        assert_eq!(recorded.get(name), Some(&completed), "{name}");
        let [ours, kernel, uncounted] = counted[name];
        assert!(kernel >= completed, "{name}: {kernel}");
        assert_eq!((ours, uncounted), (kernel, 0), "{name}");
    }
}

/// Requests that complete while the programs are detached are neither lost nor of unknown origin.
pub(super) fn the_end_of_a_recording_under_load(kernel: &str) {
    let Some(dir) = lab(kernel, "record_reload") else {
        return;
    };
    assert!(text(dir.join("busy.err")).contains("nothing was lost"));
    let mut reader =
        Reader::open(&dir.join("busy.rtrace"), WantedColumns::Everything).expect("a recording");
    let mut requests = Vec::new();
    while let Some(item) = reader.next_item() {
        if let Item::Request(r) = item {
            requests.push(r);
        }
    }
    assert_eq!(*reader.ending(), Ending::Whole);
    assert!(requests.len() > 20, "{}", requests.len());
    let unknown: Vec<_> = requests.iter().filter(|r| r.origin == Origin::Unknown).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}
