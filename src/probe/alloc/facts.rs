//! What this kernel offers for watching ext4's block allocator, found by asking it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{BufRead as _, BufReader};

use libbpf_rs::libbpf_sys as sys;

use crate::analysis::alloc::CRITERIA;

/// Tracepoints that the programs attach to.
const TRACEPOINTS: [&str; 8] = [
    "ext4_request_blocks",
    "ext4_allocate_blocks",
    "ext4_mballoc_alloc",
    "ext4_mballoc_prealloc",
    "ext4_mb_bitmap_load",
    "ext4_mb_buddy_bitmap_load",
    "ext4_read_block_bitmap_load",
    "ext4_discard_preallocations",
];

/// Functions of ext4 that a plan may hook; see [`super::plan`].
pub const FUNCTIONS: [&str; 10] = [
    "ext4_mb_regular_allocator",
    "ext4_mb_good_group",
    "ext4_mb_scan_group",
    "ext4_mb_scan_groups_xa_range",
    "ext4_get_group_info",
    "ext4_mb_prefetch",
    "ext4_mb_prefetch_fini",
    "ext4_mb_load_buddy_gfp",
    "ext4_mb_init_group",
    "ext4_mb_find_by_goal",
];

/// `ext4_wait_block_bitmap(sb, group, bh)`.
pub const WAIT: &str = "ext4_wait_block_bitmap";

/// Kinds of types (include/uapi/linux/btf.h).
const KIND_PTR: u32 = 2;
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;

/// A function of the kernel's, and how it could be hooked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its prototype is known.
    pub typed: bool,
    /// ftrace can hook it (`available_filter_functions`); `None`: it does not say.
    pub traceable: Option<bool>,
    /// It is in `/proc/kallsyms`: not inlined everywhere.
    pub symbol: bool,
}

/// Facts only; the rules are in `plan`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocFacts {
    /// The kernel describes its types; without it nothing loads.
    pub btf: bool,
    /// ... and those of ext4, be it a module or not.
    pub ext4: bool,
    /// Arguments of each tracepoint that it has, not counting the `void *` in front.
    pub tracepoints: BTreeMap<&'static str, usize>,
    /// [`FUNCTIONS`] and [`WAIT`], those that this kernel has.
    pub functions: BTreeMap<&'static str, Function>,
    /// Enumerators of `enum criteria` (fs/ext4/mballoc.h) in the order of their numbers; empty before 6.5, where they are
    /// plain numbers.
    pub criteria: Vec<String>,
}

impl AllocFacts {
    /// Asks the running kernel.
    pub fn gather() -> Self {
        crate::probe::log::collect();
        let mut facts = Self::default();
        if let Some(types) = Types::of("ext4") {
            facts.btf = true;
            facts.ext4 = types.find("ext4_allocation_context", 4).is_some();
            for name in TRACEPOINTS {
                if let Some(n) = types.arguments(name) {
                    facts.tracepoints.insert(name, n);
                }
            }
            facts.criteria = types.criteria();
            for name in names() {
                if types.find(name, KIND_FUNC).is_some() {
                    facts.functions.entry(name).or_default().typed = true;
                }
            }
        }
        facts.symbols();
        facts.traceable();
        facts
    }

    /// How this kernel calls its criteria.
    pub fn criteria(&self) -> Vec<String> {
        if self.criteria.is_empty() {
            return (0..4).map(|i| format!("cr{i}")).collect();
        }
        self.criteria.clone()
    }

    /// How `name` could be hooked; not at all where this kernel does not have it.
    pub fn function(&self, name: &str) -> Function {
        self.functions.get(name).copied().unwrap_or_default()
    }

    fn symbols(&mut self) {
        let Ok(file) = File::open("/proc/kallsyms") else {
            return;
        };
        // ffffffff81430950 t ext4_mb_good_group
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            let symbol = line.split_ascii_whitespace().nth(2).unwrap_or("");
            if let Some(name) = names().find(|name| *name == symbol) {
                self.functions.entry(name).or_default().symbol = true;
            }
        }
    }

    fn traceable(&mut self) {
        let found = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
            .iter()
            .find_map(|dir| File::open(format!("{dir}/available_filter_functions")).ok());
        let Some(file) = found else {
            return;
        };
        let mut listed: BTreeSet<String> = BTreeSet::new();
        let mut any = false;
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            any = true;
            let function = line.split_ascii_whitespace().next().unwrap_or("");
            if function.starts_with("ext4_") {
                listed.insert(function.to_owned());
            }
        }
        if any {
            for (name, function) in &mut self.functions {
                function.traceable = Some(listed.contains(*name));
            }
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().chain([WAIT])
}

