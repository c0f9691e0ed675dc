use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Events, IntervalCounters, NameLookup};
use crate::analysis::around::{Around, DeviceIo};
use crate::analysis::counters::{CellKey, CostCounters};
use crate::analysis::cube::Amount as _;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::{Fold, Sample, TaskInfo};
use crate::analysis::item::{Dirtied, Item, State};
use crate::analysis::lost::Loss;
use crate::analysis::snapshot::Snapshot;
use crate::origin::{Op, Origin};
use crate::recording::fixture;
use crate::recording::fixture::START;

struct NoNames;

impl NameLookup for NoNames {
    fn task(&self, _: u32, _: &str) -> Option<Arc<TaskInfo>> {
        None
    }

    fn file_location(&self, _: &FileId) -> Option<Arc<FileLocation>> {
        None
    }
}

fn whole(items: &[Item]) -> (Sample, Sample) {
    let (mut events, mut sums) = (Events::default(), IntervalCounters::default());
    events.disks.add_boundary(START);
    items.iter().for_each(|item| events.push(&mut sums, item));
    let end = START + 5_000_000;
    events.disks.add_boundary(end);
    events.disks.end(end);
    events.samples(sums, START, end, &NoNames)
}

fn snapshot(items: &[Item]) -> Snapshot {
    let (start, end) = whole(items);
    let mut fold = Fold::new(Sample::default());
    fold.rebase(start);
    fold.step(end)
}

#[test]
fn cells_are_the_sum_of_items() {
    let items = fixture::items(3000, 5);
    let mut cells: BTreeMap<CellKey, (u64, u64, u64, u64)> = BTreeMap::new();
    let (mut bios, mut submitted, mut files) = (0, 0, 0);
    let (mut dirtied, mut dirtied_files) = (0, 0);
    for item in &items {
        match item {
            Item::Request(r) => {
                let (member, origin, op) = (r.member, r.origin, r.op);
                let sum = cells.entry(CellKey { member, origin, op }).or_default();
                sum.0 += 1;
                sum.1 += u64::from(r.bytes);
                sum.2 += u64::from(r.queue_us.is_some());
                sum.3 += u64::from(r.device_us.is_some());
            }
            Item::Part(p) => {
                let (member, origin, op) = (p.member, p.origin, p.op);
                cells.entry(CellKey { member, origin, op }).or_default().1 += u64::from(p.bytes);
            }
            Item::Submission(s) => {
                bios += 1;
                submitted += u64::from(s.length);
                if s.origin == Origin::FileData {
                    files += u64::from(s.length);
                }
            }
            Item::Dirtied(d) => {
                dirtied += u64::from(d.bytes);
                dirtied_files += d.file.map_or(0, |_| u64::from(d.bytes));
            }
            _ => {}
        }
    }
    let (_, end) = whole(&items);
    let of_tasks = end.counters.dirtied.values().map(|sum| sum.bytes);
    let of_files = end.counters.dirtied_files.values().map(|sum| sum.bytes);
    assert_eq!(of_tasks.sum::<u64>(), dirtied);
    assert_eq!(of_files.sum::<u64>(), dirtied_files);
    assert!(dirtied_files > 0 && dirtied > dirtied_files);
    assert_eq!(end.counters.cells.len(), cells.len());
    for (key, cell) in &end.counters.cells {
        let sums = (cell.requests, cell.bytes, cell.queue.count(), cell.device.count());
        assert_eq!(sums, cells[key], "{key:?}");
    }
    let sums = end.counters.tasks.values().fold((0, 0), |(n, b), t| (n + t.bios, b + t.bytes));
    assert_eq!(sums, (bios, submitted));
    assert_eq!(end.counters.files.values().map(|f| f.bytes).sum::<u64>(), files);
}

