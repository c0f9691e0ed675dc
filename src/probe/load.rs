//! Loads the planned programs, fills their maps and attaches them.

use std::os::fd::AsFd as _;

use anyhow::{Context as _, Result, ensure};
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Link, MapCore, MapFlags, OpenMapMut, PrintLevel};

use super::KernelFacts;
use super::btf::SLEEPING_RING;
use super::clock::monotonic_ns;
use super::deltas::Deltas;
use super::events::EventRings;
use super::filter::Filter;
use super::generation::Generation;
use super::log::{collect, keep, loader_error, refusal};
use super::map_state::{MapEntry, MapState, Spare};
use super::member_ids::{MemberIds, Switchover};
use super::object::{self, NO_SETTINGS, PlanError, Planned as _, accepted};
use super::overhead::Meter;
use super::plan::{Choice, Plan};
use super::shadows::{SHADOWED, is_shadow};
use super::skel::{RaidtraceSkel, RaidtraceSkelBuilder};
use super::tables::Tables;
use super::wire::{Wire, rt_dev_bucket, rt_row, rt_tiles};
use crate::analysis::counters::{FileKey, TaskKey};
use crate::contract::{COST_SHIFT, DEV_WAYS, KEPT_BITS};

/// Counter rows per member and CPU. Most arrays use 10 to 20 of the 150 cells.
const ROWS_PER_MEMBER: u32 = 32;
/// Minimum number of counter rows per member and CPU. With fewer rows, common cells are lost.
const MIN_ROWS_PER_MEMBER: u32 = 12;
/// Number of entries for reasons of bios in flight, four reasons each. A power of two, many times
/// the number of bios that a stripe cache submits at once.
const REASONS: u32 = 1 << 14;
/// Maximum kernel memory for the rows of all CPUs, in bytes.
const MAX_ROW_BYTES: usize = 128 << 20;

/// The attached programs. Dropping it detaches them.
pub struct Probe {
    pub(super) skel: RaidtraceSkel<'static>,
    pub(super) arrays: u32,
    /// Maximum number of members in the maps.
    pub(super) members_max: u32,
    /// Ids of the traced topology.
    pub(super) member_ids: MemberIds,
    /// After an update in place: the change to the next topology. The programs already count the
    /// members of the next topology.
    pub(super) switchover: Option<Switchover>,
    /// Content of the maps; `None` after a failed update, when the content is unknown.
    map_state: Option<MapState>,
    /// Skipped program runs that no shadow program recovered, at the last reading.
    pub(super) missed: u64,
    /// Programs of the plan, including those that the kernel refused.
    planned: Vec<&'static str>,
    pub(super) programs: Vec<&'static str>,
    /// Number of the current interval of task and file counters: see `files`.
    pub(super) interval: u8,
    /// Previous task counters; the flag is true for dirtied data.
    pub(super) task_deltas: Deltas<(TaskKey, bool)>,
    /// Previous file counters; for dirtied data by file and thread.
    pub(super) file_deltas: Deltas<(FileKey, Option<u32>)>,
    /// Events of a recording.
    pub(super) events: Option<EventRings>,
    pub(super) filter: Filter,
    links: Vec<(&'static str, Link)>,
    /// Estimates the cost of the programs; `None` if it is not measured.
    pub(super) meter: Option<Meter>,
}

impl Probe {
    /// Loads and attaches the programs of `plan`. Drops optional programs that the kernel refuses,
    /// with a note in the plan. `account` enables the estimate of the programs' cost. `buffer` is
    /// the size of the ring buffers in bytes, for recordings only. After programs of the generation
    /// `after`, these count nothing until [`Generation::hand_over`].
    ///
    /// # Errors
    ///
    /// The kernel refused a required program or a map, with the verifier's reason.
    pub fn start(
        plan: &mut Plan,
        facts: &KernelFacts,
        tables: &Tables,
        account: bool,
        buffer: Option<u32>,
        after: Option<&Generation>,
    ) -> Result<Self> {
        ensure!(buffer.is_none() || !facts.sleeping_ring, SLEEPING_RING);
        collect();
        let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
        let spare = Spare::for_tables(tables);
        let members = tables.members.len() as u32;
        let shadows = if plan.has("rt_rq_complete_2") { members } else { 0 };
        let (rows, note) = rows(members, spare.members + shadows, cpus);
        plan.notes.extend(note);
        let planned = plan.programs.iter().map(|c| c.program).collect();
        let skel = accepted(plan, |plan| {
            load(plan, facts, tables, (spare, rows), buffer, after).map_err(PlanError::Load)
        })?;
        let mut probe = Self {
            arrays: tables.arrays.len() as u32,
            members_max: (tables.members.len() as u32 + spare.members).max(1),
            member_ids: MemberIds::loaded(tables.members.len()),
            switchover: None,
            map_state: Some(MapState::new(tables, spare)),
            missed: 0,
            planned,
            programs: Vec::new(),
            interval: 0,
            task_deltas: Deltas::default(),
            file_deltas: Deltas::default(),
            events: buffer.map(|_| EventRings::new(&skel, buffer)).transpose()?,
            filter: Filter::new(&skel.maps.rt_filter)?,
            skel,
            links: Vec::new(),
            meter: None,
        };
        probe.fill(tables)?;
        probe.attach(plan)?;
        if account {
            probe.meter = Meter::start(probe.skel.object(), &probe.programs, &mut plan.notes);
        }
        probe.set_attached_time();
        Ok(probe)
    }

