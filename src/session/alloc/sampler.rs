//! The live source of intervals: what the allocator's hooks count, what the CPUs do, what ext4 says of itself, and what the
//! members read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::places::{Place, filesystems, looked, mounted};
use crate::advice::kernel::Kernel;
use crate::analysis::alloc::figures::{
    BITMAPS, CPU, FIGURES, FRAGMENTATION, GROUPS, MEMBERS, REQUESTS, is_slow,
};
use crate::analysis::alloc::fold::{Fold, Step};
use crate::analysis::alloc::reason;
use crate::analysis::alloc::{AllocCounters, AllocSnapshot, FsAlloc, Known, MbCount, Source};
use crate::analysis::counters::TaskId;
use crate::analysis::hist::Hist;
use crate::analysis::profile::Profile;
use crate::analysis::snapshot::Snapshot;
use crate::machine::mballoc::MbStats;
use crate::machine::{Sys, mballoc};
use crate::origin::{Op, Origin};
use crate::probe::alloc::{AllocFacts, AllocProbe};
use crate::session::cpus::Sampler as Cpus;
use crate::session::sampler::Sampler as Disks;

/// Groups considered a second from which counting them is given up.
const CALLS: f64 = 5e6;
/// Requests of an interval that are no measure of how quick they are: ext4 is to count groups in the next one too.
const FEW: u64 = 100;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Tasks and files of a filesystem whose role and path are looked up: more than a screen has.
const NAMED: usize = 64;

/// What to look at, and what may be changed for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// Samples a second and CPU; 0: none.
    pub hertz: u32,
    /// All stacks, not only those in ext4, jbd2, md and the block layer.
    pub all: bool,
    /// Have ext4 count too.
    pub mb_stats: bool,
    /// Read every group's free extents once.
    pub groups: bool,
    /// Count groups however many are looked at.
    pub keep_counting: bool,
}

/// Attached programs and open files.
pub struct Sampler {
    sys: Sys,
    wish: Wish,
    disks: Disks,
    places: Vec<Place>,
    facts: AllocFacts,
    probe: Option<AllocProbe>,
    fold: Fold,
    cpus: Option<Cpus>,
    /// Samples of the interval, and since the start.
    profile: Profile,
    whole: Profile,
    /// When the interval began.
    begun: Instant,
    /// Calls when they were last looked at.
    calls: (Instant, u64),
    known: BTreeMap<u32, Known>,
    /// Mounted ext4 filesystems that are not looked at.
    others: u64,
    /// Of the filesystems that are looked at now, and of all the time.
    notes: Vec<String>,
    lasting: Vec<String>,
}

impl Sampler {
    /// Surveys, loads and attaches. After it returns, nothing is missed.
    ///
    /// # Errors
    /// No ext4 among the targets, or nothing at all can be shown.
    pub fn start(targets: &[String], wish: Wish) -> Result<Self> {
        let sys = Sys::live();
        let mut disks = Disks::start(Sys::live(), targets, true, crate::probe::Dirtied::No)?;
        let found = filesystems(&sys, disks.live().topology());
        if found.is_empty() {
            bail!(
                "no mounted ext4 {}: raidtrace alloc watches its allocator; name a mount point, or an array, disk or partition \
                 that holds one",
                if targets.is_empty() {
                    "here".to_owned()
                } else {
                    format!("on {}", targets.join(", "))
                }
            );
        }
        let left_on: Vec<String> = mballoc::restore(&sys)
            .into_iter()
            .map(|name| {
                format!(
                    "{name}: mb_stats was left on by a raidtrace that was killed: it is off again"
                )
            })
            .collect();
        let mut sampler = Self {
            sys,
            wish,
            disks,
            places: Vec::new(),
            facts: AllocFacts::gather(),
            probe: None,
            fold: Fold::new(AllocCounters::default()),
            cpus: None,
            profile: Profile::default(),
            whole: Profile::default(),
            begun: Instant::now(),
            calls: (Instant::now(), 0),
            known: BTreeMap::new(),
            others: 0,
            notes: Vec::new(),
            lasting: left_on,
        };
        sampler.look_at(found)?;
        // Behind the hooks, whose trampolines are among the kernel's symbols by now.
        if wish.hertz > 0 {
            match Cpus::start(wish.hertz, wish.all) {
                Ok(cpus) => sampler.cpus = Some(cpus),
                Err(why) => sampler.lasting.push(why),
            }
        }
        if sampler.probe.is_none() && sampler.cpus.is_none() {
            bail!("{}", sampler.notes().join("; "));
        }
        sampler.begin()?;
        Ok(sampler)
    }

