//! Merges the last intervals, so that the headline does not flicker: a journal commits every 5 s,
//! and bitmaps are written back in bursts.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::amplification::Amplification;
use super::cube::Amount as _;
use super::files::merge_by;
use super::history::History;
use super::hotspot;
use super::snapshot::{
    ArraySnapshot, DiskUse, JournalStalls, MemberSnapshot, Snapshot, TaskIo, TaskSnapshot,
};
use super::verdict::Accounts;

/// Length of the window of the live screen.
pub const SPAN: Duration = Duration::from_secs(10);

/// Approximate number of pieces in a window, so that memory stays bounded at `--interval 0.1`.
const PIECES: u32 = 10;

/// The last snapshots, up to a span of time.
#[derive(Debug, Default)]
pub struct Window {
    span: Duration,
    pieces: VecDeque<Snapshot>,
    history: History,
    accounts: Accounts,
}

impl Window {
    /// Creates a window of `span`. A window always has at least one interval, however long.
    pub fn new(span: Duration) -> Self {
        Self { span, pieces: VecDeque::new(), ..Self::default() }
    }

    /// Adds `snapshot`, and fills in its hot spots and amplification over the window.
    pub fn evaluate(&mut self, snapshot: &mut Snapshot) {
        self.history.record(snapshot);
        self.push(snapshot.clone());
        let Some(merged) = self.merged() else { return };
        for array in &mut snapshot.arrays {
            let whole = merged.arrays.iter().find(|a| a.info.name == array.info.name);
            array.hotspot = whole.map(|a| hotspot::find(a, merged.interval));
            array.amplification = whole.map(|a| Amplification::new(a, merged.interval));
        }
        self.accounts.judge(snapshot);
    }

    /// Starts again at an earlier or later interval, and keeps what verdicts compare with.
    pub fn restart(&mut self) {
        (self.pieces, self.history) = (VecDeque::new(), History::default());
    }

    /// Adds an interval, and drops those older than the span.
    pub fn push(&mut self, snapshot: Snapshot) {
        match self.pieces.back_mut() {
            Some(last) if last.interval + snapshot.interval <= self.span / PIECES => {
                merge(last, &snapshot);
            }
            _ => self.pieces.push_back(snapshot),
        }
        let mut length: Duration = self.pieces.iter().map(|s| s.interval).sum();
        // 5 % tolerance: ten intervals of "1 s" are never exactly 10 s.
        while length > self.span + self.span / 20 && self.pieces.len() > 1 {
            length -= self.pieces.pop_front().map_or(length, |s| s.interval);
        }
    }

    /// The whole window as one snapshot, with the current arrays, members and tasks; `None` before
    /// the first interval.
    pub fn merged(&self) -> Option<Snapshot> {
        let mut pieces = self.pieces.iter();
        let mut all = pieces.next()?.clone();
        for piece in pieces {
            merge(&mut all, piece);
        }
        Some(all)
    }
}

/// Extends `into` by the following interval `newer`.
///
/// Takes the topology of `newer`; adds up figures of arrays and members in both.
pub fn merge(into: &mut Snapshot, newer: &Snapshot) {
    merge_where(into, newer, alike);
}

/// True if level and chunk are unchanged, so that `now` is taken for the same array as `was`.
pub fn alike(now: &ArraySnapshot, was: &ArraySnapshot) -> bool {
    now.info.level == was.info.level && now.info.chunk_bytes == was.info.chunk_bytes
}

/// Treats arrays with the same name as the same array: within one interval an array may be
/// reshaped.
fn always(_: &ArraySnapshot, _: &ArraySnapshot) -> bool {
    true
}

/// Merges `newer` into `into`. `same` decides whether two arrays with the same name are the same
/// array.
fn merge_where(
    into: &mut Snapshot,
    newer: &Snapshot,
    same: fn(&ArraySnapshot, &ArraySnapshot) -> bool,
) {
    let mut older = std::mem::replace(into, newer.clone());
    for array in &mut into.arrays {
        (array.hotspot, array.amplification) = (None, None); // covered one interval, not both
        let is = |was: &ArraySnapshot| was.info.name == array.info.name && same(array, was);
        if let Some(at) = older.arrays.iter().position(is) {
            let was = older.arrays.remove(at);
            merge_array(array, was, older.interval, newer.interval);
        }
    }
    into.interval += older.interval;
    into.lost.add(&older.lost);
    into.overhead.add(&older.overhead);
}

