//! Reads the events and sums of the BPF programs.

use std::sync::Arc;

use anyhow::Result;
use libbpf_rs::skel::Skel as _;
use libbpf_rs::{MapCore as _, MapFlags};

use super::events::Raw;
use super::load::SlowProbe;
use crate::analysis::cube::Cube;
use crate::analysis::files::FileId;
use crate::analysis::overhead::Overhead;
use crate::analysis::slow::asynchronous::{Asynchronous, OwnIo};
use crate::analysis::slow::event::{
    Commit, CommitReason, Holder, LockWait, MemberIo, OffCpu, Operation, OperationFlags,
    OperationKind, OrderedFile, Purpose, STATES, SlowEvent, Stack, StackSleeps, Task,
};
use crate::analysis::slow::snapshot::{KindSum, SlowLost};
use crate::contract;
use crate::probe::entries::per_cpu;
use crate::probe::object::{program_info, programs};
use crate::probe::overhead::Meter;
use crate::probe::ring::ALL_RECORDS;
use crate::probe::wire::{
    Wire as _, rt_slow_commit, rt_slow_io, rt_slow_lock, rt_slow_loss, rt_slow_operation,
    rt_slow_sleeps, rt_slow_sum,
};

/// Flags of struct bio, the same in 5.10 to 7.2.
const PREFLUSH: u32 = 1 << 18;
const FUA: u32 = 1 << 17;
/// REQ_OP_MASK of struct bio.
const OP: u32 = 0xff;
/// REQ_OP_READ.
const READ: u32 = 0;

/// Kinds of handles: EXT4_HT_ of fs/ext4/ext4_jbd2.h.
const HANDLES: [&str; 12] = [
    "miscellaneous",
    "inode",
    "writeback",
    "block map",
    "directory",
    "truncate",
    "quota",
    "resize",
    "migration",
    "extent move",
    "xattr",
    "extent conversion",
];

