//! Whether what was surveyed is still so: the arrays, what lies on them, and which filesystems these are.
//!
//! Looks at sysfs and mountinfo, and at 1 KiB of a filesystem that has been written to: no disk is woken by it. Says what
//! has changed; what to do about it is up to the caller.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::time::Duration;

use crate::fs::ext4::Identity;
use crate::machine::topology::device_path;
use crate::machine::{
    Array, Dev, Filesystem, HostTopology, StatFile, Sys, differences, resolve_again,
};

/// Not more often than this.
const EVERY: Duration = Duration::from_secs(2);
/// ... nor more than one part in so many of a CPU: machines with thousands of devices take their time to describe.
const SHARE: u32 = 200;
/// A filesystem that goes on changing (mkfs, resize2fs) is waited for, this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two attempts to begin anew, at first and at most.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MOST: Duration = Duration::from_secs(300);
/// ... and between two changes that the programs which run do for, at least; or so many times as long as one has taken.
const PAUSE_IN_PLACE: Duration = Duration::from_millis(100);
const PAUSE_COSTS: u32 = 5;

/// What there was, and when to look again.
pub struct Follow {
    targets: Vec<String>,
    then: Seen,
    /// What the last look has seen, if it was not the same.
    now: Option<Seen>,
    /// Filesystems that are another than then: as what, and since when.
    unsettled: HashMap<Dev, (Option<Identity>, Duration)>,
    pace: Pace,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing but names.
    Names,
    /// The programs that run do for it, which has taken so long.
    InPlace(Duration),
    /// Tracing begins anew.
    Anew,
}

/// One look.
#[derive(Default)]
struct Seen {
    host: HostTopology,
    filesystems: HashMap<Dev, Option<Identity>>,
    /// By array: sectors ever written to it.
    written: HashMap<Dev, u64>,
    /// ext4 is there: in the kernel, or as a module that is loaded.
    ext4: bool,
}

impl Follow {
    /// Begins with what is there now: called before the topology, so that what changes during it is noticed.
    pub fn start(sys: &Sys, targets: &[String], host: &HostTopology) -> Self {
        let mut then = Seen {
            host: resolve_again(targets, host, sys, false).unwrap_or_else(|_| host.clone()),
            ..Seen::default()
        };
        then.identify(sys);
        Self {
            targets: targets.to_vec(),
            then,
            now: None,
            unsettled: HashMap::new(),
            pace: Pace::default(),
        }
    }

    /// What has changed, a line each; empty: nothing, or it is not yet time to look. `clock` goes forward only; `hint`
    /// changes when something may have.
    pub fn look(&mut self, sys: &Sys, clock: Duration, hint: u64) -> Vec<String> {
        if !self.pace.due(clock, hint) {
            return Vec::new();
        }
        let begun = cpu_time();
        // sysfs in the middle of a change: the next look will tell, and is not to wait for another hint.
        let Ok(host) = resolve_again(&self.targets, &self.then.host, sys, false) else {
            self.pace.unlearned(clock);
            return Vec::new();
        };
        let changes = self.compare(sys, clock, host);
        let cost = cpu_time().saturating_sub(begun);
        // Something is going on: to be settled soon.
        let cost = if self.unsettled.is_empty() {
            cost
        } else {
            Duration::ZERO
        };
        self.pace.looked(clock, cost);
        changes
    }

