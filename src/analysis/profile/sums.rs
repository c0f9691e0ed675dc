//! Sums of samples by CPU, thread and stack. Memory is bounded: beyond the limits, samples of new
//! threads and stacks are only counted.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::filter;
use crate::analysis::alloc::Cpu;
use crate::analysis::cube::{Amount as _, Cube, amount};

/// Maximum number of stacks (one per comm and stack), about 500 bytes each.
const MAX_STACKS: usize = 1 << 14;
/// Maximum number of threads.
const MAX_THREADS: usize = 1 << 14;

/// Functions from the outermost to the innermost, with a hash for fast comparison.
#[derive(Debug)]
pub struct ProfileStack {
    names: Box<[Arc<str>]>,
    hash: u64,
    /// True if it contains the allocator.
    pub(crate) allocator: bool,
    /// True if it contains a function of ext4, jbd2, md or the block layer.
    pub(crate) storage: bool,
    /// True if a tracing hook is running instead of the function that it is attached to.
    hook: bool,
}

impl ProfileStack {
    /// A stack of functions with their modules, the outermost first.
    pub fn new<'a>(functions: impl IntoIterator<Item = (Arc<str>, Option<&'a str>)>) -> Self {
        let (names, modules): (Vec<Arc<str>>, Vec<_>) = functions.into_iter().unzip();
        let both = names.iter().map(|n| &**n).zip(modules);
        let (allocator, storage) = filter::contains(both.clone());
        let last = both
            .enumerate()
            .filter(|(_, (n, m))| filter::area(n, *m).is_some())
            .map(|(i, _)| i + 1)
            .next_back();
        // fexit calls the function from its trampoline, so only hooks below the last function of
        // the storage stack are running.
        let hook = names[last.unwrap_or(0)..].iter().any(|n| filter::is_hook(n));
        Self { hook, ..Self::from_names(names, allocator && !hook, storage) }
    }

    /// A stack with a mark instead of functions: `[user]`.
    pub(crate) fn mark(name: &str) -> Self {
        Self::from_names(vec![name.into()], false, false)
    }

    fn from_names(names: Vec<Arc<str>>, allocator: bool, storage: bool) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        names.hash(&mut hasher);
        Self { hook: false, names: names.into(), hash: hasher.finish(), allocator, storage }
    }

    /// Names, the outermost first; unknown functions are addresses.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }
}

impl PartialEq for ProfileStack {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.hash == other.hash && self.names == other.names
    }
}

impl Eq for ProfileStack {}

impl Hash for ProfileStack {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Busy samples of a CPU or a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Busy {
    all: u64,
    allocator: u64,
    hooks: u64,
    /// Samples in the allocator by innermost function.
    innermost: Cube<Arc<str>, u64>,
}

amount!(Busy { all, allocator, hooks, innermost });

impl Busy {
    fn count(&mut self, stack: &ProfileStack, samples: u64) {
        self.all += samples;
        self.hooks += if stack.hook { samples } else { 0 };
        if stack.allocator {
            self.allocator += samples;
            if let Some(name) = stack.names.last() {
                self.innermost.add(Arc::clone(name), &samples);
            }
        }
    }