/// The types of a module, or of the kernel where it is none.
struct Types {
    base: *mut sys::btf,
    /// Refers to `base` and finds its types too.
    split: *mut sys::btf,
}

impl Types {
    fn of(module: &str) -> Option<Self> {
        let module = CString::new(module).ok()?;
        // SAFETY: both return objects of libbpf's or null; `base` is checked and, as `split` needs, freed after it.
        unsafe {
            let base = sys::btf__load_vmlinux_btf();
            if base.is_null() {
                return None;
            }
            let split = sys::btf__load_module_btf(module.as_ptr(), base);
            Some(Self { base, split })
        }
    }

    fn btf(&self) -> *const sys::btf {
        if self.split.is_null() {
            self.base
        } else {
            self.split
        }
    }

    fn find(&self, name: &str, kind: u32) -> Option<u32> {
        let name = CString::new(name).ok()?;
        // SAFETY: libbpf's own object, alive as long as `self`, and a C string.
        let id = unsafe { sys::btf__find_by_name_kind(self.btf(), name.as_ptr(), kind) };
        u32::try_from(id).ok().filter(|id| *id > 0)
    }

    /// The type that a typedef or pointer leads to, and its vlen; `None` when it is not of that kind.
    fn follow(&self, id: u32, kind: u32) -> Option<(u32, usize)> {
        // SAFETY: checked for null; of typedefs, pointers and prototypes the union is a type's id (include/uapi/linux/btf.h).
        unsafe {
            let found = sys::btf__type_by_id(self.btf(), id);
            let is = !found.is_null() && (*found).info >> 24 & 0x1f == kind;
            is.then(|| {
                (
                    (*found).__bindgen_anon_1.type_,
                    ((*found).info & 0xffff) as usize,
                )
            })
        }
    }

    /// `btf_trace_X` is a pointer to the prototype of X's probes: `void *__data`, then X's arguments.
    fn arguments(&self, tracepoint: &str) -> Option<usize> {
        let typedef = self.find(&format!("btf_trace_{tracepoint}"), KIND_TYPEDEF)?;
        let (pointer, _) = self.follow(typedef, KIND_TYPEDEF)?;
        let (proto, _) = self.follow(pointer, KIND_PTR)?;
        let (_, arguments) = self.follow(proto, KIND_FUNC_PROTO)?;
        arguments.checked_sub(1)
    }

    fn criteria(&self) -> Vec<String> {
        let Some(id) = self.find("criteria", KIND_ENUM) else {
            return Vec::new();
        };
        let mut named = BTreeMap::new();
        // SAFETY: an enum's enumerators follow its btf_type, as many as its vlen says, which libbpf has verified when it loaded
        // the types; their names are C strings in it.
        unsafe {
            let kind = sys::btf__type_by_id(self.btf(), id);
            let first = kind.add(1).cast::<sys::btf_enum>();
            for i in 0..((*kind).info & 0xffff) as usize {
                let one = *first.add(i);
                let name = sys::btf__name_by_offset(self.btf(), one.name_off);
                if !name.is_null() {
                    named.insert(one.val, CStr::from_ptr(name).to_string_lossy().into_owned());
                }
            }
        }
        ordered(&named)
    }
}

/// `CR_...` from 0 on without a gap; nothing else, such as their number.
fn ordered(named: &BTreeMap<i32, String>) -> Vec<String> {
    (0..)
        .map_while(|i| named.get(&i))
        .take_while(|name| name.starts_with("CR_"))
        .take(CRITERIA)
        .cloned()
        .collect()
}

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: made by libbpf, freed once, what refers to the other first; null is allowed.
        unsafe {
            sys::btf__free(self.split);
            sys::btf__free(self.base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AllocFacts, ordered};

    #[test]
    fn criteria_are_numbers_where_they_have_no_names() {
        assert_eq!(
            AllocFacts::default().criteria(),
            ["cr0", "cr1", "cr2", "cr3"]
        );
    }

    #[test]
    fn how_many_criteria_there_are_is_not_one_of_them() {
        let of = |names: &[&str]| {
            let named = (0..).zip(names.iter().map(|n| (*n).to_owned()));
            ordered(&named.collect())
        };
        assert_eq!(
            of(&["CR_POWER2_ALIGNED", "CR_GOAL_LEN_FAST", "EXT4_MB_NUM_CRS"]),
            ["CR_POWER2_ALIGNED", "CR_GOAL_LEN_FAST"]
        );
        assert!(of(&["SOMETHING_ELSE", "CR_ANY_FREE"]).is_empty());
    }
}
