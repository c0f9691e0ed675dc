//! Selects the programs to load from the kernel facts, and the source of each figure. Pure.

use std::collections::BTreeMap;

use super::facts::AllocFacts;
use super::functions;
use crate::analysis::alloc::Source;

/// Programs that are useful only together.
#[derive(Debug, PartialEq, Eq)]
pub struct Hook {
    /// C names, in order of attachment.
    pub programs: &'static [&'static str],
    /// Kernel functions to which the programs are attached; empty for a tracepoint.
    functions: &'static [&'static str],
    /// Kind of hook.
    pub source: Source,
    /// Figures that the programs give, with the names of [`AllocPlan::sources`]: fields of `analysis::alloc::Counts` and
    /// `AllocCounters`.
    pub figures: &'static [&'static str],
    /// Figures that are missing without the programs, in words.
    pub gives: &'static str,
}

/// ext4's tracepoints: name, minimum number of arguments, hook.
const TRACEPOINTS: [(&str, usize, Hook); 8] = [
    (
        "ext4_request_blocks",
        1,
        tracepoint(
            &["rt_al_request"],
            &["requests", "asked", "latency", "tasks", "files"],
            "requests, or their latency",
        ),
    ),
    (
        "ext4_allocate_blocks",
        2,
        tracepoint(
            &["rt_al_allocate"],
            &["given", "got", "latency", "tasks", "files"],
            "allocated blocks, or their latency",
        ),
    ),
    (
        "ext4_mballoc_alloc",
        1,
        tracepoint(
            &["rt_al_search"],
            &["searches", "goal", "criteria", "scanned", "groups"],
            "searches",
        ),
    ),
    (
        "ext4_mballoc_prealloc",
        1,
        tracepoint(
            &["rt_al_prealloc"],
            &["preallocated"],
            "allocations from preallocated space",
        ),
    ),
    (
        "ext4_mb_bitmap_load",
        2,
        tracepoint(&["rt_al_bitmap"], &["bitmaps"], "bitmap loads"),
    ),
    (
        "ext4_mb_buddy_bitmap_load",
        2,
        tracepoint(&["rt_al_buddy"], &["buddies"], "buddy loads"),
    ),
    (
        "ext4_read_block_bitmap_load",
        3,
        tracepoint(
            &["rt_al_read"],
            &["reads", "prefetches"],
            "bitmap reads from disk",
        ),
    ),
    (
        "ext4_discard_preallocations",
        2,
        tracepoint(
            &["rt_al_discard"],
            &["discards"],
            "preallocated space that is given back",
        ),
    ),
];

/// Counts groups in `ext4_mb_scan_group()`, which considers each group since Linux 6.17, and in backports.
const GROUPS: Hook = Hook {
    // The program at the start of a search is attached last: the other programs count nothing before it has run.
    programs: &[
        "rt_al_list_out",
        "rt_al_list_in",
        "rt_al_scan",
        "rt_al_group",
        "rt_al_search_out",
        "rt_al_search_in",
    ],
    functions: &[
        "ext4_mb_scan_groups_xa_range",
        "ext4_mb_scan_group",
        "ext4_mb_good_group",
        "ext4_mb_regular_allocator",
    ],
    source: Source::Fentry,
    figures: &["looked", "refused", "reasons", "groups", "calls"],
    gives: "groups counted by a hook, or reasons why they are refused (ext4_mb_scan_group or ext4_get_group_info)",
};
/// Counts groups in `ext4_get_group_info()` before 6.17, on kernels where it is a function (since 5.10.181, 5.15.113, 6.1.30,
/// 6.4).
const GROUPS_BY_INFO: Hook = Hook {
    programs: &[
        "rt_al_prefetch_out",
        "rt_al_prefetch_in",
        "rt_al_fini_out",
        "rt_al_fini_in",
        "rt_al_load_out",
        "rt_al_load_in",
        "rt_al_init_out",
        "rt_al_init_in",
        "rt_al_goal_out",
        "rt_al_goal_in",
        "rt_al_info",
        "rt_al_group",
        "rt_al_search_out",
        "rt_al_search_in",
    ],
    functions: &[
        "ext4_mb_prefetch",
        "ext4_mb_prefetch_fini",
        "ext4_mb_load_buddy_gfp",
        "ext4_mb_init_group",
        "ext4_mb_find_by_goal",
        "ext4_get_group_info",
        "ext4_mb_good_group",
        "ext4_mb_regular_allocator",
    ],
    ..GROUPS
};
const WAIT: Hook = Hook {
    programs: &["rt_al_wait_out", "rt_al_wait_in"],
    functions: &[functions::WAIT],
    source: Source::Fentry,
    figures: &["waits"],
    gives: "time spent waiting for bitmaps (ext4_wait_block_bitmap)",
};
const WAIT_KPROBE: Hook = Hook {
    programs: &["rt_al_kwait_out", "rt_al_kwait_in"],
    source: Source::Kprobe,
    ..WAIT
};