    fn compare(&mut self, sys: &Sys, clock: Duration, host: HostTopology) -> Vec<String> {
        let mut changes = differences(&self.then.host, &host);
        // Its types and functions come with it.
        if has_ext4(sys) && !self.then.ext4 {
            changes.push("ext4 was loaded".to_owned());
        }
        for array in &host.arrays {
            let written = written(sys, array);
            let unsettled = placed(array).any(|fs| self.unsettled.contains_key(&fs.dev));
            if !unsettled
                && written.is_some()
                && written == self.then.written.get(&array.dev).copied()
            {
                continue;
            }
            for fs in placed(array) {
                let Some(was) = self.then.filesystems.get(&fs.dev) else {
                    continue; // has appeared, which `differences` says
                };
                let now = match identity(sys, fs) {
                    Ok(now) => now,
                    Err(_) => continue, // nothing was learned of it
                };
                if now == *was {
                    self.unsettled.remove(&fs.dev);
                    continue;
                }
                let (last, since) = *self.unsettled.entry(fs.dev).or_insert((None, clock));
                let settled = last == now && since < clock || clock - since > PATIENCE;
                self.unsettled.insert(fs.dev, (now, since));
                if settled {
                    changes.push(format!("{}: {} {}", array.name, fs.name, of(*was, now)));
                }
            }
            if !placed(array).any(|fs| self.unsettled.contains_key(&fs.dev))
                && let Some(written) = written
            {
                self.then.written.insert(array.dev, written);
            }
        }
        if !changes.is_empty() {
            let mut now = Seen {
                host,
                ..Seen::default()
            };
            now.identify(sys);
            self.now = Some(now);
        }
        changes
    }

    /// What the hint is as long as nothing happens.
    pub fn quiet(&mut self, hint: u64) {
        self.pace.hint = hint;
    }

    /// How long until there is use in looking because of `hint`; `None`: it is as it was at the last look.
    pub fn wanted(&self, clock: Duration, hint: u64) -> Option<Duration> {
        let hinted = self.pace.hint != hint;
        hinted.then(|| self.pace.paused_until.saturating_sub(clock))
    }

    /// The caller has surveyed what the last look has seen, and what came of it.
    pub fn taken(&mut self, clock: Duration, how: Taken) {
        if let Some(now) = self.now.take() {
            self.then = now;
        }
        self.unsettled.clear();
        match how {
            Taken::Names => {}
            Taken::InPlace(cost) => {
                self.pace.went_on(clock, cost);
            }
            Taken::Anew => {
                self.pace.began(clock);
            }
        }
    }

    /// It could not; how long until the next look.
    pub fn failed(&mut self, clock: Duration) -> Duration {
        self.pace.began(clock)
    }

    /// What is traced by now, for whoever resolves again.
    pub fn resolve(&self, sys: &Sys) -> Result<HostTopology, crate::machine::HostError> {
        resolve_again(&self.targets, &self.then.host, sys, true)
    }
}

impl Seen {
    fn identify(&mut self, sys: &Sys) {
        self.ext4 = has_ext4(sys);
        for array in &self.host.arrays {
            // The count first: what is written in between is then read once more.
            if let Some(written) = written(sys, array) {
                self.written.insert(array.dev, written);
            }
            for fs in placed(array) {
                let found = identity(sys, fs).unwrap_or_default();
                self.filesystems.insert(fs.dev, found);
            }
        }
    }
}

/// What a filesystem may be on.
fn placed(array: &Array) -> impl Iterator<Item = &Filesystem> {
    let all = array.filesystems.iter().chain(&array.unmounted);
    all.filter(|fs| !fs.segments.is_empty())
}

/// `None`: no ext filesystem. Opened for this moment only, because md does not stop an array that somebody has open.
///
/// # Errors
/// It cannot be read now; that of a suspended device-mapper volume would wait until it is resumed.
fn identity(sys: &Sys, fs: &Filesystem) -> io::Result<Option<Identity>> {
    if sys.is_suspended(&fs.name) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Identity::read(&File::open(device_path(&fs.name))?)
}

fn has_ext4(sys: &Sys) -> bool {
    sys.path("/sys/fs/ext4").is_dir()
}

fn written(sys: &Sys, array: &Array) -> Option<u64> {
    let stat = StatFile::open(sys, &array.name, None).ok()?.read().ok()?;
    Some(stat.write_sectors.wrapping_add(stat.discard_sectors))
}

/// Of this thread: a busy machine makes a look longer, not dearer.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}

