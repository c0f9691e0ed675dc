//! Recordings of ten minutes to twelve hours, most of them on a RAID 0 of four disks, where the
//! default options place every block bitmap on the first member.

use std::io::Write as _;

use super::merge;
use crate::analysis::fold::{ArrayNow, MemberNow};
use crate::analysis::item::{Item, Request, RequestFlags, State};
use crate::analysis::snapshot::ArrayInfo;
use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::commands::doctor::live::compare;
use crate::commands::doctor::load::load;
use crate::commands::doctor::tests::Machine;
use crate::origin::{Op, Origin};
use crate::recording::fixture::{START, Shared};
use crate::recording::header::{Header, RecordedArray};
use crate::recording::writer::{Writer, WriterOptions};

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600;

/// A write: milliseconds in the device, origin, and member id.
type Write = (u32, Origin, u32);

fn file(
    facts: &Facts,
    seconds: i64,
    writes: impl Fn(i64) -> Vec<Write>,
) -> tempfile::NamedTempFile {
    let now = &facts.arrays[0].array;
    let header = Header {
        host: "db1".to_owned(),
        arrays: vec![RecordedArray {
            name: now.name.clone(),
            level: now.level.clone(),
            disks: now.raid_disks,
            chunk_sectors: now.chunk_sectors,
            sectors: now.sectors,
            ..RecordedArray::default()
        }],
        ..Header::default()
    };
    let state = |second: i64| {
        let members = now.members.iter().map(|m| MemberNow {
            name: m.name.clone(),
            slot: m.slot,
            disk: Some(Default::default()),
            ..MemberNow::default()
        });
        Item::State(Box::new(State {
            time_us: START + second * SECOND,
            arrays: vec![ArrayNow {
                info: ArrayInfo {
                    name: now.name.clone(),
                    level: now.level.clone(),
                    ..ArrayInfo::default()
                },
                members: members.collect(),
                ..ArrayNow::default()
            }],
            ..State::default()
        }))
    };
    let out = Shared::default();
    let mut writer = Writer::create(out.clone(), &header, WriterOptions::default()).unwrap();
    for second in 0..=seconds {
        // The length of the shortest interval. A recorder writes one each second.
        if second % 10 == 0 {
            writer.push(&state(second)).unwrap();
        }
        let writes = writes(second);
        let apart = SECOND / writes.len().max(1) as i64;
        for (n, (ms, origin, member)) in (0..).zip(writes) {
            let request = Request {
                time_us: START + second * SECOND + n * apart,
                member,
                op: Op::Write,
                flags: RequestFlags::default(),
                origin,
                sector: 4096,
                array_sector: Some(4096),
                length: 4096,
                bytes: 4096,
                queue_us: Some(10),
                device_us: Some(ms * 1000),
                error: false,
                pid: None,
                file: None,
            };
            writer.push(&Item::Request(request)).unwrap();
        }
    }
    writer.finish().unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&out.bytes()).unwrap();
    file
}

/// Writes of bitmaps on the first member: back to back while `hot`, otherwise a fast one per
/// minute.
fn bitmaps(hot: impl Fn(i64) -> bool) -> impl Fn(i64) -> Vec<Write> {
    move |second| match second {
        s if hot(s) => vec![(248, Origin::BlockBitmap, 0); 4],
        s if s % 60 == 0 => vec![(2, Origin::BlockBitmap, 0)],
        _ => Vec::new(),
    }
}

/// Findings of `--load` on the whole recording only, and with its parts.
fn findings(facts: &Facts, file: &tempfile::NamedTempFile) -> [Vec<Finding>; 2] {
    let (snapshot, parts) = load(file.path(), facts, "db1").unwrap();
    assert_eq!(snapshot.arrays.len(), 1, "{:?}", snapshot.notes);
    let (_, whole) = compare(facts, &snapshot);
    let mut found = whole.clone();
    merge(&mut found, parts);
    [whole, found]
}

fn skew(found: &[Finding]) -> &Finding {
    let mut skews = found.iter().filter(|f| f.id == "live-skew");
    let skew = skews.next().unwrap();
    assert!(skews.next().is_none());
    skew
}

#[test]
fn ten_minutes_of_twelve_hours() {
    let facts = Machine::new("raid0", 4, None).facts();
    // The recording begins at 12:00.
    let hot = |s| (3 * HOUR + 600..3 * HOUR + 1200).contains(&s);
    let file = file(&facts, 12 * HOUR, bitmaps(hot));
    let [whole, found] = findings(&facts, &file);
    assert_eq!(skew(&whole).severity, FindingSeverity::Info);
    let skew = skew(&found);
    assert_eq!(skew.severity, FindingSeverity::Warning);
    let title = &skew.title;
    assert!(title.starts_with("2026-11-20 between 15:10 and 15:20: sda receive"), "{title}");
    assert!(
        skew.seen.iter().any(|s| s == "in the worst part of the recording: 10 of 720 min"),
        "{:?}",
        skew.seen
    );
    assert_eq!(skew.figures["from"], "2026-11-20T15:10:00.000000Z");
    assert_eq!(skew.figures["to"], "2026-11-20T15:20:00.000000Z");
    assert!(skew.figures["utilisation"].as_f64() > Some(0.9));
}

/// The longer of two parts is the worst. Short recordings have short intervals.
#[test]
fn the_worst_part_is_reported() {
    let facts = Machine::new("raid0", 4, None).facts();
    let hot = |s: i64| (60..90).contains(&s) || (300..390).contains(&s);
    let file = file(&facts, 600, bitmaps(hot));
    let [_, found] = findings(&facts, &file);
    let title = &skew(&found).title;
    assert!(title.starts_with("between 12:05:00 and 12:06:30: "), "{title}");
}

/// The finding has no time if the part is the whole recording.
#[test]
fn uniform_recordings_are_reported_as_a_whole() {
    let facts = Machine::new("raid0", 4, None).facts();
    let file_of = |hot: fn(i64) -> bool| file(&facts, 1200, bitmaps(hot));
    let [whole, found] = findings(&facts, &file_of(|_| true));
    assert_eq!(skew(&whole).severity, FindingSeverity::Warning);
    assert_eq!(skew(&whole).title, skew(&found).title);
    let [_, found] = findings(&facts, &file_of(|s| s % 5 == 0));
    assert_eq!(skew(&found).severity, FindingSeverity::Info);
    let [whole, found] = findings(&facts, &file_of(|_| false));
    assert!(whole.is_empty() && found.is_empty(), "{found:?}");
}

/// A large share of a few writes is not hot.
#[test]
fn bitmap_hot_for_five_minutes() {
    let facts = Machine::raid6().facts();
    let of = |a_second: usize| {
        let writes = move |second: i64| {
            let hot = (600..900).contains(&second);
            let n = if hot { a_second } else { 0 };
            let bitmap = vec![(1, Origin::MdBitmap, 0); n];
            let data = vec![(1, Origin::FileData, 0); if hot { n } else { 20 }];
            [bitmap, data].concat()
        };
        let [whole, found] = findings(&facts, &file(&facts, 3600, writes));
        assert!(whole.iter().all(|f| f.id != "bitmap-hot"));
        found
    };
    let found = of(20);
    let title = &found[0].title;
    assert!(title.starts_with("between 12:10 and 12:15: 50 % of"), "{title}");
    assert!(of(1).is_empty());
}
