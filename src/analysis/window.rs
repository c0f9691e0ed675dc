//! The last few intervals as one, so that the sentence at the top of the screen does not flicker: a
//! journal commits every 5 s and bitmaps are written back in bursts.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ledger::Ledger;
use super::recent::History;
use super::snapshot::{
    ArraySnapshot, Cell, DiskUse, JournalStalls, MemberSnapshot, Snapshot, TaskIo, TaskSnapshot,
};
use super::standout;

/// How long a window the live screen judges.
pub const SPAN: Duration = Duration::from_secs(10);

/// A window is kept in about so many pieces, whatever the interval: memory stays bounded at `--interval 0.1`.
const PIECES: u32 = 10;

/// The last snapshots, up to a span of time.
#[derive(Debug)]
pub struct Window {
    span: Duration,
    pieces: VecDeque<Snapshot>,
    history: History,
}

impl Window {
    /// A window of `span`; one interval is always in it, however long.
    pub fn new(span: Duration) -> Self {
        Self {
            span,
            pieces: VecDeque::new(),
            history: History::default(),
        }
    }

    /// Takes `snapshot` in and writes into it what stands out over the window, and what it cost.
    pub fn judge(&mut self, snapshot: &mut Snapshot) {
        self.history.record(snapshot);
        self.push(snapshot.clone());
        let Some(merged) = self.merged() else { return };
        for array in &mut snapshot.arrays {
            let whole = merged
                .arrays
                .iter()
                .find(|a| a.info.name == array.info.name);
            array.standout = whole.map(|a| standout::find(a, merged.interval));
            array.ledger = whole.map(|a| Ledger::of(a, merged.interval));
        }
    }

    /// Takes an interval in and forgets what is older than the span.
    pub fn push(&mut self, snapshot: Snapshot) {
        match self.pieces.back_mut() {
            Some(last) if last.interval + snapshot.interval <= self.span / PIECES => {
                merge(last, &snapshot);
            }
            _ => self.pieces.push_back(snapshot),
        }
        let mut held: Duration = self.pieces.iter().map(|s| s.interval).sum();
        // A twentieth of tolerance: ten intervals of "1 s" are never exactly 10 s.
        while held > self.span + self.span / 20 && self.pieces.len() > 1 {
            held -= self.pieces.pop_front().map_or(held, |s| s.interval);
        }
    }

    /// Everything in the window as one snapshot: arrays, members and tasks as they are now; `None` before the first.
    pub fn merged(&self) -> Option<Snapshot> {
        let mut pieces = self.pieces.iter();
        let mut all = pieces.next()?.clone();
        for piece in pieces {
            merge(&mut all, piece);
        }
        Some(all)
    }
}

/// Makes `into` the interval that begins where it begins and ends where `newer` ends.
///
/// Topology is `newer`'s; figures are added up where array and member exist in both.
pub fn merge(into: &mut Snapshot, newer: &Snapshot) {
    merge_where(into, newer, alike);
}

/// Whether an array is the one that had its name before, as far as that can be told.
pub fn alike(now: &ArraySnapshot, was: &ArraySnapshot) -> bool {
    now.info.level == was.info.level && now.info.chunk_bytes == was.info.chunk_bytes
}

/// For parts of one interval, in which an array may be reshaped: it is.
pub fn always(_: &ArraySnapshot, _: &ArraySnapshot) -> bool {
    true
}

/// `same`: whether an array is the one that had its name before.
fn merge_where(
    into: &mut Snapshot,
    newer: &Snapshot,
    same: fn(&ArraySnapshot, &ArraySnapshot) -> bool,
) {
    let mut older = std::mem::replace(into, newer.clone());
    for array in &mut into.arrays {
        (array.standout, array.ledger) = (None, None); // of one interval, not of both
        let mut was = older.arrays.iter_mut();
        let was = was.find(|was| was.info.name == array.info.name && same(array, was));
        if let Some(was) = was {
            merge_array(array, was, older.interval, newer.interval);
        }
    }
    into.interval += older.interval;
    into.lost.add(&older.lost);
    into.overhead.add(older.overhead);
}

