use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use super::IntervalReader;
use crate::analysis::item::Item;
use crate::analysis::snapshot::Snapshot;
use crate::recording::fixture;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::slow::SlowInterval;

fn source(items: &[Item], interval: Duration) -> IntervalReader {
    let bytes = Cursor::new(fixture::file_of(items, 500));
    let reader = Reader::new(Box::new(bytes), Path::new("x"), WantedColumns::Figures).unwrap();
    IntervalReader::new(reader, interval, Box::new(|| None))
}

type Figures = BTreeMap<(String, String), (u64, u64, u64)>;

fn add(figures: &mut Figures, snapshot: &Snapshot) {
    for array in &snapshot.arrays {
        for member in &array.members {
            for cell in &member.io {
                let key = (member.name.clone(), format!("{} {}", cell.origin, cell.op));
                let sum = figures.entry(key).or_default();
                sum.0 += cell.requests;
                sum.1 += cell.bytes;
                sum.2 += cell.device.count();
            }
            let disk = member.disk.unwrap();
            let sum = figures.entry((member.name.clone(), "disk".to_owned())).or_default();
            sum.0 += disk.requests;
            sum.1 += (disk.utilisation * snapshot.interval.as_secs_f64() * 1e6).round() as u64;
        }
        for task in &array.tasks {
            for io in &task.io {
                let key = (format!("{:?}", task.comm), format!("{} {}", io.origin, io.op));
                let sum = figures.entry(key).or_default();
                sum.0 += io.bios;
                sum.1 += io.bytes;
            }
        }
        for file in &array.files.busiest {
            let sum = figures.entry((file.id.inode.to_string(), String::new())).or_default();
            sum.1 += file.bytes();
        }
    }
}

#[test]
fn intervals_of_the_allocator_are_ignored() {
    let items = fixture::items(600, 4);
    let mut others = items.clone();
    others.retain(|item| !matches!(item, Item::Alloc { .. }));
    assert_eq!(items.len() - others.len(), 3);
    let snapshots = |items| source(items, Duration::from_secs(1)).map(|s| format!("{s:?}"));
    assert!(snapshots(&items).eq(snapshots(&others)));
}

/// A slow operation is shown on its array in the intervals of the following ten seconds. An invalid
/// row is ignored.
#[test]
fn slow_operations_are_shown_in_the_following_intervals() {
    let mut items = fixture::items(600, 4);
    let at = fixture::START + 1_500_000;
    let mut slow = crate::analysis::slow::fixture::interval();
    slow.time = jiff::Timestamp::from_microsecond(at).unwrap();
    let index = items.partition_point(|item| item.time_us() <= at);
    items.insert(index, SlowInterval::item(&slow).unwrap());
    let (time_us, json) = (at, "{".to_owned());
    items.insert(index, Item::Slow { time_us, json });
    let shown: Vec<(bool, bool)> = source(&items, Duration::from_secs(1))
        .map(|s| {
            let of = |name: &str| s.arrays.iter().find(|a| a.info.name == name);
            let has = |name| of(name).is_some_and(|a| a.slow.is_some());
            (has("md127"), has("sda"))
        })
        .collect();
    assert_eq!(shown[0], (false, false));
    assert!(shown.len() > 2);
    assert!(shown[1..].iter().all(|s| *s == (true, false)), "{shown:?}");
}

#[test]
fn intervals_add_up_to_the_whole_recording() {
    let mut items = fixture::items(6000, 8);
    // Move some items behind later ones.
    for at in (10..items.len() - 200).step_by(97) {
        if !matches!(items[at], Item::State(_)) {
            let late = items.remove(at);
            items.insert(at + 90, late);
        }
    }
    let mut whole = Figures::new();
    let mut all = source(&items, Duration::from_secs(3600));
    add(&mut whole, &all.next().unwrap());
    assert!(all.next().is_none());
    assert!(whole.len() > 50);
    for interval in [100, 300, 1000, 2500] {
        let mut source = source(&items, Duration::from_millis(interval));
        let (mut sum, mut end) = (Figures::new(), None);
        for snapshot in source.by_ref() {
            let length = snapshot.interval.as_micros() as i64;
            let time = snapshot.time.as_microsecond();
            assert!(end.is_none_or(|end| end == time - length), "intervals are contiguous");
            end = Some(time);
            add(&mut sum, &snapshot);
        }
        assert_eq!(sum, whole, "{interval} ms");
    }
}

