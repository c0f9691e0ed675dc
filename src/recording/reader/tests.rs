use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;

use super::{Reader, WantedColumns};
use crate::analysis::item::{Item, State};
use crate::recording::error::{Ending, TraceError};
use crate::recording::fixture;
use crate::recording::header::Header;

fn reader(bytes: Vec<u8>) -> Result<Reader, TraceError> {
    Reader::new(Box::new(Cursor::new(bytes)), Path::new("x.rtrace"), WantedColumns::Everything)
}

fn all(reader: &mut Reader) -> Vec<Item> {
    std::iter::from_fn(|| reader.next_item()).collect()
}

#[test]
fn written_items_are_read_back() {
    let items = fixture::items(5000, 5);
    let mut reader = reader(fixture::file_of(&items, 700)).unwrap();
    let checksum = reader.header().checksum;
    assert_ne!(checksum, 0);
    assert_eq!(reader.header(), &Header { checksum, ..fixture::header() });
    let back = all(&mut reader);
    assert_eq!(back.len(), items.len());
    for (back, item) in back.iter().zip(&items) {
        assert_eq!(back, item);
    }
    assert_eq!(*reader.ending(), Ending::Whole);
    assert_eq!(reader.invalid_rows(), 0);
    let info = reader.task(107, "md127").unwrap();
    assert_eq!(info.comm, "worker107\\\u{e9}".as_bytes());
    assert_eq!(info.role.as_deref(), Some("writeback"));
    for inode in 12..30 {
        assert_eq!(*reader.file_location(&fixture::file(inode)).unwrap(), fixture::location(inode));
    }
    assert!(reader.file_location(&fixture::file(31)).is_none());
}

#[test]
fn seek_returns_to_an_earlier_batch() {
    let items = fixture::items(5000, 5);
    let mut reader = reader(fixture::file_of(&items, 700)).unwrap();
    let mut marks = Vec::new();
    let mut at = 0;
    while let Some(item) = reader.next_item() {
        if let Some(mark) = reader.mark() {
            marks.push((at, mark));
        }
        assert_eq!(item, items[at]);
        at += 1;
    }
    assert!(marks.len() > 10);
    for (at, mark) in marks.iter().rev() {
        reader.seek(mark).unwrap();
        let back: Vec<Item> = std::iter::from_fn(|| reader.next_item()).take(800).collect();
        assert_eq!(back, items[*at..(at + 800).min(items.len())]);
    }
    reader.seek(&marks[3].1).unwrap();
    assert_eq!(all(&mut reader).len(), items.len() - marks[3].0);
    assert_eq!(*reader.ending(), Ending::Whole);
}

#[test]
fn complete_batches_of_a_truncated_file_are_read() {
    let items = fixture::items(300, 3);
    let bytes = fixture::file_of(&items, 100);
    let mut read = 0;
    for length in (1..bytes.len()).filter(|l| l % 97 == 0 || l + 80 > bytes.len()) {
        let Ok(mut reader) = reader(bytes[..length].to_vec()) else {
            assert_eq!(read, 0);
            continue;
        };
        let back = all(&mut reader);
        assert!(back.len() >= read);
        read = back.len();
        assert_eq!(back, items[..read]);
        let after_us = back.iter().map(Item::time_us).max().unwrap_or(0);
        assert_eq!(*reader.ending(), Ending::CutShort { after_us });
        // A power cut leaves zeros.
        if length % 4 == 1 {
            let mut zeros = bytes[..length].to_vec();
            zeros.resize(bytes.len() + 5000, 0);
            let mut reader = self::reader(zeros).unwrap();
            assert!(all(&mut reader).len() >= read);
            assert!(reader.ending().is_cut());
        }
    }
    assert_eq!(read, items.len());
}