impl SlowProbe {
    /// Appends the events of the ring buffer to `events`.
    ///
    /// # Errors
    /// The buffer cannot be read, or contains malformed events.
    pub fn drain(&mut self, events: &mut Vec<SlowEvent>) -> Result<()> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.rt_slow_sent = 0;
            bss.rt_slow_noted = 0;
        }
        let mut drained = Vec::new();
        self.ring.drain(ALL_RECORDS, &mut drained)?;
        for raw in drained {
            events.extend(self.event(raw));
        }
        Ok(())
    }

    pub(super) fn event(&mut self, raw: Raw) -> Option<SlowEvent> {
        Some(match raw {
            Raw::Io(b) => SlowEvent::MemberIo(io(&b)),
            Raw::Commit(c) => SlowEvent::Commit(Box::new(self.commit(&c))),
            Raw::Operation(o) => SlowEvent::Operation(Box::new(self.operation(&o)?)),
        })
    }

    /// All operations since the start, by kind.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn sums(&self) -> Result<Cube<OperationKind, KindSum>> {
        let mut all = Cube::default();
        for wire in 0..2 * contract::SLOW_KINDS {
            let Some(kind) = kind(wire % contract::SLOW_KINDS) else { continue };
            for s in per_cpu::<rt_slow_sum>(&self.skel.maps.rt_slow_sums, wire)? {
                all.add(kind, &KindSum { count: s.count, ns: s.ns, slow: s.slow });
            }
        }
        Ok(all)
    }

    /// Losses since the start.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn lost(&self) -> Result<SlowLost> {
        let mut lost = SlowLost::default();
        for l in per_cpu::<rt_slow_loss>(&self.skel.maps.rt_slow_losses, 0)? {
            lost.slots += l.slots;
            lost.tables += l.operations + l.commits;
            lost.events += l.events;
            lost.ios += l.bios + l.ios;
        }
        // The end of asynchronous IO has two programs: a run that the kernel skips is done by the
        // other one.
        let alone: Vec<_> =
            self.programs.iter().copied().filter(|p| !p.starts_with("rt_slow_dio_")).collect();
        for (_, program) in programs(self.skel.object(), &alone) {
            lost.missed += program_info(&program).map_or(0, |info| info.recursion_misses);
        }
        Ok(lost)
    }

    /// Time spent in the programs since the start.
    pub fn overhead(&mut self) -> Overhead {
        self.meter.as_mut().map(Meter::read).unwrap_or_default()
    }

    /// Functions of a stack; `None` if no stack was taken.
    fn stack(&mut self, key: u64) -> Option<Stack> {
        if key == 0 {
            return None;
        }
        if let Some(known) = self.stacks.get(&key) {
            return Some(Arc::clone(known));
        }
        let stacks = &self.skel.maps.rt_slow_stacks;
        let bytes = stacks.lookup(key.bytes(), MapFlags::ANY).ok().flatten()?;
        let (symbols, functions) = (&self.symbols, &mut self.functions);
        let addresses = bytes.chunks_exact(8).filter_map(u64::read);
        let names = addresses.take_while(|a| *a != 0).filter_map(|address| {
            // A return address is after the call, which may be the function's last instruction.
            let function = symbols.at(address - 1)?;
            let name = functions.entry(function.begin);
            let name = name.or_insert_with(|| Arc::from(function.name));
            Some(Arc::clone(name))
        });
        let stack: Stack = names.filter(|n| &**n != "[bpf]").collect();
        self.stacks.insert(key, Arc::clone(&stack));
        Some(stack)
    }

    fn off(&mut self, off: &rt_slow_sleeps) -> OffCpu {
        let used = (off.used as usize).min(off.sleeps.len());
        let mut sleeps = Vec::with_capacity(used);
        for s in &off.sleeps[..used] {
            sleeps.push(StackSleeps {
                stack: self.stack(s.stack),
                count: u32::try_from(s.count).unwrap_or(u32::MAX),
                ns: s.ns,
                first_ns: s.first_ns,
                last_ns: s.last_ns,
            });
        }
        OffCpu { sleeps, queued_ns: off.queued_ns, missed_ns: off.missed_ns }
    }

    /// `None` for an unknown kind.
    pub(super) fn operation(&mut self, o: &rt_slow_operation) -> Option<Operation> {
        let file = FileId { dev: o.dev, inode: o.inode, generation: o.generation };
        Some(Operation {
            kind: kind(u32::from(o.kind))?,
            task: task(o.pid, &o.comm),
            tgid: o.tgid,
            file: (o.inode != 0).then_some(file),
            dev: o.dev,
            start_ns: o.start_ns,
            end_ns: o.end_ns,
            position: o.position,
            bytes: o.bytes,
            flags: flags(o.flags),
            lock: lock(&o.lock),
            asynchronous: asynchronous(o),
            pusher: (o.pusher != 0).then(|| task(o.pusher, &o.pusher_comm)),
            off: self.waits(o),
        })
    }

    /// Sleeps of an operation. What an asynchronous one waits for while no task sleeps is a sleep
    /// in the function that would wait for it.
    fn waits(&mut self, o: &rt_slow_operation) -> OffCpu {
        let mut off = self.off(&o.off_cpu);
        let mut add = |function: &str, first_ns: u64, last_ns: u64| {
            let ns = last_ns.saturating_sub(first_ns);
            let stack = Some([Arc::from(function)].into());
            off.sleeps.push(StackSleeps { stack, count: 1, ns, first_ns, last_ns });
        };
        if o.attempt_ns > o.start_ns {
            let direct = flags(o.flags).direct || o.kind != contract::SLOW_READ as u16;
            let function = if direct { "io_wq_submit_work" } else { "filemap_read" };
            add(function, o.start_ns, o.attempt_ns);
        }
        off
    }

    pub(super) fn commit(&mut self, c: &rt_slow_commit) -> Commit {
        let seen = |ns: u64| (ns != 0).then_some(ns);
        let mut state_ns = [None; STATES];
        for (state, ns) in state_ns.iter_mut().zip(c.state_ns) {
            *state = seen(ns);
        }
        let request = match (c.timer, c.requester) {
            (_, 1..) => {
                let purpose = self.stack(c.request_stack).and_then(|s| Purpose::from_stack(&s));
                CommitReason::By(task(c.requester, &c.comm), purpose)
            }
            (0, 0) => CommitReason::Unknown,
            (_, 0) => CommitReason::Timer,
        };
        let kept = c.holders.len();
        let held = c.holder_count as usize;
        // The array is a ring; without an overflow the first one is the oldest.
        let first = if held > kept { held % kept } else { 0 };
        let holders = (0..held.min(kept)).map(|i| {
            let h = &c.holders[(first + i) % kept];
            Holder {
                task: task(h.pid, &h.comm),
                handle: HANDLES.get(h.r#type as usize).copied().unwrap_or("unknown").into(),
                ns: h.end_ns,
            }
        });
        let ordered = c.inodes.iter().filter(|i| i.inode != 0).map(|i| OrderedFile {
            file: FileId { dev: c.dev, inode: i.inode, generation: i.generation },
            ns: i.wait_ns,
            pages: i.pages,
            bytes: seen(i.bytes),
            writer: (i.writer != 0).then(|| task(i.writer, &i.comm)),
        });
        Commit {
            flushes: Vec::new(),
            dev: c.dev,
            tid: c.tid,
            request,
            requested_ns: seen(c.requested_ns),
            state_ns,
            record_ns: seen(c.record_ns),
            handles: c.handles,
            blocks: c.blocks,
            logged: c.logged,
            holders: holders.collect(),
            ordered: ordered.collect(),
            others_ns: c.others_ns,
            journal: (c.journal_dev != 0 && c.journal_dev != c.dev).then_some(c.journal_dev),
            off: self.off(&c.off_cpu),
        }
    }
}

