//! Detects changes of the traced arrays, of the devices on them, and of the identity of their
//! filesystems.
//!
//! Reads sysfs, mountinfo, and the superblock of each filesystem that has been written to, or asks
//! XFS for it. Does not wake a disk otherwise. The caller handles the changes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::time::Duration;

use crate::fs::Identity;
use crate::machine::privileges::raised;
use crate::machine::topology::device_path;
use crate::machine::{
    Array, Dev, Filesystem, HostError, HostTopology, StatFile, Sys, differences, resolve_again,
};

/// Shortest time between two checks without a hint.
const MIN_INTERVAL: Duration = Duration::from_secs(2);
/// Checks may use 1/200 of a CPU: with thousands of devices one check is slow.
const CPU_SHARE: u32 = 200;
/// Longest wait for a filesystem that keeps changing (mkfs, resize2fs).
const MAX_SETTLE_WAIT: Duration = Duration::from_secs(60);
/// First pause after a reload. It doubles after each further reload.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause after a reload.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// Shortest pause after an update in place.
const MIN_PAUSE_IN_PLACE: Duration = Duration::from_millis(100);
/// Pause after an update in place, as a multiple of the time that the update took.
const PAUSE_COSTS: u32 = 5;

/// The accepted state of the host, and the schedule of checks against it.
pub struct Watcher {
    targets: Vec<String>,
    accepted: HostState,
    /// State found by the last check, if it differs from `accepted`.
    found: Option<HostState>,
    /// Filesystems whose identity differs from `accepted`: the identity last read, and the time of
    /// the first difference.
    unsettled: HashMap<Dev, (Option<Identity>, Duration)>,
    pace: Pace,
}

/// State of the host at one check.
#[derive(Default)]
struct HostState {
    host: HostTopology,
    filesystems: HashMap<Dev, Option<Identity>>,
    /// Sectors ever written to each array.
    written: HashMap<Dev, u64>,
    /// True if the ext4 driver is present, built in or as a loaded module.
    ext4: bool,
}

impl Watcher {
    /// Starts from the current state. Call this before reading layouts, so that changes meanwhile
    /// are detected.
    pub fn start(sys: &Sys, targets: &[String], host: &HostTopology) -> Self {
        let mut accepted = HostState {
            host: resolve_again(targets, host, sys, false).unwrap_or_else(|_| host.clone()),
            ..HostState::default()
        };
        accepted.identify(sys);
        Self {
            targets: targets.to_vec(),
            accepted,
            found: None,
            unsettled: HashMap::new(),
            pace: Pace::default(),
        }
    }

    /// Changes since the accepted state, one line each. Empty if there are none or no check is due.
    /// `clock` must be monotonic; a new value of `hint` means that something may have changed.
    pub fn check(&mut self, sys: &Sys, clock: Duration, hint: u64) -> Vec<String> {
        if !self.pace.due(clock, hint) {
            return Vec::new();
        }
        let begun = cpu_time();
        // sysfs can be inconsistent in the middle of a change. Check again without waiting for
        // another hint.
        let Ok(host) = resolve_again(&self.targets, &self.accepted.host, sys, false) else {
            self.pace.check_failed(clock);
            return Vec::new();
        };
        let changes = self.compare(sys, clock, host);
        let cost = cpu_time().saturating_sub(begun);
        // A change in progress is checked again soon, at any cost.
        let cost = if self.unsettled.is_empty() { cost } else { Duration::ZERO };
        self.pace.checked(clock, cost);
        changes
    }

