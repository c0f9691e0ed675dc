//! Loads the planned programs and attaches them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use libbpf_rs::skel::{OpenSkel as _, Skel as _, SkelBuilder as _};
use libbpf_rs::{Link, MapCore as _, MapFlags, RingBuffer, RingBufferBuilder};

use super::drained::Drained;
use super::facts::{Filesystems, SlowFacts};
use super::plan::{SlowPlan, plan};
use super::skel::{RaidtraceSlowSkel, RaidtraceSlowSkelBuilder};
use crate::analysis::slow::event::Stack;
use crate::contract;
use crate::machine::symbols::Symbols;
use crate::probe::load::log_size;
use crate::probe::log::{collect, loader_error, refusal, short};
use crate::probe::md::Md;
use crate::probe::overhead::Meter;
use crate::probe::wire::Wire as _;

/// Minimum duration in ns of reported IO of members, except flushes, FUA writes and reads for parity.
const SHORTEST_IO_NS: u64 = 1_000_000;

/// Role of a block device in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
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

impl Device {
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
    pub(super) ring: RingBuffer<'static>,
    pub(super) drained: Rc<RefCell<Drained>>,
    pub(super) symbols: Symbols,
    /// Names of functions by start address, so that each is stored once.
    pub(super) functions: HashMap<u64, std::sync::Arc<str>>,
    /// Stacks by their key in `rt_slow_stacks`. Its entries are never removed.
    pub(super) stacks: HashMap<u64, Stack>,
    pub(super) meter: Option<Meter>,
    notes: Vec<String>,
    /// Filesystems for which the programs were planned.
    planned: Filesystems,
    devices: BTreeMap<u32, Device>,
    _links: Vec<Link>,
}

impl SlowProbe {
    /// Traces operations that take at least `threshold`, on devices by number (major << 20 | minor). Leaves out programs that the
    /// kernel refuses, with a note.
    ///
    /// # Errors
    ///
    /// The kernel lacks a required tracepoint, or refuses the maps.
    pub fn start(devices: &BTreeMap<u32, Device>, threshold: Duration) -> Result<Self> {
        collect();
        let of = filesystems(devices);
        let facts = SlowFacts::gather(of);
        let mut plan = plan(&facts, of).map_err(anyhow::Error::msg)?;
        let (skel, links) = loop {
            let (program, why, error) = match load(&plan, &facts, threshold) {
                Ok(mut skel) => match attach(&mut skel, &plan, devices) {
                    Ok(links) => break (skel, links),
                    Err((program, e)) => (Some(program), short(&format!("{e:#}")), e),
                },
                Err(e) => {
                    let why = loader_error();
                    let refused = |p: &&str| why.contains(&format!("'{p}'"));
                    (plan.programs().find(refused), short(&why), e)
                }
            };
            match program {
                Some(program) if plan.without(program, &why) => {}
                _ => return Err(error).context(refusal(&why)),
            }
        };
        let drained = Rc::new(RefCell::new(Drained::default()));
        let ring = ring(&skel, &drained)?;
        let programs = skel.object().progs();
        let planned: Vec<_> = plan.programs().collect();
        let meter = Meter::start(programs.filter(|p| planned.iter().any(|l| p.name() == *l)));
        let mut notes = plan.notes;
        // Load symbols after attaching, so that they include the trampolines.
        let symbols = Symbols::load();
        if !symbols.has_symbols() {
            notes.push(
                "waits have no phases: the kernel hides its symbols: sysctl kernel.kptr_restrict=1, as root".to_owned(),
            );
        }
        Ok(Self {
            skel,
            ring,
            drained,
            symbols,
            functions: HashMap::new(),
            stacks: HashMap::new(),
            meter,
            notes,
            planned: of,
            devices: devices.clone(),
            _links: links,
        })
    }

    /// Traces other devices from now on. Operations in progress on the old devices are still reported.
    ///
    /// # Errors
    /// The map has no room for the devices.
    pub fn set_devices(&mut self, devices: &BTreeMap<u32, Device>) -> Result<()> {
        for gone in self.devices.keys().filter(|d| !devices.contains_key(d)) {
            self.skel.maps.rt_slow_devices.delete(gone.bytes())?;
        }
        insert(&mut self.skel, devices)?;
        self.devices.clone_from(devices);
        Ok(())
    }

    /// True if the programs were planned for the filesystems of these devices.
    pub fn covers(&self, devices: &BTreeMap<u32, Device>) -> bool {
        let needed = filesystems(devices);
        (!needed.ext4 || self.planned.ext4) && (!needed.xfs || self.planned.xfs)
    }

    /// Traced devices.
    pub fn devices(&self) -> &BTreeMap<u32, Device> {
        &self.devices
    }

    /// Figures that this kernel cannot give, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn filesystems(devices: &BTreeMap<u32, Device>) -> Filesystems {
    Filesystems {
        ext4: devices.values().any(|d| d.ext4),
        xfs: devices.values().any(|d| d.xfs),
    }
}

fn insert(skel: &mut RaidtraceSlowSkel<'_>, devices: &BTreeMap<u32, Device>) -> Result<()> {
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        bss.rt_slow_bio_based = u64::from(devices.values().any(|d| d.bio_based));
        // The kernel loads raid456 when an array that needs it is assembled. Without its types, reads for parity are counted in
        // `own_data`.
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

fn ring(
    skel: &RaidtraceSlowSkel<'_>,
    drained: &Rc<RefCell<Drained>>,
) -> Result<RingBuffer<'static>> {
    let into = Rc::clone(drained);
    let mut builder = RingBufferBuilder::new();
    builder.add(&skel.maps.rt_slow_events, move |bytes| {
        into.borrow_mut().add(bytes);
        0
    })?;
    builder.build().context("mapping the ring buffer")
}

fn load(
    plan: &SlowPlan,
    facts: &SlowFacts,
    threshold: Duration,
) -> Result<RaidtraceSlowSkel<'static>> {
    // The skeleton borrows from `storage` until the process ends.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = RaidtraceSlowSkelBuilder::default()
        .open(storage)
        .context("opening the BPF object")?;
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        bail!("the BPF object has no settings: it was not built by this project's build.rs");
    };
    let threshold_ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
    rodata.rt_slow_threshold = threshold_ns;
    rodata.rt_slow_io_ns = (threshold_ns / 8).max(SHORTEST_IO_NS);
    rodata.rt_slow_flush_seq = facts.flush_seq;
    rodata.rt_slow_page_shift = u64::from(rustix::param::page_size().trailing_zeros());
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = plan.programs().any(|p| program.name() == p);
        program.set_autoload(wanted);
    }
    open.load().context("loading the BPF object")
}

fn attach(
    skel: &mut RaidtraceSlowSkel<'static>,
    plan: &SlowPlan,
    devices: &BTreeMap<u32, Device>,
) -> Result<Vec<Link>, (&'static str, anyhow::Error)> {
    insert(skel, devices).map_err(|e| ("", e))?;
    let mut links = Vec::new();
    for name in plan.programs() {
        let program = skel.object().progs_mut().find(|p| p.name() == name);
        let Some(program) = program else {
            return Err((name, anyhow::anyhow!("not for this architecture")));
        };
        links.push(program.attach().map_err(|e| (name, e.into()))?);
        log_size(name, &program, "");
    }
    Ok(links)
}
