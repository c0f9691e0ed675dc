//! Reads the counters of the BPF programs.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{MapCore, MapFlags};

use super::entries::{all_entries, operation, per_cpu, text};
use super::files::{counts, drain, refused};
use super::load::Probe;
use super::member_ids::Cells;
use super::object::{program_info, programs};
use super::overhead::Meter;
use super::shadows::{SHADOWED, is_shadow};
use super::wire::{
    Wire, rt_array, rt_cost, rt_loss, rt_member_rows, rt_row, rt_task, rt_task_id, rt_task_key,
    rt_task_pending,
};
use crate::analysis::counters::{
    CellCounters, CellKey, CostCounters, Counters, DirtyKey, TaskId, TaskKey, TaskName,
};
use crate::analysis::cube::{Amount as _, Cube};
use crate::analysis::figures::Counted;
use crate::analysis::hist::Hist;
use crate::analysis::lost::Loss;
use crate::contract::{ARRAY_IN_SYNC, COST_SHIFT};
use crate::origin::{Op, Origin};

impl Probe {
    /// Counters since the start. The programs keep counting during the reading, so cells can differ
    /// by requests that complete meanwhile.
    pub fn read(&mut self) -> Result<Counters> {
        Ok(self.read_switchover()?.0)
    }

    /// The counters, and after [`Self::update_in_place`] the base of the next topology's counters.
    pub fn read_switchover(&mut self) -> Result<(Counters, Option<Counters>)> {
        let mut counters = Counters::default();
        self.begin_interval();
        let mut base = None;
        counters.cells = match &self.switchover {
            None => self.member_ids.count(self.read_cells(self.member_ids.all())?),
            Some(switchover) => {
                let counted = self.read_cells(switchover.all())?;
                base = Some(switchover.base(&counted));
                switchover.until(&counted)
            }
        };
        counters.counted = by_member_and_op(&counters.cells);
        self.read_tasks(&mut counters)?;
        self.read_costs(&mut counters)?;
        self.read_files(&mut counters)?;
        self.read_names(&mut counters);
        counters.journals = self.read_journals()?;
        self.read_losses(&mut counters)?;
        // Other counters continue. Counters of tasks and files are increases, and this reading has
        // already reported them.
        let base = base.map(|cells| Counters {
            counted: by_member_and_op(&cells),
            cells,
            tasks: HashMap::new(),
            files: HashMap::new(),
            dirtied: HashMap::new(),
            dirtied_files: HashMap::new(),
            ..counters.clone()
        });
        Ok((counters, base))
    }

    /// Cells by member id.
    pub(super) fn read_cells(&self, members: impl IntoIterator<Item = u32>) -> Result<Cells> {
        let maps = &self.skel.maps;
        // Each CPU assigns its own rows to cells.
        let mut cells: Vec<(u16, usize, CellKey)> = Vec::new();
        // The second half belongs to the shadow programs.
        let halves = if self.programs.contains(&"rt_rq_complete_2") { 2 } else { 1 };
        let entries = members.into_iter().flat_map(|m| (0..halves).map(move |half| (m, half)));
        for (member, half) in entries {
            let entry = member + half * self.members_max;
            let per_cpu = per_cpu::<rt_member_rows>(&maps.rt_member_rows, entry)?;
            for (cpu, table) in per_cpu.iter().enumerate() {
                let used = table.row.iter().enumerate().filter(|(_, row)| **row != 0);
                cells.extend(
                    used.filter_map(|(cell, &row)| Some((row, cpu, cell_key(member, cell)?))),
                );
            }
        }
        // Sort cells by row, so that only the values of one row are in memory at a time.
        cells.sort_unstable_by_key(|(row, cpu, _)| (*row, *cpu));
        let mut counted = Cells::default();
        for same_row in cells.chunk_by(|a, b| a.0 == b.0) {
            let row = u32::from(same_row[0].0);
            let per_cpu = per_cpu(&maps.rt_rows, row)?;
            for (_, cpu, key) in same_row {
                if let Some(row) = per_cpu.get(*cpu) {
                    counted.add(*key, &cell_counters(row));
                }
            }
        }
        Ok(counted)
    }

    fn read_tasks(&mut self, counters: &mut Counters) -> Result<()> {
        let maps = &self.skel.maps;
        let moved = drain(&maps.rt_task_ios, |key: &rt_task_key| {
            (key.interval != self.interval).then(|| task_key(key))
        })?;
        let cpus: Vec<rt_task_pending> = all_entries(&maps.rt_tasks_pending)?;
        let slots = cpus.iter().flat_map(|cpu| &cpu.slot);
        // Slots that were written during the read are left for the next reading.
        let pending =
            slots.filter(|s| s.io.bios > 0 && s.version_first == s.version_last).filter_map(|s| {
                let key = rt_task_key::read(&s.key.to_ne_bytes())?;
                Some((task_key(&key)?, counts(&s.io)))
            });
        let refused = refused(&maps.rt_task_refusals, |key: &rt_task_key| {
            (key.interval == self.interval, task_key(key))
        })?;
        let (moved, pending) = (moved.into_iter().chain(refused.0), pending.chain(refused.1));
        for ((key, dirtied), io) in self.task_deltas.step(moved, pending) {
            let into = if dirtied { &mut counters.dirtied } else { &mut counters.tasks };
            into.insert(key, io);
        }
        Ok(())
    }