    fn compare(&mut self, sys: &Sys, clock: Duration, host: HostTopology) -> Vec<String> {
        let mut changes = differences(&self.accepted.host, &host);
        // The module brings the types and functions that the programs use.
        if has_ext4(sys) && !self.accepted.ext4 {
            changes.push("ext4 was loaded".to_owned());
        }
        for array in &host.arrays {
            let written = written(sys, array);
            let unsettled = mapped(array).any(|fs| self.unsettled.contains_key(&fs.dev));
            if !unsettled
                && written.is_some()
                && written == self.accepted.written.get(&array.dev).copied()
            {
                continue;
            }
            for fs in mapped(array) {
                let Some(was) = self.accepted.filesystems.get(&fs.dev) else {
                    continue; // new: reported by `differences`
                };
                let Ok(now) = raised(|| identity(sys, fs)) else {
                    continue;
                };
                if now == *was {
                    self.unsettled.remove(&fs.dev);
                    continue;
                }
                let (last, since) = *self.unsettled.entry(fs.dev).or_insert((None, clock));
                let settled = last == now && since < clock || clock - since > MAX_SETTLE_WAIT;
                self.unsettled.insert(fs.dev, (now, since));
                if settled {
                    let change = identity_change(*was, now);
                    changes.push(format!("{}: {} {change}", array.name, fs.name));
                }
            }
            if !mapped(array).any(|fs| self.unsettled.contains_key(&fs.dev))
                && let Some(written) = written
            {
                self.accepted.written.insert(array.dev, written);
            }
        }
        if !changes.is_empty() {
            let mut found = HostState { host, ..HostState::default() };
            found.identify(sys);
            self.found = Some(found);
        }
        changes
    }

    /// Sets the value that `hint` has while nothing changes.
    pub fn set_idle_hint(&mut self, hint: u64) {
        self.pace.hint = hint;
    }

    /// Time until the next check because of `hint`; `None` if `hint` has not changed since the last
    /// check.
    pub fn next_check(&self, clock: Duration, hint: u64) -> Option<Duration> {
        let hinted = self.pace.hint != hint;
        hinted.then(|| self.pace.paused_until.saturating_sub(clock))
    }

    /// Accepts the state found by the last check.
    pub fn accept(&mut self) {
        if let Some(found) = self.found.take() {
            self.accepted = found;
        }
        self.unsettled.clear();
    }

    /// Pauses checks after an update in place that took `cost`.
    pub fn updated_in_place(&mut self, clock: Duration, cost: Duration) {
        self.pace.updated_in_place(clock, cost);
    }

    /// Pauses checks after a reload or a failed update; returns the pause.
    pub fn reloaded(&mut self, clock: Duration) -> Duration {
        self.pace.reloaded(clock)
    }

    /// Reads the current host topology, with superblocks. Can be called on another thread.
    pub fn resolver(
        &self,
    ) -> impl FnOnce(&Sys) -> Result<HostTopology, HostError> + Send + 'static {
        let (targets, host) = (self.targets.clone(), self.accepted.host.clone());
        move |sys| resolve_again(&targets, &host, sys, true)
    }
}

impl HostState {
    fn identify(&mut self, sys: &Sys) {
        self.ext4 = has_ext4(sys);
        for array in &self.host.arrays {
            // Read the count first: a write in between then causes one more check.
            if let Some(written) = written(sys, array) {
                self.written.insert(array.dev, written);
            }
            for fs in mapped(array) {
                let found = raised(|| identity(sys, fs)).unwrap_or_default();
                self.filesystems.insert(fs.dev, found);
            }
        }
    }
}

/// Devices that can hold a filesystem and whose sectors on `array` are known.
fn mapped(array: &Array) -> impl Iterator<Item = &Filesystem> {
    array.filesystems.iter().chain(&array.unmounted).filter(|fs| !fs.segments.is_empty())
}

/// Identity of a filesystem; `None` if there is none. Does not keep the device or the mount point
/// open, because md does not stop an open array.
///
/// # Errors
/// The identity cannot be read now. A suspended device mapper volume is not read: the read would
/// block until it is resumed.
fn identity(sys: &Sys, fs: &Filesystem) -> io::Result<Option<Identity>> {
    if fs.role.main().is_some() {
        return Ok(None);
    }
    if sys.is_suspended(&fs.name) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    if let Some(mount) = fs.mounts.iter().find(|m| m.fstype == "xfs")
        && let Some(known) = Identity::of_mounted_xfs(&mount.path, (fs.dev.major, fs.dev.minor))?
    {
        return Ok(Some(known));
    }
    let device = File::open(device_path(&fs.name))?;
    // Without read-ahead: when the last opener closes a device, the kernel drops its page cache, so
    // each check reads it again.
    let _ = rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::Random);
    Identity::read(&device)
}

fn has_ext4(sys: &Sys) -> bool {
    sys.path("/sys/fs/ext4").is_dir()
}