#[test]
fn other_files_are_rejected() {
    let error = |bytes: &[u8]| reader(bytes.to_vec()).err().unwrap().to_string();
    assert!(error(b"").contains("is empty"));
    for other in [&b"ARROW1\0\0"[..], b"\x7fELF", b"{}", &[0; 100], &[0xff; 100], b"PAR1"] {
        assert!(error(other).contains("not a raidtrace recording"), "{other:?}");
    }
    let whole = fixture::file_of(&fixture::items(10, 1), 100);
    let replaced = |from: &[u8], to: &[u8]| {
        let mut bytes = whole.clone();
        let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let newer = replaced(b"\x01\0\0\x001\0", b"\x01\0\0\x007\0");
    assert!(error(&newer).contains("newer than this raidtrace"), "{}", error(&newer));
    assert!(error(&replaced(b"raidtrace.schema", b"somebody.schema")).contains("another program"));
    assert!(error(&replaced(b"array_sector", b"array_vector")).contains("no column array_sector"));
    assert!(error(&replaced(b"{\"host\"", b"[\"host\"")).contains("header is damaged"));
}

#[test]
fn batches_before_damage_are_read() {
    let items = fixture::items(1000, 3);
    let mut bytes = fixture::file_of(&items, 100);
    let middle = bytes.len() / 2;
    bytes[middle..middle + 600].fill(0xa5);
    let mut reader = reader(bytes).unwrap();
    let back = all(&mut reader);
    assert!(back.len() > items.len() / 4, "{}", back.len());
    assert_eq!(back[..300], items[..300]);
    assert!(matches!(reader.ending(), Ending::Corrupt { .. }), "{:?}", reader.ending());
}

#[test]
fn a_value_above_32_bits_is_damage() {
    let mut items = fixture::items(60, 1);
    // A length that can be found in the file: batches of a single row are not compressed.
    let mark = 0x00ab_c000_u32;
    let request = items.iter_mut().rev().find_map(|i| match i {
        Item::Request(r) => Some(r),
        _ => None,
    });
    request.unwrap().length = mark;
    let mut bytes = fixture::file_of(&items, 1);
    let word = u64::from(mark).to_le_bytes();
    let at = bytes.windows(8).position(|w| w == word).unwrap();
    assert_eq!(all(&mut reader(bytes.clone()).unwrap()), items);
    bytes[at + 4] ^= 2;
    let mut reader = reader(bytes).unwrap();
    let back = all(&mut reader);
    assert_eq!(back, items[..back.len()]);
    assert!(!back.is_empty());
    let ending = reader.ending().to_string();
    assert!(ending.contains("does not fit into 32 bits"), "{ending}");
}

#[test]
fn parts_are_one_recording() {
    let folder = tempfile::tempdir().unwrap();
    let items = fixture::items(900, 9);
    let begins = |second: i64| {
        let state = |i: &Item| matches!(i, Item::State(_));
        let time = fixture::START + second * 1_000_000;
        items.iter().position(|i| state(i) && i.time_us() >= time).unwrap()
    };
    let cuts = [0, begins(3), begins(6), items.len()];
    for (n, cut) in cuts.windows(2).enumerate() {
        let mut bytes = fixture::file_of(&items[cut[0]..cut[1]], 100);
        if n == 2 {
            bytes.truncate(bytes.len() - 8);
        }
        let name = format!("a.rtrace.{:04}.part", n + 1);
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    std::fs::write(folder.path().join("a.rtrace.x.part"), "").unwrap();
    let path = folder.path().join("a.rtrace");
    let mut reader = Reader::open(&path, WantedColumns::Everything).unwrap();
    let mut marks = Vec::new();
    let mut back = Vec::new();
    while let Some(item) = reader.next_item() {
        marks.extend(reader.mark().map(|m| (back.len(), m)));
        back.push(item);
    }
    assert_eq!(back, items);
    assert!(matches!(reader.ending(), Ending::CutShort { .. }));
    for (at, mark) in marks.iter().rev().step_by(3) {
        reader.seek(mark).unwrap();
        assert_eq!(all(&mut reader), items[*at..]);
    }
    let none = Reader::open(&folder.path().join("b.rtrace"), WantedColumns::Everything);
    assert!(none.is_err());
}

/// Writes `parts` to a folder as `a.rtrace.0001.part` and so on.
fn parts(folder: &Path, parts: &[&[u8]]) -> std::path::PathBuf {
    for (n, bytes) in (1..).zip(parts) {
        std::fs::write(folder.join(format!("a.rtrace.{n:04}.part")), bytes).unwrap();
    }
    folder.join("a.rtrace")
}

#[test]
fn an_unreadable_part_is_skipped_and_named() {
    let items = fixture::items(100, 1);
    let good = fixture::file_of(&items, 100);
    let cut = &good[..good.len() - 100];
    let end = "the recording is truncated";
    for (wrong, bad, says) in [
        (&[2][..], &[&good[..], b"garbage", &good][..], &["not a raidtrace recording"][..]),
        (&[1], &[b"", &good, &good], &["is empty"]),
        (&[1, 2], &[&[7; 99], b"", &good], &["not a raidtrace recording", "is empty"]),
        (&[2], &[&good, cut, &good], &[end]),
        (&[1, 3], &[b"", &good, b""], &["is empty", "is empty"]),
        (&[3], &[&good, &good, b"garbage"], &["is damaged"]),
        (&[], &[&good, &good, b""], &[end]),
        (&[], &[&good, &good, cut], &[end]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = parts(folder.path(), bad);
        let mut reader = Reader::open(&path, WantedColumns::Everything).unwrap();
        let mut marks = Vec::new();
        let mut back = 0;
        while reader.next_item().is_some() {
            marks.extend(reader.mark().map(|m| (back, m)));
            back += 1;
        }
        let whole = bad.iter().filter(|b| ***b == good[..]).count();
        assert!(back >= whole * items.len(), "{bad:?}");
        let ending = reader.ending().clone();
        assert!(ending.is_cut());
        let said = ending.to_string();
        for n in 1..=3 {
            let name = format!("a.rtrace.000{n}.part: ");
            assert_eq!(said.contains(&name), wrong.contains(&n), "{said}");
        }
        assert!(says.iter().all(|s| said.contains(s)), "{said}");
        for (at, mark) in marks.iter().rev() {
            reader.seek(mark).unwrap();
            assert_eq!(all(&mut reader).len(), back - at);
            assert_eq!(*reader.ending(), ending);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let nothing = Reader::open(&parts(folder.path(), &[b"", b"x"]), WantedColumns::Everything);
    assert!(matches!(nothing.err(), Some(TraceError::Empty(_))));
}

#[test]
fn parts_are_ordered_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let items = fixture::items(300, 3);
    let second = |i: &Item| matches!(i, Item::State(_)) && i.time_us() > fixture::START;
    let half = items.iter().position(second).unwrap();
    for (number, items) in [("9999", &items[..half]), ("10000", &items[half..])] {
        let path = folder.path().join(format!("a.rtrace.{number}.part"));
        std::fs::write(path, fixture::file_of(items, 100)).unwrap();
    }
    let path = folder.path().join("a.rtrace");
    let mut reader = Reader::open(&path, WantedColumns::Everything).unwrap();
    assert_eq!(all(&mut reader), items);
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for (path, says) in [
        (folder.path(), "is a directory"),
        (&fifo, "is a pipe"),
        (Path::new("/dev/zero"), "is a device"),
        (Path::new("-"), "is standard input"),
    ] {
        let error = Reader::open(path, WantedColumns::Everything).err().unwrap();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn rows_of_unknown_members_are_counted() {
    let mut items = fixture::items(50, 1);
    if let Item::State(state) = &mut items[0] {
        **state = State { time_us: state.time_us, ..State::default() };
    }
    let mut reader = reader(fixture::file_of(&items, 100)).unwrap();
    let back = all(&mut reader);
    assert!(back.len() < 10);
    assert!(reader.invalid_rows() > 50);
}

#[test]
fn corrupt_numbers_in_messages_do_not_panic() {
    let whole = fixture::file_of(&fixture::items(4, 1), 100);
    let schema = reader(whole.clone()).unwrap().frames.position() as usize;
    for at in (schema..whole.len() - 8).step_by(4) {
        // Negative, larger than memory, and not a multiple of the element size.
        let was = u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
        for number in [u64::MAX, 1 << 46, was.wrapping_add(1)] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            let mut reader = reader(bytes).unwrap();
            all(&mut reader);
            assert_ne!(*reader.ending(), Ending::Open);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn corrupt_bytes_do_not_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
        compressed in any::<bool>(),
    ) {
        use std::sync::OnceLock;
        static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
        let files = FILES.get_or_init(|| {
            let items = fixture::items(400, 2);
            [fixture::file_of(&items, 90), fixture::file_of(&items, 2000)]
        });
        let mut bytes = files[usize::from(compressed)].clone();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(mut reader) = reader(bytes) {
            let items = all(&mut reader);
            prop_assert!(items.len() < 1 << 18);
            prop_assert!(*reader.ending() != Ending::Open);
        }
    }
}
