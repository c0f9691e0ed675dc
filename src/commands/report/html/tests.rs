use std::io::Write as _;
use std::path::Path;

use roxmltree::{Document, ParsingOptions};

use super::draw;
use crate::analysis::counters::TaskId;
use crate::analysis::files::FileLocation;
use crate::analysis::fold::TaskInfo;
use crate::analysis::item::{Item, Request, State};
use crate::origin::{Op, Origin};
use crate::recording::fixture::{self, START, Shared};
use crate::recording::gather::{Report, gather_detailed};
use crate::recording::header::Header;
use crate::recording::writer::{Writer, WriterOptions};

const SECOND: i64 = 1_000_000;
/// Names that are HTML, end an element, or change the direction of text.
const HOSTILE: &str = "</style></title></script><script>alert(1)</script><img src=x \
                       onerror=alert(1)>\" onload='x' \u{202e}\u{1b}[2J";

fn read(bytes: &[u8], from: Option<&str>, to: Option<&str>) -> Report {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    gather_detailed(file.path(), from, to).unwrap()
}

fn page(items: &[Item]) -> String {
    let report = read(&fixture::file_of(items, 500), None, None);
    draw(Path::new("/srv/a.rtrace"), &report)
}

/// Parses a page, and asserts that it has no script, no address outside it, no handler, and no id
/// twice.
fn checked(page: &str) -> Document<'_> {
    let options =
        ParsingOptions { allow_dtd: true, nodes_limit: u32::MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(page, options).unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for node in document.descendants().filter(|n| n.is_element()) {
        let name = node.tag_name().name();
        assert!(
            !["script", "img", "iframe", "link", "object", "form", "foreignObject"].contains(&name),
            "{name}"
        );
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on"), "{name}");
            assert!(!["src", "srcset", "data", "action"].contains(&name), "{name}");
            assert!(name != "href" || value.starts_with('#'), "{value}");
            assert!(name != "style" || value.starts_with("height:"), "{value}");
            assert!(name != "id" || ids.insert(value.to_owned()), "{value} twice");
        }
    }
    for node in document.descendants() {
        if let Some(target) = node.attribute("href").and_then(|h| h.strip_prefix('#')) {
            assert!(ids.contains(target), "{target}");
        }
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    assert!(!page.contains("NaN") && !page.contains("\"inf"), "a figure is not a number");
    document
}

