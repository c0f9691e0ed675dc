//! Properties of the running kernel that choose how operations are traced.

use std::collections::BTreeMap;

use libbpf_rs::btf::BtfKind;

use super::hooks::{HookPoint, points};
use crate::machine::tracefs;
use crate::probe::btf::Btf;

/// Filesystems of the traced devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filesystems {
    /// An ext2, ext3 or ext4.
    pub ext4: bool,
    pub xfs: bool,
}

/// The request and the state of a commit, and its numbers of handles and blocks.
const COMMIT: [&str; 5] = [
    "transaction_s.t_requested",
    "transaction_s.t_state",
    "transaction_run_stats_s.rs_handle_count",
    "transaction_run_stats_s.rs_blocks",
    "transaction_run_stats_s.rs_blocks_logged",
];

/// Properties of the running kernel. The rules that use them are in `plan`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowFacts {
    /// The kernel has BTF; without it nothing loads.
    pub btf: bool,
    /// Programs must not use ring buffers: see [`Btf::has_sleeping_ring`].
    pub sleeping_ring: bool,
    /// Filesystems whose types are described by BTF, built in or as modules: ext4 and jbd2, or
    /// XFS. Only those that are asked for.
    pub typed: Filesystems,
    /// Fields that only give details of commits and that jbd2's types lack.
    pub missing: Vec<&'static str>,
    /// RQF_FLUSH_SEQ of `request.rq_flags`. The bit differs between kernels.
    pub flush_seq: u32,
    /// Flag in `bio.bi_flags` of bios that passed a limit of blk-throttle; 0 if the kernel has no
    /// such limits.
    pub throttled: u32,
    /// Number of arguments of each tracepoint that the kernel has, without the leading `void *`.
    pub tracepoints: BTreeMap<&'static str, usize>,
    /// Number of arguments of each function that has a prototype in BTF and that ftrace can hook.
    /// Without ftrace's list, every function counts as traceable.
    pub functions: BTreeMap<&'static str, usize>,
}

impl SlowFacts {
    /// Probes the running kernel, and the modules of these filesystems.
    pub fn gather(of: Filesystems) -> Self {
        crate::probe::log::collect();
        let mut facts = Self::default();
        let modules = [("ext4", of.ext4), ("jbd2", of.ext4), ("xfs", of.xfs)];
        let wanted = modules.iter().filter(|(_, wanted)| *wanted);
        let types: Vec<Btf> = wanted.filter_map(|(name, _)| Btf::load(name)).collect();
        let Some(kernel) = types.first() else {
            return facts;
        };
        facts.btf = true;
        facts.sleeping_ring = kernel.has_sleeping_ring();
        let has = |name| types.iter().any(|t| t.has(name, BtfKind::Struct));
        facts.typed.ext4 = has("ext4_inode_info") && has("transaction_s");
        facts.typed.xfs = has("xfs_inode");
        facts.missing = Vec::from(COMMIT);
        facts.missing.retain(|f| facts.typed.ext4 && !types.iter().any(|t| t.has_field(f)));
        // include/linux/blk-mq.h: enumerators of an anonymous enum since 6.11, before that the
        // macro 1 << 4.
        let bit = kernel.kernel_enumerator("__RQF_FLUSH_SEQ").unwrap_or(4);
        facts.flush_seq = 1u32.checked_shl(bit.unsigned_abs()).unwrap_or(0);
        // include/linux/blk_types.h: renamed in 6.0.
        let names = ["BIO_BPS_THROTTLED", "BIO_THROTTLED"];
        let bit = names.iter().find_map(|name| kernel.kernel_enumerator(name));
        facts.throttled = bit.and_then(|bit| 1u32.checked_shl(bit.unsigned_abs())).unwrap_or(0);
        let is_function = |name: &str| points().any(|on| on.function() == Some(name));
        let traceable = tracefs::traceable(is_function);
        for on in points() {
            match *on {
                HookPoint::AtLeast(name, _) | HookPoint::Exactly(name, _) => {
                    let found = types.iter().find_map(|t| t.tracepoint_arguments(name));
                    facts.tracepoints.extend(found.map(|n| (name, n)));
                }
                HookPoint::Function(name) | HookPoint::FunctionOf(name, _) => {
                    let found = types
                        .iter()
                        .find_map(|t| t.function_arguments(name))
                        .filter(|_| traceable.as_ref().is_none_or(|t| t.contains(name)));
                    facts.functions.extend(found.map(|n| (name, n)));
                }
            }
        }
        facts
    }
}
