//! The formats of events: Perfetto, fio.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;

use prost::Message;

use super::args::Format;
use super::perfetto::proto::{EventType, TracePacket};
use super::period::ExportPeriod;
use super::written::ExportSummary;
use super::{fio, lines, perfetto};
use crate::analysis::item::{Item, Request, RequestFlags, Submission};
use crate::analysis::slow::fixture as slow;
use crate::origin::{Op, Origin};
use crate::recording::fixture::{self, START};
use crate::recording::header::RecordedArray;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::slow::SlowInterval;
use crate::ui::text::is_hidden;

fn reader(items: &[Item]) -> Reader {
    let input = Box::new(Cursor::new(fixture::file_of(items, 700)));
    Reader::new(input, Path::new("x.rtrace"), WantedColumns::Everything).unwrap()
}

fn state() -> Item {
    Item::State(Box::new(fixture::state(START)))
}

fn submission(time_us: i64, op: Op, flags: RequestFlags, length: u32) -> Item {
    Item::Submission(Submission {
        time_us: START + time_us,
        array: 0,
        op,
        flags,
        origin: Origin::FileData,
        array_sector: 8,
        length,
        pid: 100,
        file: None,
    })
}

fn request(time_us: i64, device_us: Option<u32>) -> Request {
    Request {
        time_us: START + time_us,
        member: 0,
        op: Op::Read,
        flags: RequestFlags::empty(),
        origin: Origin::FileData,
        sector: 8,
        array_sector: None,
        length: 4096,
        bytes: 4096,
        queue_us: Some(1),
        device_us,
        error: false,
        pid: None,
        file: None,
    }
}

fn log(items: &[Item], array: &str) -> (String, ExportSummary) {
    let mut out = Vec::new();
    let written =
        fio::write(&mut reader(items), ExportPeriod::WHOLE, array, "a.iolog", &mut out).unwrap();
    (String::from_utf8(out).unwrap(), written)
}

#[test]
fn fio_replays_what_was_submitted() {
    let items = [
        state(),
        submission(100, Op::Write, RequestFlags::PREFLUSH | RequestFlags::FUA, 4096),
        submission(300, Op::Discard, RequestFlags::empty(), (1 << 20) + 4096),
        // Recorded late, as a read that is classified by its content.
        submission(200, Op::Read, RequestFlags::empty(), 512),
        submission(400, Op::Flush, RequestFlags::PREFLUSH, 0),
        submission(500, Op::WriteZeroes, RequestFlags::empty(), 4096),
        submission(600, Op::Write, RequestFlags::empty(), 77),
    ];
    let (text, written) = log(&items, "md127");
    insta::assert_snapshot!(text, @r"
    fio version 3 iolog
    0 raidtrace-md127 add
    0 raidtrace-md127 open
    0 raidtrace-md127 sync 0 0
    0 raidtrace-md127 write 4096 4096
    100 raidtrace-md127 read 4096 512
    200 raidtrace-md127 trim 4096 1048576
    200 raidtrace-md127 trim 1052672 4096
    300 raidtrace-md127 sync 0 0
    ");
    insta::assert_snapshot!(written.notes.join("\n"), @r"
    submissions left out, because their length or sector is impossible: 1
    write_zeroes and other operations left out, because fio has no action for them: 1
    writes with FUA, which fio cannot request, exported as plain writes: 1
    writes with a preflush, exported as a sync and a write: 1
    ");
    assert_eq!(written.count, 4);
    assert!(written.hint.unwrap().contains("2 writes and discards destroy"));
}

#[test]
fn fio_has_one_array() {
    let none = fixture::header();
    assert!(fio::choose(&none, None).is_err());
    assert_eq!(fio::choose(&none, Some("md127")).unwrap(), "md127");
    let array = |name: &str| RecordedArray { name: name.to_owned(), ..RecordedArray::default() };
    let mut header = none;
    header.arrays = vec![array("md127")];
    assert_eq!(fio::choose(&header, None).unwrap(), "md127");
    header.arrays.push(array("sda"));
    let error = |name| fio::choose(&header, name).unwrap_err().to_string();
    assert!(error(None).contains("md127, sda"), "{}", error(None));
    assert!(error(Some("md1")).contains("no array md1"));
    assert_eq!(fio::choose(&header, Some("/dev/sda")).unwrap(), "sda");
    let items = fixture::items(3000, 3);
    let submissions = |array: u32| {
        let of = |item: &&Item| matches!(item, Item::Submission(s) if s.array == array);
        items.iter().filter(of).count() as u64
    };
    let all = ["md127", "sda"].map(|name| log(&items, name).1.count);
    assert_eq!(all, [submissions(0), submissions(1)]);
    assert!(all[1] > 0);
    assert_eq!(log(&items, "md1").1.count, 0);
}

fn packets(bytes: &[u8]) -> Vec<TracePacket> {
    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }
    Trace::decode(bytes).unwrap().packet
}

fn trace(items: &[Item]) -> (Vec<TracePacket>, ExportSummary) {
    let mut out = Vec::new();
    let written = perfetto::write(&mut reader(items), ExportPeriod::WHOLE, &mut out).unwrap();
    (packets(&out), written)
}

/// Deepest nesting of slices on a track with this name. Panics if a slice ends that has not begun,
/// or stays open.
fn depth(packets: &[TracePacket], name: &str) -> usize {
    let tracks = packets.iter().filter_map(|p| p.track_descriptor.as_ref());
    let names: HashMap<u64, &str> =
        tracks.map(|t| (t.uuid.unwrap(), t.name.as_deref().unwrap())).collect();
    let mut events: Vec<_> = packets
        .iter()
        .filter_map(|p| Some((p.timestamp?, p.track_event.as_ref()?)))
        .filter(|(_, e)| names[&e.track_uuid.unwrap()] == name)
        .collect();
    events.sort_by_key(|(time, _)| *time);
    let mut open: HashMap<u64, usize> = HashMap::new();
    let mut deepest = 0;
    for (_, event) in events {
        let depth = open.entry(event.track_uuid.unwrap()).or_default();
        match event.r#type() {
            EventType::SliceBegin => *depth += 1,
            EventType::SliceEnd => *depth = depth.checked_sub(1).expect("a slice has begun"),
            _ => {}
        }
        deepest = deepest.max(*depth);
    }
    assert!(open.values().all(|depth| *depth == 0), "{open:?}");
    deepest
}