/// As [`merge`], and nothing is left out. Arrays and members of `into` that `newer` does not have any more are behind the
/// others. `same`: [`alike`] or [`always`].
pub fn join(
    into: &mut Snapshot,
    newer: &Snapshot,
    same: fn(&ArraySnapshot, &ArraySnapshot) -> bool,
) {
    let older = into.arrays.clone();
    let (before, last) = (into.interval.as_secs_f64(), newer.interval.as_secs_f64());
    let whole = (before + last).max(f64::MIN_POSITIVE);
    merge_where(into, newer, same);
    let is =
        |now: &ArraySnapshot, was: &ArraySnapshot| now.info.name == was.info.name && same(now, was);
    for array in &mut into.arrays {
        let was = older.iter().find(|was| is(array, was));
        let was = |name: &str| was.is_some_and(|a| a.members.iter().any(|m| m.name == name));
        for member in array.members.iter_mut().filter(|m| !was(&m.name)) {
            if let Some(disk) = &mut member.disk {
                disk.utilisation *= last / whole;
            }
        }
    }
    for was in older {
        let Some(array) = into.arrays.iter_mut().find(|now| is(now, &was)) else {
            let mut gone = was;
            let disks = gone.members.iter_mut().filter_map(|m| m.disk.as_mut());
            disks.for_each(|disk| end(disk, before / whole));
            into.arrays.push(gone);
            continue;
        };
        for mut member in was.members {
            if array.members.iter().all(|m| m.name != member.name) {
                member.slot = None;
                member.health = Some("removed".to_owned());
                if let Some(disk) = &mut member.disk {
                    end(disk, before / whole);
                }
                array.members.push(member);
            }
        }
    }
}

/// Of a disk that was there for a share of the interval.
fn end(disk: &mut DiskUse, share: f64) {
    disk.utilisation *= share;
    disk.in_flight = 0;
}

fn merge_array(now: &mut ArraySnapshot, was: &mut ArraySnapshot, before: Duration, last: Duration) {
    let mut members: HashMap<String, MemberSnapshot> = std::mem::take(&mut was.members)
        .into_iter()
        .map(|m| (m.name.clone(), m))
        .collect();
    for member in &mut now.members {
        let Some(old) = members.remove(&member.name) else {
            continue;
        };
        for cell in old.io {
            add_cell(&mut member.io, cell);
        }
        member.io.sort_by_key(|c| (c.origin, c.op));
        if let (Some(disk), Some(old)) = (&mut member.disk, old.disk) {
            let (a, b) = (before.as_secs_f64(), last.as_secs_f64());
            if a + b > 0.0 {
                disk.utilisation = (old.utilisation * a + disk.utilisation * b) / (a + b);
            }
            disk.requests = disk.requests.saturating_add(old.requests);
            disk.uncounted = disk.uncounted.saturating_add(old.uncounted);
        }
    }
    for (kind, bytes) in std::mem::take(&mut was.entered) {
        let sum = now.entered.entry(kind).or_default();
        *sum = sum.saturating_add(bytes);
    }
    for (origin, cost) in std::mem::take(&mut was.costs) {
        now.costs.entry(origin).or_default().add(cost);
    }
    merge_tasks(&mut now.tasks, std::mem::take(&mut was.tasks));
    now.files.merge(std::mem::take(&mut was.files));
    now.dirtied_files
        .merge(std::mem::take(&mut was.dirtied_files));
    for stalls in std::mem::take(&mut was.journal_stalls) {
        let same = |j: &&mut JournalStalls| j.filesystem == stalls.filesystem;
        match now.journal_stalls.iter_mut().find(same) {
            Some(sum) => {
                sum.checkpoints = sum.checkpoints.saturating_add(stalls.checkpoints);
                sum.wait = sum.wait.saturating_add(stalls.wait);
            }
            None => now.journal_stalls.push(stalls),
        }
    }
}

fn add_cell(cells: &mut Vec<Cell>, cell: Cell) {
    match cells
        .iter_mut()
        .find(|c| (c.origin, c.op) == (cell.origin, cell.op))
    {
        Some(c) => {
            c.requests = c.requests.saturating_add(cell.requests);
            c.bytes = c.bytes.saturating_add(cell.bytes);
            c.queue.add(&cell.queue);
            c.device.add(&cell.device);
        }
        None => cells.push(cell),
    }
}

/// Of a long run on a host that starts many short-lived tasks, the largest are kept.
const TASKS: usize = 4096;

fn merge_tasks(now: &mut Vec<TaskSnapshot>, was: Vec<TaskSnapshot>) {
    // A pid may be reused within seconds; with another comm it is another task. Pid 0 is a cgroup.
    type Who = (u32, Vec<u8>, Option<String>);
    let who = |t: &TaskSnapshot| -> Who {
        let cgroup = t.cgroup.clone().filter(|_| t.pid == 0);
        (t.pid, t.comm.clone(), cgroup)
    };
    let mut places: HashMap<Who, usize> = now
        .iter()
        .enumerate()
        .map(|(place, t)| (who(t), place))
        .collect();
    for old in was {
        let Some(task) = places.get(&who(&old)).and_then(|&place| now.get_mut(place)) else {
            places.insert(who(&old), now.len());
            now.push(old);
            continue;
        };
        add_io(&mut task.io, old.io);
        add_io(&mut task.dirtied, old.dirtied);
        task.dirtied_files.merge(old.dirtied_files);
    }
    now.sort_by_key(|t| std::cmp::Reverse(t.size().0));
    now.truncate(TASKS);
}