    /// Names of all tasks in the counters. Call this last: only the BPF side has the names of tasks
    /// that have ended.
    fn read_names(&self, counters: &mut Counters) {
        let submitters = counters.tasks.keys().chain(counters.dirtied.keys());
        let dirtiers = counters.dirtied_files.keys().map(DirtyKey::task);
        let ids: HashSet<TaskId> = submitters.map(TaskKey::id).chain(dirtiers).collect();
        let named = ids.into_iter().filter_map(|id| Some((id, self.task_name(id)?)));
        counters.names = named.collect();
    }

    /// Name of a task when the BPF side last saw it.
    pub fn task_name(&self, TaskId { array, pid }: TaskId) -> Option<TaskName> {
        let id = rt_task_id { pid, array };
        let found = self.skel.maps.rt_tasks.lookup(id.bytes(), MapFlags::ANY);
        Some(task_name(&rt_task::read(&found.ok()??)?))
    }

    fn read_costs(&self, counters: &mut Counters) -> Result<()> {
        for key in 0..self.arrays << COST_SHIFT {
            let (array, number) = (key >> COST_SHIFT, key & ((1 << COST_SHIFT) - 1));
            let Some(origin) = u8::try_from(number).ok().and_then(Origin::from_u8) else {
                continue;
            };
            for cost in per_cpu::<rt_cost>(&self.skel.maps.rt_costs, key)? {
                let cost = CostCounters { parity: cost.parity, rmw_read: cost.rmw_read };
                if !cost.is_zero() {
                    counters.costs.add((array, origin), &cost);
                }
            }
        }
        Ok(())
    }

    fn read_losses(&mut self, counters: &mut Counters) -> Result<()> {
        for loss in self.losses()? {
            for (reason, count) in Loss::counted_in_kernel().zip(loss.lost) {
                counters.lost.count(reason, count);
            }
        }
        // Read skips before recoveries. In the other order, a recovered skip that happens between
        // the two reads would count as missed.
        let mut skips: HashMap<&str, u64> = HashMap::new();
        let loaded = programs(self.skel.object(), &self.programs);
        for (name, program) in loaded.filter(|(name, _)| !is_shadow(name)) {
            let skipped = program_info(&program).map_or(0, |info| info.recursion_misses);
            *skips.entry(name).or_default() += skipped;
        }
        let mut recovered = [0u64; SHADOWED.len()];
        for loss in self.losses()? {
            for (sum, n) in recovered.iter_mut().zip(loss.recovered) {
                *sum += n;
            }
        }
        if skips.get("rt_rq_complete").is_some_and(|n| *n > 0) {
            // Without the shadow program, skips stay in `missed`.
            self.attach_needed_shadow().ok();
        }
        // If the shadow program was skipped as well, the run is missed.
        let missed: u64 = skips
            .into_iter()
            .map(|(name, skipped)| match SHADOWED.iter().position(|c| *c == name) {
                Some(kind) => skipped.saturating_sub(recovered[kind]),
                None => skipped,
            })
            .sum();
        self.missed = self.missed.max(missed);
        counters.lost.count(Loss::Missed, self.missed);
        counters.overhead = self.meter.as_mut().map(Meter::read).unwrap_or_default();
        Ok(())
    }

    /// Losses of each CPU.
    fn losses(&self) -> Result<Vec<rt_loss>> {
        per_cpu(&self.skel.maps.rt_losses, 0)
    }

    /// Sets `RT_ARRAY_IN_SYNC` of an array: not degraded, and no resync runs.
    pub fn set_in_sync(&self, array: u32, in_sync: bool) -> Result<()> {
        let map = &self.skel.maps.rt_arrays;
        let found = map.lookup(array.bytes(), MapFlags::ANY)?;
        let Some(mut wire) = found.and_then(|b| rt_array::read(&b)) else {
            return Ok(());
        };
        let flags = if in_sync { wire.flags | ARRAY_IN_SYNC } else { wire.flags & !ARRAY_IN_SYNC };
        if flags != wire.flags {
            wire.flags = flags;
            map.update(array.bytes(), wire.bytes(), MapFlags::ANY)?;
        }
        Ok(())
    }
}

/// `origin << 3 | operation`, as in `rt_row()` of `bpf/counters.bpf.h`.
fn cell_key(member: u32, cell: usize) -> Option<CellKey> {
    let (origin, op) = (cell >> 3, cell & 7);
    Some(CellKey {
        member,
        origin: Origin::from_u8(u8::try_from(origin).ok()?)?,
        op: Op::from_u8(u8::try_from(op).ok()?)?,
    })
}

/// Decodes a task key; true if it counts dirtied data.
fn task_key(wire: &rt_task_key) -> Option<(TaskKey, bool)> {
    let (op, dirtied) = operation(wire.origin_op & 7)?;
    let key = TaskKey {
        array: u32::from(wire.array),
        pid: wire.pid,
        origin: Origin::from_u8(wire.origin_op >> 3)?,
        op,
    };
    Some((key, dirtied))
}

fn by_member_and_op(cells: &Cells) -> Cube<(u32, Op), Counted> {
    let counted = cells.iter().filter(|(_, cell)| !cell.counted.is_zero());
    counted.map(|(key, cell)| ((key.member, key.op), cell.counted)).collect()
}

fn cell_counters(row: &rt_row) -> CellCounters {
    CellCounters {
        requests: row.requests,
        bytes: row.bytes,
        queue: Hist::from_counts(row.queue),
        device: Hist::from_counts(row.device),
        counted: Counted(row.counted),
    }
}

fn task_name(task: &rt_task) -> TaskName {
    TaskName {
        tgid: task.tgid,
        cgroup: task.cgroup,
        comm: text(&task.comm),
        work: text(&task.work),
    }
}
