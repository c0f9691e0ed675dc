//! What this kernel offers, found by asking it, never by its version.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, Read as _};
use std::path::Path;
use std::thread;

use libbpf_rs::ReferencesType as _;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct, Typedef};

use super::md::Md;

/// Facts only; the rules are in `plan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The kernel describes its types (`/sys/kernel/btf/vmlinux`); without it nothing loads.
    pub btf: bool,
    /// Arguments of the tracepoint, not counting the `void *` in front: `(rq)`, or `(q, rq)` before 5.11 and in early 5.10;
    /// `None`: the kernel has no such tracepoint.
    pub rq_issue: Option<usize>,
    /// `block_rq_complete(rq, error, nr_bytes)`.
    pub rq_complete: Option<usize>,
    /// `block_bio_queue(bio)`, or `(q, bio)` before 5.15.
    pub bio_queue: Option<usize>,
    /// `ext4_free_blocks(inode, block, count, flags)`, in the kernel or in the ext4 module.
    pub free_blocks: Option<usize>,
    /// ext4 is a module whose types are known; its tracepoints cannot be counted up front.
    pub ext4_module_btf: bool,
    /// `jbd2_handle_stats(dev, tid, type, line_no, interval, sync, requested_blocks, dirtied_blocks)`, in the kernel or in the
    /// module jbd2.
    pub handle_stats: Option<usize>,
    /// `jbd2_checkpoint(journal, result)`, likewise.
    pub checkpoint: Option<usize>,
    /// `jbd2_checkpoint_stats(dev, tid, stats)`, likewise.
    pub checkpoint_stats: Option<usize>,
    /// `jbd2_update_log_tail(journal, first_tid, block_nr, freed)`, likewise.
    pub log_tail: Option<usize>,
    /// jbd2 is a module whose types are known.
    pub jbd2_module_btf: bool,
    /// ftrace hooks functions here: `available_filter_functions` of tracefs lists some.
    pub ftrace: bool,
    /// `writeback_dirty_folio(folio, mapping)`, from 5.18 on.
    pub dirty_folio: Option<usize>,
    /// `writeback_dirty_page(page, mapping)`, until then.
    pub dirty_page: Option<usize>,
    /// `block_bio_complete(q, bio)`.
    pub bio_complete: Option<usize>,
    /// What md's modules tell.
    pub md: Md,
    /// Addresses of the variables `vmemmap_base` and `page_offset_base` (x86-64 with a memory layout
    /// that moves); 0 where there are none, `u64::MAX` where their addresses are hidden.
    pub vmemmap_base: u64,
    /// The other one.
    pub page_offset_base: u64,
    /// Address of the function `iomap_dio_bio_end_io`, which ends direct IO; 0 as above.
    pub dio_end_io: u64,
    /// That of `ext4_end_bio`, which ends ext4's writeback.
    pub ext4_end_io: u64,
    /// That of dm's `clone_endio`.
    pub dm_end_io: u64,
    /// Address of the function `submit_bio_wait_endio`, which wakes a task that waits for a bio; 0 as above.
    pub wait_end_io: u64,
    /// Tracepoints are called with preemption on: see `bpf/shadow.bpf.h`.
    pub preemptible: bool,
    /// The kernel skips a program that is running on that CPU already, instead of running it in the middle of itself: it
    /// counts what it has skipped for raw tracepoints (`bpf_prog_inc_misses_counter`).
    pub guarded: bool,
    /// A disk has several hardware queues: its requests complete in the interrupt, which may come in the middle of another
    /// completion (`blk_mq_complete_request_remote()`).
    pub several_queues: bool,
}

impl Facts {
    /// Asks the running kernel.
    pub fn gather() -> Self {
        super::log::collect();
        // The kernel formats 100,000 symbols for the one, libbpf reads 5 MiB of types for the other: at the same time.
        let types = thread::spawn(Self::types);
        let symbols = Self::symbols();
        let types = types.join().unwrap_or_else(|_| Self::types());
        Self {
            vmemmap_base: symbols.vmemmap_base,
            page_offset_base: symbols.page_offset_base,
            dio_end_io: symbols.dio_end_io,
            ext4_end_io: symbols.ext4_end_io,
            dm_end_io: symbols.dm_end_io,
            wait_end_io: symbols.wait_end_io,
            guarded: symbols.guarded,
            several_queues: several_queues(Path::new("/sys/block")),
            md: Md {
                stripe_syncing: types.md.stripe_syncing,
                stripe_expanding: types.md.stripe_expanding,
                stripe_expand_source: types.md.stripe_expand_source,
                ..symbols.md
            },
            ..types
        }
    }

