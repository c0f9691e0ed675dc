use super::{SlowFacts, plan};
use crate::probe::slow::hooks::{FUNCTIONS, HOOKS, TRACEPOINTS};

/// A kernel that has everything.
fn complete() -> SlowFacts {
    SlowFacts {
        flush_seq: 2,
        btf: true,
        ext4: true,
        tracepoints: TRACEPOINTS
            .into_iter()
            .map(|name| (name, if name == "block_bio_queue" { 1 } else { 8 }))
            .collect(),
        functions: FUNCTIONS
            .into_iter()
            .map(|name| match name {
                "ext4_mkdir" => (name, 4),
                _ => (name, 6),
            })
            .collect(),
    }
}

#[test]
fn a_complete_kernel_gets_one_variant_of_each_hook() {
    let plan = plan(&complete()).unwrap();
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    let programs: Vec<_> = plan.programs().collect();
    assert!(programs.contains(&"rt_slow_bio_queue") && !programs.contains(&"rt_slow_bio_queue_q"));
    // Ends are attached before starts: no operation stays open.
    for hook in &HOOKS {
        let position = |end: &str| hook.programs.iter().position(|p| p.ends_with(end));
        if let (Some(end), Some(start)) = (position("_out"), position("_in")) {
            assert!(end < start, "{:?}", hook.programs);
        }
    }
}

#[test]
fn without_fentry_a_note_names_each_missing_figure() {
    let facts = SlowFacts {
        functions: [].into(),
        ..complete()
    };
    let plan = plan(&facts).unwrap();
    assert!(plan.programs().any(|p| p == "rt_slow_sync_in"));
    for missing in [
        "no reads:",
        "no writes:",
        "no sync and syncfs:",
        "no tasks that request commits:",
    ] {
        assert!(
            plan.notes.iter().any(|n| n.starts_with(missing)),
            "{missing}: {:?}",
            plan.notes
        );
    }
}

#[test]
fn sleeps_of_tasks_are_required() {
    let mut facts = complete();
    facts.tracepoints.remove("sched_switch");
    let why = plan(&facts).unwrap_err();
    assert!(why.contains("sched_switch"), "{why}");
    assert!(
        plan(&SlowFacts::default())
            .unwrap_err()
            .contains("CONFIG_DEBUG_INFO_BTF")
    );
}

#[test]
fn a_refused_program_drops_its_hook() {
    let mut plan = plan(&complete()).unwrap();
    assert!(plan.without("rt_slow_read_in", "EBUSY"));
    assert!(!plan.programs().any(|p| p.starts_with("rt_slow_read")));
    assert_eq!(
        plan.notes,
        ["no reads: this kernel refused rt_slow_read_in (EBUSY)"]
    );
    assert!(!plan.without("rt_slow_switch", "EPERM") && !plan.without("none", ""));
}
