//! Blocks that were recognised by their content keep their origin when raidtrace rebuilds its
//! filter of them. Direct reads of the device show only what was learned: their pages belong to no
//! file and not to the device.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use common::{Loop, MIB, installed, tracing};
use raidtrace::machine::topology::Topology;
use raidtrace::machine::{Sys, resolve};
use raidtrace::origin::{Op, Origin};
use raidtrace::probe::tables::Tables;
use raidtrace::probe::{KernelFacts, Probe, plan};

const SIZE: u64 = 64 * MIB;

#[repr(align(4096))]
struct Buffer([u8; 512 << 10]);

/// Bytes of directories in direct reads of the whole device.
fn directories(probe: &mut Probe, device: &Loop) -> u64 {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(device.device())
        .unwrap();
    let mut count = || {
        let cells = probe.read().unwrap().cells;
        let read = cells.iter().filter(|(k, _)| k.op == Op::Read && k.origin == Origin::Directory);
        read.map(|(_, cell)| cell.bytes).sum::<u64>()
    };
    let before = count();
    let mut buffer = Box::new(Buffer([0; 512 << 10]));
    for at in (0..SIZE).step_by(buffer.0.len()) {
        file.read_exact_at(&mut buffer.0, at).unwrap();
    }
    count() - before
}

#[test]
fn learned_blocks_keep_their_origin_when_the_filter_is_rebuilt() {
    if !(tracing() && installed("mke2fs")) {
        return;
    }
    for block in ["4096", "1024"] {
        let device = Loop::ext4(SIZE, &["-b", block, "-O", "^dir_index", "-N", "8192"]);
        let facts = KernelFacts::gather();
        let sys = Sys::live();
        let topology = Topology::new(resolve(std::slice::from_ref(&device.name), &sys).unwrap());
        let tables = Tables::new(&topology).unwrap();
        let mut plan = plan(&facts, tables.need).unwrap();
        let mut probe = Probe::start(&mut plan, &facts, &tables, false, None, None).unwrap();

        let large = device.mount.join("large");
        fs::create_dir(&large).unwrap();
        for n in 0..4000 {
            File::create(large.join(format!("a file with quite a long name, {n:06}"))).unwrap();
        }
        device.sync();
        let bytes = [&device.mount, &large].map(|path| fs::metadata(path).unwrap().len());
        let all = bytes.iter().sum::<u64>();
        assert!(all > MIB / 8, "{all}");
        // Some sandboxes hide a few completions from BPF programs.
        let recognised = |probe: &mut Probe| {
            let mut seen = (0..10).map(|_| directories(probe, &device));
            let first = seen.next().unwrap();
            if first == all { first } else { seen.find(|bytes| *bytes == all).unwrap_or(first) }
        };
        assert_eq!(recognised(&mut probe), all, "block size {block}");
        for n in 0..3 {
            probe.rebuild_filter().unwrap();
            assert_eq!(recognised(&mut probe), all, "block size {block}, rebuild {n}");
        }
    }
}
