//! Selects the programs to load from the kernel facts, and the source of each figure. Pure.

use std::collections::BTreeMap;

use super::facts::AllocFacts;
use super::hooks::{
    AllocHook, GROUPS, GROUPS_BY_INFO, TRACEPOINTS, WAIT, WAIT_FUNCTION, WAIT_KPROBE,
};
use crate::analysis::alloc::FigureSource;
use crate::probe::btf::NO_TYPES;
use crate::probe::object::Planned;

/// Hooks to load.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AllocPlan {
    /// Hooks in order of attachment: groups before requests, so that each counted request has its
    /// groups counted.
    pub hooks: Vec<&'static AllocHook>,
    /// Kprobes that replace a refused hook.
    pub instead: Vec<&'static AllocHook>,
    /// Figures that this kernel cannot give, one line each.
    pub notes: Vec<String>,
    /// Replaced hooks, with the refused program and the reason.
    refused: Vec<(&'static AllocHook, String)>,
}

/// Selects the hooks.
///
/// # Errors
///
/// One line: what is missing, why, and what to do.
pub fn plan(facts: &AllocFacts) -> Result<AllocPlan, String> {
    if !facts.btf {
        return Err(NO_TYPES.to_owned());
    }
    let mut plan = AllocPlan::default();
    if !facts.ext4 {
        plan.notes.push(
            "nothing is counted in ext4's block allocator: this kernel does not describe the \
             types of its module ext4 (no /sys/kernel/btf/ext4: it needs \
             CONFIG_DEBUG_INFO_BTF_MODULES=y)"
                .to_owned(),
        );
        return Ok(plan);
    }
    plan.groups(facts);
    plan.wait(facts);
    for (name, least, hook) in &TRACEPOINTS {
        match facts.tracepoints.get(name) {
            Some(n) if n >= least => plan.hooks.push(hook),
            Some(n) => plan.lacks(
                hook,
                &format!(
                    "the tracepoint {name} has {n} arguments in this kernel, raidtrace expects \
                     {least}"
                ),
            ),
            None => plan.lacks(hook, &format!("this kernel has no tracepoint {name}")),
        }
    }
    Ok(plan)
}

impl AllocPlan {
    /// Adds a note on the figures that are missing without a hook.
    fn lacks(&mut self, hook: &AllocHook, why: &str) {
        self.notes.push(format!("no {}: {why}", hook.gives));
    }

    /// Selects `ext4_mb_scan_group()` if the kernel has it: `ext4_get_group_info()` is then also
    /// called for other purposes.
    fn groups(&mut self, facts: &AllocFacts) {
        let new = facts.function("ext4_mb_scan_group").symbol;
        let hook = if new { &GROUPS } else { &GROUPS_BY_INFO };
        let missing = |name: &&&str| !facts.function(name).is_hookable();
        match hook.functions.iter().find(missing) {
            None => self.hooks.push(hook),
            Some(name) => {
                self.lacks(hook, &format!("this kernel has no traceable function {name}"));
            }
        }
    }

    /// Selects fentry if possible, otherwise a kprobe if the function has a symbol.
    fn wait(&mut self, facts: &AllocFacts) {
        let function = facts.function(WAIT_FUNCTION);
        if function.is_hookable() {
            self.hooks.push(&WAIT);
            self.instead.extend(function.symbol.then_some(&WAIT_KPROBE));
        } else if function.symbol {
            self.hooks.push(&WAIT_KPROBE);
        } else {
            self.lacks(&WAIT, "this kernel has inlined the function");
        }
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

    /// Source of each figure. The source of a figure of several hooks is the most expensive one, or
    /// none if a hook is missing.
    pub fn sources(&self) -> BTreeMap<&'static str, FigureSource> {
        let all = TRACEPOINTS.iter().map(|(_, _, hook)| hook);
        let mut sources = BTreeMap::new();
        for kind in all.chain([&GROUPS, &WAIT]) {
            let here = self.hooks.iter().find(|h| h.figures == kind.figures);
            let source = here.map_or(FigureSource::None, |h| h.source);
            for figure in kind.figures {
                let sum = sources.entry(*figure).or_insert(source);
                *sum = (*sum).max(source);
            }
        }
        sources
    }
}