    /// Sets the time of attachment. Requests allocated before this time do not count as lost.
    fn set_attached_time(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.rt_attached_ns = monotonic_ns();
        }
    }

    /// The generation of these programs.
    pub fn generation(&self) -> Result<Generation> {
        Generation::new(&self.skel)
    }

    /// Detaches the programs. Their counters can still be read, and no longer change.
    pub fn detach(&mut self) {
        // A failure leaves the programs counting until they are detached.
        let _ = self.generation().and_then(|g| g.stop());
        self.links.clear();
    }

    /// True if the programs are attached, that is until [`Self::detach`].
    pub fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// Rebuilds the filter of learned blocks if many of its lanes may be obsolete. Call this
    /// between readings, because it can take some 50 ms.
    pub fn maintain_filter(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            self.filter.maintain(&self.skel.maps.rt_learned, &mut bss.rt_filter_copy);
        }
    }

    /// Rebuilds the filter of learned blocks.
    pub fn rebuild_filter(&mut self) -> Result<()> {
        let bss = self.skel.maps.bss_data.as_deref_mut().context(NO_SETTINGS)?;
        Ok(self.filter.rebuild(&self.skel.maps.rt_learned, &mut bss.rt_filter_copy)?)
    }

    fn fill(&mut self, tables: &Tables) -> Result<()> {
        let maps = &self.skel.maps;
        put(&maps.rt_devs, &tables.devs)?;
        put(&maps.rt_arrays, &tables.arrays)?;
        put(&maps.rt_members, &tables.members)?;
        put(&maps.rt_boundaries, &tables.boundaries)?;
        let two = |pair: &[u32]| rt_tiles { list: [pair[0], pair.get(1).copied().unwrap_or(0)] };
        put(&maps.rt_tiles, &tables.tiles.chunks(2).map(two).collect::<Vec<_>>())?;
        for (slot, entry) in &tables.index {
            self.write(&MapEntry::Index(*slot, *entry))?;
        }
        Ok(())
    }

    /// Updates the running programs in place for new tables and a new plan, which must be based on
    /// the same facts. Returns false, with no effect, if that is not possible. After the update the
    /// programs count the new members, but readings return the counters of the previous topology
    /// until [`Self::finish_switchover`].
    ///
    /// # Errors
    /// A map cannot be updated, or a program cannot be attached. The next update must then be a
    /// reload.
    pub fn update_in_place(&mut self, tables: &Tables, plan: &Plan) -> Result<bool> {
        let loaded = |c: &Choice| self.planned.contains(&c.program);
        if !plan.programs.iter().all(loaded) {
            return Ok(false);
        }
        let Some((state, writes, mut switchover)) =
            self.map_state.as_ref().and_then(|s| s.updated(tables))
        else {
            return Ok(false);
        };
        // The content is unknown until all writes have succeeded.
        self.map_state = None;
        switchover.before = self.read_cells(switchover.fresh.iter().copied())?;
        for choice in plan.programs.iter().filter(|c| c.attached) {
            let attached = self.links.iter().any(|(p, _)| *p == choice.program);
            if !attached && self.programs.contains(&choice.program) {
                self.attach_one(choice.program)?;
            }
        }
        for write in writes {
            self.write(&write)?;
        }
        let wanted = |program| {
            let mut attached = plan.programs.iter().filter(|c| c.attached);
            attached.any(|c| c.program == program)
        };
        // A shadow program that was needed once stays attached.
        self.links.retain(|(program, _)| wanted(*program) || is_shadow(program));
        self.map_state = Some(state);
        self.set_attached_time();
        self.switchover = Some(switchover);
        Ok(true)
    }

    fn write(&self, write: &MapEntry) -> Result<()> {
        let maps = &self.skel.maps;
        let any = MapFlags::ANY;
        match write {
            MapEntry::Member(at, member) => maps.rt_members.update(at.bytes(), member.bytes(), any),
            MapEntry::Dev(at, dev) => maps.rt_devs.update(at.bytes(), dev.bytes(), any),
            MapEntry::Index(slot, entry) => {
                let at = slot / DEV_WAYS;
                let old = maps.rt_dev_index.lookup(at.bytes(), any)?.unwrap_or_default();
                let mut bucket = rt_dev_bucket::read(&old).unwrap_or_default();
                bucket.way[(slot % DEV_WAYS) as usize] = *entry;
                maps.rt_dev_index.update(at.bytes(), bucket.bytes(), any)
            }
        }
        .context("updating the maps of the running programs")
    }

    /// Ends the switchover: from now on, readings return counters and events of the next topology.
    pub fn finish_switchover(&mut self) {
        if let Some(switchover) = self.switchover.take() {
            self.member_ids = switchover.next;
        }
    }

    fn attach(&mut self, plan: &mut Plan) -> Result<()> {
        for choice in plan.programs.clone() {
            if !choice.attached {
                keep(PrintLevel::Info, format!("{}: not attached", choice.program));
                self.programs.push(choice.program);
                continue;
            }
            match self.attach_one(choice.program) {
                Ok(()) => self.programs.push(choice.program),
                Err(e) if choice.required => {
                    return Err(e).context(refusal(&loader_error()));
                }
                Err(e) => {
                    plan.without(choice.program, &e.to_string());
                }
            }
        }
        Ok(())
    }

    /// Attaches the shadow program of `rt_rq_complete` if it is loaded but not attached. Call this
    /// when the kernel has skipped a run of `rt_rq_complete`.
    pub(super) fn attach_needed_shadow(&mut self) -> Result<()> {
        let shadow = "rt_rq_complete_2";
        if self.programs.contains(&shadow) && !self.links.iter().any(|(p, _)| *p == shadow) {
            self.attach_one(shadow)?;
        }
        Ok(())
    }

    fn attach_one(&mut self, name: &'static str) -> Result<()> {
        let first = name.strip_suffix("_2");
        if let Some(kind) = SHADOWED.iter().position(|l| Some(*l) == first)
            && let Some(bss) = self.skel.maps.bss_data.as_deref_mut()
        {
            // Set the bit before attaching: without it the first program sets no marks, and the
            // shadow program would count each request a second time.
            bss.rt_shadows_attached |= 1 << kind;
        }
        self.links.push(object::attach(self.skel.object(), name)?);
        Ok(())
    }
}