/// Joins the last part of an interval to its `earlier` part, if one was sampled early because the
/// host changed.
pub fn joined(earlier: Option<Snapshot>, part: Snapshot) -> Snapshot {
    match earlier {
        Some(mut whole) => {
            join(&mut whole, &part, always);
            whole
        }
        None => part,
    }
}

/// Like [`merge`], but keeps arrays and members that are not in `newer`, after the current ones.
/// `same` is [`alike`] or `always`.
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
            disks.for_each(|disk| scale_removed(disk, before / whole));
            into.arrays.push(gone);
            continue;
        };
        for mut member in was.members {
            if array.members.iter().all(|m| m.name != member.name) {
                member.slot = None;
                member.health = Some("removed".to_owned());
                if let Some(disk) = &mut member.disk {
                    scale_removed(disk, before / whole);
                }
                array.members.push(member);
            }
        }
    }
}

/// Scales the figures of a disk that was present for a share of the interval.
fn scale_removed(disk: &mut DiskUse, share: f64) {
    disk.utilisation *= share;
    disk.in_flight = 0;
}

fn merge_array(now: &mut ArraySnapshot, was: ArraySnapshot, before: Duration, last: Duration) {
    let mut members: HashMap<String, MemberSnapshot> =
        was.members.into_iter().map(|m| (m.name.clone(), m)).collect();
    for member in &mut now.members {
        let Some(old) = members.remove(&member.name) else {
            continue;
        };
        for cell in old.io {
            member.add_cell(cell);
        }
        member.io.sort_by_key(|c| (c.origin, c.op));
        member.counted.merge(&old.counted);
        if let (Some(disk), Some(old)) = (&mut member.disk, old.disk) {
            let (a, b) = (before.as_secs_f64(), last.as_secs_f64());
            if a + b > 0.0 {
                disk.utilisation = (old.utilisation * a + disk.utilisation * b) / (a + b);
            }
            disk.requests.add(&old.requests);
            disk.uncounted.add(&old.uncounted);
        }
    }
    if let (Some(now), Some(was)) = (&mut now.around, &was.around) {
        now.merge(was);
    }
    now.submitted.merge(&was.submitted);
    now.costs.merge(&was.costs);
    merge_tasks(&mut now.tasks, was.tasks);
    now.files.merge(was.files);
    now.dirtied_files.merge(was.dirtied_files);
    for stalls in was.journal_stalls {
        let same = |j: &&mut JournalStalls| j.filesystem == stalls.filesystem;
        match now.journal_stalls.iter_mut().find(same) {
            Some(sum) => {
                sum.checkpoints.add(&stalls.checkpoints);
                sum.wait.add(&stalls.wait);
            }
            None => now.journal_stalls.push(stalls),
        }
    }
}

/// Maximum number of tasks kept, largest first: hosts with many short-lived tasks would have too
/// many over a long run.
const MAX_TASKS: usize = 4096;

fn merge_tasks(now: &mut Vec<TaskSnapshot>, was: Vec<TaskSnapshot>) {
    // A pid can be reused within seconds; another comm means another task. Pid 0 stands for a
    // cgroup.
    type CommKey = (u32, Vec<u8>, Option<String>);
    let key = |t: &TaskSnapshot| -> CommKey {
        let cgroup = t.cgroup.clone().filter(|_| t.pid == 0);
        (t.pid, t.comm.clone(), cgroup)
    };
    merge_by(now, was, key, |task, old| {
        add_io(&mut task.io, old.io);
        add_io(&mut task.dirtied, old.dirtied);
        task.dirtied_files.merge(old.dirtied_files);
    });
    now.sort_by_key(|t| std::cmp::Reverse(t.size().0));
    now.truncate(MAX_TASKS);
}

