//! Properties of the running kernel, probed instead of derived from its version.

use std::io::Read as _;
use std::path::Path;
use std::thread;

use libbpf_rs::btf::BtfKind;

use super::btf::Btf;
use super::fields;
use super::md::Md;
use super::symbols::KernelSymbols;
use crate::machine::tracefs;

/// Facts about the kernel. The rules that use them are in `plan`. Tracepoints are described by
/// their number of arguments, without the leading `void *`; `None` if the kernel lacks the
/// tracepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelFacts {
    /// The kernel describes its types (`/sys/kernel/btf/vmlinux`); without it nothing loads.
    pub btf: bool,
    /// `block_rq_issue(rq)`, or `(q, rq)` before 5.11 (5.10.y: before 5.10.137).
    pub rq_issue: Option<usize>,
    /// `block_rq_complete(rq, error, nr_bytes)`.
    pub rq_complete: Option<usize>,
    /// `block_bio_queue(bio)`, or `(q, bio)` in 5.10.
    pub bio_queue: Option<usize>,
    /// `ext4_free_blocks(inode, block, count, flags)`, in the kernel or in the ext4 module.
    pub free_blocks: Option<usize>,
    /// ext4 is a module with BTF. The number of arguments of its tracepoints is unknown until they
    /// are attached.
    pub ext4_module_btf: bool,
    /// `jbd2_handle_stats(dev, tid, type, line_no, interval, sync, requested_blocks,
    /// dirtied_blocks)`, in the kernel or in the module jbd2.
    pub handle_stats: Option<usize>,
    /// `jbd2_checkpoint(journal, result)`, likewise.
    pub checkpoint: Option<usize>,
    /// `jbd2_checkpoint_stats(dev, tid, stats)`, likewise.
    pub checkpoint_stats: Option<usize>,
    /// `jbd2_update_log_tail(journal, first_tid, block_nr, freed)`, likewise.
    pub log_tail: Option<usize>,
    pub jbd2_module_btf: bool,
    /// ftrace can hook functions: `available_filter_functions` of tracefs is not empty.
    pub ftrace: bool,
    /// `writeback_dirty_folio(folio, mapping)`, since 5.18.
    pub dirty_folio: Option<usize>,
    /// `writeback_dirty_page(page, mapping)`, before 5.18.
    pub dirty_page: Option<usize>,
    /// `block_bio_complete(q, bio)`.
    pub bio_complete: Option<usize>,
    /// Facts about md's modules.
    pub md: Md,
    /// Address of the variable `vmemmap_base` (x86-64 with randomised memory layout); 0 if there
    /// is none, `u64::MAX` if the kernel hides addresses. The same for the addresses below.
    pub vmemmap_base: u64,
    /// Address of the variable `page_offset_base`.
    pub page_offset_base: u64,
    /// Address of the function `iomap_dio_bio_end_io`, which ends direct IO.
    pub dio_end_io: u64,
    /// The kernel has `__iomap_dio_read_simple()` (7.3), and the address of the variable
    /// `iomap_dio_simple_pool`, to which its bios belong.
    pub dio_simple: bool,
    pub dio_simple_pool: u64,
    /// Bytes from `iocb` to `bio` in its `struct iomap_dio_simple`.
    pub dio_simple_iocb: u64,
    /// Address of the function `ext4_end_bio`, which ends ext4's writeback.
    pub ext4_end_io: u64,
    /// Address of dm's function `clone_endio`.
    pub dm_end_io: u64,
    /// Address of the function that wakes a task that waits for a bio: `submit_bio_wait_endio`, or
    /// `bio_wait_end_io` since 7.2. Both find the task's `struct completion` in `bi_private`.
    pub wait_end_io: u64,
    /// The kernel describes XFS's types, in itself or in the module.
    pub xfs_types: bool,
    /// Address of the function `xfs_buf_bio_end_io`, which ends the bios of XFS's metadata.
    pub xfs_buf_end: u64,
    /// Address of the function `xlog_bio_end_io`, which ends the bios of XFS's log.
    pub xfs_log_end: u64,
    /// Address of the function `bio_chain_endio`, which ends a part of a split bio.
    pub chain_end: u64,
    /// Tracepoints are called with preemption on: see `bpf/shadow.bpf.h`.
    pub preemptible: bool,
    /// Programs must not use ring buffers: see [`Btf::has_sleeping_ring`].
    pub sleeping_ring: bool,
    /// The kernel skips a program that already runs on the CPU, instead of nesting it. Such
    /// kernels count skipped runs of raw tracepoints (`bpf_prog_inc_misses_counter`).
    pub guarded: bool,
    /// For each entry of [`fields::LOST`]: the first field that the kernel lacks.
    pub missing: fields::Missing,
    /// Symbols of [`symbols::EXPECTED`](super::symbols::EXPECTED) that the kernel lacks.
    pub absent: u32,
    /// A disk has several hardware queues. Its requests complete in an interrupt, which can
    /// interrupt another completion (`blk_mq_complete_request_remote()`).
    pub several_queues: bool,
}