fn add_io(now: &mut Vec<TaskIo>, was: Vec<TaskIo>) {
    for io in was {
        match now
            .iter_mut()
            .find(|i| (i.origin, i.op) == (io.origin, io.op))
        {
            Some(i) => {
                i.bios = i.bios.saturating_add(io.bios);
                i.bytes = i.bytes.saturating_add(io.bytes);
            }
            None => now.push(io),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECES, Snapshot, Window};
    use crate::analysis::fixture;
    use crate::analysis::standout::Kind;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_joined_interval_keeps_what_has_gone() {
        let one = fixture::raid0(12);
        let mut less = one.clone();
        let gone = less.arrays[0].members.remove(3);
        let mut whole = one.clone();
        super::join(&mut whole, &less, super::always);
        let members = &whole.arrays[0].members;
        assert_eq!(members.len(), 12);
        let last = &members[11];
        assert_eq!((&last.name, &last.io), (&gone.name, &gone.io));
        // Busy for its half of the time; what it had to do then it will never do.
        let (was, now) = (gone.disk.unwrap(), last.disk.unwrap());
        assert!((now.utilisation - was.utilisation / 2.0).abs() < 1e-9 && was.utilisation > 0.0);
        assert_eq!(now.in_flight, 0);
        // So is all of an array.
        let mut none = one.clone();
        none.arrays.clear();
        let mut stopped = one.clone();
        super::join(&mut stopped, &none, super::always);
        let member = stopped.arrays[0]
            .members
            .iter()
            .find(|m| m.name == gone.name);
        let member = member.unwrap();
        assert_eq!(member.io, gone.io);
        assert!((member.disk.unwrap().utilisation - was.utilisation / 2.0).abs() < 1e-9);
        let mut joined = less.clone();
        super::join(&mut joined, &one, super::always);
        let of = |m: &[super::MemberSnapshot]| {
            let member = m.iter().find(|m| m.name == gone.name);
            member.unwrap().disk.unwrap().utilisation
        };
        assert!((of(&joined.arrays[0].members) - was.utilisation / 2.0).abs() < 1e-9);
        assert_eq!(last.health.as_deref(), Some("removed"));
        assert_eq!(
            members[0].io[0].bytes,
            2 * one.arrays[0].members[0].io[0].bytes
        );
        let mut other = less;
        other.arrays[0].info.name = "md9".into();
        super::join(&mut whole, &other, super::always);
        assert_eq!(whole.arrays.len(), 2);
        assert_eq!(whole.interval, 3 * one.interval);
        let mut reshaped = one.clone();
        reshaped.arrays[0].info.chunk_bytes *= 2;
        super::join(&mut reshaped, &one, super::always);
        let of = |s: &Snapshot| s.arrays[0].members[0].io[0].bytes;
        assert_eq!(of(&reshaped), 2 * of(&one));
        // Another of its name, for all that is known.
        reshaped.arrays[0].info.chunk_bytes *= 2;
        super::join(&mut reshaped, &one, super::alike);
        assert_eq!(reshaped.arrays.len(), 2);
        assert_eq!(of(&reshaped), of(&one));
    }

    #[test]
    fn two_intervals_add_up() {
        let one = fixture::raid0(12);
        let mut window = Window::new(10 * SECOND);
        window.push(one.clone());
        window.push(one.clone());
        let two = window.merged().unwrap();
        assert_eq!(two.interval, 2 * one.interval);
        let (a, b) = (&one.arrays[0], &two.arrays[0]);
        assert_eq!(a.members.len(), b.members.len());
        for (a, b) in a.members.iter().zip(&b.members) {
            assert_eq!(a.io.len(), b.io.len());
            for (a, b) in a.io.iter().zip(&b.io) {
                assert_eq!((a.origin, a.op), (b.origin, b.op));
                assert_eq!((2 * a.requests, 2 * a.bytes), (b.requests, b.bytes));
                assert_eq!(2 * a.device.count(), b.device.count());
            }
            let (a, b) = (a.disk.unwrap(), b.disk.unwrap());
            assert!((a.utilisation - b.utilisation).abs() < 1e-9);
            assert_eq!((a.in_flight, 2 * a.requests), (b.in_flight, b.requests));
        }
        assert_eq!(a.tasks.len(), b.tasks.len());
        assert_eq!(2 * a.tasks[0].io[0].bytes, b.tasks[0].io[0].bytes);
    }

    #[test]
    fn the_ledger_is_of_the_window() {
        let one = fixture::raid5();
        let ledger = one.arrays[0].ledger.clone().unwrap();
        let mut window = Window::new(10 * SECOND);
        window.push(one);
        let mut two = fixture::raid5();
        window.judge(&mut two);
        let both = two.arrays[0].ledger.clone().unwrap();
        assert_eq!(both.over, 2 * SECOND);
        assert_eq!(both.rows.len(), ledger.rows.len());
        for (one, both) in ledger.rows.iter().zip(&both.rows) {
            assert_eq!(both.entered, 2 * one.entered);
            assert!(both.parity.abs_diff(2 * one.parity) <= 1);
            assert!(both.rmw_read.abs_diff(2 * one.rmw_read) <= 1);
        }
        // What was written a moment ago and is paid for now stays in one ledger.
        let mut quiet = fixture::idle(4);
        quiet.arrays[0].info = two.arrays[0].info.clone();
        window.judge(&mut quiet);
        assert_eq!(quiet.arrays[0].ledger.as_ref().unwrap().rows, both.rows);
    }

    #[test]
    fn forgets_what_is_older_than_the_span() {
        let mut window = Window::new(10 * SECOND);
        window.push(fixture::raid0(12));
        for _ in 0..10 {
            window.push(fixture::idle(12));
        }
        let merged = window.merged().unwrap();
        assert_eq!(merged.interval, 10 * SECOND);
        assert!(merged.arrays[0].members.iter().all(|m| m.io.is_empty()));
    }

    #[test]
    fn one_long_interval_is_kept() {
        let mut long = fixture::raid0(12);
        long.interval = 60 * SECOND;
        let mut window = Window::new(10 * SECOND);
        window.push(fixture::idle(12));
        window.push(long);
        assert_eq!(window.merged().unwrap().interval, 60 * SECOND);
    }

    #[test]
    fn short_intervals_share_a_piece() {
        let mut window = Window::new(10 * SECOND);
        for _ in 0..500 {
            let mut short = fixture::raid0(12);
            short.interval = SECOND / 10;
            window.push(short);
        }
        assert!(window.pieces.len() <= PIECES as usize + 1);
        let held = window.merged().unwrap().interval;
        assert!(held > 9 * SECOND && held < 11 * SECOND, "{held:?}");
    }

    #[test]
    fn a_quiet_second_does_not_change_the_sentence() {
        let mut window = Window::new(10 * SECOND);
        let mut busy = fixture::raid0(12);
        window.judge(&mut busy);
        let mut quiet = fixture::idle(12);
        window.judge(&mut quiet);
        let standout = quiet.arrays[0].standout.clone().unwrap();
        assert_eq!(standout.over, 2 * SECOND);
        // Busy for half of the time now, and what is named is the same.
        let before = busy.arrays[0].standout.clone().unwrap();
        assert_eq!((before.kind, standout.kind), (Kind::Saturated, Kind::Slow));
        assert_eq!(before.members, standout.members);
        assert_eq!(before.origins, standout.origins);
    }

    #[test]
    fn a_member_that_is_gone_is_forgotten_and_a_new_one_counts() {
        let mut window = Window::new(10 * SECOND);
        window.push(fixture::raid0(12));
        let mut other = fixture::raid0(12);
        other.arrays[0].members[3].name = "loop99".to_owned();
        window.push(other.clone());
        let merged = window.merged().unwrap();
        let names: Vec<_> = merged.arrays[0].members.iter().map(|m| &m.name).collect();
        assert_eq!(names.len(), 12);
        assert_eq!(names[3], "loop99");
        assert_eq!(
            merged.arrays[0].members[3].io,
            other.arrays[0].members[3].io
        );
    }

    #[test]
    fn throttled_cgroups_stay_apart() {
        let task = |cgroup: &str| super::TaskSnapshot {
            pid: 0,
            comm: b"throttled".to_vec(),
            cgroup: Some(cgroup.to_owned()),
            role: None,
            io: Vec::new(),
            dirtied: Vec::new(),
            dirtied_files: crate::analysis::files::Files::default(),
        };
        let mut now = vec![task("/a")];
        super::merge_tasks(&mut now, vec![task("/b"), task("/a")]);
        let cgroups: Vec<_> = now.iter().map(|t| t.cgroup.as_deref()).collect();
        assert_eq!(cgroups, [Some("/a"), Some("/b")]);
    }
}