const fn tracepoint(
    programs: &'static [&'static str],
    figures: &'static [&'static str],
    gives: &'static str,
) -> Hook {
    Hook {
        programs,
        functions: &[],
        source: Source::Tracepoint,
        figures,
        gives,
    }
}

/// Hooks to load.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AllocPlan {
    /// Hooks in order of attachment: groups before requests, so that each counted request has its groups counted.
    pub hooks: Vec<&'static Hook>,
    /// Kprobes that replace a refused hook.
    pub instead: Vec<&'static Hook>,
    /// Figures that this kernel cannot give, one line each.
    pub notes: Vec<String>,
    /// Replaced hooks, with the refused program and the reason.
    refused: Vec<(&'static Hook, String)>,
}

/// Selects the hooks.
///
/// # Errors
///
/// One line: what is missing, why, and what to do.
pub fn plan(facts: &AllocFacts) -> Result<AllocPlan, String> {
    if !facts.btf {
        return Err(
            "this kernel does not describe its types (no /sys/kernel/btf/vmlinux): raidtrace needs a kernel built with \
             CONFIG_DEBUG_INFO_BTF=y"
                .to_owned(),
        );
    }
    let mut plan = AllocPlan::default();
    if !facts.ext4 {
        plan.notes.push(
            "nothing is counted in ext4's block allocator: this kernel does not describe the types of its module ext4 (no \
             /sys/kernel/btf/ext4: it needs CONFIG_DEBUG_INFO_BTF_MODULES=y)"
                .to_owned(),
        );
        return Ok(plan);
    }
    plan.groups(facts);
    plan.wait(facts);
    for (name, least, hook) in &TRACEPOINTS {
        match facts.tracepoints.get(name) {
            Some(n) if n >= least => plan.hooks.push(hook),
            Some(n) => plan.notes.push(format!(
                "no {}: the tracepoint {name} has {n} arguments in this kernel, raidtrace expects {least}",
                hook.gives
            )),
            None => plan.notes.push(format!(
                "no {}: this kernel has no tracepoint {name}",
                hook.gives
            )),
        }
    }
    Ok(plan)
}

impl AllocPlan {
    /// Selects `ext4_mb_scan_group()` if the kernel has it: `ext4_get_group_info()` is then also called for other purposes.
    fn groups(&mut self, facts: &AllocFacts) {
        let new = facts.function("ext4_mb_scan_group").symbol;
        let hook = if new { &GROUPS } else { &GROUPS_BY_INFO };
        let missing = |name: &&&str| {
            let function = facts.function(name);
            !function.typed || function.traceable == Some(false)
        };
        match hook.functions.iter().find(missing) {
            None => self.hooks.push(hook),
            Some(name) => self.notes.push(format!(
                "no {}: this kernel has no traceable function {name}",
                hook.gives
            )),
        }
    }

    /// Selects fentry if possible, otherwise a kprobe if the function has a symbol.
    fn wait(&mut self, facts: &AllocFacts) {
        let function = facts.function(functions::WAIT);
        let possible = function.typed && function.traceable != Some(false);
        if possible {
            self.hooks.push(&WAIT);
            self.instead.extend(function.symbol.then_some(&WAIT_KPROBE));
        } else if function.symbol {
            self.hooks.push(&WAIT_KPROBE);
        } else {
            self.notes.push(format!(
                "no {}: this kernel has inlined the function",
                WAIT.gives
            ));
        }
    }

