//! Facts -> which programs to load, and which figure comes from where. Pure.

use std::collections::BTreeMap;

use super::facts::{AllocFacts, Function};
use crate::model::alloc::Source;

/// Programs that give something only together.
#[derive(Debug, PartialEq, Eq)]
pub struct Hook {
    /// C names, in the order in which they are attached.
    pub programs: &'static [&'static str],
    /// What they are.
    pub source: Source,
    /// The figures, as [`AllocPlan::sources`] names them: fields of `model::alloc::Counts` and `AllocCounters`.
    pub figures: &'static [&'static str],
    /// What is missing without them, in words.
    pub gives: &'static str,
}

/// ext4's tracepoints: name, arguments at least, hook.
const TRACEPOINTS: [(&str, usize, Hook); 8] = [
    (
        "ext4_request_blocks",
        1,
        tracepoint(
            &["rt_al_request"],
            &["requests", "asked", "latency", "tasks", "files"],
            "requests, nor how long they take",
        ),
    ),
    (
        "ext4_allocate_blocks",
        2,
        tracepoint(
            &["rt_al_allocate"],
            &["given", "got", "latency", "tasks", "files"],
            "blocks that were given, nor how long that took",
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

const GROUPS: Hook = Hook {
    programs: &["rt_al_group"],
    source: Source::Fentry,
    figures: &["looked", "refused", "reasons", "groups", "calls"],
    gives: "groups looked at, nor why they are refused (ext4_mb_good_group)",
};
const GROUPS_KPROBE: Hook = Hook {
    // The return first: a call whose return is not hooked yet would count as one that said yes.
    programs: &["rt_al_group_kout", "rt_al_group_kin"],
    source: Source::Kprobe,
    ..GROUPS
};
const WAIT: Hook = Hook {
    programs: &["rt_al_wait_out", "rt_al_wait_in"],
    source: Source::Fentry,
    figures: &["waits"],
    gives: "time that waiting for bitmaps takes (ext4_wait_block_bitmap)",
};
const WAIT_KPROBE: Hook = Hook {
    programs: &["rt_al_wait_kout", "rt_al_wait_kin"],
    source: Source::Kprobe,
    ..WAIT
};

/// What is figured from several sources needs them all.
const fn tracepoint(
    programs: &'static [&'static str],
    figures: &'static [&'static str],
    gives: &'static str,
) -> Hook {
    Hook {
        programs,
        source: Source::Tracepoint,
        figures,
        gives,
    }
}

/// What to load.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AllocPlan {
    /// What is attached, in this order: a request that is seen has its groups counted.
    pub hooks: Vec<&'static Hook>,
    /// Kprobes to try where one of `hooks` is refused.
    pub instead: Vec<&'static Hook>,
    /// What this kernel cannot give, one line each.
    pub notes: Vec<String>,
    /// Programs in whose place there are others now, and why.
    refused: Vec<(&'static Hook, String)>,
}

/// Decides. `Err` is one line: what is missing, why, and what to do.
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
    plan.function(facts.good_group, &GROUPS, &GROUPS_KPROBE);
    plan.function(facts.wait_block_bitmap, &WAIT, &WAIT_KPROBE);
    for (name, least, hook) in &TRACEPOINTS {
        match facts.tracepoints.get(name) {
            Some(n) if n >= least => plan.hooks.push(hook),
            Some(n) => plan.notes.push(format!(
                "no {}: the tracepoint {name} has {n} arguments here where raidtrace knows {least}",
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
    /// fentry where the kernel can, else a kprobe where there is something to put it on.
    fn function(&mut self, function: Function, fentry: &'static Hook, kprobe: &'static Hook) {
        let possible = function.typed && function.traceable != Some(false);
        if possible {
            self.hooks.push(fentry);
            self.instead.extend(function.symbol.then_some(kprobe));
        } else if function.symbol {
            self.hooks.push(kprobe);
        } else {
            self.notes.push(format!(
                "no {}: this kernel has inlined the function",
                fentry.gives
            ));
        }
    }

    /// Does without a hook of which this kernel refused a program, with kprobes instead if there are any; `false`: no such
    /// program is in.
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

    /// Whether `ext4_mb_good_group()` is hooked, by whatever.
    pub fn looks(&self) -> bool {
        self.hooks.iter().any(|h| h.figures == GROUPS.figures)
    }

    /// Does without the hook of `ext4_mb_good_group()`; its programs.
    pub fn back_off(&mut self) -> &'static [&'static str] {
        let Some(at) = self.hooks.iter().position(|h| h.figures == GROUPS.figures) else {
            return &[];
        };
        self.notes.push(
            "groups are not counted any more: ext4_mb_good_group is called too often for that"
                .to_owned(),
        );
        self.hooks.remove(at).programs
    }

    /// Where each figure comes from; one that takes several hooks is from the dearest, and from none when one is missing.
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
    use super::{AllocFacts, Function, Source, TRACEPOINTS, plan};

    fn modern() -> AllocFacts {
        let function = Function {
            typed: true,
            traceable: Some(true),
            symbol: true,
        };
        AllocFacts {
            btf: true,
            ext4: true,
            tracepoints: TRACEPOINTS.iter().map(|(n, args, _)| (*n, *args)).collect(),
            good_group: function,
            wait_block_bitmap: function,
            criteria: Vec::new(),
        }
    }

    #[test]
    fn a_modern_kernel_gets_everything_and_no_notes() {
        let plan = plan(&modern()).unwrap();
        assert!(plan.notes.is_empty());
        assert_eq!(plan.programs().count(), 8 + 1 + 2);
        let sources = plan.sources();
        assert!(sources.values().all(|s| *s != Source::None));
        assert_eq!(sources["looked"], Source::Fentry);
        assert_eq!(sources["groups"], Source::Fentry);
        assert_eq!(sources["criteria"], Source::Tracepoint);
    }

    #[test]
    fn groups_are_counted_before_the_first_request_is_seen() {
        let plan = plan(&modern()).unwrap();
        let at = |p| plan.programs().position(|q| q == p);
        assert!(at("rt_al_group") < at("rt_al_request"));
    }

    #[test]
    fn kprobes_come_where_fentry_is_refused_and_a_note_where_both_are() {
        let mut plan = plan(&modern()).unwrap();
        assert!(plan.without("rt_al_group", "EPERM"));
        assert!(plan.notes.is_empty() && plan.looks());
        assert_eq!(plan.sources()["looked"], Source::Kprobe);
        assert_eq!(plan.sources()["waits"], Source::Fentry);
        assert!(plan.without("rt_al_group_kin", "ENOENT"));
        assert!(
            !plan.looks()
                && plan.notes[0].contains("rt_al_group (EPERM) and rt_al_group_kin (ENOENT)")
        );
        for figure in ["looked", "refused", "reasons", "groups", "calls"] {
            assert_eq!(plan.sources()[figure], Source::None, "{figure}");
        }
        assert_eq!(plan.sources()["searches"], Source::Tracepoint);
        assert!(!plan.without("rt_al_group", "EPERM"));
    }

    #[test]
    fn what_ftrace_does_not_have_is_not_tried_by_fentry() {
        let mut facts = modern();
        facts.good_group.traceable = Some(false);
        facts.wait_block_bitmap = Function::default();
        let plan = plan(&facts).unwrap();
        assert!(plan.programs().any(|p| p == "rt_al_group_kin"));
        assert!(plan.instead.is_empty());
        assert_eq!(plan.sources()["waits"], Source::None);
        assert!(plan.notes[0].contains("inlined"));
        // It may be just that nobody lets us look.
        facts.good_group.traceable = None;
        let plan = super::plan(&facts).unwrap();
        assert!(plan.programs().any(|p| p == "rt_al_group"));
    }

    #[test]
    fn latency_takes_both_ends() {
        let mut plan = plan(&modern()).unwrap();
        plan.without("rt_al_allocate", "EINVAL");
        assert_eq!(plan.sources()["latency"], Source::None);
        assert_eq!(plan.sources()["requests"], Source::Tracepoint);
    }

    #[test]
    fn without_types_nothing_is_counted_and_it_says_why() {
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
    fn backing_off_leaves_the_rest() {
        let mut plan = plan(&modern()).unwrap();
        assert_eq!(plan.back_off(), ["rt_al_group"]);
        assert_eq!(plan.sources()["looked"], Source::None);
        assert!(plan.notes[0].contains("too often"));
        assert!(plan.back_off().is_empty());
        assert_eq!(plan.programs().count(), 8 + 2);
    }
}
