//! Loads the planned programs and attaches them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, MapCore as _, MapFlags};

use super::events::{Raw, decode};
use super::facts::{Filesystems, SlowFacts};
use super::hooks::{ASYNC, UNENDED};
use super::plan::{SlowPlan, plan};
use super::skel::{RaidtraceSlowSkel, RaidtraceSlowSkelBuilder};
use crate::analysis::slow::event::Stack;
use crate::contract;
use crate::machine::symbols::{self, Symbols};
use crate::probe::log::collect;
use crate::probe::md::Md;
use crate::probe::object::{self, NO_SETTINGS, PlanError, Planned as _, accepted};
use crate::probe::overhead::Meter;
use crate::probe::ring::Ring;
use crate::probe::wire::Wire as _;

/// Least value of `rt_slow_io_ns`, the minimum duration in ns of reported IO of members. Flushes,
/// FUA writes and reads for parity are reported from `RT_SHORT_NS` (`bpf/slow_io.bpf.c`) on.
const MIN_IO_NS: u64 = 1_000_000;

const LATE_STARTS: &str = "reads and writes are those of asynchronous direct IO, without the wait \
    for the inode's lock";

/// Role of a block device in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracedDevice {
    /// An ext2, ext3 or ext4, whose operations and commits are traced.
    pub ext4: bool,
    /// An XFS, whose operations are traced.
    pub xfs: bool,
    /// A member whose flushes are traced.
    pub member: bool,
    /// A bio-based member: all its bios are traced, because it has no requests.
    pub bio_based: bool,
    /// A disk whose requests are traced.
    pub disk: bool,
}

impl TracedDevice {
    /// True if its operations are traced.
    pub fn is_filesystem(self) -> bool {
        self.ext4 || self.xfs
    }

    fn wire(self) -> u32 {
        u32::from(self.is_filesystem()) * contract::SLOW_FS
            + u32::from(self.member) * contract::SLOW_MEMBER
            + u32::from(self.bio_based) * contract::SLOW_BIO_BASED
            + u32::from(self.disk) * contract::SLOW_DISK
    }
}

/// The attached programs. Dropping it detaches them.
pub struct SlowProbe {
    pub(super) skel: RaidtraceSlowSkel<'static>,
    pub(super) ring: Ring<Raw>,
    pub(super) symbols: Symbols,
    /// Names of functions by start address, so that each is stored once.
    pub(super) functions: HashMap<u64, std::sync::Arc<str>>,
    /// Stacks by their key in `rt_slow_stacks`. Its entries are never removed.
    pub(super) stacks: HashMap<u64, Stack>,
    pub(super) meter: Option<Meter>,
    pub(super) programs: Vec<&'static str>,
    pub(super) notes: Vec<String>,
    /// Filesystems for which the programs were planned.
    planned: Filesystems,
    devices: BTreeMap<u32, TracedDevice>,
    _links: Vec<(&'static str, Link)>,
}

impl SlowProbe {
    /// Traces operations that take at least `threshold`, on devices by number (major << 20 |
    /// minor). Leaves out programs that the kernel refuses, with a note.
    ///
    /// # Errors
    ///
    /// The kernel lacks a required tracepoint, or refuses the maps.
    pub fn start(devices: &BTreeMap<u32, TracedDevice>, threshold: Duration) -> Result<Self> {
        collect();
        let of = filesystems(devices);
        let facts = SlowFacts::gather(of);
        let mut plan = plan(&facts, of).map_err(anyhow::Error::msg)?;
        let (mut skel, links) = accepted(&mut plan, |plan| {
            let mut skel = load(plan, &facts, threshold).map_err(PlanError::Load)?;
            insert(&mut skel, devices).map_err(PlanError::Other)?;
            let mut links = Vec::new();
            for name in plan.names().into_iter().filter(|name| *name != UNENDED) {
                links.push(
                    object::attach(skel.object(), name).map_err(|e| PlanError::Attach(name, e))?,
                );
            }
            Ok((skel, links))
        })?;
        let ring = Ring::new(&skel.maps.rt_slow_events, decode)?;
        let programs = plan.names();
        let late = plan.has_late_starts().then_some(LATE_STARTS.to_owned());
        let mut notes = plan.notes;
        notes.extend(late);
        let meter = Meter::start(skel.object(), &programs, &mut notes);
        // Load symbols after attaching, so that they include the trampolines.
        let symbols = Symbols::load();
        if let (Some(bss), Some((begin, _))) =
            (skel.maps.bss_data.as_deref_mut(), symbols.range("schedule_rtlock"))
        {
            bss.rt_slow_rtlock = begin + 1; // like a return address
        }
        if !symbols.has_symbols() {
            let (why, fix) = symbols::why_hidden();
            notes.push(format!(
                "waits have no phases: the kernel hides its symbols, as {why}; fix: {fix}"
            ));
        }
        Ok(Self {
            skel,
            ring,
            symbols,
            functions: HashMap::new(),
            stacks: HashMap::new(),
            meter,
            programs,
            notes,
            planned: of,
            devices: devices.clone(),
            _links: links,
        })
    }