    /// Addresses only.
    fn symbols() -> Self {
        let mut facts = Self::default();
        let Ok(symbols) = std::fs::File::open("/proc/kallsyms") else {
            return facts;
        };
        let mut symbols = std::io::BufReader::new(symbols);
        let mut line = String::new();
        while symbols.read_line(&mut line).is_ok_and(|n| n > 0) {
            // ffffffffc0a81230 t end_sync_read	[raid1]
            let mut fields = line.split_ascii_whitespace();
            let (address, name) = (fields.next(), fields.nth(1).unwrap_or(""));
            let address = address
                .and_then(|a| u64::from_str_radix(a, 16).ok())
                .unwrap_or(0);
            match name {
                // 0: hidden, which is not "this kernel has no such variable"
                "vmemmap_base" => facts.vmemmap_base = known(address),
                "page_offset_base" => facts.page_offset_base = known(address),
                "iomap_dio_bio_end_io" => facts.dio_end_io = known(address),
                "ext4_end_bio" => facts.ext4_end_io = known(address),
                "clone_endio" => facts.dm_end_io = known(address),
                "submit_bio_wait_endio" => facts.wait_end_io = known(address),
                "bpf_prog_inc_misses_counter" => facts.guarded = true,
                _ => facts.md.symbol(name, fields.next().unwrap_or(""), address),
            }
            line.clear();
        }
        facts
    }

    /// Everything but addresses.
    fn types() -> Self {
        let mut facts = Self {
            ext4_module_btf: Path::new("/sys/kernel/btf/ext4").exists(),
            jbd2_module_btf: Path::new("/sys/kernel/btf/jbd2").exists(),
            ftrace: ftrace(),
            ..Self::default()
        };
        let Ok(btf) = Btf::from_vmlinux() else {
            return facts;
        };
        facts.btf = true;
        facts.md.stripe_states();
        facts.rq_issue = arguments(&btf, "block_rq_issue");
        facts.rq_complete = arguments(&btf, "block_rq_complete");
        facts.bio_queue = arguments(&btf, "block_bio_queue");
        facts.bio_complete = arguments(&btf, "block_bio_complete");
        facts.free_blocks = arguments(&btf, "ext4_free_blocks");
        facts.handle_stats = arguments(&btf, "jbd2_handle_stats");
        facts.checkpoint = arguments(&btf, "jbd2_checkpoint");
        facts.checkpoint_stats = arguments(&btf, "jbd2_checkpoint_stats");
        facts.log_tail = arguments(&btf, "jbd2_update_log_tail");
        facts.dirty_folio = arguments(&btf, "writeback_dirty_folio");
        facts.dirty_page = arguments(&btf, "writeback_dirty_page");
        facts.preemptible = preemptible(&btf);
        facts
    }
}

/// Differs when modules were loaded or removed: only then may the facts be others.
pub fn modules() -> u64 {
    let mut digest = DefaultHasher::new();
    for line in std::fs::read_to_string("/proc/modules")
        .unwrap_or_default()
        .lines()
    {
        // raid1 57344 1 - Live 0xffffffffc0a7e000: in between, who uses it.
        let mut words = line.split_ascii_whitespace();
        (words.next(), words.nth(4)).hash(&mut digest);
    }
    digest.finish()
}

/// True if `mq` of a disk has a directory for each of several hardware queues.
fn several_queues(disks: &Path) -> bool {
    let Ok(disks) = std::fs::read_dir(disks) else {
        return false;
    };
    disks
        .flatten()
        .filter_map(|disk| std::fs::read_dir(disk.path().join("mq")).ok())
        .any(|queues| queues.count() > 1)
}

/// True if a function can be hooked: the first line will do, all of them take the kernel 20 ms.
fn ftrace() -> bool {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|dir| std::fs::File::open(format!("{dir}/available_filter_functions")).ok())
        .is_some_and(|mut list| list.read(&mut [0]).is_ok_and(|n| n > 0))
}

fn known(address: u64) -> u64 {
    if address == 0 { u64::MAX } else { address }
}

/// The commit that leaves preemption on in tracepoints (a46023d5616e) has kernel/tracepoint.c wait for their callers in another
/// way, and keep where that stands in a new member: the only thing about it that the kernel describes.
fn preemptible(btf: &Btf<'_>) -> bool {
    let Some(waits) = btf.type_by_name::<Struct<'_>>("tp_transition_snapshot") else {
        return false;
    };
    waits
        .iter()
        .any(|member| member.name.is_some_and(|name| name == "srcu_gp"))
}

/// `btf_trace_X` is a pointer to the prototype of X's probes: `void *__data`, then X's arguments.
fn arguments(btf: &Btf<'_>, tracepoint: &str) -> Option<usize> {
    let name = format!("btf_trace_{tracepoint}");
    let typedef = btf.type_by_name::<Typedef<'_>>(&name)?;
    let pointer = Ptr::try_from(typedef.referenced_type()).ok()?;
    let proto = FuncProto::try_from(pointer.referenced_type()).ok()?;
    proto.len().checked_sub(1)
}
