//! Time spent in BPF programs, estimated from short slices.
//!
//! The kernel's BPF statistics add 55 to 100 ns to each program run while they are enabled, as much
//! as a program itself takes. Therefore a thread enables them for only one slice per period, and
//! the figures of the slices are scaled to the whole time. The estimate includes the cost of the
//! statistics within the slices, so it is an upper bound.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::{AsFd, FromRawFd as _, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use libbpf_rs::{Object, Program};

use super::cpus::isolated;
use super::object::{program_info, programs};
use crate::analysis::snapshot::Overhead;
use crate::machine::privileges::{self, raised};

/// Each period has one slice, at a random time, so that periodic load cannot line up with the
/// slices. Enabling and disabling patches the kernel's text, which interrupts every CPU, so a
/// period is not shorter than a second.
const PERIOD: Duration = Duration::from_secs(1);
/// 2 % of a period: at 1,000 program runs per second, 20 runs are still measured each second.
const SLICE: Duration = Duration::from_millis(20);

/// Note if the overhead is not measured.
const ISOLATED: &str = "the overhead is not measured: CPUs are isolated (isolcpus=, nohz_full=), \
                        and to enable BPF statistics interrupts every CPU; with \
                        kernel.bpf_stats_enabled=1 it is measured all the time";

/// Measures loaded programs until it is dropped.
pub(super) struct Meter {
    shared: Arc<Mutex<Slices>>,
    estimate: RunTimeEstimate,
    read: Instant,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Meter {
    /// Measures these programs of an object. `None` if the kernel does not permit its statistics to
    /// be enabled, if a descriptor cannot be duplicated, or, with a note, if CPUs are isolated.
    pub(super) fn start(
        object: &Object,
        names: &[&'static str],
        notes: &mut Vec<String>,
    ) -> Option<Self> {
        let owned = |(_, p): (_, Program<'_>)| p.as_fd().try_clone_to_owned().ok();
        let programs = programs(object, names).map(owned).collect::<Option<_>>()?;
        let mut slices = Slices { programs, open: None, sum: RunTime::default() };
        let now = Instant::now();
        let may_enable = isolated().is_empty();
        if always_enabled() {
            slices.open(now);
        } else if may_enable {
            enable()?;
        } else {
            notes.push(ISOLATED.to_owned());
            return None;
        }
        let shared = Arc::new(Mutex::new(slices));
        let (stop, stopped) = channel();
        let slices_of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("overhead".to_owned())
            .spawn(move || {
                privileges::keep_for_statistics();
                measure(&slices_of_thread, &stopped, may_enable);
            })
            .ok()?;
        Some(Self {
            shared,
            estimate: RunTimeEstimate::default(),
            read: now,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Overhead since the start.
    pub(super) fn read(&mut self) -> Overhead {
        let mut slices = lock(&self.shared);
        let now = Instant::now();
        slices.flush(now);
        let elapsed = now.saturating_duration_since(self.read);
        self.read = now;
        self.estimate.advance(elapsed, slices.sum)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(shared: &Mutex<Slices>) -> std::sync::MutexGuard<'_, Slices> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures one slice per period until `stop` is disconnected. While statistics are enabled
/// permanently, the slice stays open.
fn measure(shared: &Mutex<Slices>, stop: &Receiver<()>, may_enable: bool) {
    let random = RandomState::new();
    let wait = |time| stop.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    // Start with a slice, so that a short first interval has one.
    let mut before = Duration::ZERO;
    for period in 0u64.. {
        if !wait(before) {
            return;
        }
        if always_enabled() {
            let mut slices = lock(shared);
            if slices.open.is_none() {
                slices.open(Instant::now());
            }
        } else if let Some(_enabled) = may_enable.then(enable).flatten() {
            lock(shared).open(Instant::now());
            let running = wait(SLICE);
            lock(shared).close(Instant::now());
            if !running {
                return;
            }
        }
        let after = PERIOD.saturating_sub(before + SLICE);
        let room = (PERIOD - SLICE).as_nanos() as u64;
        before = Duration::from_nanos(random.hash_one(period) % room);
        if !wait(after) {
            return;
        }
    }
}

/// `sysctl kernel.bpf_stats_enabled`.
fn always_enabled() -> bool {
    fs::read("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|v| v.first() == Some(&b'1'))
}

/// Enables the kernel's BPF statistics until the descriptor is closed (bpf(2), BPF_ENABLE_STATS).
fn enable() -> Option<OwnedFd> {
    use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
    // SAFETY: no pointers are passed; the result is checked before it becomes a descriptor.
    let fd = raised(|| unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) });
    if fd < 0 {
        return None;
    }
    // SAFETY: bpf_enable_stats has just returned this descriptor, and nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Run time and runs within slices, and the length of the slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RunTime {
    ns: u64,
    runs: u64,
    length: Duration,
}

/// The programs and their measured run time.
struct Slices {
    programs: Vec<OwnedFd>,
    /// Start of the open slice, and the kernel's sums at that time.
    open: Option<(Instant, u64, u64)>,
    sum: RunTime,
}

impl Slices {
    /// The kernel's sums of run time and runs of all programs.
    fn totals(&self) -> (u64, u64) {
        let each = self.programs.iter().filter_map(program_info);
        each.fold((0, 0), |(ns, runs), p| (ns + p.run_time_ns, runs + p.run_cnt))
    }

    fn open(&mut self, now: Instant) {
        let (ns, runs) = self.totals();
        self.open = Some((now, ns, runs));
    }

    fn close(&mut self, now: Instant) {
        self.flush(now);
        self.open = None;
    }

    /// Adds the open slice up to now.
    fn flush(&mut self, now: Instant) {
        if let Some((since, ns, runs)) = self.open {
            self.open(now);
            let (_, ns_now, runs_now) = self.open.unwrap_or((now, ns, runs));
            self.sum.ns += ns_now.saturating_sub(ns);
            self.sum.runs += runs_now.saturating_sub(runs);
            self.sum.length += now.saturating_duration_since(since);
        }
    }
}

/// Scales slices to the time between two readings.
#[derive(Default)]
struct RunTimeEstimate {
    seen: RunTime,
    /// The most recent slices, used for an interval without slices.
    last: RunTime,
    ns: f64,
    runs: f64,
    measured: Duration,
    unmeasured: Duration,
}

impl RunTimeEstimate {
    /// Cumulative overhead after another `elapsed`. `sum` covers all slices so far.
    fn advance(&mut self, elapsed: Duration, sum: RunTime) -> Overhead {
        let new = RunTime {
            ns: sum.ns - self.seen.ns,
            runs: sum.runs - self.seen.runs,
            length: sum.length - self.seen.length,
        };
        self.seen = sum;
        if !new.length.is_zero() {
            self.last = new;
        }
        if !self.last.length.is_zero() {
            let scale = elapsed.as_secs_f64() / self.last.length.as_secs_f64();
            self.ns += self.last.ns as f64 * scale;
            self.runs += self.last.runs as f64 * scale;
        }
        let measured = new.length.min(elapsed);
        self.measured += measured;
        self.unmeasured += elapsed - measured;
        Overhead {
            bpf_ns: self.ns.round() as u64,
            bpf_events: self.runs.round() as u64,
            measured_ns: self.measured.as_nanos() as u64,
            unmeasured_ns: self.unmeasured.as_nanos() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, PERIOD, RunTime, RunTimeEstimate, SLICE};
    use crate::analysis::cube::Amount as _;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn sum(ns: u64, runs: u64, ms: u64) -> RunTime {
        RunTime { ns, runs, length: MS(ms) }
    }

    #[test]
    fn slices_are_scaled_to_the_interval() {
        let mut estimate = RunTimeEstimate::default();
        let first = estimate.advance(MS(1000), sum(4_000, 40, 20));
        assert_eq!((first.bpf_ns, first.bpf_events), (200_000, 2_000));
        assert_eq!((first.measured_ns, first.unmeasured_ns), (20_000_000, 980_000_000));
        assert!(first.is_estimate());
        assert!((first.measured_share() - 0.02).abs() < 1e-9);
        // Only the slices of the second interval count for it.
        let second = estimate.advance(MS(1000), sum(5_000, 50, 40)).since(&first);
        assert_eq!((second.bpf_ns, second.bpf_events), (50_000, 500));
    }

    #[test]
    fn an_interval_without_a_slice_has_the_rate_of_the_last_one() {
        let mut estimate = RunTimeEstimate::default();
        let first = estimate.advance(MS(100), sum(1_000, 10, 5));
        let second = estimate.advance(MS(100), sum(1_000, 10, 5)).since(&first);
        assert_eq!((second.bpf_ns, second.bpf_events), (20_000, 200));
        assert_eq!((second.measured_ns, second.unmeasured_ns), (0, 100_000_000));
    }

    #[test]
    fn before_the_first_slice_nothing_is_known() {
        let overhead = RunTimeEstimate::default().advance(MS(3), RunTime::default());
        assert_eq!((overhead.bpf_ns, overhead.bpf_events), (0, 0));
        assert!(overhead.is_estimate());
    }

    #[test]
    fn a_slice_that_covers_the_interval_needs_no_scaling() {
        let mut estimate = RunTimeEstimate::default();
        let overhead = estimate.advance(MS(500), sum(7_777, 77, 500));
        assert_eq!((overhead.bpf_ns, overhead.bpf_events), (7_777, 77));
        assert!(!overhead.is_estimate());
    }

    #[test]
    fn statistics_are_enabled_for_a_small_share_of_the_time() {
        assert!(SLICE * 50 <= PERIOD);
    }
}
