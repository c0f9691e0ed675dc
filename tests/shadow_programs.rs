//! Shadow programs (`bpf/shadow.bpf.h`) on kernels that may skip a program: they ignore an event
//! that the first program has handled, and handle an event for which it was skipped.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use common::{Loop, MIB, tracing};
use raidtrace::analysis::counters::Counters;
use raidtrace::analysis::lost::Loss;
use raidtrace::machine::topology::Topology;
use raidtrace::machine::{Sys, resolve};
use raidtrace::origin::Op;
use raidtrace::probe::tables::Tables;
use raidtrace::probe::{KernelFacts, Probe, plan};

const WRITES: u64 = 200;

/// Counters after [`WRITES`] direct writes, with shadow programs and without the programs in
/// `skipped`.
fn counted(skipped: &[&str]) -> Counters {
    let device = Loop::new(64 * MIB);
    let facts = KernelFacts { preemptible: true, ..KernelFacts::gather() };
    let sys = Sys::live();
    let topology = Topology::new(resolve(std::slice::from_ref(&device.name), &sys).unwrap());
    let tables = Tables::new(&topology).unwrap();
    let mut plan = plan(&facts, tables.need).unwrap();
    plan.programs.retain(|c| !skipped.contains(&c.program));
    let programs = plan.programs.len();
    let mut probe = Probe::start(&mut plan, &facts, &tables, false, None, None).unwrap();
    assert_eq!(plan.programs.len(), programs, "{:?}", plan.notes);

    #[repr(align(4096))]
    struct Block([u8; 4096]);
    let block = Block([7; 4096]);
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(device.device())
        .unwrap();
    for n in 0..WRITES {
        file.write_all_at(&block.0, n * 4096).unwrap();
    }
    probe.read().unwrap()
}

/// Requests and bytes of completed writes.
fn completed(counters: &Counters) -> (u64, u64) {
    let writes = counters.cells.iter().filter(|(key, _)| key.op == Op::Write);
    writes
        .fold((0, 0), |(requests, bytes), (_, cell)| (requests + cell.requests, bytes + cell.bytes))
}

fn written(counters: &Counters) -> u64 {
    let pid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let mine = counters.tasks.iter().filter(|(key, _)| key.pid == pid && key.op == Op::Write);
    mine.map(|(_, io)| io.bios).sum()
}

#[test]
fn a_shadow_program_ignores_handled_events() {
    if !tracing() {
        return;
    }
    let counters = counted(&[]);
    assert_eq!(written(&counters), WRITES);
    assert_eq!(completed(&counters), (WRITES, WRITES * 4096));
    assert_eq!((counters.lost[Loss::Issue], counters.lost[Loss::Missed]), (0, 0));
}

#[test]
fn a_shadow_program_handles_skipped_events() {
    if !tracing() {
        return;
    }
    let counters = counted(&["rt_bio_queue", "rt_rq_issue", "rt_rq_complete"]);
    assert_eq!(written(&counters), WRITES);
    assert_eq!(completed(&counters), (WRITES, WRITES * 4096));
    assert_eq!((counters.lost[Loss::Issue], counters.lost[Loss::Missed]), (0, 0));
    let neither = counted(&["rt_bio_queue", "rt_bio_queue_2", "rt_rq_issue", "rt_rq_issue_2"]);
    assert_eq!(completed(&neither), (WRITES, WRITES * 4096));
    assert_eq!(written(&neither), 0);
    assert!(neither.lost[Loss::Issue] > 0);
}
