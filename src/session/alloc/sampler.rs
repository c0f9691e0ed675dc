//! Intervals of `raidtrace alloc`: counts of the allocator's hooks, CPU samples, ext4's own
//! counters, and bitmap reads of the members.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::bitmaps::bitmap_reads;
use super::fs_reader::{FsReader, considered, filesystems, mounted, no_ext4};
use super::hooks::{Loading, load};
use crate::advice::kernel::Kernel;
use crate::analysis::alloc::figures::{
    BITMAPS, CPU, FIGURES, FRAGMENTATION, GROUPS, MEMBERS, REQUESTS, is_slow,
};
use crate::analysis::alloc::fold::{AllocDelta, AllocFold};
use crate::analysis::alloc::reason;
use crate::analysis::alloc::{
    AllocContext, AllocCounters, AllocSnapshot, FigureSource, FsAlloc, MbCount,
};
use crate::analysis::counters::TaskId;
use crate::analysis::cube::Amount as _;
use crate::analysis::profile::Profile;
use crate::analysis::snapshot::Snapshot;
use crate::machine::mballoc::MbStats;
use crate::machine::topology::Topology;
use crate::machine::{Sys, mballoc};
use crate::probe::alloc::{AllocFacts, AllocProbe};
use crate::session::Session;
use crate::session::cpus::CpuSampler;

/// Groups considered per second above which hooks stop counting them.
const MAX_CALLS: f64 = 5e6;
/// With fewer requests in an interval, the speed of allocations is unknown, and mb_stats is enabled
/// in the next interval too.
const MIN_REQUESTS: u64 = 100;
/// Interval between drains of the sample buffer.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of checks against [`MAX_CALLS`].
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of tasks whose role is looked up, and of files whose path is looked up, per
/// filesystem. More than fit on a screen.
const MAX_NAMED: usize = 64;

/// Options of `raidtrace alloc`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocOptions {
    /// CPU samples per second; 0 for none.
    pub hertz: u32,
    /// Keep all stacks, not only those in ext4, jbd2, md and the block layer.
    pub all: bool,
    /// Enable ext4's mb_stats.
    pub mb_stats: bool,
    /// Read every group's free extents once.
    pub groups: bool,
    /// Count groups even above [`MAX_CALLS`].
    pub keep_counting: bool,
}

/// Attached hooks and open files. The figures of the members come from a session with the same
/// intervals.
pub struct AllocSampler {
    sys: Sys,
    options: AllocOptions,
    readers: Vec<FsReader>,
    facts: AllocFacts,
    probe: Option<AllocProbe>,
    /// Hooks for other filesystems, which are being loaded.
    loading: Option<Loading>,
    fold: AllocFold,
    cpus: Option<CpuSampler>,
    /// CPU samples of the current interval, of the last one, and since the start.
    profile: Profile,
    last: Profile,
    whole: Profile,
    /// Start of the interval.
    started: Instant,
    /// Time of the last drain.
    drained: Instant,
    /// Time and number of calls at the last check.
    calls: (Instant, u64),
    known: BTreeMap<u32, AllocContext>,
    /// Mounted ext4 filesystems that are not sampled.
    others: u64,
    /// Notes for the current filesystems.
    notes: Vec<String>,
    /// Notes for the whole run.
    lasting: Vec<String>,
}

impl AllocSampler {
    /// Attaches the hooks for the ext4 filesystems of a session for `targets`. Call
    /// [`AllocSampler::begin`] next.
    ///
    /// # Errors
    /// There is no mounted ext4, or no figure is available.
    pub fn start(targets: &[String], topology: &Topology, options: AllocOptions) -> Result<Self> {
        let sys = Sys::live();
        let found = filesystems(&sys, topology);
        if found.is_empty() {
            bail!(no_ext4(targets, topology));
        }
        let left_on = mballoc::restore(&sys);
        let mut sampler = Self {
            sys,
            options,
            readers: Vec::new(),
            facts: AllocFacts::gather(),
            probe: None,
            loading: None,
            fold: AllocFold::new(AllocCounters::default()),
            cpus: None,
            profile: Profile::default(),
            last: Profile::default(),
            whole: Profile::default(),
            started: Instant::now(),
            drained: Instant::now(),
            calls: (Instant::now(), 0),
            known: BTreeMap::new(),
            others: 0,
            notes: Vec::new(),
            lasting: left_on,
        };
        let hooks = load(&sampler.facts, &found);
        sampler.set_filesystems(found, hooks)?;
        // After attaching the hooks, so that their trampolines are among the kernel's symbols.
        if options.hertz > 0 {
            match CpuSampler::start(options.hertz, options.all) {
                Ok(cpus) => sampler.cpus = Some(cpus),
                Err(why) => sampler.lasting.push(why),
            }
        }
        if sampler.probe.is_none() && sampler.cpus.is_none() {
            let notes: Vec<String> = sampler.notes().collect();
            bail!("{}", notes.join("; "));
        }
        Ok(sampler)
    }

