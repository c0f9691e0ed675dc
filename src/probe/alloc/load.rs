//! Loads the planned programs and attaches them.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use anyhow::{Context as _, Result};
use libbpf_rs::Link;
use libbpf_rs::skel::Skel as _;

use super::facts::AllocFacts;
use super::plan::{AllocPlan, plan};
use super::skel::{RaidtraceAllocSkel, RaidtraceAllocSkelBuilder};
use crate::analysis::alloc::{AllocShare, AllocTaskKey, FigureSource};
use crate::probe::log::collect;
use crate::probe::object::{self, NO_SETTINGS, PlanError, Planned as _, accepted};
use crate::probe::overhead::Meter;

/// Maximum number of filesystems traced at once.
pub(super) const MAX_FILESYSTEMS: usize = crate::contract::ALLOC_FS as usize;

/// The attached programs. Dropping it detaches them.
pub struct AllocProbe {
    pub(super) skel: RaidtraceAllocSkel<'static>,
    pub(super) devs: Vec<u32>,
    pub(super) cpus: u32,
    pub(super) idle: Idle,
    /// Loaded programs, including detached ones, whose counters and cost remain.
    pub(super) programs: Vec<&'static str>,
    plan: AllocPlan,
    links: Vec<(&'static str, Link)>,
    pub(super) meter: Option<Meter>,
}

/// Counters of all tasks at an earlier time; a task whose counters have not changed since is idle.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) since: Instant,
    pub(super) then: HashMap<AllocTaskKey, AllocShare>,
}

impl Default for Idle {
    fn default() -> Self {
        Self { since: Instant::now(), then: HashMap::new() }
    }
}

impl AllocProbe {
    /// Traces ext4 filesystems, given by device number (major << 20 | minor). Leaves out
    /// filesystems beyond the 16th and programs that the kernel refuses, with a note.
    ///
    /// # Errors
    ///
    /// The kernel has no BTF or refuses the maps.
    pub fn start(facts: &AllocFacts, devs: &[u32]) -> Result<Self> {
        collect();
        let mut plan = plan(facts).map_err(anyhow::Error::msg)?;
        let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?)
            .context("reading the number of possible CPUs")?;
        if devs.len() > MAX_FILESYSTEMS {
            plan.notes.push(format!(
                "only the first {MAX_FILESYSTEMS} of {} filesystems are traced: name fewer targets",
                devs.len()
            ));
        }
        let devs = &devs[..devs.len().min(MAX_FILESYSTEMS)];
        let (skel, links) = accepted(&mut plan, |plan| {
            let mut skel = load(plan, facts, devs, cpus).map_err(PlanError::Load)?;
            let links = attach(&mut skel, plan)?;
            Ok((skel, links))
        })?;
        Ok(Self {
            skel,
            devs: devs.to_vec(),
            cpus,
            idle: Idle::default(),
            programs: plan.names(),
            plan,
            links,
            meter: None,
        })
    }

    /// Estimates the cost of the programs from now on. False if the kernel does not permit it.
    pub fn account(&mut self) -> bool {
        if self.meter.is_none() {
            let notes = &mut self.plan.notes;
            self.meter = Meter::start(self.skel.object(), &self.programs, notes);
        }
        self.meter.is_some()
    }

    /// Detaches the hooks that count groups. Their counters stay as they are.
    pub fn back_off(&mut self) {
        // Set before detaching, because from then on a search in progress is counted only in part.
        set_hooked(&mut self.skel, false);
        let gone = self.plan.back_off();
        self.links.retain(|(program, _)| !gone.contains(program));
    }

    /// Source of each figure, by its field name in `analysis::alloc::Counts` or `AllocCounters`.
    pub fn sources(&self) -> BTreeMap<&'static str, FigureSource> {
        self.plan.sources()
    }

    /// Missing figures, filesystems that are left out and detached hooks, one line each.
    pub fn notes(&self) -> Vec<String> {
        self.plan.notes.clone()
    }
}

fn load(
    plan: &AllocPlan,
    facts: &AllocFacts,
    devs: &[u32],
    cpus: u32,
) -> Result<RaidtraceAllocSkel<'static>> {
    let mut open = object::open(RaidtraceAllocSkelBuilder::default())?;
    let rodata = open.maps.rodata_data.as_deref_mut().context(NO_SETTINGS)?;
    let third = facts.criteria.get(2);
    rodata.rt_alloc_best_avail = u32::from(third.is_some_and(|c| c == "CR_BEST_AVAIL_LEN"));
    rodata.rt_alloc_by_scan = u32::from(plan.by_scan());
    for (slot, dev) in rodata.rt_alloc_devs.iter_mut().zip(devs) {
        *slot = *dev;
    }
    open.maps.rt_alloc_cpus.set_max_entries(cpus)?;
    object::load(open, &plan.names())
}

fn attach(
    skel: &mut RaidtraceAllocSkel<'static>,
    plan: &AllocPlan,
) -> Result<Vec<(&'static str, Link)>, PlanError> {
    let mut links = Vec::new();
    for name in plan.names() {
        // The hooks that count groups are attached before the first request is counted.
        if name == "rt_al_request" && plan.counts_groups() {
            set_hooked(skel, true);
        }
        links.push(object::attach(skel.object(), name).map_err(|e| PlanError::Attach(name, e))?);
    }
    Ok(links)
}

fn set_hooked(skel: &mut RaidtraceAllocSkel<'static>, hooked: bool) {
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        bss.rt_alloc_groups_hooked = u64::from(hooked);
    }
}