#[test]
fn one_second_intervals_end_at_states() {
    let mut source = source(&fixture::items(6000, 8), Duration::from_secs(1));
    let mut n = 0;
    for snapshot in source.by_ref() {
        n += 1;
        assert_eq!(snapshot.interval, Duration::from_secs(1));
        let disk = snapshot.arrays[0].members[0].disk.unwrap();
        assert_eq!(disk.requests, 100);
        assert!((0.5..=1.0).contains(&disk.utilisation));
        assert_eq!(snapshot.arrays[0].files.busiest[0].location.device_name, "md127");
        let comm = &snapshot.arrays[0].tasks[0].comm;
        assert!(comm.starts_with(b"worker10"), "{comm:?}");
    }
    assert_eq!(n, 8);
    assert_eq!(source.start_us(), Some(fixture::START));
}

/// A recorder that gets no CPU time writes a state seconds late.
#[test]
fn intervals_without_a_state_have_their_own_items() {
    let mut items = fixture::items(6000, 8);
    let second = |time_us: i64| (time_us - fixture::START) / 1_000_000;
    items.retain(|item| !matches!(item, Item::State(s) if (2..8).contains(&second(s.time_us))));
    let snapshots: Vec<Snapshot> = source(&items, Duration::from_secs(1)).collect();
    assert!(snapshots.len() < 8);
    for snapshot in snapshots {
        let cells = snapshot.arrays.iter().flat_map(|a| &a.members).flat_map(|m| &m.io);
        let requests: u64 = cells.map(|cell| cell.requests).sum();
        let rate = requests as f64 / snapshot.interval.as_secs_f64();
        assert!((700.0..800.0).contains(&rate), "{rate} a second in {:?}", snapshot.interval);
    }
}