    /// Replaces the sampled filesystems and their hooks. Drops earlier counts.
    fn set_filesystems(&mut self, found: Vec<FsAlloc>, hooks: Result<AllocProbe>) -> Result<()> {
        self.notes.clear();
        let AllocOptions { mb_stats, groups, .. } = self.options;
        // Keep the readers of filesystems that stay. Dropping the others restores mb_stats.
        let mut before = std::mem::take(&mut self.readers);
        for fs in found {
            let same = before.iter().position(|p| p.fs.dev == fs.dev && p.fs.name == fs.name);
            self.readers.push(match same {
                Some(at) => before.swap_remove(at).with(fs),
                None => FsReader::new(&self.sys, fs, mb_stats, groups, &mut self.notes),
            });
        }
        drop(before);
        let before = std::mem::take(&mut self.probe);
        match hooks {
            Ok(mut probe) => {
                probe.account();
                self.probe = Some(probe);
            }
            Err(why) => self.notes.push(format!("no allocation figures: {why:#}")),
        }
        // Detaching takes long.
        thread::spawn(move || drop(before));
        let kernel = Kernel::running(&self.sys);
        // `Kernel::running` checks this symbol only on kernels that the doctor warns about.
        let xarrays = self.facts.function("ext4_mb_scan_groups_xa_range");
        let unhooked = (self.sources().get(GROUPS) == Some(&FigureSource::None))
            .then(|| "no hook counts them on this kernel".to_owned());
        let known = |reader: &FsReader| AllocContext {
            kernel: kernel.release.clone(),
            new_allocator: kernel.new_allocator || xarrays.symbol,
            has_lists: Some(reader.has_lists(&self.sys)),
            unhooked: unhooked.clone(),
            alone: mounted(&self.sys) == self.readers.len(),
        };
        if unhooked.is_some() && !mb_stats {
            self.notes.push(
                "ext4 counts the groups considered: /sys/fs/ext4/DEV/mb_stats is enabled for 2 s \
                 of each interval, unless allocations are fast"
                    .to_owned(),
            );
        }
        self.known = self.readers.iter().map(|r| (r.fs.dev, known(r))).collect();
        self.others = mounted(&self.sys).saturating_sub(self.readers.len()) as u64;
        if unhooked.is_some() {
            // The speed of allocations is not known yet.
            self.slice(|_| true);
        }
        Ok(())
    }

    /// Enables mb_stats for a slice of the next interval on slow filesystems.
    fn slice(&mut self, slow: impl Fn(u32) -> bool) {
        for reader in self.readers.iter_mut().filter(|r| slow(r.fs.dev)) {
            let name = reader.fs.name.clone();
            if let Err(e) = reader.begin_slice(&self.sys) {
                let note = format!(
                    "{name}: groups considered are unknown: /sys/fs/ext4/{name}/mb_stats: {e}"
                );
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
    }

    /// Begins an interval. Drops earlier counts.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub fn begin(&mut self) -> Result<()> {
        if let Some(cpus) = &mut self.cpus {
            cpus.drain(&mut self.profile)?;
        }
        let _ = self.profile.take();
        if let Some(probe) = &mut self.probe {
            let counters = probe.read()?;
            self.calls = (Instant::now(), counters.calls);
            self.fold = AllocFold::new(counters);
        }
        for reader in &mut self.readers {
            reader.begin(&self.sys);
        }
        self.started = Instant::now();
        Ok(())
    }

    /// True if CPUs are sampled and the kernel's symbols are readable.
    fn has_names(&self) -> bool {
        self.cpus.as_ref().is_some_and(CpuSampler::named)
    }

    /// Source of each figure of [`crate::analysis::alloc::figures`].
    fn sources(&self) -> BTreeMap<&'static str, FigureSource> {
        let mut hooks = self.probe.as_ref().map(AllocProbe::sources).unwrap_or_default();
        // The histogram ("groups") needs two hooks, but the number of groups considered ("looked")
        // needs only one. GROUPS therefore takes the source of "looked".
        if let Some(looked) = hooks.remove("looked") {
            hooks.insert(GROUPS, looked);
        }
        // These figures come in pairs: one without the other is meaningless.
        for (figure, with) in [(REQUESTS, "given"), (BITMAPS, "buddies")] {
            if hooks.get(with) == Some(&FigureSource::None) {
                hooks.insert(figure, FigureSource::None);
            }
        }
        let source = |name| (name, hooks.get(name).copied().unwrap_or(FigureSource::None));
        let mut sources: BTreeMap<_, _> = FIGURES.into_iter().map(source).collect();
        sources.insert(MEMBERS, FigureSource::Tracepoint);
        if self.has_names() {
            sources.insert(CPU, FigureSource::Samples);
        }
        sources
    }