/// All text of a page.
fn text_of(document: &Document<'_>) -> String {
    document.descendants().filter_map(|n| n.text()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_page_has_every_section() {
    let page = page(&fixture::items(4000, 8));
    let document = checked(&page);
    let text = text_of(&document);
    for heading in [
        "Summary",
        "What was recorded",
        "Utilisation over time",
        "Members over time",
        "Origins by member",
        "Latency, slowest first",
        "Request sizes",
        "Addresses on the array",
        "Tasks",
        "Files",
        "Amplification",
        "ext4 allocator",
        "Flame graph",
        "What was lost",
        "How to reproduce",
    ] {
        assert!(text.contains(heading), "{heading}");
    }
    assert!(text.contains("4000 completed"));
    assert!(text.contains("Device time p50, p99"));
    assert!(text.contains("raidtrace export a.rtrace -f parquet"));
    // Every picture over time has a row of figures per interval.
    let captions = document
        .descendants()
        .filter(|n| n.has_tag_name(("http://www.w3.org/1999/xhtml", "caption")));
    let by_interval = captions.filter(|n| n.text().is_some_and(|t| t.ends_with(", by interval")));
    assert_eq!(by_interval.count(), 5, "four members of md127, and sda");
}

/// Figures of the pictures add up to the requests of the recording.
#[test]
fn requests_by_address_and_by_time_are_those_of_the_recording() {
    let mut items = fixture::items(4000, 8);
    for item in &mut items {
        if let Item::State(state) = item {
            for subject in &mut state.arrays {
                subject.info.bytes = 512 << 33;
            }
        }
    }
    let report = read(&fixture::file_of(&items, 500), None, None);
    let fine = &report.detail.as_ref().unwrap().fine;
    let requests = || {
        items.iter().filter_map(|i| match i {
            Item::Request(r) => Some(r),
            _ => None,
        })
    };
    let measured = requests().filter(|r| r.device_us.is_some()).count() as u64;
    let in_pictures: u64 = fine.timeline.latencies.iter().flatten().map(|h| h.count()).sum();
    assert_eq!(in_pictures, measured);
    let placed = requests().filter(|r| r.array_sector.is_some()).count() as u64;
    let addresses = fine.addresses.iter();
    let by_address: u64 =
        addresses.map(|a| (0..64).map(|p| a.requests(p)).sum::<u64>() + a.outside).sum();
    assert_eq!(by_address, placed);
    // A piece has as many requests as the recording has in its range.
    let array = |r: &Request| if r.member == 4 { "sda" } else { "md127" };
    for (name, addresses) in fine.arrays.iter().zip(&fine.addresses) {
        for piece in [0, 1, 40, 63] {
            let range = addresses.start(piece)..(1 << 33) * (piece as u64 + 1) / 64;
            let own = requests().filter(|r| array(r) == name);
            let inside = own.filter(|r| r.array_sector.is_some_and(|s| range.contains(&s)));
            assert_eq!(addresses.requests(piece), inside.count() as u64, "{name}, {piece}");
        }
    }
    assert!(fine.addresses.iter().any(|a| a.requests(40) > 0), "addresses were read");
}

/// A recording in which every name is `HOSTILE`, `times` times.
fn hostile_file(times: usize) -> Vec<u8> {
    let hostile: &str = &HOSTILE.repeat(times);
    let out = Shared::default();
    let options = WriterOptions { rows: 500, waiting: 1 << 20, ..WriterOptions::default() };
    let mut header = Header {
        host: hostile.to_owned(),
        kernel: hostile.to_owned(),
        machine: hostile.to_owned(),
        version: hostile.to_owned(),
        command: vec![hostile.to_owned()],
        notes: vec![hostile.to_owned()],
        ..fixture::header()
    };
    if let Some(fs) = header.filesystems.first_mut() {
        fs.mounts[0].path = format!("/srv/{hostile}");
    }
    let mut writer = Writer::create(out.clone(), &header, options).unwrap();
    for pid in 100..108 {
        let info = TaskInfo {
            comm: hostile.as_bytes().to_vec(),
            cgroup: Some(format!("/{hostile}")),
            role: (pid == 107).then(|| hostile.to_owned()),
        };
        for array in [0, 1] {
            writer.task(TaskId { array, pid }, &info);
        }
    }
    for inode in 12..30 {
        let location = FileLocation {
            path: Some(format!("/srv/{hostile}\u{0}{inode}").into_bytes()),
            ..fixture::location(inode)
        };
        writer.file_location(fixture::file(inode), &location);
    }
    for mut item in fixture::items(2000, 4) {
        if let Item::State(state) = &mut item {
            for subject in &mut state.arrays {
                let info = &mut subject.info;
                info.name = format!("{}{hostile}", info.name);
                info.health = Some(hostile.to_owned());
                info.filesystems = vec![hostile.to_owned()];
                info.level = hostile.to_owned();
                for member in &mut subject.members {
                    member.name = format!("{}{hostile}", member.name);
                    member.health = Some(hostile.to_owned());
                }
            }
            state.notes = vec![hostile.to_owned()];
        }
        writer.push(&item).unwrap();
    }
    let (time_us, text) = (START + SECOND, hostile.to_owned());
    writer.push(&Item::Note { time_us, text: text.clone() }).unwrap();
    let lost = Item::Lost { time_us, reason: text, count: 7 };
    writer.push(&lost).unwrap();
    writer.finish().unwrap();
    out.bytes()
}

#[test]
fn hostile_names_are_text() {
    let report = read(&hostile_file(1), None, None);
    let page = draw(Path::new(&format!("/srv/{}.rtrace", HOSTILE.replace('/', "_"))), &report);
    let document = checked(&page);
    let text = text_of(&document);
    // The names are there, as text, without marks that change what the reader sees.
    assert!(text.matches("<img src=x onerror=alert(1)>").count() > 20);
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}') && !page.contains('\u{0}'));
    assert!(text.contains("\\x1b[2J"));
    // One element, the page's own, holds style.
    let styles = document.descendants().filter(|n| n.tag_name().name() == "style");
    assert_eq!(styles.count(), 1);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let once = page.matches("<style").count();
    assert!(Document::parse_with_options(&page, options).is_ok() && once == 1);
}

#[test]
fn long_names_do_not_make_a_large_page() {
    let report = read(&hostile_file(200), None, None);
    let page = draw(Path::new("a.rtrace"), &report);
    checked(&page);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

/// Items of `arrays` RAID 0 of `members` disks each for `seconds`, with all origins and latencies
/// from 1 µs to 67 s.
fn large(arrays: u32, members: u32, seconds: i64, requests: u64, origins: usize) -> Vec<Item> {
    let mut numbers = fixture::Numbers(7);
    let state = |time_us: i64| {
        let mut state = fixture::state(START);
        let first = state.arrays[0].clone();
        let array = |number: u32| {
            let mut subject = first.clone();
            subject.info.name = format!("md{number}");
            subject.info.disks = members;
            subject.info.bytes = u64::from(members) << 40;
            let member = |slot: u32| {
                let mut member = first.members[0].clone();
                member.name = format!("nvme{}n1p1", number * members + slot);
                member.slot = Some(slot);
                if let Some(disk) = &mut member.disk {
                    disk.io_ticks_ms = ((time_us - START) / 1500) as u64;
                }
                member
            };
            subject.members = (0..members).map(member).collect();
            subject
        };
        state.arrays = (0..arrays).map(array).collect();
        Item::State(Box::new(State { time_us, ..state }))
    };
    let mut items = vec![state(START)];
    let mut second = 0;
    for n in 0..requests {
        let time_us = START + (seconds * SECOND) * n as i64 / requests as i64;
        while (time_us - START) / SECOND >= second + 10 {
            second += 10;
            items.push(state(START + second * SECOND));
        }
        let member = numbers.next(u64::from(arrays * members)) as u32;
        let sector = numbers.next(1 << 31);
        items.push(Item::Request(Request {
            time_us,
            member,
            op: if n % 3 == 0 { Op::Read } else { Op::Write },
            flags: crate::analysis::item::RequestFlags::empty(),
            origin: Origin::ALL[numbers.next(origins as u64) as usize],
            sector,
            array_sector: Some(sector * u64::from(members)),
            length: 4096 << numbers.next(8),
            bytes: 4096,
            queue_us: Some(numbers.next(1000) as u32),
            device_us: Some(1 << numbers.next(27)),
            error: false,
            pid: Some(100 + numbers.next(3000) as u32),
            file: None,
        }));
    }
    items.push(state(START + seconds * SECOND));
    items
}

/// An hour of 12 disks must take less than 2 MB, even with every origin and latency in every
/// interval.
#[test]
fn the_size_of_a_page_is_bounded() {
    for (arrays, members, seconds, requests, origins, most) in [
        (1, 12, 3600, 40_000, Origin::ALL.len(), 2_000_000),
        (1, 64, 3600, 60_000, Origin::ALL.len(), 2_000_000),
        (1, 300, 3600, 30_000, Origin::ALL.len(), 2_000_000),
        (20, 20, 3600, 100_000, Origin::ALL.len(), 2_000_000),
        // The same with the few origins of a real load.
        (1, 12, 3600, 40_000, 4, 1_200_000),
    ] {
        let page = page(&large(arrays, members, seconds, requests, origins));
        let document = checked(&page);
        eprintln!("{arrays} x {members} members, {seconds} s: {} bytes", page.len());
        assert!(page.len() < most, "{members}: {} bytes", page.len());
        let text = text_of(&document);
        assert_eq!(text.contains("busiest of"), members > 12, "{members}");
        assert_eq!(text.contains("more members are left out"), members > 64 || arrays > 1);
        assert_eq!(text.contains("Other arrays"), arrays > 1);
    }
}

#[test]
fn unusual_recordings_have_a_page() {
    let only = |keep: fn(&Item) -> bool| -> Vec<Item> {
        fixture::items(2000, 6).into_iter().filter(keep).collect()
    };
    // No allocator, no submissions, no requests at all, states only.
    let idle = only(|i| matches!(i, Item::State(_)));
    let text = page(&idle);
    checked(&text);
    assert!(text.contains("0 completed"));
    // One member, without md.
    let mut single = only(|i| !matches!(i, Item::Alloc { .. }));
    for item in &mut single {
        match item {
            Item::State(state) => {
                state.arrays.remove(0);
            }
            Item::Request(r) => r.member = 0,
            Item::Part(p) => p.member = 0,
            Item::Submission(s) => s.array = 0,
            Item::Dirtied(d) => d.array = 0,
            _ => {}
        }
    }
    let one = page(&single);
    checked(&one);
    assert!(one.contains("slot 0: sda") && !one.contains("ext4 allocator"));
    // Members and arrays that no state names.
    let mut unknown = only(|_| true);
    for item in &mut unknown {
        if let Item::Request(r) = item {
            r.member += 3;
        }
    }
    checked(&page(&unknown));
    // A reshape: no request has an address on the array.
    let mut reshape = only(|_| true);
    for item in &mut reshape {
        match item {
            Item::Request(r) => r.array_sector = None,
            Item::State(s) => s.arrays[0].info.health = Some("reshaping 12.3 %".to_owned()),
            _ => {}
        }
    }
    let reshape = page(&reshape);
    checked(&reshape);
    assert!(
        reshape.contains("No request has a known address") && reshape.contains("reshaping 12.3 %")
    );
    // Nested: md127's first member is an array too, whose requests have addresses of md127.
    let mut nested = only(|_| true);
    for item in &mut nested {
        if let Item::State(s) = item {
            s.arrays[0].members[0].name = "sda".to_owned();
        }
    }
    let nested = page(&nested);
    checked(&nested);
    assert!(nested.contains("sda is a member of md127"));
    // A degraded array.
    let mut degraded = only(|_| true);
    for item in &mut degraded {
        if let Item::State(s) = item {
            s.arrays[0].members[2].health = Some("faulty".to_owned());
            s.arrays[0].members[2].slot = None;
        }
    }
    let degraded = page(&degraded);
    checked(&degraded);
    assert!(degraded.contains("faulty"));
    // Gaps: nothing for minutes, and losses.
    let mut gaps = only(|i| i.time_us() < START + 2 * SECOND);
    let time_us = START + 3 * SECOND;
    gaps.push(Item::Lost { time_us, reason: "ring full".to_owned(), count: 7 });
    gaps.push(Item::State(Box::new(fixture::state(START + 600 * SECOND))));
    let gaps = page(&gaps);
    let document = checked(&gaps);
    assert!(text_of(&document).contains("7: ring full"));
}

#[test]
fn a_page_of_a_period_names_the_whole_recording() {
    let bytes = fixture::file_of(&fixture::items(2000, 6), 200);
    let report = read(&bytes, Some("+1"), Some("+3"));
    let page = draw(Path::new("a b.rtrace"), &report);
    let text = text_of(&checked(&page));
    assert!(text.contains("Whole recording, UTC"));
    let command = "raidtrace report 'a b.rtrace' --from 2026-11-20T12:00:01.000000Z --to \
                   2026-11-20T12:00:03.000000Z --html report.html";
    assert!(text.contains(command), "{text}");
    // A period without requests, and one that is shorter than the distance of states.
    for (from, to) in [("+1.001", "+1.002"), ("+5.9999", "+6")] {
        checked(&draw(Path::new("a"), &read(&bytes, Some(from), Some(to))));
    }
    // A recording that ends in the middle.
    let cut = read(&bytes[..bytes.len() / 2], None, None);
    let text = draw(Path::new("a"), &cut);
    checked(&text);
    assert!(text.contains(&*maud::html! { (cut.ending.to_string()) }.into_string()));
}

#[test]
fn times_in_the_zone_of_the_machine() {
    let out = Shared::default();
    let header = Header { utc_offset_s: Some(5 * 3600 + 1800), ..fixture::header() };
    let mut writer = Writer::create(out.clone(), &header, WriterOptions::default()).unwrap();
    for item in fixture::items(200, 2) {
        writer.push(&item).unwrap();
    }
    writer.finish().unwrap();
    let page = draw(Path::new("a"), &read(&out.bytes(), None, None));
    let text = text_of(&checked(&page));
    assert!(text.contains("Local time of dbhost"), "{text}");
    assert!(text.contains("2026-11-20 17:30:00.000 to 17:30:02.000 +05:30"));
    assert!(text.contains("2026-11-20 12:00:00.000 to 12:00:02.000"));
}
