//! Samples tasks that use the arrays five times a second: their state and, in uninterruptible
//! sleep, their kernel stack. A running task has no stack in /proc, so CPUs are sampled while one
//! runs in several looks: it may be in the allocator.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::analysis::alloc::Cpu;
use crate::analysis::around::{Asleep, HungTask};
use crate::analysis::counters::{THROTTLED, TaskId};
use crate::analysis::profile::Profile;
use crate::analysis::verdict::{ALLOCATOR, WAITS_IN};
use crate::machine::Sys;
use crate::machine::privileges::raised;
use crate::machine::task::{self, TaskSleep};
use crate::printable::sanitize;
use crate::session::cpus::CpuSampler;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(200);
/// Maximum number of tasks at a look: about 0.5 % of a CPU.
const MAX_AT_A_LOOK: usize = 16;
/// Time that a sample stands for at most.
const MAX_SAMPLE: Duration = Duration::from_secs(1);
/// Time for which a task that has submitted or dirtied something is looked at.
const RETENTION: Duration = Duration::from_secs(10);
/// Samples of each CPU in a second.
const HERTZ: u32 = 49;
/// Maximum number of these tasks.
const MAX_TASKS: usize = 256;
/// Maximum number of hung tasks, and of names of waiting tasks, of an array in the facts.
const MAX_FACTS: usize = 4;

/// Tasks to look at, and their time asleep in this interval.
#[derive(Default)]
pub struct Sleepers {
    tasks: BTreeMap<TaskId, ActiveTask>,
    /// The task that was looked at last.
    last: Option<TaskId>,
    due: Option<Instant>,
    /// Time of the last look at a task that ran in the look before, too.
    busy: Option<Instant>,
    /// Reads the kernel's symbols, and starts to sample the CPUs; `Some(None)` if it has ended.
    starting: Option<Option<JoinHandle<Result<CpuSampler, String>>>>,
    /// `None` if the CPUs are not sampled, or cannot be.
    cpus: Option<CpuSampler>,
    /// By array and name.
    sums: BTreeMap<(u32, String), Asleep>,
    /// Time asleep of tasks that are no kernel threads, µs.
    slept_us: BTreeMap<TaskId, u64>,
}

/// A task that submitted or dirtied something.
struct ActiveTask {
    /// When it last did.
    active: Instant,
    look: Option<SleepObservation>,
    is_kernel: bool,
    comm: String,
}

/// The last look at a task.
struct SleepObservation {
    at: Instant,
    state: TaskSleep,
    /// When a look first had this state.
    since: Instant,
    /// Kernel function in which it sleeps.
    function: String,
}

impl Sleepers {
    /// Adds tasks that have submitted or dirtied something.
    pub fn add(&mut self, tasks: impl IntoIterator<Item = TaskId>, now: Instant) {
        for id in tasks.into_iter().filter(|id| id.pid & THROTTLED == 0) {
            if let Some(seen) = self.tasks.get_mut(&id) {
                seen.active = now;
            } else if self.tasks.len() < MAX_TASKS {
                let new =
                    ActiveTask { active: now, look: None, is_kernel: false, comm: String::new() };
                self.tasks.insert(id, new);
            }
        }
    }

    /// Time until the next look; `None` without tasks.
    pub fn next(&self, now: Instant) -> Option<Duration> {
        let due = self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
        (!self.tasks.is_empty()).then_some(due)
    }