    /// Drains the CPU samples and detaches hooks that cost too much. Call this at least every
    /// [`DRAIN_INTERVAL`].
    pub fn drain(&mut self) -> Result<()> {
        if self.drained.elapsed() < DRAIN_INTERVAL {
            return Ok(());
        }
        self.drained = Instant::now();
        self.drain_now()
    }

    fn drain_now(&mut self) -> Result<()> {
        if let Some(cpus) = &mut self.cpus {
            cpus.drain(&mut self.profile)?;
        }
        for reader in &mut self.readers {
            reader.tick(&self.sys);
        }
        let (since, before) = self.calls;
        let passed = since.elapsed();
        if passed >= CHECK_INTERVAL
            && let Some(probe) = &mut self.probe
        {
            let calls = probe.calls()?;
            self.calls = (Instant::now(), calls);
            let rate = calls.saturating_sub(before) as f64 / passed.as_secs_f64();
            if rate > MAX_CALLS && !self.options.keep_counting {
                probe.back_off();
                self.notes.push(format!(
                    "{:.1} million groups per second are considered: hooks no longer count them, \
                     because that costs too much; ext4 counts them for 2 s of an interval, and \
                     CPU samples continue (--keep-counting keeps the hooks)",
                    rate / 1e6
                ));
            }
        }
        Ok(())
    }