impl Planned for AllocPlan {
    fn names(&self) -> Vec<&'static str> {
        self.hooks.iter().flat_map(|h| h.programs).copied().collect()
    }

    /// Drops the hook of the program, or replaces it by kprobes.
    fn without(&mut self, program: &str, why: &str) -> bool {
        let has = |h: &&AllocHook| h.programs.contains(&program);
        let Some(at) = self.hooks.iter().position(has) else {
            return false;
        };
        let gone = self.hooks[at];
        let same = |h: &'static AllocHook| h.figures == gone.figures;
        let refusal = format!("{program} ({why})");
        if let Some(other) = self.instead.iter().position(|h| same(h)) {
            self.hooks[at] = self.instead.remove(other);
            self.refused.push((gone, refusal));
            return true;
        }
        self.hooks.remove(at);
        let before = self.refused.iter().find(|(h, _)| same(h));
        let before = before.map_or(String::new(), |(_, before)| format!("{before} and "));
        self.lacks(gone, &format!("this kernel refused {before}{refusal}"));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::FunctionHooks;
    use super::super::hooks::functions;
    use super::{AllocFacts, FigureSource, Planned as _, TRACEPOINTS, WAIT_FUNCTION, plan};

    const HOOKABLE: FunctionHooks =
        FunctionHooks { typed: true, traceable: Some(true), symbol: true };

    fn modern() -> AllocFacts {
        AllocFacts {
            btf: true,
            ext4: true,
            tracepoints: TRACEPOINTS.iter().map(|(n, args, _)| (*n, *args)).collect(),
            functions: functions().map(|name| (name, HOOKABLE)).collect(),
            criteria: Vec::new(),
        }
    }

    /// Facts of a kernel before 6.17.
    fn older() -> AllocFacts {
        let mut facts = modern();
        facts.functions.retain(|name, _| !name.starts_with("ext4_mb_scan_group"));
        facts
    }

    #[test]
    fn a_modern_kernel_gets_everything_and_no_notes() {
        let plan = plan(&modern()).unwrap();
        assert!(plan.notes.is_empty());
        assert_eq!(plan.names().len(), 8 + 6 + 2);
        assert!(plan.by_scan());
        let sources = plan.sources();
        assert!(sources.values().all(|s| *s != FigureSource::None));
        assert_eq!(sources["looked"], FigureSource::Fentry);
        assert_eq!(sources["groups"], FigureSource::Fentry);
        assert_eq!(sources["criteria"], FigureSource::Tracepoint);
    }

    #[test]
    fn groups_are_counted_before_the_first_request_is_seen() {
        for facts in [modern(), older()] {
            let plan = plan(&facts).unwrap();
            let at = |p| plan.names().iter().position(|q| *q == p);
            assert!(at("rt_al_search_in") < at("rt_al_request"));
            assert!(at("rt_al_group") < at("rt_al_search_in"));
        }
    }

    #[test]
    fn older_kernels_count_groups_in_get_group_info() {
        let plan = plan(&older()).unwrap();
        assert!(plan.notes.is_empty() && plan.counts_groups() && !plan.by_scan());
        assert!(plan.names().contains(&"rt_al_info"));
        assert!(!plan.names().contains(&"rt_al_scan"));
        assert_eq!(plan.sources()["looked"], FigureSource::Fentry);
    }

    #[test]
    fn groups_need_all_of_their_functions() {
        for (mut facts, name) in
            [(modern(), "ext4_mb_scan_groups_xa_range"), (older(), "ext4_get_group_info")]
        {
            facts.functions.get_mut(name).unwrap().traceable = Some(false);
            let plan = plan(&facts).unwrap();
            assert!(!plan.counts_groups() && plan.notes[0].contains(name), "{name}");
            assert_eq!(plan.sources()["looked"], FigureSource::None);
        }
    }

    #[test]
    fn kprobes_replace_refused_fentry_and_refused_kprobes_give_a_note() {
        let mut plan = plan(&modern()).unwrap();
        assert!(plan.without("rt_al_wait_in", "EPERM"));
        assert!(plan.notes.is_empty());
        assert_eq!(plan.sources()["looked"], FigureSource::Fentry);
        assert_eq!(plan.sources()["waits"], FigureSource::Kprobe);
        assert!(plan.without("rt_al_kwait_in", "ENOENT"));
        assert!(plan.notes[0].contains("rt_al_wait_in (EPERM) and rt_al_kwait_in (ENOENT)"));
        assert_eq!(plan.sources()["waits"], FigureSource::None);
        assert!(plan.without("rt_al_scan", "EPERM") && !plan.counts_groups());
        for figure in ["looked", "refused", "reasons", "groups", "calls"] {
            assert_eq!(plan.sources()[figure], FigureSource::None, "{figure}");
        }
        assert_eq!(plan.sources()["searches"], FigureSource::Tracepoint);
        assert!(!plan.without("rt_al_scan", "EPERM"));
    }

    #[test]
    fn functions_that_ftrace_lacks_are_not_hooked_by_fentry() {
        let mut facts = modern();
        facts.functions.get_mut(WAIT_FUNCTION).unwrap().traceable = Some(false);
        let kprobe = plan(&facts).unwrap();
        assert!(kprobe.names().contains(&"rt_al_kwait_in"));
        assert!(kprobe.instead.is_empty());
        facts.functions.remove(WAIT_FUNCTION);
        let none = plan(&facts).unwrap();
        assert_eq!(none.sources()["waits"], FigureSource::None);
        assert!(none.notes[0].contains("inlined"));
        // The list of functions may be unreadable.
        facts = modern();
        for function in facts.functions.values_mut() {
            function.traceable = None;
        }
        assert!(plan(&facts).unwrap().names().contains(&"rt_al_scan"));
    }

    #[test]
    fn latency_needs_both_tracepoints() {
        let mut plan = plan(&modern()).unwrap();
        plan.without("rt_al_allocate", "EINVAL");
        assert_eq!(plan.sources()["latency"], FigureSource::None);
        assert_eq!(plan.sources()["requests"], FigureSource::Tracepoint);
    }

    #[test]
    fn without_types_there_are_no_hooks_and_a_note() {
        assert!(plan(&AllocFacts::default()).is_err());
        let facts = AllocFacts { ext4: false, ..modern() };
        let plan = plan(&facts).unwrap();
        assert!(plan.hooks.is_empty() && plan.notes.len() == 1);
        assert!(plan.sources().values().all(|s| *s == FigureSource::None));
    }

    #[test]
    fn back_off_drops_only_the_group_hook() {
        let mut plan = plan(&modern()).unwrap();
        assert!(plan.back_off().contains(&"rt_al_scan"));
        assert_eq!(plan.sources()["looked"], FigureSource::None);
        assert!(plan.notes[0].contains("too many"));
        assert!(plan.back_off().is_empty());
        assert_eq!(plan.names().len(), 8 + 2);
    }
}
