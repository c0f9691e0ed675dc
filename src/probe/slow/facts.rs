//! Properties of the running kernel that choose how operations are traced.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};

use libbpf_rs::btf::BtfKind;

use super::hooks::{FUNCTIONS, TRACEPOINTS};
use crate::machine::tracefs;
use crate::probe::btf::Btf;

/// Properties of the running kernel. The rules that use them are in `plan`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowFacts {
    /// The kernel has BTF; without it nothing loads.
    pub btf: bool,
    /// BTF describes ext4's and jbd2's types, built in or as modules.
    pub ext4: bool,
    /// RQF_FLUSH_SEQ of `request.rq_flags`. The bit differs between kernels.
    pub flush_seq: u32,
    /// Number of arguments of each tracepoint that the kernel has, without the leading `void *`.
    pub tracepoints: BTreeMap<&'static str, usize>,
    /// Number of arguments of each function that has a prototype in BTF and that ftrace can hook. Without ftrace's list, every
    /// function counts as traceable.
    pub functions: BTreeMap<&'static str, usize>,
}

impl SlowFacts {
    /// Probes the running kernel.
    pub fn gather() -> Self {
        crate::probe::log::collect();
        let mut facts = Self::default();
        let (Some(ext4), Some(jbd2)) = (Btf::load("ext4"), Btf::load("jbd2")) else {
            return facts;
        };
        facts.btf = true;
        facts.ext4 = ext4.has("ext4_inode_info", BtfKind::Struct)
            && jbd2.has("transaction_s", BtfKind::Struct);
        // include/linux/blk-mq.h: enumerators of an anonymous enum since 6.11, before that the macro 1 << 4.
        let bit = ext4.kernel_enumerator("__RQF_FLUSH_SEQ").unwrap_or(4);
        facts.flush_seq = 1u32.checked_shl(bit.unsigned_abs()).unwrap_or(0);
        for name in TRACEPOINTS {
            let arguments = ext4
                .tracepoint_arguments(name)
                .or_else(|| jbd2.tracepoint_arguments(name));
            if let Some(n) = arguments {
                facts.tracepoints.insert(name, n);
            }
        }
        let traceable = traceable();
        for name in FUNCTIONS {
            let arguments = ext4
                .function_arguments(name)
                .or_else(|| jbd2.function_arguments(name));
            if let Some(n) = arguments
                && traceable.as_ref().is_none_or(|t| t.contains(name))
            {
                facts.functions.insert(name, n);
            }
        }
        facts
    }
}

/// Functions of [`FUNCTIONS`] that ftrace can hook; `None` if its list is empty or cannot be read.
fn traceable() -> Option<BTreeSet<&'static str>> {
    let lines = BufReader::new(tracefs::functions()?).lines();
    let (mut any, mut found) = (false, BTreeSet::new());
    for line in lines.map_while(Result::ok) {
        any = true;
        let function = line.split_ascii_whitespace().next().unwrap_or("");
        found.extend(FUNCTIONS.into_iter().find(|f| *f == function));
    }
    any.then_some(found)
}