    /// Looks at some of the tasks if it is time.
    pub fn look(&mut self, sys: &Sys, now: Instant) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        self.due = Some(now + PERIOD);
        let after = self.last.map_or(Unbounded, Excluded);
        let ids = self.tasks.range((after, Unbounded)).chain(&self.tasks).map(|(id, _)| *id);
        let ids: Vec<TaskId> = ids.take(MAX_AT_A_LOOK.min(self.tasks.len())).collect();
        for id in ids {
            self.last = Some(id);
            if !self.look_at(sys, id, now) {
                self.tasks.remove(&id);
            }
        }
        self.sample_cpus(now);
    }

    /// Adds the time of tasks on a CPU in ext4's allocator.
    fn sample_cpus(&mut self, now: Instant) {
        if self.busy.is_none_or(|busy| now - busy >= RETENTION) {
            if self.cpus.take().is_some() {
                self.starting = None;
            }
            return;
        }
        let start = || raised(|| CpuSampler::start(HERTZ, false));
        let spawn = || thread::Builder::new().spawn(start).ok();
        let starting = self.starting.get_or_insert_with(spawn);
        if let Some(started) = starting.take_if(|starting| starting.is_finished()) {
            self.cpus = started.join().ok().and_then(Result::ok);
        }
        let Some(cpus) = &mut self.cpus else { return };
        let mut profile = Profile::default();
        if cpus.drain(&mut profile).is_err() {
            self.cpus = None;
        }
        let one = |(pid, _, cpu): (u32, Vec<u8>, Cpu)| {
            (cpu.allocator > 0).then_some((pid, cpu.allocator))
        };
        self.add_samples(&profile.on_cpu().into_iter().filter_map(one).collect());
    }

    /// `samples`: those in the allocator, by thread id.
    fn add_samples(&mut self, samples: &HashMap<u32, u64>) {
        for (id, seen) in &self.tasks {
            let sum = self.sums.get_mut(&(id.array, seen.comm.clone()));
            if let Some((sum, samples)) = sum.zip(samples.get(&id.pid)) {
                *sum.ms.entry(ALLOCATOR.to_owned()).or_default() +=
                    samples * 1000 / u64::from(HERTZ);
            }
        }
    }

    /// False if the task is to be forgotten.
    fn look_at(&mut self, sys: &Sys, id: TaskId, now: Instant) -> bool {
        let Some(seen) = self.tasks.get_mut(&id) else { return false };
        let Some(state) = task::sleep(sys, id.pid) else { return false };
        let before = seen.look.take();
        if before.is_none() {
            seen.is_kernel = task::is_kernel_thread(sys, id.pid) == Some(true);
            seen.comm = sanitize(&task::comm(sys, id.pid).unwrap_or_default());
        }
        if state.is_running && before.as_ref().is_some_and(|b| b.state.is_running) {
            self.busy = Some(now);
        }
        let same = before.as_ref().filter(|b| b.state == state && state.is_uninterruptible);
        let since = same.map_or(now, |b| b.since);
        let function = match same {
            Some(same) => same.function.clone(),
            None if state.is_uninterruptible => function(sys, id.pid),
            None => String::new(),
        };
        let gap = before.as_ref().map_or(PERIOD, |b| now - b.at);
        let over = gap.min(MAX_SAMPLE);
        let sleeps = before.map_or(0, |b| state.switches.saturating_sub(b.state.switches));
        let sum = self.sums.entry((id.array, seen.comm.clone())).or_default();
        sum.comm.clone_from(&seen.comm);
        sum.is_kernel = seen.is_kernel;
        sum.sleeps += sleeps;
        if state.is_uninterruptible {
            let ms = u64::try_from(over.as_millis()).unwrap_or(u64::MAX);
            *sum.ms.entry(function.clone()).or_default() += ms;
            if !seen.is_kernel {
                // Of many tasks, each is looked at less often: its sample stands for more.
                let us = u64::try_from(gap.min(RETENTION).as_micros()).unwrap_or(u64::MAX);
                *self.slept_us.entry(id).or_default() += us;
            }
        }
        let sleeps = state.is_uninterruptible;
        seen.look = Some(SleepObservation { at: now, state, since, function });
        sleeps || now - seen.active < RETENTION
    }

    /// Tasks of an array that have not run since two looks or more, longest first.
    pub fn hung(&self, array: u32, now: Instant) -> Vec<HungTask> {
        let one = |(id, seen): (&TaskId, &ActiveTask)| {
            let look = seen.look.as_ref().filter(|look| look.state.is_uninterruptible)?;
            let ms = u64::try_from((now - look.since).as_millis()).ok()?;
            let (comm, function) = (seen.comm.clone(), look.function.clone());
            let hung = HungTask { pid: id.pid, comm, ms, function };
            (id.array == array && look.at > look.since).then_some((seen.is_kernel, hung))
        };
        let mut hung: Vec<(bool, HungTask)> = self.tasks.iter().filter_map(one).collect();
        // A kernel thread such as jbd2 waits for the same, on behalf of the tasks.
        hung.sort_by_key(|(is_kernel, hung)| (*is_kernel, std::cmp::Reverse(hung.ms), hung.pid));
        hung.into_iter().map(|hung| hung.1).take(MAX_FACTS).collect()
    }

    /// Time asleep since the last call of an array's tasks that are no kernel threads, µs.
    pub fn take_slept(&mut self, array: u32) -> Vec<(TaskId, u64)> {
        let taken: Vec<_> = self
            .slept_us
            .iter()
            .filter(|s| s.0.array == array)
            .map(|(id, us)| (*id, *us))
            .collect();
        self.slept_us.retain(|id, _| id.array != array);
        taken
    }

    /// Time asleep of an array's tasks by name since the last call, longest first.
    pub fn take(&mut self, array: u32) -> Vec<Asleep> {
        let sums = self.sums.range_mut((array, String::new())..);
        let sums = sums.take_while(|(key, _)| key.0 == array).map(|(_, sum)| std::mem::take(sum));
        // Of kernel threads, only those that commit a journal say what others wait for.
        let in_table = |f: &String| WAITS_IN.iter().any(|known| known.0 == f);
        let tells =
            |a: &Asleep| !a.is_kernel || a.comm.starts_with("jbd2/") || a.ms.keys().any(in_table);
        let mut taken: Vec<Asleep> =
            sums.filter(|a| tells(a) && (a.total_ms() > 0 || a.sleeps > 0)).collect();
        self.sums.retain(|key, _| key.0 != array);
        taken.sort_by_key(|a| (std::cmp::Reverse(a.total_ms()), a.comm.clone()));
        taken.truncate(2 * MAX_FACTS);
        taken
    }
}