/// What has become of a filesystem, in words.
fn of(was: Option<Identity>, now: Option<Identity>) -> String {
    match (was, now) {
        (None, _) => "holds a filesystem now".into(),
        (_, None) => "holds no ext filesystem any more".into(),
        (Some(a), Some(b)) if (a.uuid, a.mkfs_time) != (b.uuid, b.mkfs_time) => {
            "holds another filesystem now".into()
        }
        (Some(a), Some(b)) if a.blocks != b.blocks => {
            format!("was resized from {} to {} blocks", a.blocks, b.blocks)
        }
        _ => "has its metadata in other places now".into(),
    }
}

/// When to look, on a clock that goes forward only. Pure.
#[derive(Debug, Default)]
struct Pace {
    next: Duration,
    hint: u64,
    /// Not before this, whatever the hint.
    pause: Duration,
    paused_until: Duration,
}

impl Pace {
    fn due(&mut self, clock: Duration, hint: u64) -> bool {
        let hinted = self.hint != hint;
        if clock < self.paused_until || (clock < self.next && !hinted) {
            return false;
        }
        self.hint = hint;
        true
    }

    fn looked(&mut self, clock: Duration, cost: Duration) {
        self.next = clock + EVERY.max(cost * SHARE);
    }

    /// A look has told nothing.
    fn unlearned(&mut self, clock: Duration) {
        self.hint = self.hint.wrapping_sub(1);
        self.paused_until = clock + EVERY;
    }

    /// Tracing goes on in place: soon again, also where an array changes all the time.
    fn went_on(&mut self, clock: Duration, cost: Duration) {
        self.paused_until = clock + PAUSE_IN_PLACE.max(cost * PAUSE_COSTS);
    }

    /// Tracing begins anew, or has tried to: the next time twice as late, unless all was quiet for long.
    fn began(&mut self, clock: Duration) -> Duration {
        let calm = clock > self.paused_until + 2 * self.pause.max(PAUSE);
        self.pause = if calm || self.pause.is_zero() {
            PAUSE
        } else {
            (2 * self.pause).min(PAUSE_MOST)
        };
        self.paused_until = clock + self.pause;
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn looks_come_at_their_time_or_at_a_hint() {
        let mut pace = Pace::default();
        assert!(pace.due(s(1), 7));
        pace.looked(s(1), Duration::from_millis(3));
        assert!(!pace.due(s(2), 7));
        assert!(pace.due(s(2), 8), "a hint is not waited with");
        pace.looked(s(2), Duration::from_millis(3));
        assert!(!pace.due(s(3), 8));
        assert!(pace.due(s(4), 8));
        // A look that takes long is rare.
        pace.looked(s(4), Duration::from_millis(100));
        assert!(!pace.due(s(23), 8));
        assert!(pace.due(s(24), 8));
    }

    #[test]
    fn attempts_become_rarer_until_it_is_quiet() {
        let mut pace = Pace::default();
        let mut clock = s(100);
        let mut pauses = Vec::new();
        for hint in 0..8 {
            assert!(pace.due(clock, hint));
            let pause = pace.began(clock);
            assert!(!pace.due(clock + pause - s(1), hint + 1));
            clock += pause;
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pace.began(clock + s(700)), PAUSE);
    }

    /// A member fails, is removed, and another one joins, again and again: each is soon noticed.
    #[test]
    fn what_is_cheap_may_come_again_soon() {
        let mut pace = Pace::default();
        let mut clock = s(1);
        for hint in 1..1000 {
            assert!(pace.due(clock, hint));
            pace.went_on(clock, Duration::from_millis(40));
            assert!(!pace.due(clock, hint + 1));
            clock += Duration::from_millis(200);
        }
        assert_eq!(pace.began(clock), PAUSE, "that is another matter");
    }

    #[test]
    fn a_look_that_told_nothing_is_repeated() {
        let mut pace = Pace::default();
        assert!(pace.due(s(1), 7));
        pace.unlearned(s(1));
        assert!(!pace.due(s(1), 7));
        assert!(pace.due(s(1) + EVERY, 7), "without another hint");
        pace.looked(s(3), Duration::ZERO);
        assert!(!pace.due(s(4), 7));
    }
}