/// Number of counter rows, and a note if members get fewer than [`ROWS_PER_MEMBER`] because there
/// are many CPUs. IO without a row is counted as lost. `spare` members, and members for shadow
/// programs, get [`MIN_ROWS_PER_MEMBER`].
fn rows(members: u32, spare: u32, cpus: usize) -> (u32, Option<String>) {
    let row = size_of::<rt_row>() * cpus.max(1);
    let affordable = u32::try_from(MAX_ROW_BYTES / row).unwrap_or(u32::MAX);
    let wanted = ROWS_PER_MEMBER.saturating_mul(members);
    let least = MIN_ROWS_PER_MEMBER.saturating_mul(members);
    // Row 0 means "none yet"; a row number has 16 bits.
    let rows = wanted
        .saturating_add(MIN_ROWS_PER_MEMBER * spare)
        .min(affordable.max(least))
        .min(u32::from(u16::MAX) - 1);
    let note = (rows < wanted).then(|| {
        format!(
            "{members} members on {cpus} CPUs: {} counters per member and CPU instead of \
             {ROWS_PER_MEMBER}, {} MiB of kernel memory: kinds of IO without a counter are \
             counted as lost (rows): name fewer targets",
            rows / members.max(1),
            (rows as usize * row) >> 20
        )
    });
    (1 + rows, note)
}