    /// Begins with these filesystems. What was counted until now is not shown.
    fn look_at(&mut self, found: Vec<FsAlloc>) -> Result<()> {
        self.notes.clear();
        let Wish {
            mb_stats, groups, ..
        } = self.wish;
        // Those that stay keep what was read of them; the switches of those that go are put back.
        let mut before = std::mem::take(&mut self.places);
        for fs in found {
            let same = before
                .iter()
                .position(|p| p.fs.dev == fs.dev && p.fs.name == fs.name);
            self.places.push(match same {
                Some(at) => before.swap_remove(at).with(fs),
                None => Place::new(&self.sys, fs, mb_stats, groups, &mut self.notes),
            });
        }
        drop(before);
        let devs: Vec<u32> = self.places.iter().map(|p| p.fs.dev).collect();
        self.probe = None;
        match AllocProbe::start_with(&self.facts, &devs) {
            Ok(mut probe) => {
                probe.account();
                self.probe = Some(probe);
            }
            Err(why) => self
                .notes
                .push(format!("no figures of allocations: {why:#}")),
        }
        if let Some(cpus) = &mut self.cpus {
            cpus.name_anew();
        }
        let kernel = Kernel::running(&self.sys);
        // Asked by `gather` only where the doctor has to know.
        let xarrays = self.facts.function("ext4_mb_scan_groups_xa_range");
        let unhooked = (self.sources().get(GROUPS) == Some(&Source::None))
            .then(|| "no hook counts them on this kernel".to_owned());
        let known = |place: &Place| Known {
            kernel: kernel.release.clone(),
            new_allocator: kernel.new_allocator || xarrays.symbol,
            has_lists: Some(place.has_lists(&self.sys)),
            unhooked: unhooked.clone(),
            alone: mounted(&self.sys) == self.places.len(),
        };
        if unhooked.is_some() && !mb_stats {
            self.notes.push(
                "groups considered are counted by ext4 (/sys/fs/ext4/DEV/mb_stats), which is turned on for 2 s of an interval unless allocations are quick, and off again"
                    .to_owned(),
            );
        }
        self.known = self.places.iter().map(|p| (p.fs.dev, known(p))).collect();
        self.others = mounted(&self.sys).saturating_sub(self.places.len()) as u64;
        if unhooked.is_some() {
            // Whether they are slow is not known yet.
            self.slice(|_| true);
        }
        Ok(())
    }

