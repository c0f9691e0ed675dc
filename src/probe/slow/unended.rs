//! Operations and commits that have not ended, as if they ended now.

use std::sync::Arc;

use anyhow::Result;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{MapCore as _, MapFlags, ProgramInput};

use super::events::Raw;
use super::hooks::UNENDED;
use super::load::SlowProbe;
use super::read::io;

use crate::analysis::slow::event::{Commit, Event, MemberIo, Operation, Sleep, Stack, State};
use crate::contract;
use crate::machine::privileges::raised;
use crate::machine::{Sys, task};
use crate::probe::clock::monotonic_ns;
use crate::probe::ring::ALL;
use crate::probe::wire::{Wire as _, rt_slow_async, rt_slow_io};

/// Maximum number of asynchronous operations, the oldest, and of tasks that are described.
const DESCRIBED: usize = 256;

/// Operations and commits that have not ended.
#[derive(Default)]
pub struct Unended {
    /// Operations that have taken at least the threshold, oldest first.
    pub operations: Vec<Operation>,
    /// Number of all such operations.
    pub count: u64,
    pub commits: Vec<Commit>,
    /// Flushes and FUA writes of members, and all IO of those that take bios.
    pub ios: Vec<MemberIo>,
}

impl SlowProbe {
    /// Finds the operations that have not ended. Appends what has ended meanwhile to `events`.
    ///
    /// # Errors
    /// The buffer or a map cannot be read.
    pub fn unended(&mut self, sys: &Sys, events: &mut Vec<Event>) -> Result<Unended> {
        let (mut raws, mut found) = (Vec::new(), Unended::default());
        if !self.programs.contains(&UNENDED) {
            return Ok(found);
        }
        for first in (0..contract::SLOW_TASKS).step_by(contract::SLOW_PART as usize) {
            self.send([u64::from(first), 0])?;
            self.ring.drain(ALL, &mut raws)?;
        }
        let now = monotonic_ns();
        let iocbs = self.old_iocbs(now)?;
        found.count = iocbs.len() as u64;
        for iocb in iocbs.into_iter().take(DESCRIBED) {
            self.send([0, iocb])?;
            found.count -= 1;
        }
        self.ring.drain(ALL, &mut raws)?;
        let bios = &self.skel.maps.rt_slow_bios;
        for (_, value) in bios.lookup_batch(bios.max_entries(), MapFlags::ANY, MapFlags::ANY)? {
            let io = rt_slow_io::read(&value).map(|b| MemberIo { end_ns: now, ..io(&b) });
            found.ios.extend(io);
        }
        let mut open = Vec::new();
        for raw in raws {
            match raw {
                Raw::Operation(o) if o.end_ns == 0 => open.push(o),
                Raw::Commit(c) if c.state_ns[State::Ended as usize] == 0 => {
                    let mut commit = self.commit(&c);
                    // Its thread sleeps since its last change of state.
                    let since = commit.end_ns().unwrap_or(now);
                    commit.state_ns[State::Ended as usize] = Some(now);
                    commit.off.sleeps.push(asleep(sys, c.pid, since, now));
                    found.commits.push(commit);
                }
                raw => events.extend(self.event(raw)),
            }
        }
        found.count += open.len() as u64;
        open.sort_by_key(|o| o.start_ns);
        for mut o in open.into_iter().take(DESCRIBED) {
            o.end_ns = now.max(o.start_ns);
            let lock = &mut o.lock;
            if lock.since_ns > 0 {
                (lock.waits, lock.pid, lock.comm) =
                    (lock.waits + 1, lock.current_pid, lock.current_comm);
                (lock.kind, lock.flags) = (lock.current_kind, lock.current_flags);
            }
            let Some(mut operation) = self.operation(&o) else { continue };
            if o.tgid == 0 {
                operation.task.comm = task::comm(sys, o.pid).unwrap_or_default();
                operation.tgid = task::process(sys, o.pid).unwrap_or(o.pid);
            }
            if o.since_ns > 0 {
                operation.off.sleeps.push(asleep(sys, o.pid, o.since_ns, now));
            }
            found.operations.push(operation);
        }
        Ok(found)
    }

    /// Runs the program that sends what has not ended.
    fn send(&self, arguments: [u64; 2]) -> Result<()> {
        let mut arguments = arguments.map(u64::to_ne_bytes).concat();
        let mut programs = self.skel.object().progs_mut();
        if let Some(program) = programs.find(|p| p.name() == UNENDED) {
            let context_in = Some(&mut arguments[..]);
            raised(|| program.test_run(ProgramInput { context_in, ..ProgramInput::default() }))?;
        }
        Ok(())
    }

    /// Asynchronous operations that have taken at least the threshold, oldest first.
    fn old_iocbs(&self, now: u64) -> Result<Vec<u64>> {
        let maps = &self.skel.maps;
        let least = maps.rodata_data.map_or(0, |data| data.rt_slow_threshold);
        let map = &maps.rt_slow_async;
        let mut old = Vec::new();
        for (key, value) in map.lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)? {
            let (Some(iocb), Some(a)) = (u64::read(&key), rt_slow_async::read(&value)) else {
                continue;
            };
            // One that is being submitted is in its task's slot.
            let submitted = a.queued_ns > 0 || a.again > 0;
            if a.end_ns == 0 && submitted && now.saturating_sub(a.start_ns) >= least {
                old.push((a.start_ns, iocb));
            }
        }
        old.sort_unstable();
        Ok(old.into_iter().map(|(_, iocb)| iocb).collect())
    }
}

/// The current sleep of a task.
fn asleep(sys: &Sys, pid: u32, since: u64, now: u64) -> Sleep {
    let functions = if sys.has_host_pids() { raised(|| task::stack(sys, pid)) } else { Vec::new() };
    let stack: Stack = functions.iter().map(|f| Arc::from(f.as_str())).collect();
    Sleep {
        stack: (!stack.is_empty()).then_some(stack),
        count: 1,
        ns: now.saturating_sub(since),
        first_ns: since,
        last_ns: now,
    }
}