fn load(
    plan: &Plan,
    facts: &KernelFacts,
    tables: &Tables,
    (spare, rows): (Spare, u32),
    buffer: Option<u32>,
    after: Option<&Generation>,
) -> Result<RaidtraceSkel<'static>> {
    let mut open = object::open(RaidtraceSkelBuilder::default())?;
    if let Some(after) = after {
        after.precede(&mut open)?;
    }
    let members = (tables.members.len() + spare.members as usize).max(1);
    let rodata = open.maps.rodata_data.as_deref_mut().context(NO_SETTINGS)?;
    rodata.rt_dev_mult = tables.mult;
    rodata.rt_rows_max = rows;
    rodata.rt_page_shift = rustix::param::page_size().trailing_zeros();
    rodata.rt_vmemmap_base = facts.vmemmap_base;
    rodata.rt_page_offset_base = facts.page_offset_base;
    rodata.rt_reason_mask = if tables.need.md_submits { REASONS - 1 } else { 0 };
    rodata.rt_raid5_end_read = facts.md.raid5_end_read;
    rodata.rt_raid5_end_write = facts.md.raid5_end_write;
    rodata.rt_raid5_end_aligned = facts.md.raid5_end_aligned;
    rodata.rt_raid10_end_read = facts.md.raid10_end_read;
    rodata.rt_raid10_end_write = facts.md.raid10_end_write;
    rodata.rt_md_flush_end = facts.md.flush_end;
    rodata.rt_ppl_flush_end = facts.md.ppl_flush_end;
    rodata.rt_crypt_end = facts.md.crypt_end;
    rodata.rt_sync_ends = facts.md.sync_ends;
    rodata.rt_stripe_syncing = facts.md.stripe_syncing;
    rodata.rt_stripe_expanding = facts.md.stripe_expanding;
    rodata.rt_stripe_expand_source = facts.md.stripe_expand_source;
    rodata.rt_dio_end_io = address(facts.dio_end_io);
    let simple = if facts.dio_simple_iocb == 0 { 0 } else { facts.dio_simple_pool };
    rodata.rt_dio_simple_pool = address(simple);
    rodata.rt_dio_simple_iocb = facts.dio_simple_iocb;
    rodata.rt_ext4_end_io = address(facts.ext4_end_io);
    rodata.rt_dm_end_io = address(facts.dm_end_io);
    rodata.rt_has_xfs = u32::from(tables.need.xfs);
    rodata.rt_xfs_buf_end = address(facts.xfs_buf_end);
    rodata.rt_xfs_log_end = address(facts.xfs_log_end);
    rodata.rt_chain_end = address(facts.chain_end);
    rodata.rt_shadows = shadows(plan);
    rodata.rt_members_max = members as u32;
    rodata.rt_nesting = u32::from(!facts.guarded);
    rodata.rt_wait_end_io = address(facts.wait_end_io);
    rodata.rt_recording = u32::from(buffer.is_some());

    let resize = |map: &mut OpenMapMut<'_>, n: usize| map.set_max_entries(n.max(1) as u32);
    resize(&mut open.maps.rt_arrays, tables.arrays.len())?;
    resize(&mut open.maps.rt_flush_origins, tables.arrays.len())?;
    resize(&mut open.maps.rt_members, members)?;
    resize(&mut open.maps.rt_costs, tables.arrays.len() << COST_SHIFT)?;
    // The second half of the rows is for shadow programs.
    resize(&mut open.maps.rt_member_rows, 2 * members)?;
    resize(&mut open.maps.rt_boundaries, tables.boundaries.len())?;
    resize(&mut open.maps.rt_tiles, tables.tiles.len().div_ceil(2))?;
    resize(&mut open.maps.rt_reasons, if tables.need.md_submits { REASONS as usize } else { 1 })?;
    let kept = tables.need.md_submits && tables.need.bio_based;
    resize(&mut open.maps.rt_kept_bios, if kept { 1 << KEPT_BITS } else { 1 })?;
    let slots = tables.slots + spare.slots;
    resize(&mut open.maps.rt_inflights, slots as usize)?;
    resize(&mut open.maps.rt_rows, rows as usize)?;
    // A shadow program has an entry of its own.
    let entries = 1 + usize::from(facts.preemptible);
    resize(&mut open.maps.rt_stripes, entries)?;
    // RT_DIRTY_DATA is the last entry.
    let entries = if tables.need.ext4 || tables.need.xfs { 4 } else { entries };
    resize(&mut open.maps.rt_tasks_pending, entries)?;
    resize(&mut open.maps.rt_files_pending, entries)?;
    resize(&mut open.maps.rt_file_names, entries)?;
    resize(&mut open.maps.rt_task_refusals, 4096)?;
    resize(&mut open.maps.rt_file_refusals, 4096)?;
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
    resize(&mut open.maps.rt_events, cpus)?;
    let template = super::events::ring(buffer)?;
    open.maps.rt_events.set_inner_map_fd(template.as_fd())?;

    object::load(open, &plan.names())
}

/// Bit mask of the programs that have a shadow program in the plan, by `enum rt_seen_kinds`.
fn shadows(plan: &Plan) -> u32 {
    (0..)
        .zip(SHADOWED)
        .filter(|(_, first)| plan.has(&format!("{first}_2")))
        .fold(0, |bits, (kind, _)| bits | 1 << kind)
}

/// Replaces 0 (an absent function) by `u64::MAX`, which is not the address of any function.
fn address(function: u64) -> u64 {
    if function == 0 { u64::MAX } else { function }
}

fn put<T: Wire>(map: &impl MapCore, values: &[T]) -> Result<()> {
    for (key, value) in (0u32..).zip(values) {
        map.update(key.bytes(), value.bytes(), MapFlags::ANY)
            .with_context(|| format!("filling the map {}", map.name().to_string_lossy()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