fn add_io(now: &mut Vec<TaskIo>, was: Vec<TaskIo>) {
    for io in was {
        match now.iter_mut().find(|i| (i.origin, i.op) == (io.origin, io.op)) {
            Some(i) => {
                i.bios.add(&io.bios);
                i.bytes.add(&io.bytes);
            }
            None => now.push(io),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECES, Snapshot, Window};
    use crate::analysis::fixture;
    use crate::analysis::hotspot::HotspotKind;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_joined_interval_keeps_removed_members() {
        let one = fixture::raid0(12);
        let mut less = one.clone();
        let gone = less.arrays[0].members.remove(3);
        let mut whole = one.clone();
        super::join(&mut whole, &less, super::always);
        let members = &whole.arrays[0].members;
        assert_eq!(members.len(), 12);
        let last = &members[11];
        assert_eq!((&last.name, &last.io), (&gone.name, &gone.io));
        // The member was busy only in the first half; its requests in flight are gone.
        let (was, now) = (gone.disk.unwrap(), last.disk.unwrap());
        assert!((now.utilisation - was.utilisation / 2.0).abs() < 1e-9 && was.utilisation > 0.0);
        assert_eq!(now.in_flight, 0);
        // The same for a removed array.
        let mut none = one.clone();
        none.arrays.clear();
        let mut stopped = one.clone();
        super::join(&mut stopped, &none, super::always);
        let member = stopped.arrays[0].members.iter().find(|m| m.name == gone.name).unwrap();
        assert_eq!(member.io, gone.io);
        assert!((member.disk.unwrap().utilisation - was.utilisation / 2.0).abs() < 1e-9);
        let mut joined = less.clone();
        super::join(&mut joined, &one, super::always);
        let of = |m: &[super::MemberSnapshot]| {
            m.iter().find(|m| m.name == gone.name).unwrap().disk.unwrap().utilisation
        };
        assert!((of(&joined.arrays[0].members) - was.utilisation / 2.0).abs() < 1e-9);
        assert_eq!(last.health.as_deref(), Some("removed"));
        assert_eq!(members[0].io[0].bytes, 2 * one.arrays[0].members[0].io[0].bytes);
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
        // With `alike`, a different array with the same name.
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
    fn amplification_covers_the_window() {
        let one = fixture::raid5();
        let amplification = one.arrays[0].amplification.clone().unwrap();
        let mut window = Window::new(10 * SECOND);
        window.push(one);
        let mut two = fixture::raid5();
        window.evaluate(&mut two);
        let both = two.arrays[0].amplification.clone().unwrap();
        assert_eq!(both.over, 2 * SECOND);
        assert_eq!(both.rows.len(), amplification.rows.len());
        for (one, both) in amplification.rows.iter().zip(&both.rows) {
            assert_eq!(both.submitted, 2 * one.submitted);
            assert!(both.parity.abs_diff(2 * one.parity) <= 1);
            assert!(both.rmw_read.abs_diff(2 * one.rmw_read) <= 1);
        }
        // Bytes submitted in the previous interval and moved in this one are in the same window.
        let mut quiet = fixture::idle(4);
        quiet.arrays[0].info = two.arrays[0].info.clone();
        window.evaluate(&mut quiet);
        assert_eq!(quiet.arrays[0].amplification.as_ref().unwrap().rows, both.rows);
    }

    #[test]
    fn drops_intervals_older_than_the_span() {
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
    fn an_idle_second_does_not_change_the_headline() {
        let mut window = Window::new(10 * SECOND);
        let mut busy = fixture::raid0(12);
        window.evaluate(&mut busy);
        let mut quiet = fixture::idle(12);
        window.evaluate(&mut quiet);
        let hotspot = quiet.arrays[0].hotspot.clone().unwrap();
        assert_eq!(hotspot.over, 2 * SECOND);
        // Busy for half of the time now; the same members and origins are named.
        let before = busy.arrays[0].hotspot.clone().unwrap();
        assert_eq!((before.kind, hotspot.kind), (HotspotKind::Saturated, HotspotKind::Uneven));
        assert_eq!(before.members, hotspot.members);
        assert_eq!(before.origins, hotspot.origins);
    }

    #[test]
    fn a_replaced_member_is_dropped() {
        let mut window = Window::new(10 * SECOND);
        window.push(fixture::raid0(12));
        let mut other = fixture::raid0(12);
        other.arrays[0].members[3].name = "loop99".to_owned();
        window.push(other.clone());
        let merged = window.merged().unwrap();
        let names: Vec<_> = merged.arrays[0].members.iter().map(|m| &m.name).collect();
        assert_eq!(names.len(), 12);
        assert_eq!(names[3], "loop99");
        assert_eq!(merged.arrays[0].members[3].io, other.arrays[0].members[3].io);
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
