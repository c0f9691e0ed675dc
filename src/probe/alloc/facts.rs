//! Properties of the running kernel that choose how ext4's block allocator is traced.

use std::collections::BTreeMap;

use libbpf_rs::btf::BtfKind;

use super::hooks::{TRACEPOINTS, functions};
use crate::analysis::alloc::CRITERIA;
use crate::machine::tracefs;
use crate::probe::btf::Btf;
use crate::probe::symbols::KernelSymbols;

/// Ways to hook a kernel function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionHooks {
    /// BTF has its prototype.
    pub typed: bool,
    /// ftrace can hook it (`available_filter_functions`); `None` if that file cannot be read.
    pub traceable: Option<bool>,
    /// The function has a symbol in `/proc/kallsyms`, so it is not inlined everywhere.
    pub symbol: bool,
}

impl FunctionHooks {
    /// True if fentry can hook it.
    pub fn is_hookable(self) -> bool {
        self.typed && self.traceable != Some(false)
    }
}

/// Properties of the running kernel. The rules that use them are in `plan`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocFacts {
    /// The kernel has BTF; without it nothing loads.
    pub btf: bool,
    /// BTF describes ext4's types, built in or as a module.
    pub ext4: bool,
    /// Number of arguments of each tracepoint that the kernel has, without the leading `void *`.
    pub tracepoints: BTreeMap<&'static str, usize>,
    /// Functions of the hooks that the kernel has.
    pub functions: BTreeMap<&'static str, FunctionHooks>,
    /// Enumerators of `enum criteria` (fs/ext4/mballoc.h), ordered by value; empty before 6.5,
    /// where criteria are plain numbers.
    pub criteria: Vec<String>,
}

impl AllocFacts {
    /// Probes the running kernel.
    pub fn gather() -> Self {
        crate::probe::log::collect();
        let mut facts = Self::default();
        if let Some(types) = Btf::load("ext4") {
            facts.btf = true;
            facts.ext4 = types.has("ext4_allocation_context", BtfKind::Struct);
            for (name, ..) in TRACEPOINTS {
                if let Some(n) = types.tracepoint_arguments(name) {
                    facts.tracepoints.insert(name, n);
                }
            }
            let named = types.enumerators("criteria");
            facts.criteria =
                ordered(&named.map(|(name, value)| (value, name.to_owned())).collect());
            for name in functions() {
                if types.has(name, BtfKind::Func) {
                    facts.functions.entry(name).or_default().typed = true;
                }
            }
        }
        let symbols = KernelSymbols::load();
        for name in functions().filter(|name| symbols.has(name)) {
            facts.functions.entry(name).or_default().symbol = true;
        }
        if let Some(traceable) = tracefs::traceable(|name| name.starts_with("ext4_")) {
            for (name, function) in &mut facts.functions {
                function.traceable = Some(traceable.contains(*name));
            }
        }
        facts
    }

    /// Names of the allocation criteria; `cr0` to `cr3` if the kernel does not name them.
    pub fn criteria(&self) -> Vec<String> {
        if self.criteria.is_empty() {
            return (0..4).map(|i| format!("cr{i}")).collect();
        }
        self.criteria.clone()
    }

    /// Ways to hook a function; none if the kernel does not have it.
    pub fn function(&self, name: &str) -> FunctionHooks {
        self.functions.get(name).copied().unwrap_or_default()
    }
}

/// Names by ascending value from 0, without a gap, that start with `CR_`. The last enumerator is
/// the number of criteria.
fn ordered(named: &BTreeMap<i32, String>) -> Vec<String> {
    (0..)
        .map_while(|i| named.get(&i))
        .take_while(|name| name.starts_with("CR_"))
        .take(CRITERIA)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{AllocFacts, ordered};

    #[test]
    fn criteria_without_names_are_numbers() {
        assert_eq!(AllocFacts::default().criteria(), ["cr0", "cr1", "cr2", "cr3"]);
    }

    #[test]
    fn the_count_enumerator_is_not_a_criterion() {
        let criteria = |names: &[&str]| {
            let named = (0..).zip(names.iter().map(|n| (*n).to_owned()));
            ordered(&named.collect())
        };
        assert_eq!(
            criteria(&["CR_POWER2_ALIGNED", "CR_GOAL_LEN_FAST", "EXT4_MB_NUM_CRS"]),
            ["CR_POWER2_ALIGNED", "CR_GOAL_LEN_FAST"]
        );
        assert!(criteria(&["SOMETHING_ELSE", "CR_ANY_FREE"]).is_empty());
    }
}