#[test]
fn disk_statistics_cover_the_time_between_states() {
    for member in snapshot(&fixture::items(3000, 5)).arrays.iter().flat_map(|a| &a.members) {
        let disk = member.disk.unwrap();
        assert_eq!(disk.requests, 500);
        // At least io_ticks, since there is always a request in flight; the requests were in flight
        // for longer.
        let utilisation = disk.utilisation;
        assert!((0.5..=1.0).contains(&utilisation), "{utilisation}");
        assert_eq!(disk.in_flight, 1);
    }
}

/// A state that is late belongs to the next interval. The one without it has none of the requests
/// in flight of the interval before, of which none would have ended.
#[test]
fn an_interval_without_a_state_has_nothing_in_flight() {
    let mut items = fixture::items(3000, 5);
    for item in &mut items {
        if let Item::State(state) = item {
            let io = DeviceIo { in_flight: 2, ..DeviceIo::default() };
            state.arrays[0].around = Some(Around { io, ..Around::default() });
        }
    }
    let (mut events, second) = (Events::default(), 1_000_000);
    (0..=3).for_each(|n| events.disks.add_boundary(START + n * second));
    let mut facts = Vec::new();
    for (n, has_state) in [(0, true), (1, false), (2, true)] {
        let (from, to) = (START + n * second, START + (n + 1) * second);
        let mut sums = IntervalCounters::default();
        let own = items.iter().filter(|item| {
            let is_state = matches!(item, Item::State(_));
            (from..to).contains(&item.time_us()) && (has_state || !is_state)
        });
        own.for_each(|item| events.push(&mut sums, item));
        events.disks.end(to);
        let (_, end) = events.samples(sums, from, to, &NoNames);
        facts.push(end.arrays[0].around.as_ref().map(|around| around.io.in_flight));
    }
    assert_eq!(facts, [Some(2), Some(0), Some(2)]);
}

#[test]
fn uncounted_requests_are_reported_once() {
    let seconds = 6;
    let mut items = fixture::items(6000, seconds);
    for item in &mut items {
        if let Item::State(state) = item {
            let found = if state.time_us < START + 2_500_000 { 3 } else { 17 };
            let disk = state.arrays[0].members[1].disk.as_mut();
            disk.unwrap().uncounted = found;
        }
    }
    let whole = snapshot(&items);
    assert_eq!(whole.lost[Loss::Uncounted], 14);
    assert_eq!(whole.arrays[0].members[1].disk.unwrap().uncounted, 14);
    let note = "the kernel counts 14 more requests than raidtrace: loop2 14 (lost.uncounted)";
    assert!(whole.notes.iter().any(|n| n == note), "{:?}", whole.notes);
    let (mut events, mut growth) = (Events::default(), Vec::new());
    for cut in 0..=seconds {
        events.disks.add_boundary(START + cut * 1_000_000);
    }
    items.iter().for_each(|item| events.push(&mut IntervalCounters::default(), item));
    events.disks.end(START + seconds * 1_000_000);
    for second in 0..seconds {
        let from = START + second * 1_000_000;
        growth.push(events.disks.between(from, from + 1_000_000)[1].uncounted);
    }
    assert_eq!(growth, [0, 0, 14, 0, 0, 0]);
}

/// A state after a restart: loop2 is gone, sda comes first, and cumulative counters start again.
fn restarted(time_us: i64) -> State {
    let mut state = fixture::state(time_us);
    state.restart = true;
    state.arrays.reverse();
    state.arrays[1].members.remove(1);
    state
}