    /// Drops the hook of a program that the kernel refused, or replaces it by kprobes. False if no hook has the program.
    pub fn without(&mut self, program: &str, why: &str) -> bool {
        let Some(at) = self
            .hooks
            .iter()
            .position(|h| h.programs.contains(&program))
        else {
            return false;
        };
        let gone = self.hooks[at];
        let same = |h: &'static Hook| h.figures == gone.figures;
        let refusal = format!("{program} ({why})");
        if let Some(other) = self.instead.iter().position(|h| same(h)) {
            self.hooks[at] = self.instead.remove(other);
            self.refused.push((gone, refusal));
            return true;
        }
        self.hooks.remove(at);
        let before = self.refused.iter().find(|(h, _)| same(h));
        self.notes.push(match before {
            Some((_, before)) => format!(
                "no {}: this kernel refused {before} and {refusal}",
                gone.gives
            ),
            None => format!("no {}: this kernel refused {refusal}", gone.gives),
        });
        true
    }

    /// Programs to load.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.hooks.iter().flat_map(|h| h.programs.iter().copied())
    }

    /// True if groups are counted at `ext4_mb_scan_group()`, false if at `ext4_get_group_info()`.
    pub fn by_scan(&self) -> bool {
        self.hooks.iter().any(|h| h.programs == GROUPS.programs)
    }

    /// True if groups are counted by a hook.
    pub fn counts_groups(&self) -> bool {
        self.hooks.iter().any(|h| h.figures == GROUPS.figures)
    }

    /// Drops the hook that counts groups, and returns its programs.
    pub fn back_off(&mut self) -> &'static [&'static str] {
        let Some(at) = self.hooks.iter().position(|h| h.figures == GROUPS.figures) else {
            return &[];
        };
        self.notes.push(
            "groups are no longer counted by a hook: searches consider too many of them".to_owned(),
        );
        self.hooks.remove(at).programs
    }

    /// Source of each figure. The source of a figure of several hooks is the most expensive one, or none if a hook is missing.
    pub fn sources(&self) -> BTreeMap<&'static str, Source> {
        let all = TRACEPOINTS.iter().map(|(_, _, hook)| hook);
        let mut sources = BTreeMap::new();
        for kind in all.chain([&GROUPS, &WAIT]) {
            let here = self.hooks.iter().find(|h| h.figures == kind.figures);
            let source = here.map_or(Source::None, |h| h.source);
            for figure in kind.figures {
                let sum = sources.entry(*figure).or_insert(source);
                *sum = (*sum).max(source);
            }
        }
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::Function;
    use super::super::functions::{FUNCTIONS, WAIT};
    use super::{AllocFacts, Source, TRACEPOINTS, plan};

    const HOOKABLE: Function = Function {
        typed: true,
        traceable: Some(true),
        symbol: true,
    };

    fn modern() -> AllocFacts {
        AllocFacts {
            btf: true,
            ext4: true,
            tracepoints: TRACEPOINTS.iter().map(|(n, args, _)| (*n, *args)).collect(),
            functions: FUNCTIONS.map(|name| (name, HOOKABLE)).into(),
            criteria: Vec::new(),
        }
    }

    /// Facts of a kernel before 6.17.
    fn older() -> AllocFacts {
        let mut facts = modern();
        facts
            .functions
            .retain(|name, _| !name.starts_with("ext4_mb_scan_group"));
        facts
    }

    #[test]
    fn a_modern_kernel_gets_everything_and_no_notes() {
        let plan = plan(&modern()).unwrap();
        assert!(plan.notes.is_empty());
        assert_eq!(plan.programs().count(), 8 + 6 + 2);
        assert!(plan.by_scan());
        let sources = plan.sources();
        assert!(sources.values().all(|s| *s != Source::None));
        assert_eq!(sources["looked"], Source::Fentry);
        assert_eq!(sources["groups"], Source::Fentry);
        assert_eq!(sources["criteria"], Source::Tracepoint);
    }

    #[test]
    fn groups_are_counted_before_the_first_request_is_seen() {
        for facts in [modern(), older()] {
            let plan = plan(&facts).unwrap();
            let at = |p| plan.programs().position(|q| q == p);
            assert!(at("rt_al_search_in") < at("rt_al_request"));
            assert!(at("rt_al_group") < at("rt_al_search_in"));
        }
    }

    #[test]
    fn older_kernels_count_groups_in_get_group_info() {
        let plan = plan(&older()).unwrap();
        assert!(plan.notes.is_empty() && plan.counts_groups() && !plan.by_scan());
        assert!(plan.programs().any(|p| p == "rt_al_info"));
        assert!(!plan.programs().any(|p| p == "rt_al_scan"));
        assert_eq!(plan.sources()["looked"], Source::Fentry);
    }

    #[test]
    fn groups_need_all_of_their_functions() {
        for (mut facts, name) in [
            (modern(), "ext4_mb_scan_groups_xa_range"),
            (older(), "ext4_get_group_info"),
        ] {
            facts.functions.get_mut(name).unwrap().traceable = Some(false);
            let plan = plan(&facts).unwrap();
            assert!(
                !plan.counts_groups() && plan.notes[0].contains(name),
                "{name}"
            );
            assert_eq!(plan.sources()["looked"], Source::None);
        }
    }

    #[test]
    fn kprobes_replace_refused_fentry_and_refused_kprobes_give_a_note() {
        let mut plan = plan(&modern()).unwrap();
        assert!(plan.without("rt_al_wait_in", "EPERM"));
        assert!(plan.notes.is_empty());
        assert_eq!(plan.sources()["looked"], Source::Fentry);
        assert_eq!(plan.sources()["waits"], Source::Kprobe);
        assert!(plan.without("rt_al_kwait_in", "ENOENT"));
        assert!(plan.notes[0].contains("rt_al_wait_in (EPERM) and rt_al_kwait_in (ENOENT)"));
        assert_eq!(plan.sources()["waits"], Source::None);
        assert!(plan.without("rt_al_scan", "EPERM") && !plan.counts_groups());
        for figure in ["looked", "refused", "reasons", "groups", "calls"] {
            assert_eq!(plan.sources()[figure], Source::None, "{figure}");
        }
        assert_eq!(plan.sources()["searches"], Source::Tracepoint);
        assert!(!plan.without("rt_al_scan", "EPERM"));
    }

    #[test]
    fn functions_that_ftrace_lacks_are_not_hooked_by_fentry() {
        let mut facts = modern();
        facts.functions.get_mut(WAIT).unwrap().traceable = Some(false);
        let kprobe = plan(&facts).unwrap();
        assert!(kprobe.programs().any(|p| p == "rt_al_kwait_in"));
        assert!(kprobe.instead.is_empty());
        facts.functions.remove(WAIT);
        let none = plan(&facts).unwrap();
        assert_eq!(none.sources()["waits"], Source::None);
        assert!(none.notes[0].contains("inlined"));
        // The list of functions may be unreadable.
        facts = modern();
        for function in facts.functions.values_mut() {
            function.traceable = None;
        }
        assert!(plan(&facts).unwrap().programs().any(|p| p == "rt_al_scan"));
    }

    #[test]
    fn latency_needs_both_tracepoints() {
        let mut plan = plan(&modern()).unwrap();
        plan.without("rt_al_allocate", "EINVAL");
        assert_eq!(plan.sources()["latency"], Source::None);
        assert_eq!(plan.sources()["requests"], Source::Tracepoint);
    }

    #[test]
    fn without_types_there_are_no_hooks_and_a_note() {
        assert!(plan(&AllocFacts::default()).is_err());
        let facts = AllocFacts {
            ext4: false,
            ..modern()
        };
        let plan = plan(&facts).unwrap();
        assert!(plan.hooks.is_empty() && plan.notes.len() == 1);
        assert!(plan.sources().values().all(|s| *s == Source::None));
    }

    #[test]
    fn back_off_drops_only_the_group_hook() {
        let mut plan = plan(&modern()).unwrap();
        assert!(plan.back_off().contains(&"rt_al_scan"));
        assert_eq!(plan.sources()["looked"], Source::None);
        assert!(plan.notes[0].contains("too many"));
        assert!(plan.back_off().is_empty());
        assert_eq!(plan.programs().count(), 8 + 2);
    }
}