fn line(snapshot: &Snapshot) -> String {
    let mut out = Vec::new();
    let mut snapshot = snapshot.clone();
    if snapshot.interval < Duration::from_secs(1) {
        // The window joins short intervals in pairs, from the first interval that it got.
        snapshot.arrays.iter_mut().for_each(|a| a.hotspot = None);
    }
    crate::ui::json::write(&mut out, &snapshot).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn rewind_returns_the_same_snapshots() {
    let items = fixture::items(20_000, 40);
    for interval in [500, 1000, 3000] {
        let mut source = source(&items, Duration::from_millis(interval));
        let mut all = Vec::new();
        for snapshot in source.by_ref() {
            all.push((snapshot.time.as_microsecond(), line(&snapshot)));
        }
        for (n, (time, text)) in all.iter().enumerate().rev().step_by(7) {
            source.rewind(time - 1).unwrap();
            assert_eq!(&line(&source.next().unwrap()), text, "{interval} ms, number {n}");
            if let Some((_, next)) = all.get(n + 1) {
                assert_eq!(&line(&source.next().unwrap()), next);
            }
        }
    }
}

#[test]
fn losses_and_notes_are_in_their_interval() {
    let mut items = fixture::items(2000, 4);
    let time_us = fixture::START + 1_500_000;
    let at = items.iter().position(|i| i.time_us() >= time_us).unwrap();
    let reason = crate::analysis::item::TOO_SLOW.to_owned();
    items.insert(at, Item::Lost { time_us, reason, count: 42 });
    let text = "loop2 was replaced".to_owned();
    items.insert(at, Item::Note { time_us, text });
    let mut source = source(&items, Duration::from_secs(1));
    let all: Vec<Snapshot> = std::iter::from_fn(|| source.next()).collect();
    let lost: Vec<u64> = all.iter().map(|s| s.lost.events()).collect();
    assert_eq!(lost, [0, 42, 0, 0]);
    assert_eq!(all[1].notes.len(), 2, "{:?}", all[1].notes);
    assert!(all[0].notes.is_empty() && all[2].notes.is_empty());
}

/// Also on kernels whose io_ticks stand still while a disk hangs.
#[test]
fn a_disk_that_completes_nothing_leads_the_headline() {
    for ticks in [true, false] {
        for interval in [500, 1000, 2500] {
            let source = source(&fixture::stalled_items(ticks), Duration::from_millis(interval));
            let headlines: Vec<(i64, String)> = source
                .map(|s| {
                    let hotspot = s.arrays[0].hotspot.clone().unwrap();
                    let ms = (s.time.as_microsecond() - fixture::START) / 1000;
                    (ms, hotspot.headline)
                })
                .collect();
            for (ms, headline) in &headlines {
                // 5 s, and up to one interval before and after.
                let stalls = headline.starts_with("loop3 completes nothing: 12 requests in flight");
                match ms {
                    12_500..=16_000 => assert!(stalls, "{ms}: {headline}"),
                    0..=9_999 | 17_501.. => assert!(!stalls, "{ms}: {headline}"),
                    _ => {}
                }
            }
        }
    }
}

/// A row with a damaged time is left out, and does not extend the recording.
#[test]
fn a_row_whose_time_jumps_is_invalid() {
    let items = fixture::items(600, 4);
    let at = items.iter().rposition(|item| matches!(item, Item::Request(_))).unwrap();
    let jumps = [3 * 3_600_000_000, 86_400_000_000, i64::MAX / 2, i64::MIN / 2];
    for jump_us in jumps {
        let mut damaged = items.clone();
        if let Item::Request(request) = &mut damaged[at] {
            request.time_us += jump_us;
        }
        let mut source = source(&damaged, Duration::from_millis(100));
        let intervals = source.by_ref().count();
        assert!(intervals < 100, "{intervals} intervals after a jump of {jump_us} us");
        assert_eq!(source.reader().invalid_rows(), 1, "{jump_us}");
    }
}

/// A gap of days, such as that of a stopped virtual machine, is one interval. What was counted
/// before and after it is kept.
#[test]
fn a_long_gap_is_one_interval() {
    let day = 86_400_000_000;
    let mut items = fixture::items(600, 4);
    let later = fixture::items(600, 4).into_iter().map(|mut item| {
        match &mut item {
            Item::Request(r) => r.time_us += day,
            Item::Part(p) => p.time_us += day,
            Item::Submission(s) => s.time_us += day,
            Item::Dirtied(d) => d.time_us += day,
            Item::State(s) => s.time_us += day,
            Item::Alloc { time_us, .. }
            | Item::Slow { time_us, .. }
            | Item::Note { time_us, .. }
            | Item::Lost { time_us, .. } => *time_us += day,
        }
        item
    });
    let requests = |items: &[Item]| items.iter().filter(|i| matches!(i, Item::Request(_))).count();
    let recorded = 2 * requests(&items) as u64;
    items.extend(later);
    for interval in [Duration::from_millis(100), Duration::from_secs(1)] {
        let mut source = source(&items, interval);
        let snapshots: Vec<Snapshot> = source.by_ref().collect();
        assert!(snapshots.len() < 800, "{} intervals of {interval:?}", snapshots.len());
        let cells = snapshots.iter().flat_map(|s| &s.arrays).flat_map(|a| &a.members);
        let sum: u64 = cells.flat_map(|m| &m.io).map(|c| c.requests).sum();
        assert_eq!((sum, source.reader().invalid_rows()), (recorded, 0));
        let whole: Duration = snapshots.iter().map(|s| s.interval).sum();
        assert!(whole > Duration::from_secs(86_400), "{whole:?}");
    }
}