#[test]
fn counters_and_figures_by_name_survive_a_restart() {
    let cost = |n| CostCounters { parity: n, rmw_read: 2 * n };
    let with = |mut state: State, n: u64| {
        let number = u32::from(state.arrays[0].info.name != "md127");
        state.costs = vec![(number, Origin::FileData, cost(n))];
        state.lost[Loss::Pieces] = n;
        state.overhead.bpf_ns = 10 * n;
        Item::State(Box::new(state))
    };
    let request = |member| {
        let items = fixture::items(50, 1);
        let found = items.iter().find_map(|i| match i {
            Item::Request(r) => Some(*r),
            _ => None,
        });
        let mut request = found.unwrap();
        (request.member, request.origin, request.op) = (member, Origin::Raw, Op::Read);
        Item::Request(request)
    };
    let items = [
        with(fixture::state(START), 100),
        request(1), // loop2
        request(4), // sda
        with(fixture::state(START + 1_000_000), 150),
        with(restarted(START + 2_000_000), 7),
        request(0), // sda
        request(2), // loop3
        with(restarted(START + 3_000_000).clone(), 3),
    ];
    let mut items = items.to_vec();
    if let Some(Item::State(last)) = items.last_mut() {
        last.restart = false;
        last.costs[0].2 = cost(9);
        last.lost[Loss::Pieces] = 9;
        last.overhead.bpf_ns = 90;
    }
    let snapshot = snapshot(&items);
    // 100 to 150 of the old programs, 7 to 9 of the new ones.
    assert_eq!(snapshot.lost[Loss::Pieces], 50 + 2);
    assert_eq!(snapshot.overhead.bpf_ns, 520);
    let names: Vec<_> = snapshot.arrays.iter().map(|a| a.info.name.as_str()).collect();
    assert_eq!(names, ["sda", "md127"]);
    let members: Vec<_> = snapshot.arrays.iter().flat_map(|a| &a.members).collect();
    let figures: Vec<_> = members.iter().map(|m| (m.name.as_str(), m.sum(|_| true).0)).collect();
    assert_eq!(figures, [("sda", 2), ("loop1", 0), ("loop3", 1), ("loop4", 0), ("loop2", 1)]);
    assert_eq!(members[4].health.as_deref(), Some("removed"));
    let (start, end) = whole(&items);
    let of = |s: &Sample| {
        let key = (1, Origin::FileData);
        s.counters.costs.get(&key).copied().unwrap_or_default()
    };
    assert_eq!(of(&end).since(&of(&start)), cost(52));
}

#[test]
fn the_largest_files_are_kept_and_all_bytes_are_counted() {
    let mut items = fixture::items(20, 1);
    let found = items.iter().find_map(|i| match i {
        Item::Submission(s) if s.origin == Origin::FileData => Some(*s),
        _ => None,
    });
    let mut submission = found.unwrap();
    items.truncate(1);
    let many = 200_000u64;
    for inode in 0..many {
        submission.file = Some(fixture::file(inode));
        submission.length = 4096 * (1 + (inode % 7) as u32);
        items.push(Item::Submission(submission));
    }
    let (_, end) = whole(&items);
    let files = &end.counters.files;
    assert!(files.len() <= 2 * super::interval::HALF_CAPACITY + 1, "{}", files.len());
    let all: u64 = (0..many).map(|i| 4096 * (1 + i % 7)).sum();
    assert_eq!(files.values().map(|f| f.bytes).sum::<u64>(), all);
}

#[test]
fn the_largest_dirtied_files_are_kept_and_the_rest_are_lost() {
    let mut items = vec![Item::State(Box::new(fixture::state(fixture::START)))];
    let many = 200_000u64;
    for inode in 0..many {
        items.push(Item::Dirtied(Dirtied {
            time_us: fixture::START + 1,
            array: 0,
            origin: Origin::FileData,
            bytes: 4096 * (1 + (inode % 7) as u32),
            pid: 100,
            file: Some(fixture::file(inode)),
        }));
    }
    let (_, end) = whole(&items);
    let kept = end.counters.dirtied_files.len() as u64;
    assert!(kept <= 2 * super::interval::HALF_CAPACITY as u64 + 1, "{kept}");
    assert_eq!(end.counters.lost[Loss::Files], many - kept);
    let all: u64 = (0..many).map(|i| 4096 * (1 + i % 7)).sum();
    let task = end.counters.dirtied.values().map(|sum| sum.bytes);
    assert_eq!(task.sum::<u64>(), all);
}