    /// Traces other devices from now on. Operations in progress on the old devices are still
    /// reported.
    ///
    /// # Errors
    /// The map has no room for the devices.
    pub fn set_devices(&mut self, devices: &BTreeMap<u32, TracedDevice>) -> Result<()> {
        for gone in self.devices.keys().filter(|d| !devices.contains_key(d)) {
            self.skel.maps.rt_slow_devices.delete(gone.bytes())?;
        }
        insert(&mut self.skel, devices)?;
        self.devices.clone_from(devices);
        Ok(())
    }

    /// True if the programs were planned for the filesystems of these devices.
    pub fn covers(&self, devices: &BTreeMap<u32, TracedDevice>) -> bool {
        let needed = filesystems(devices);
        (!needed.ext4 || self.planned.ext4) && (!needed.xfs || self.planned.xfs)
    }

    /// Traced devices.
    pub fn devices(&self) -> &BTreeMap<u32, TracedDevice> {
        &self.devices
    }

    /// Figures that this kernel cannot give, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn filesystems(devices: &BTreeMap<u32, TracedDevice>) -> Filesystems {
    Filesystems { ext4: devices.values().any(|d| d.ext4), xfs: devices.values().any(|d| d.xfs) }
}

fn insert(skel: &mut RaidtraceSlowSkel<'_>, devices: &BTreeMap<u32, TracedDevice>) -> Result<()> {
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        let first = devices.iter().find(|(_, d)| d.is_filesystem());
        bss.rt_slow_first_fs = first.map_or(0, |(dev, _)| u64::from(*dev));
        bss.rt_slow_bio_based = u64::from(devices.values().any(|d| d.bio_based));
        // The kernel loads raid456 when an array that needs it is assembled. Without its types,
        // reads for parity are counted in `own_data`.
        let md = Md::gather();
        if md.has_stripes() {
            bss.rt_slow_raid5_end_read = md.raid5_end_read;
            bss.rt_slow_stripe_syncing = md.stripe_syncing;
        }
    }
    for (dev, device) in devices {
        skel.maps
            .rt_slow_devices
            .update(dev.bytes(), device.wire().bytes(), MapFlags::ANY)
            .context("more devices than can be traced: name fewer targets")?;
    }
    Ok(())
}

fn load(
    plan: &SlowPlan,
    facts: &SlowFacts,
    threshold: Duration,
) -> Result<RaidtraceSlowSkel<'static>> {
    let mut open = object::open(RaidtraceSlowSkelBuilder::default())?;
    let rodata = open.maps.rodata_data.as_deref_mut().context(NO_SETTINGS)?;
    let threshold_ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
    rodata.rt_slow_threshold = threshold_ns;
    rodata.rt_slow_io_ns = (threshold_ns / 8).max(MIN_IO_NS);
    rodata.rt_slow_flush_seq = facts.flush_seq;
    rodata.rt_slow_throttled = facts.throttled;
    rodata.rt_slow_async_ends = plan.gives(ASYNC);
    rodata.rt_slow_page_shift = u64::from(rustix::param::page_size().trailing_zeros());
    object::load(open, &plan.names())
}