/// The first of [`WAITS_IN`] on the stack of a task, else the innermost function.
fn function(sys: &Sys, pid: u32) -> String {
    let stack = raised(|| task::stack(sys, pid));
    let known = WAITS_IN.iter().map(|known| known.0);
    let mut known = known.filter(|f| stack.iter().any(|on| on.starts_with(f)));
    let innermost = || stack.first().cloned().unwrap_or_default();
    known.next().map_or_else(innermost, str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{ALLOCATOR, PERIOD, Sleepers};
    use crate::analysis::counters::{THROTTLED, TaskId};
    use crate::machine::tests::tree::Tree;

    fn status(tree: &Tree, state: &str, switches: u64) {
        let text = format!("Name:\tx\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches}\n");
        tree.write("proc/7/status", &text);
    }

    #[test]
    fn what_a_task_sleeps_in_is_counted() {
        let tree = Tree::new("");
        tree.write("proc/7/comm", "postgres\n");
        let stack = "[<0>] io_schedule+0x1/0x2\n[<0>] add_transaction_credits+0x1/0x2\n";
        tree.write("proc/7/stack", stack);
        status(&tree, "D (disk sleep)", 10);
        let (sys, mut sleepers, mut now) = (tree.sys(), Sleepers::default(), Instant::now());
        let id = TaskId { array: 1, pid: 7 };
        let throttled = TaskId { array: 1, pid: THROTTLED | 7 };
        sleepers.add([id, throttled, TaskId { array: 1, pid: 8 }], now);
        assert_eq!(sleepers.next(now), Some(Duration::ZERO));
        for _ in 0..3 {
            sleepers.look(&sys, now);
            sleepers.look(&sys, now); // it is not time
            now += PERIOD;
        }
        let hung = sleepers.hung(1, now);
        let longest: Vec<_> = hung.iter().map(|h| (h.pid, h.ms, &h.function[..])).collect();
        assert_eq!(longest, [(7, 600, "add_transaction_credits")]);
        assert!(sleepers.hung(0, now).is_empty());
        // It has run, and sleeps again; then it runs.
        status(&tree, "D (disk sleep)", 15);
        sleepers.look(&sys, now);
        assert!(sleepers.hung(1, now).is_empty());
        status(&tree, "R (running)", 16);
        now += PERIOD;
        sleepers.look(&sys, now);
        assert_eq!(sleepers.busy, None);
        sleepers.add_samples(&[(7, 49), (8, 1)].into());
        // Four looks in uninterruptible sleep; time on a CPU is not asleep.
        assert!(sleepers.take_slept(0).is_empty());
        assert_eq!(sleepers.take_slept(1), [(id, 800_000)]);
        assert!(sleepers.take_slept(1).is_empty());
        assert!(sleepers.take(0).is_empty());
        let taken = sleepers.take(1);
        let [asleep] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!((&asleep.comm[..], asleep.is_kernel, asleep.sleeps), ("postgres", false, 6));
        assert_eq!(asleep.ms["add_transaction_credits"], 800);
        assert_eq!(asleep.ms[ALLOCATOR], 1000);
        assert!(sleepers.take(1).is_empty());
        // A task that does nothing more is forgotten.
        now += super::RETENTION;
        sleepers.look(&sys, now);
        assert_eq!(sleepers.next(now), None);
    }

    /// A sample of one of many tasks stands for the time since the look before; kernel threads wait
    /// for others.
    #[test]
    fn long_gaps_between_samples_count_in_full() {
        let tree = Tree::new("");
        for (pid, flags) in [(7, 0), (8, 0x20_0000)] {
            tree.write(format!("proc/{pid}/stat"), format!("{pid} (x) D 1 7 7 0 -1 {flags} 0"));
            let text = "State:\tD (disk sleep)\nvoluntary_ctxt_switches:\t1\n";
            tree.write(format!("proc/{pid}/status"), text);
            tree.write(format!("proc/{pid}/comm"), "x\n");
        }
        let (sys, mut sleepers, now) = (tree.sys(), Sleepers::default(), Instant::now());
        let [own, kernel] = [7, 8].map(|pid| TaskId { array: 0, pid });
        sleepers.add([own, kernel], now);
        sleepers.look(&sys, now);
        sleepers.look(&sys, now + Duration::from_secs(4));
        assert_eq!(sleepers.take_slept(0), [(own, 4_200_000)]);
        sleepers.look(&sys, now + Duration::from_secs(3600));
        assert_eq!(sleepers.take_slept(0), [(own, 10_000_000)]);
    }

    #[test]
    fn all_of_many_tasks_are_looked_at() {
        let tree = Tree::new("");
        for pid in 0..40 {
            let at = |file: &str| format!("proc/{pid}/{file}");
            tree.write(at("status"), "State:\tD\nvoluntary_ctxt_switches:\t1\n");
            tree.write(at("comm"), format!("task{pid}\n"));
        }
        let (sys, mut sleepers, mut now) = (tree.sys(), Sleepers::default(), Instant::now());
        sleepers.add((0..40).map(|pid| TaskId { array: 0, pid }), now);
        for _ in 0..3 {
            sleepers.look(&sys, now);
            now += PERIOD;
        }
        assert_eq!(sleepers.sums.len(), 40);
    }
}