impl KernelFacts {
    /// Probes the running kernel.
    pub fn gather() -> Self {
        super::log::collect();
        // Types and symbols are read in parallel: libbpf parses 5 MiB of types, and the kernel
        // formats 100,000 symbols.
        let types = thread::spawn(Self::types);
        let symbols = KernelSymbols::load();
        let mut facts = types.join().unwrap_or_else(|_| Self::types());
        facts.md.add_symbols(&symbols);
        // Without CONFIG_KALLSYMS_ALL, the list has functions only: addresses of variables are
        // unknown, and needed if memory is at random addresses.
        let variable = |name| match symbols.has("init_task") || symbols.has_fixed_memory() {
            true => symbols.address(name),
            false => u64::MAX,
        };
        let has = |module: &str| {
            ["/sys/module", "/sys/fs"].iter().any(|dir| Path::new(dir).join(module).exists())
        };
        Self {
            vmemmap_base: variable("vmemmap_base"),
            page_offset_base: variable("page_offset_base"),
            dio_end_io: symbols.address("iomap_dio_bio_end_io"),
            dio_simple_pool: symbols.address("iomap_dio_simple_pool"),
            ext4_end_io: symbols.address("ext4_end_bio"),
            dm_end_io: symbols.address_in("dm_mod", "clone_endio"),
            wait_end_io: match symbols.address("submit_bio_wait_endio") {
                0 => symbols.address("bio_wait_end_io"),
                address => address,
            },
            xfs_buf_end: symbols.address("xfs_buf_bio_end_io"),
            xfs_log_end: symbols.address("xlog_bio_end_io"),
            chain_end: symbols.address("bio_chain_endio"),
            absent: symbols.absent(has),
            guarded: symbols.has("bpf_prog_inc_misses_counter"),
            several_queues: several_queues(Path::new("/sys/block")),
            ..facts
        }
    }

    /// All facts except symbols.
    fn types() -> Self {
        let facts = Self {
            ext4_module_btf: Path::new("/sys/kernel/btf/ext4").exists(),
            jbd2_module_btf: Path::new("/sys/kernel/btf/jbd2").exists(),
            // Read only the first line: the kernel needs 20 ms to list all functions.
            ftrace: tracefs::functions()
                .is_some_and(|mut list| list.read(&mut [0]).is_ok_and(|n| n > 0)),
            ..Self::default()
        };
        let Some(btf) = Btf::load("raid456") else {
            return facts;
        };
        let arguments = |tracepoint| btf.tracepoint_arguments(tracepoint);
        Self {
            btf: true,
            missing: fields::missing(|field| btf.has_field(field)),
            md: Md::from_types(&btf),
            rq_issue: arguments("block_rq_issue"),
            rq_complete: arguments("block_rq_complete"),
            bio_queue: arguments("block_bio_queue"),
            bio_complete: arguments("block_bio_complete"),
            free_blocks: arguments("ext4_free_blocks"),
            handle_stats: arguments("jbd2_handle_stats"),
            checkpoint: arguments("jbd2_checkpoint"),
            checkpoint_stats: arguments("jbd2_checkpoint_stats"),
            log_tail: arguments("jbd2_update_log_tail"),
            dio_simple: btf.has("iomap_dio_simple", BtfKind::Struct),
            dio_simple_iocb: btf
                .offset("iomap_dio_simple.bio")
                .zip(btf.offset("iomap_dio_simple.iocb"))
                .map_or(0, |(bio, iocb)| bio - iocb),
            dirty_folio: arguments("writeback_dirty_folio"),
            dirty_page: arguments("writeback_dirty_page"),
            xfs_types: (btf.has("xfs_buf_ops", BtfKind::Struct)
                || Path::new("/sys/kernel/btf/xfs").exists())
                && super::btf::sees_modules(),
            // Commit a46023d5616e leaves preemption on in tracepoints. It also adds a member to
            // this struct for the wait for their callers (kernel/tracepoint.c), the commit's only
            // trace in the kernel's types.
            preemptible: btf.has_field("tp_transition_snapshot.srcu_gp"),
            sleeping_ring: btf.has_sleeping_ring(),
            ..facts
        }
    }
}

/// True if a disk has several hardware queues: `mq` has a directory per queue.
fn several_queues(disks: &Path) -> bool {
    let Ok(disks) = std::fs::read_dir(disks) else {
        return false;
    };
    disks
        .flatten()
        .filter_map(|disk| std::fs::read_dir(disk.path().join("mq")).ok())
        .any(|queues| queues.count() > 1)
}