#[test]
fn perfetto_requests_of_a_track_do_not_overlap() {
    let items = fixture::items(5000, 5);
    let (packets, written) = trace(&items);
    let requests = items.iter().filter(|i| matches!(i, Item::Request(_)));
    assert_eq!(written.count, requests.count() as u64);
    assert_eq!(depth(&packets, "requests"), 1);
    let unknown = "requests shown as instants, because the time of their issue is unknown: ";
    let notes = written.notes.join("\n");
    assert!(notes.contains(unknown), "{notes}");
}

#[test]
fn perfetto_notes_requests_without_a_lane() {
    let mut items = vec![state()];
    for i in 0..200 {
        items.push(Item::Request(request(1000 + i, Some(1000))));
    }
    let (packets, written) = trace(&items);
    assert_eq!(depth(&packets, "requests"), 1);
    let notes = written.notes.join("\n");
    assert_eq!(
        notes,
        "requests shown as instants, because more than 128 were in flight on their member: 72"
    );
    // The rate counts requests without a lane, too: 200 of 4096 bytes in 100 ms, in bytes/s.
    let counts = packets.iter().filter_map(|p| p.track_event.as_ref());
    assert_eq!(counts.filter_map(|e| e.counter_value).max(), Some(4096 * 2000));
    let flight: Vec<_> = packets
        .iter()
        .filter_map(|p| p.track_descriptor.as_ref())
        .filter(|t| t.name() == "requests in flight")
        .map(|t| t.uuid)
        .collect();
    let values: Vec<_> = packets
        .iter()
        .filter_map(|p| p.track_event.as_ref())
        .filter(|e| flight.contains(&e.track_uuid))
        .filter_map(|e| e.counter_value)
        .collect();
    assert_eq!((values.iter().max(), values.last()), (Some(&200), Some(&0)));
}

#[test]
fn perfetto_slow_operations_contain_their_phases() {
    let mut snapshot = slow::interval();
    snapshot.time = jiff::Timestamp::from_microsecond(START).unwrap();
    let damaged = Item::Slow { time_us: START, json: "{}".to_owned() };
    let items = [state(), SlowInterval::item(&snapshot).unwrap(), damaged];
    let (packets, written) = trace(&items);
    assert_eq!(depth(&packets, "slow operations"), 2);
    let notes = written.notes.join("\n");
    assert_eq!(notes, "damaged intervals of slow operations, left out: 1");
}

#[test]
fn perfetto_forgets_texts_when_there_are_many() {
    let mut items = vec![state()];
    for i in 0..3000 {
        items.push(Item::Note {
            time_us: START + i,
            text: format!("{i}\u{1b}[31m{}", "x".repeat(4000)),
        });
    }
    let (packets, _) = trace(&items);
    let mut names = HashMap::new();
    let (mut clears, mut notes) = (0, 0);
    for packet in &packets {
        if packet.sequence_flags() & 1 != 0 {
            names.clear();
            clears += 1;
        }
        let new = packet.interned_data.iter().flat_map(|d| &d.event_names);
        names.extend(new.map(|n| (n.iid, n.name())));
        let Some(event) = &packet.track_event else {
            continue;
        };
        if event.r#type() == EventType::Instant {
            let name = names[&event.name_iid];
            assert!(name.starts_with(&format!("{notes}\\x1b[31mx")), "{name}");
            notes += 1;
        }
    }
    assert_eq!(notes, 3000);
    assert!((2..=4).contains(&clears), "{clears}");
}

#[test]
fn an_empty_recording_has_no_events() {
    assert_eq!(trace(&[]).1.count, 0);
    assert_eq!(log(&[], "md127").0.lines().count(), 3);
}

/// CSV and NDJSON have no character that a terminal acts on or hides, and a parser of JSON restores
/// the text.
#[test]
fn rows_are_safe_on_a_terminal() {
    let text = "=cmd|x!A1 \u{1b}]0;x\u{7}\u{9b}31m\u{202e}\r\n\"x\", y";
    let note = Item::Note { time_us: START, text: text.to_owned() };
    let items = [state(), note];
    let written = |format| {
        let mut out = Vec::new();
        lines::write(&mut reader(&items), format, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let raw = |c: char| c != '\n' && (c.is_control() || is_hidden(c));
        assert!(!out.contains(raw), "{out:?}");
        out.lines().last().unwrap().to_owned()
    };
    let csv = written(Format::Csv);
    let cell = "\"=cmd|x!A1 \\x1b]0;x\\x07\\x9b31m\u{fffd}\\x0d\\x0a\"\"x\"\", y\"";
    assert!(csv.ends_with(cell), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&written(Format::Ndjson)).unwrap();
    assert_eq!(json["text"], text);
}