    /// Limits of this kernel and host.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let probe = self.probe.iter().flat_map(AllocProbe::notes);
        let cpus = self.cpus.iter().flat_map(CpuSampler::notes);
        self.lasting.iter().chain(&self.notes).cloned().chain(probe).chain(cpus)
    }

    /// CPU samples of the last interval.
    pub fn last(&self) -> &Profile {
        &self.last
    }

    /// CPU samples since the start.
    pub fn whole(&self) -> &Profile {
        &self.whole
    }

    /// Ends the interval. `disks` has the session's figures of the same interval.
    pub fn interval(&mut self, session: &mut Session, disks: &Snapshot) -> Result<AllocSnapshot> {
        self.drain_now()?;
        // Read mb_stats right before AllocProbe::read(), which begins with the hooks' counts: the
        // two counts are compared, and every search between the two reads adds to their difference.
        let by_ext4: Vec<Option<MbStats>> =
            self.readers.iter_mut().map(|reader| reader.counted(&self.sys)).collect();
        let step = match &mut self.probe {
            Some(probe) => self.fold.step(probe.read()?),
            None => AllocDelta::default(),
        };
        let (time, now) = (jiff::Timestamp::now(), Instant::now());
        let interval = now - std::mem::replace(&mut self.started, now);
        let mut profile = self.profile.take();
        if let Some(cpus) = &self.cpus {
            cpus.fill(&mut profile, interval);
        }
        self.whole.merge(&profile);
        // Without symbols the allocator's share of the CPU is unknown, not 0.
        let named = self.has_names();
        let mut sources = self.sources();
        let lost = step.lost + profile.lost() + disks.lost.events();
        let mut overhead = step.overhead;
        overhead.add(&disks.overhead);
        let filesystems = self.filesystems(step, by_ext4, (&mut *session, disks), &mut sources);
        let (cpus, on_cpu) = match named {
            true => (profile.cpus(), profile.on_cpu()),
            false => Default::default(),
        };
        let mut snapshot = AllocSnapshot {
            time,
            interval,
            filesystems,
            criteria: self.facts.criteria(),
            cpu: named.then(|| profile.cpu()),
            cpus,
            on_cpu,
            others: self.others,
            sources,
            lost,
            overhead,
            notes: joined([self.notes().collect(), session.notes()]),
        };
        reason::evaluate(&mut snapshot);
        if self.sources().get(GROUPS) == Some(&FigureSource::None) {
            let seconds = snapshot.interval.as_secs_f64();
            let slow: Vec<u32> = snapshot
                .filesystems
                .iter()
                .filter(|fs| is_slow(fs, seconds) || fs.counts.requests < MIN_REQUESTS)
                .map(|fs| fs.dev)
                .collect();
            self.slice(|dev| slow.contains(&dev));
        }
        self.last = profile;
        self.update_filesystems(session.topology())?;
        Ok(snapshot)
    }

    fn filesystems(
        &mut self,
        mut step: AllocDelta,
        mb_stats: Vec<Option<MbStats>>,
        (session, disks): (&mut Session, &Snapshot),
        sources: &mut BTreeMap<&'static str, FigureSource>,
    ) -> Vec<FsAlloc> {
        let hooked = sources.get(GROUPS) != Some(&FigureSource::None);
        let by_ext4 = !hooked && mb_stats.iter().any(Option::is_some);
        if by_ext4 {
            sources.insert(GROUPS, FigureSource::MbStats);
        }
        let mut all = Vec::new();
        for (reader, stats) in self.readers.iter_mut().zip(mb_stats) {
            let counted = match step.filesystems.remove(&reader.fs.dev) {
                Some(counted) => counted,
                // The hooks count a limited number of filesystems; a note reports this.
                None if self.probe.is_some() => continue,
                None => FsAlloc::default(),
            };
            let mut fs = FsAlloc {
                counts: counted.counts,
                tasks: counted.tasks,
                files: counted.files,
                searching: counted.searching,
                known: self.known.get(&reader.fs.dev).cloned().unwrap_or_default(),
                ..reader.now(&self.sys)
            };
            if let Some(source) = reader.fragmentation_source(&fs) {
                sources.insert(FRAGMENTATION, source);
            }
            match stats {
                Some(stats) if by_ext4 => {
                    fs.counts.looked = considered(&stats);
                    fs.counts.hits = stats.hits();
                }
                Some(stats) if hooked => {
                    fs.mb_stats =
                        Some(MbCount { searches: stats.hits(), groups: stats.considered() });
                }
                _ => {}
            }
            all.push(fs);
        }
        for fs in &mut all {
            fs.members = bitmap_reads(session.topology(), fs.dev, disks);
            let arrays = &session.topology().host.arrays;
            let on =
                |a: &crate::machine::Array| a.filesystems.iter().any(|f| f.dev.kernel() == fs.dev);
            let array = arrays.iter().position(on).unwrap_or_default() as u32;
            for task in fs.tasks.iter_mut().take(MAX_NAMED) {
                let pid = task.pid;
                let info = session.task_info(TaskId { array, pid });
                task.role = info.role;
                if !info.comm.is_empty() {
                    task.comm = info.comm;
                }
            }
            let ids: Vec<_> = fs.files.iter().take(MAX_NAMED).map(|f| f.id).collect();
            let mut locations = session.locate(ids);
            for file in &mut fs.files {
                file.location = locations.remove(&file.id).unwrap_or_default();
            }
        }
        all
    }

    /// Updates the filesystems after mounts, unmounts and changes of devices.
    fn update_filesystems(&mut self, topology: &Topology) -> Result<()> {
        if let Some(loaded) = self.loading.take_if(|l| l.is_finished()) {
            let (found, hooks, names) = loaded.finish()?;
            self.set_filesystems(found, hooks)?;
            if let Some(cpus) = &mut self.cpus {
                cpus.set_names(names);
            }
            return self.begin();
        }
        let now = filesystems(&self.sys, topology);
        let is_same = |(a, b): (&FsAlloc, &FsReader)| a.dev == b.fs.dev && a.name == b.fs.name;
        if now.len() == self.readers.len() && now.iter().zip(&self.readers).all(is_same) {
            // The mount point or the size may have changed.
            for (fs, reader) in now.into_iter().zip(&mut self.readers) {
                reader.fs = fs;
            }
            return Ok(());
        }
        if self.loading.is_none() {
            self.loading = Some(Loading::start(self.facts.clone(), now));
        }
        Ok(())
    }
}

/// All notes, without duplicates.
pub fn joined(notes: [Vec<String>; 2]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for note in notes.into_iter().flatten() {
        if !all.contains(&note) {
            all.push(note);
        }
    }
    all
}
