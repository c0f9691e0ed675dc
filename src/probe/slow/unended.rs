//! Operations and commits that have not ended, as if they ended now.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{MapCore as _, MapFlags, ProgramInput};

use super::events::Raw;
use super::hooks::UNENDED;
use super::load::SlowProbe;
use super::read::io;
use crate::analysis::slow::event::{
    Commit, CommitState, MemberIo, Operation, SlowEvent, Stack, StackSleeps,
};
use crate::contract;
use crate::machine::privileges::raised;
use crate::machine::{Sys, task};
use crate::probe::clock::monotonic_ns;
use crate::probe::ring::ALL_RECORDS;
use crate::probe::wire::{Wire as _, rt_slow_async, rt_slow_io};

/// Maximum number of operations that are described, the oldest.
pub const MAX_DESCRIBED: usize = 256;

/// Operations and commits that have not ended.
#[derive(Default)]
pub struct Unended {
    /// Operations that have taken at least the threshold, oldest first.
    pub operations: Vec<Operation>,
    /// Number of all such operations.
    pub count: u64,
    /// Threads of all such operations, but those that have been submitted and go on without one.
    pub threads: BTreeSet<u32>,
    pub commits: Vec<Commit>,
    /// Flushes and FUA writes of members, and all IO of those that take bios.
    pub ios: Vec<MemberIo>,
}

impl SlowProbe {
    /// Finds the operations that have not ended. Appends what has ended meanwhile to `events`. If
    /// the kernel does not run the program, a note says so, and nothing is found from then on.
    ///
    /// # Errors
    /// The buffer or a map cannot be read.
    pub fn unended(&mut self, sys: &Sys, events: &mut Vec<SlowEvent>) -> Result<Unended> {
        let (mut raws, mut found) = (Vec::new(), Unended::default());
        if !self.programs.contains(&UNENDED) {
            return Ok(found);
        }
        let iocbs = self.old_iocbs(monotonic_ns())?;
        let described = iocbs.len().min(MAX_DESCRIBED);
        found.count = (iocbs.len() - described) as u64;
        let parts = (0..contract::SLOW_TASKS).step_by(contract::SLOW_PART as usize);
        let calls = parts.map(|first| [u64::from(first), 0]);
        let calls = calls.chain(iocbs[..described].iter().map(|iocb| [0, *iocb]));
        if let Err(error) = self.send(calls, &mut raws) {
            self.programs.retain(|program| *program != UNENDED);
            self.notes.push(format!("no operations that have not ended: {error:#}"));
        }
        let now = monotonic_ns();
        let bios = &self.skel.maps.rt_slow_bios;
        for (_, value) in bios.lookup_batch(bios.max_entries(), MapFlags::ANY, MapFlags::ANY)? {
            let io = rt_slow_io::read(&value).map(|b| MemberIo { end_ns: now, ..io(&b) });
            found.ios.extend(io);
        }
        let mut open = Vec::new();
        for raw in raws {
            match raw {
                Raw::Operation(o) if o.end_ns == 0 => open.push(o),
                Raw::Commit(c) if c.state_ns[CommitState::Ended as usize] == 0 => {
                    let mut commit = self.commit(&c);
                    // Its thread sleeps since its last change of state.
                    let since = commit.end_ns().unwrap_or(now);
                    commit.state_ns[CommitState::Ended as usize] = Some(now);
                    commit.off.sleeps.push(asleep(sys, c.pid, since, now));
                    found.commits.push(commit);
                }
                raw => events.extend(self.event(raw)),
            }
        }
        found.count += open.len() as u64;
        found.threads = open.iter().map(|o| o.pid).collect();
        open.sort_by_key(|o| o.start_ns);
        for mut o in open.into_iter().take(MAX_DESCRIBED) {
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

    /// Runs the program that sends what has not ended, with each of these arguments.
    fn send(&self, calls: impl Iterator<Item = [u64; 2]>, raws: &mut Vec<Raw>) -> Result<()> {
        let mut programs = self.skel.object().progs_mut();
        let Some(program) = programs.find(|p| p.name() == UNENDED) else { return Ok(()) };
        for arguments in calls {
            let mut arguments = arguments.map(u64::to_ne_bytes).concat();
            let context_in = Some(&mut arguments[..]);
            raised(|| program.test_run(ProgramInput { context_in, ..ProgramInput::default() }))?;
            self.ring.drain(ALL_RECORDS, raws)?;
        }
        Ok(())
    }

    /// Asynchronous operations that have taken at least the threshold, oldest first.
    fn old_iocbs(&self, now: u64) -> Result<Vec<u64>> {
        let maps = &self.skel.maps;
        let least = maps.rodata_data.map_or(0, |data| data.rt_slow_threshold);
        let mut old = Vec::new();
        for map in [&maps.rt_slow_async, &maps.rt_slow_displaced] {
            for (_, value) in map.lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)? {
                let Some(a) = rt_slow_async::read(&value).filter(|a| a.iocb > 0) else { continue };
                // One that is being submitted is in its task's slot.
                let submitted = a.queued_ns > 0 || a.again > 0;
                if a.end_ns == 0 && submitted && now.saturating_sub(a.start_ns) >= least {
                    old.push((a.start_ns, a.iocb));
                }
            }
        }
        old.sort_unstable();
        Ok(old.into_iter().map(|(_, iocb)| iocb).collect())
    }
}

/// The current sleep of a task.
pub fn asleep(sys: &Sys, pid: u32, since: u64, now: u64) -> StackSleeps {
    let functions = if sys.has_host_pids() { raised(|| task::stack(sys, pid)) } else { Vec::new() };
    let stack: Stack = functions.iter().map(|f| Arc::from(f.as_str())).collect();
    StackSleeps {
        stack: (!stack.is_empty()).then_some(stack),
        count: 1,
        ns: now.saturating_sub(since),
        first_ns: since,
        last_ns: now,
    }
}