fn asynchronous(o: &rt_slow_operation) -> Asynchronous {
    let io = &o.io;
    Asynchronous {
        depth: o.depth,
        queued_ns: o.queued_ns,
        released_ns: o.released_ns,
        io: (io.end_ns != 0).then_some(OwnIo {
            dev: io.dev,
            start_ns: io.start_ns,
            issue_ns: (io.issue_ns != 0).then_some(io.issue_ns),
            end_ns: io.end_ns,
        }),
    }
}

fn lock(l: &rt_slow_lock) -> LockWait {
    LockWait {
        waits: l.waits,
        ns: l.ns,
        exclusive: u32::from(l.flags) & contract::SLOW_EXCLUSIVE != 0,
        holder: (l.pid != 0).then(|| task(l.pid, &l.comm)),
        readers: u32::from(l.flags) & contract::SLOW_READERS != 0,
        kind: kind(u32::from(l.kind)),
        flags: flags(l.flags),
    }
}

pub(super) fn io(b: &rt_slow_io) -> MemberIo {
    MemberIo {
        dev: b.dev,
        start_ns: b.start_ns,
        end_ns: b.end_ns,
        flush: b.flags & PREFLUSH != 0,
        fua: b.flags & FUA != 0,
        write: b.flags & OP != READ,
        bytes: b.bytes,
        pre_read: b.pre_read != 0,
    }
}

fn kind(wire: u32) -> Option<OperationKind> {
    Some(match wire {
        contract::SLOW_FSYNC => OperationKind::Fsync,
        contract::SLOW_FDATASYNC => OperationKind::Fdatasync,
        contract::SLOW_SYNC => OperationKind::Sync,
        contract::SLOW_READ => OperationKind::Read,
        contract::SLOW_WRITE => OperationKind::Write,
        contract::SLOW_FALLOCATE => OperationKind::Fallocate,
        contract::SLOW_TRUNCATE => OperationKind::Truncate,
        contract::SLOW_RENAME => OperationKind::Rename,
        contract::SLOW_UNLINK => OperationKind::Unlink,
        contract::SLOW_CREATE => OperationKind::Create,
        contract::SLOW_RANGE => OperationKind::SyncFileRange,
        _ => return None,
    })
}

fn flags(wire: u8) -> OperationFlags {
    let has = |flag: u32| u32::from(wire) & flag != 0;
    OperationFlags {
        direct: has(contract::SLOW_DIRECT),
        extends: has(contract::SLOW_EXTENDS),
        unaligned: has(contract::SLOW_UNALIGNED),
        syncs: has(contract::SLOW_SYNCS),
        security: has(contract::SLOW_SECURITY),
        xfs: has(contract::SLOW_XFS),
    }
}

fn task(pid: u32, comm: &[u8]) -> Task {
    let name = comm.iter().copied().take_while(|&c| c != 0);
    Task { pid, comm: name.collect() }
}