    /// Has ext4 count groups for a slice of the next interval on those that are `slow`.
    fn slice(&mut self, slow: impl Fn(u32) -> bool) {
        for place in self.places.iter_mut().filter(|p| slow(p.fs.dev)) {
            let name = place.fs.name.clone();
            if let Err(e) = place.begin_slice(&self.sys) {
                let note = format!(
                    "{name}: groups considered are not known: /sys/fs/ext4/{name}/mb_stats: {e}"
                );
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
    }

    /// An interval begins now: what came before is not shown.
    fn begin(&mut self) -> Result<()> {
        if let Some(cpus) = &mut self.cpus {
            cpus.drain(&mut self.profile)?;
        }
        let _ = self.profile.take();
        self.disks.snapshot()?;
        if let Some(probe) = &mut self.probe {
            let counters = probe.read()?;
            self.calls = (Instant::now(), counters.calls);
            self.fold = Fold::new(counters);
        }
        for place in &mut self.places {
            place.begin(&self.sys);
        }
        self.begun = Instant::now();
        Ok(())
    }

    /// Where each figure is from, in the words of [`crate::analysis::alloc::figures`].
    fn sources(&self) -> BTreeMap<&'static str, Source> {
        let mut hooks = self
            .probe
            .as_ref()
            .map(AllocProbe::sources)
            .unwrap_or_default();
        // Two hooks make the histogram of groups; that they are counted is the one's alone.
        if let Some(looked) = hooks.remove("looked") {
            hooks.insert(GROUPS, looked);
        }
        // Told together: without the one, the other says nothing either.
        for (figure, with) in [(REQUESTS, "given"), (BITMAPS, "buddies")] {
            if hooks.get(with) == Some(&Source::None) {
                hooks.insert(figure, Source::None);
            }
        }
        let disks = [
            (
                CPU,
                self.cpus.as_ref().is_some_and(Cpus::named),
                Source::Samples,
            ),
            (MEMBERS, true, Source::Tracepoint),
        ];
        let others = disks
            .into_iter()
            .filter(|(_, is, _)| *is)
            .map(|(name, _, source)| (name, source));
        FIGURES
            .into_iter()
            .map(|name| (name, hooks.get(name).copied().unwrap_or(Source::None)))
            .chain(others)
            .collect()
    }

    /// To be called some ten times a second: takes the samples out of their buffer, and gives up what costs too much.
    pub fn tick(&mut self) -> Result<()> {
        if let Some(cpus) = &mut self.cpus {
            cpus.drain(&mut self.profile)?;
        }
        for place in &mut self.places {
            place.tick(&self.sys);
        }
        let (since, before) = self.calls;
        let passed = since.elapsed();
        if passed >= LOOK
            && let Some(probe) = &mut self.probe
        {
            let calls = probe.calls()?;
            self.calls = (Instant::now(), calls);
            let rate = calls.saturating_sub(before) as f64 / passed.as_secs_f64();
            if rate > CALLS && !self.wish.keep_counting {
                probe.back_off();
                self.notes.push(format!(
                    "{:.1} million groups a second are considered: hooks no longer count them, for that costs too much; ext4 counts them \
                     for 2 s of an interval, and samples go on (--keep-counting counts all the same)",
                    rate / 1e6
                ));
            }
        }
        Ok(())
    }

    /// What this kernel and host cannot give, and what has changed while tracing.
    pub fn notes(&self) -> Vec<String> {
        let probe = self.probe.iter().flat_map(AllocProbe::notes);
        let cpus = self.cpus.iter().flat_map(Cpus::notes);
        let all = self
            .lasting
            .iter()
            .chain(&self.notes)
            .cloned()
            .chain(probe)
            .chain(cpus)
            .chain(self.disks.notes());
        let mut notes: Vec<String> = Vec::new();
        for note in all {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// All samples since the start.
    pub fn whole(&self) -> &Profile {
        &self.whole
    }

    /// The interval since the last call, or since the start.
    pub fn snapshot(&mut self) -> Result<AllocSnapshot> {
        let disks = self.disks.snapshot()?;
        self.tick()?;
        let step = match &mut self.probe {
            Some(probe) => self.fold.step(probe.read()?),
            None => Step::default(),
        };
        // At once: the two counts are compared, and searches go on.
        let by_ext4: Vec<Option<MbStats>> = self
            .places
            .iter_mut()
            .map(|place| place.counted(&self.sys))
            .collect();
        let (time, now) = (jiff::Timestamp::now(), Instant::now());
        let interval = now - std::mem::replace(&mut self.begun, now);
        let mut profile = self.profile.take();
        if let Some(cpus) = &self.cpus {
            cpus.fill(&mut profile, interval);
        }
        self.whole.merge(&profile);
        // Without names the allocator's share is not 0, but unknown.
        let named = self.cpus.as_ref().is_some_and(Cpus::named);
        let mut sources = self.sources();
        let lost = step.lost + profile.lost() + disks.lost.events();
        let mut overhead = step.overhead;
        overhead.add(disks.overhead);
        let filesystems = self.filesystems(step, by_ext4, &disks, &mut sources);
        let mut snapshot = AllocSnapshot {
            time,
            interval,
            filesystems,
            criteria: self.facts.criteria(),
            cpu: named.then(|| profile.cpu()),
            cpus: if named {
                profile.cpus()
            } else {
                BTreeMap::new()
            },
            on_cpu: if named { profile.on_cpu() } else { Vec::new() },
            others: self.others,
            sources,
            lost,
            overhead,
            notes: self.notes(),
        };
        reason::judge(&mut snapshot);
        if self.sources().get(GROUPS) == Some(&Source::None) {
            let seconds = snapshot.interval.as_secs_f64();
            let slow: Vec<u32> = snapshot
                .filesystems
                .iter()
                .filter(|fs| is_slow(fs, seconds) || fs.counts.requests < FEW)
                .map(|fs| fs.dev)
                .collect();
            self.slice(|dev| slow.contains(&dev));
        }
        self.follow()?;
        Ok(snapshot)
    }

    fn filesystems(
        &mut self,
        mut step: Step,
        said: Vec<Option<MbStats>>,
        disks: &Snapshot,
        sources: &mut BTreeMap<&'static str, Source>,
    ) -> Vec<FsAlloc> {
        let hooked = sources.get(GROUPS) != Some(&Source::None);
        let by_ext4 = !hooked && said.iter().any(Option::is_some);
        if by_ext4 {
            sources.insert(GROUPS, Source::MbStats);
        }
        let mut all = Vec::new();
        for (place, said) in self.places.iter_mut().zip(said) {
            let counted = match step.filesystems.remove(&place.fs.dev) {
                Some(counted) => counted,
                // Beyond those that are watched: a note says so.
                None if self.probe.is_some() => continue,
                None => FsAlloc::default(),
            };
            let mut fs = FsAlloc {
                counts: counted.counts,
                tasks: counted.tasks,
                files: counted.files,
                searching: counted.searching,
                known: self.known.get(&place.fs.dev).cloned().unwrap_or_default(),
                ..place.now(&self.sys)
            };
            if let Some(source) = place.fragmentation_source(&fs) {
                sources.insert(FRAGMENTATION, source);
            }
            match said {
                Some(said) if by_ext4 => {
                    fs.counts.looked = looked(&said);
                    fs.counts.hits = said.hits();
                }
                Some(said) if hooked => {
                    fs.mb_stats = Some(MbCount {
                        searches: said.hits(),
                        groups: said.considered(),
                    });
                }
                _ => {}
            }
            all.push(fs);
        }
        for fs in &mut all {
            fs.members = bitmap_reads(self.disks.live().topology(), fs.dev, disks);
            let live = self.disks.live();
            let arrays = &live.topology().host.arrays;
            let on =
                |a: &crate::machine::Array| a.filesystems.iter().any(|f| f.dev.kernel() == fs.dev);
            let array = arrays.iter().position(on).unwrap_or_default() as u32;
            for task in fs.tasks.iter_mut().take(NAMED) {
                let pid = task.pid;
                let person = live.who(TaskId { array, pid });
                task.role = person.role;
                if !person.comm.is_empty() {
                    task.comm = person.comm;
                }
            }
            let ids: Vec<_> = fs.files.iter().take(NAMED).map(|f| f.id).collect();
            let mut places = live.locate(ids);
            for file in &mut fs.files {
                file.place = places.remove(&file.id).unwrap_or_default();
            }
        }
        all
    }

    /// Mounted, unmounted, moved to another device.
    fn follow(&mut self) -> Result<()> {
        let now = filesystems(&self.sys, self.disks.live().topology());
        let is_same = |(a, b): (&FsAlloc, &Place)| a.dev == b.fs.dev && a.name == b.fs.name;
        if now.len() == self.places.len() && now.iter().zip(&self.places).all(is_same) {
            // Mounted elsewhere, or larger.
            for (fs, place) in now.into_iter().zip(&mut self.places) {
                place.fs = fs;
            }
            return Ok(());
        }
        self.look_at(now)?;
        self.begin()
    }
}

/// Reads of block bitmaps that completed on the members of the array below: name, requests, bytes, time.
fn bitmap_reads(
    topology: &crate::machine::topology::Topology,
    dev: u32,
    disks: &Snapshot,
) -> Vec<(String, u64, u64, Hist)> {
    let arrays = topology.host.arrays.iter();
    let below: Vec<&str> = arrays
        .filter(|a| a.filesystems.iter().any(|fs| fs.dev.kernel() == dev))
        .map(|a| a.name.as_str())
        .collect();
    let arrays = disks
        .arrays
        .iter()
        .filter(|a| below.contains(&a.info.name.as_str()));
    let members = arrays.flat_map(|a| &a.members);
    members
        .filter_map(|m| {
            let cell =
                m.io.iter()
                    .find(|c| (c.origin, c.op) == (Origin::BlockBitmap, Op::Read))?;
            Some((
                m.name.clone(),
                cell.requests,
                cell.bytes,
                cell.device.clone(),
            ))
        })
        .collect()
}