fn written(sys: &Sys, array: &Array) -> Option<u64> {
    let stat = StatFile::open(sys, &array.name, None).ok()?.read().ok()?;
    Some(stat.write_sectors.wrapping_add(stat.discard_sectors))
}

/// CPU time of this thread. On a busy machine a check takes longer but costs the same.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}

fn identity_change(was: Option<Identity>, now: Option<Identity>) -> String {
    match (was, now) {
        (None, _) => "now holds a filesystem".into(),
        (_, None) => "no longer holds a known filesystem".into(),
        (Some(a), Some(b)) if (a.uuid, a.mkfs_time) != (b.uuid, b.mkfs_time) => {
            "now holds another filesystem".into()
        }
        (Some(a), Some(b)) if a.blocks != b.blocks => {
            format!("was resized from {} to {} blocks", a.blocks, b.blocks)
        }
        _ => "has moved its metadata".into(),
    }
}

/// Schedule of checks on a monotonic clock. Pure.
#[derive(Debug, Default)]
struct Pace {
    next: Duration,
    hint: u64,
    /// Last pause after a reload.
    pause: Duration,
    /// No check is due before this time, whatever the hint.
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

    fn checked(&mut self, clock: Duration, cost: Duration) {
        self.next = clock + MIN_INTERVAL.max(cost * CPU_SHARE);
    }

    /// Schedules another check after one that could not read sysfs.
    fn check_failed(&mut self, clock: Duration) {
        self.hint = self.hint.wrapping_sub(1);
        self.paused_until = clock + MIN_INTERVAL;
    }

    /// A short pause, so that an array that changes all the time is still traced correctly.
    fn updated_in_place(&mut self, clock: Duration, cost: Duration) {
        self.paused_until = clock + MIN_PAUSE_IN_PLACE.max(cost * PAUSE_COSTS);
    }

    /// Doubles the pause after each reload or failed update; resets it after a long time without
    /// one.
    fn reloaded(&mut self, clock: Duration) -> Duration {
        let idle = clock > self.paused_until + 2 * self.pause.max(FIRST_PAUSE);
        self.pause = if idle || self.pause.is_zero() {
            FIRST_PAUSE
        } else {
            (2 * self.pause).min(MAX_PAUSE)
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
    fn checks_are_due_after_an_interval_or_a_hint() {
        let mut pace = Pace::default();
        assert!(pace.due(s(1), 7));
        pace.checked(s(1), Duration::from_millis(3));
        assert!(!pace.due(s(2), 7));
        assert!(pace.due(s(2), 8), "a hint makes a check due");
        pace.checked(s(2), Duration::from_millis(3));
        assert!(!pace.due(s(3), 8));
        assert!(pace.due(s(4), 8));
        // An expensive check is rare.
        pace.checked(s(4), Duration::from_millis(100));
        assert!(!pace.due(s(23), 8));
        assert!(pace.due(s(24), 8));
    }

    #[test]
    fn pauses_double_until_reset_by_idle_time() {
        let mut pace = Pace::default();
        let mut clock = s(100);
        let mut pauses = Vec::new();
        for hint in 0..8 {
            assert!(pace.due(clock, hint));
            let pause = pace.reloaded(clock);
            assert!(!pace.due(clock + pause - s(1), hint + 1));
            clock += pause;
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pace.reloaded(clock + s(700)), FIRST_PAUSE);
    }

    /// Members fail, are removed and join in a loop: each change is detected soon.
    #[test]
    fn updates_in_place_pause_briefly() {
        let mut pace = Pace::default();
        let mut clock = s(1);
        for hint in 1..1000 {
            assert!(pace.due(clock, hint));
            pace.updated_in_place(clock, Duration::from_millis(40));
            assert!(!pace.due(clock, hint + 1));
            clock += Duration::from_millis(200);
        }
        assert_eq!(
            pace.reloaded(clock),
            FIRST_PAUSE,
            "short pauses do not lengthen the pause of a reload"
        );
    }

    #[test]
    fn a_failed_check_is_repeated() {
        let mut pace = Pace::default();
        assert!(pace.due(s(1), 7));
        pace.check_failed(s(1));
        assert!(!pace.due(s(1), 7));
        assert!(pace.due(s(1) + MIN_INTERVAL, 7), "without another hint");
        pace.checked(s(3), Duration::ZERO);
        assert!(!pace.due(s(4), 7));
    }
}