    fn cpu(&self, possible: u64) -> Cpu {
        let hottest = self
            .innermost
            .iter()
            .max_by_key(|(name, samples)| (**samples, std::cmp::Reverse(*name)));
        Cpu {
            possible,
            busy: self.all,
            allocator: self.allocator,
            hooks: self.hooks,
            hottest: hottest.map(|(name, samples)| (name.to_string(), *samples)),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CpuSamples {
    idle: u64,
    lost: u64,
    busy: Busy,
}

impl CpuSamples {
    /// Number of timer ticks. Lost samples were busy.
    fn ticks(&self) -> u64 {
        self.idle + self.lost + self.busy.all
    }

    fn cpu(&self) -> Cpu {
        let mut cpu = self.busy.cpu(self.ticks());
        cpu.busy += self.lost;
        cpu
    }
}

/// Samples of one or more intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    cpus: BTreeMap<u32, CpuSamples>,
    /// Latest comm and samples by thread id.
    threads: HashMap<u32, (Vec<u8>, Busy)>,
    /// Samples of threads beyond [`MAX_THREADS`].
    unlisted: u64,
    stacks: HashMap<(Vec<u8>, Arc<ProfileStack>), u64>,
    /// Samples of stacks beyond [`MAX_STACKS`].
    other: u64,
}

impl Profile {
    /// Adds a sample of a thread on a CPU, and its stack if `keep` is true.
    pub fn sample(
        &mut self,
        cpu: u32,
        pid: u32,
        comm: &[u8],
        stack: &Arc<ProfileStack>,
        keep: bool,
    ) {
        self.cpus.entry(cpu).or_default().busy.count(stack, 1);
        match self.thread(pid) {
            Some((name, busy)) => {
                comm.clone_into(name);
                busy.count(stack, 1);
            }
            None => self.unlisted += 1,
        }
        if keep {
            self.add_stack(comm, stack, 1);
        }
    }

    /// Adds idle samples of a CPU, and busy samples that were lost because the buffer was full.
    pub fn ticks(&mut self, cpu: u32, idle: u64, lost: u64) {
        let cpu = self.cpus.entry(cpu).or_default();
        cpu.idle += idle;
        cpu.lost += lost;
    }

    /// Counts missing samples as idle, up to `ticks`: the timer of an idle CPU may be stopped.
    pub fn fill(&mut self, cpu: u32, ticks: u64) {
        let cpu = self.cpus.entry(cpu).or_default();
        cpu.idle += ticks.saturating_sub(cpu.ticks());
    }

    /// Entry of a thread; `None` for a new one beyond [`MAX_THREADS`].
    fn thread(&mut self, pid: u32) -> Option<&mut (Vec<u8>, Busy)> {
        let room = self.threads.len() < MAX_THREADS;
        if !room && !self.threads.contains_key(&pid) {
            return None;
        }
        Some(self.threads.entry(pid).or_default())
    }

    /// Adds samples of a stack, to no CPU and no thread.
    pub fn add_stack(&mut self, comm: &[u8], stack: &Arc<ProfileStack>, samples: u64) {
        let key = (comm.to_vec(), Arc::clone(stack));
        if let Some(n) = self.stacks.get_mut(&key) {
            *n += samples;
        } else if self.stacks.len() < MAX_STACKS {
            self.stacks.insert(key, samples);
        } else {
            self.other += samples;
        }
    }

    /// Adds samples whose stack was not kept.
    pub fn add_other(&mut self, samples: u64) {
        self.other += samples;
    }

    /// Takes the samples, leaving an empty profile.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Adds the samples of another profile.
    pub fn merge(&mut self, other: &Self) {
        for (&cpu, its) in &other.cpus {
            self.ticks(cpu, its.idle, its.lost);
            self.cpus.entry(cpu).or_default().busy.add(&its.busy);
        }
        self.unlisted += other.unlisted;
        for (&pid, (comm, its)) in &other.threads {
            match self.thread(pid) {
                Some((name, busy)) => {
                    name.clone_from(comm);
                    busy.add(its);
                }
                None => self.unlisted += its.all,
            }
        }
        self.other += other.other;
        for ((comm, stack), &samples) in &other.stacks {
            self.add_stack(comm, stack, samples);
        }
    }

    /// Sum over all CPUs. `possible` is the number of ticks: idle, busy, lost, and those added by
    /// [`Profile::fill`].
    pub fn cpu(&self) -> Cpu {
        let mut all = CpuSamples::default();
        for cpu in self.cpus.values() {
            all.idle += cpu.idle;
            all.lost += cpu.lost;
            all.busy.add(&cpu.busy);
        }
        all.cpu()
    }

    /// CPUs that were busy, by number.
    pub fn cpus(&self) -> BTreeMap<u32, Cpu> {
        let each = self.cpus.iter().map(|(&n, cpu)| (n, cpu.cpu()));
        each.filter(|(_, cpu)| cpu.busy > 0).collect()
    }

    /// Threads: id, comm (untrusted) and samples, those with most in the allocator first, then the
    /// busiest. `possible` is the number of ticks of one CPU, the maximum of a thread. Id 0:
    /// softirqs on otherwise idle CPUs.
    pub fn on_cpu(&self) -> Vec<(u32, Vec<u8>, Cpu)> {
        let one = self.cpus.values().map(CpuSamples::ticks).max().unwrap_or(0);
        let mut all: Vec<_> = self
            .threads
            .iter()
            .map(|(&pid, (comm, busy))| (pid, comm.clone(), busy.cpu(one)))
            .collect();
        all.sort_by_key(|(pid, _, cpu)| {
            let most = std::cmp::Reverse((cpu.allocator, cpu.busy));
            (most, *pid)
        });
        all
    }

    /// Busy samples lost because the kernel's buffer was full: included in `busy`, but in no thread
    /// and no stack.
    pub fn lost(&self) -> u64 {
        self.cpus.values().map(|cpu| cpu.lost).sum()
    }

    /// Samples of threads that are not in [`Profile::on_cpu`] because there were too many.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Stacks that were kept: comm (untrusted), stack, samples; unordered.
    pub fn stacks(&self) -> impl Iterator<Item = (&[u8], &ProfileStack, u64)> {
        self.stacks.iter().map(|((comm, stack), &samples)| (comm.as_slice(), &**stack, samples))
    }

    /// Samples whose stacks were not kept because there were too many.
    pub fn other(&self) -> u64 {
        self.other
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::{MAX_STACKS, Profile, ProfileStack};

    /// Parses `root;leaf`.
    pub fn stack(names: &str) -> Arc<ProfileStack> {
        Arc::new(ProfileStack::new(names.split(';').map(|n| (n.into(), None))))
    }

    /// A profile of samples: CPU, thread, comm, stack and count.
    pub fn of(samples: &[(u32, u32, &str, &str, u64)]) -> Profile {
        let mut profile = Profile::default();
        for &(cpu, pid, comm, names, n) in samples {
            for _ in 0..n {
                profile.sample(cpu, pid, comm.as_bytes(), &stack(names), true);
            }
        }
        profile
    }

    /// A kworker in the allocator, and a program.
    pub fn seed() -> Profile {
        let root = "ret_from_fork;kthread;worker_thread;wb_workfn;ext4_writepages;\
                    ext4_mb_new_blocks;ext4_mb_regular_allocator";
        let mut profile = of(&[
            (0, 7, "kworker/u4:1", &format!("{root};ext4_mb_good_group"), 80),
            (0, 7, "kworker/u4:1", &format!("{root};_raw_spin_lock"), 9),
            (0, 7, "kworker/u4:1", root, 1),
            (0, 9, "a;b \u{1b}\n", "do_syscall_64;vfs_read", 4),
            (1, 9, "a;b \u{1b}\n", "[user]", 6),
        ]);
        profile.ticks(0, 5, 0);
        profile.ticks(1, 92, 1);
        profile
    }

    #[test]
    fn shares_of_cpus_and_threads() {
        let profile = seed();
        let all = profile.cpu();
        assert_eq!((all.possible, all.busy, all.allocator), (198, 101, 90));
        assert_eq!(all.hottest, Some(("ext4_mb_good_group".into(), 80)));
        let cpus = profile.cpus();
        let cpu = |n| (cpus[&n].possible, cpus[&n].busy, cpus[&n].allocator);
        assert_eq!((cpu(0), cpu(1)), ((99, 94, 90), (99, 7, 0)));
        assert_eq!(cpus[&1].hottest, None);
        let threads: Vec<_> = profile
            .on_cpu()
            .into_iter()
            .map(|(pid, _, cpu)| (pid, cpu.busy, cpu.allocator, cpu.possible))
            .collect();
        assert_eq!(threads, [(7, 90, 90, 99), (9, 10, 0, 99)]);
        assert_eq!(profile.lost(), 1);
    }

    #[test]
    fn idle_cpus_are_in_the_total_but_not_listed() {
        let mut profile = seed();
        profile.ticks(2, 99, 0);
        assert_eq!(profile.cpu().possible, 297);
        assert!(!profile.cpus().contains_key(&2));
    }

    #[test]
    fn hooks_do_not_count_as_the_allocator() {
        for (names, expected) in [
            ("ext4_mb_good_group;[bpf];__bpf_tramp_enter;__rcu_read_lock", None),
            ("ext4_mb_scan_group;[bpf]", None),
            ("ext4_mb_new_blocks;__traceiter_ext4_request_blocks", None),
            (
                "ext4_mb_new_blocks;__traceiter_ext4_request_blocks;\
                 trace_event_raw_event_ext4_request_blocks",
                None,
            ),
            (
                "ext4_mb_regular_allocator;ext4_get_group_info;bpf_trampoline_6442540123;[bpf];\
                 bpf_get_prandom_u32",
                None,
            ),
            ("ext4_mb_regular_allocator;kprobe_ftrace_handler", None),
            ("ext4_mb_scan_group;[bpf];ext4_mb_good_group", Some("ext4_mb_good_group")),
            ("ext4_mb_scan_group;[bpf];ext4_mb_good_group;_raw_spin_lock", Some("_raw_spin_lock")),
            (
                "ext4_mb_init_group;bpf_trampoline_6442540123;ext4_wait_block_bitmap;\
                 out_of_line_wait_on_bit",
                Some("out_of_line_wait_on_bit"),
            ),
        ] {
            let cpu = of(&[(0, 1, "x", names, 1)]).cpu();
            let hottest = cpu.hottest.map(|(name, _)| name);
            assert_eq!(hottest.as_deref(), expected, "{names}");
            assert_eq!(cpu.allocator, u64::from(expected.is_some()), "{names}");
            assert_eq!(cpu.hooks, u64::from(expected.is_none()), "{names}");
        }
    }

    #[test]
    fn missing_ticks_are_idle() {
        let mut profile = of(&[(1, 9, "x", "f", 1)]);
        for cpu in 0..3 {
            profile.fill(cpu, 99);
        }
        assert_eq!((profile.cpu().possible, profile.cpu().busy), (297, 1));
        assert_eq!(profile.cpus()[&1].possible, 99);
        assert_eq!(profile.on_cpu()[0].2.possible, 99);
        let before = profile.clone();
        profile.fill(1, 90);
        assert_eq!(profile, before);
    }

    #[test]
    fn stacks_beyond_the_limit_are_only_counted() {
        let mut profile = Profile::default();
        for i in 0..MAX_STACKS + 10 {
            profile.sample(0, 1, b"x", &stack(&format!("f{i}")), true);
        }
        assert_eq!((profile.stacks().count(), profile.other()), (MAX_STACKS, 10));
        profile.sample(0, 1, b"x", &stack("f3"), true);
        assert_eq!(profile.other(), 10);
        let mut sum = profile.clone();
        sum.merge(&profile);
        assert_eq!(sum.other(), 20);
        let kept: u64 = sum.stacks().map(|(_, _, n)| n).sum();
        assert_eq!(kept + sum.other(), sum.cpu().busy);
    }

    #[test]
    fn threads_beyond_the_limit_are_only_counted() {
        let mut profile = Profile::default();
        for pid in 0..super::MAX_THREADS as u32 + 5 {
            profile.sample(0, pid, b"x", &stack("f"), false);
        }
        assert_eq!((profile.unlisted(), profile.on_cpu().len()), (5, super::MAX_THREADS));
        assert_eq!(profile.cpu().busy, super::MAX_THREADS as u64 + 5);
        assert_eq!(profile.stacks().count(), 0);
    }

    #[test]
    fn merged_profiles_equal_one_profile() {
        let strategy =
            proptest::collection::vec((0u32..3, 0u32..4, 0usize..3, 0usize..4, 1u64..3), 0..40);
        let comms = ["a", "b", ""];
        let stacks = ["r;ext4_mb_x", "r", "r;ext4_mb_x;leaf", "[user]"];
        proptest!(|(one in strategy.clone(), two in strategy)| {
            let name = |s: &[(u32, u32, usize, usize, u64)]| -> Vec<_> {
                // One comm per thread, as a merge does not depend on the order.
                s
                    .iter()
                    .map(|&(c, p, _, k, n)| (c, p, comms[p as usize % 3], stacks[k], n))
                    .collect()
            };
            let (one, two) = (name(&one), name(&two));
            let mut sum = of(&one);
            let mut second = of(&two);
            sum.merge(&second.take());
            prop_assert_eq!(&second, &Profile::default());
            let both: Vec<_> = one.into_iter().chain(two).collect();
            prop_assert_eq!(sum, of(&both));
        });
    }
}
