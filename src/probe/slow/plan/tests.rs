use super::{Filesystems, Planned as _, SlowFacts, SlowPlan};
use crate::probe::slow::hooks::{HOOKS, HookPoint, points};

const EXT4: Filesystems = Filesystems { ext4: true, xfs: false };
const XFS: Filesystems = Filesystems { ext4: false, xfs: true };
const BOTH: Filesystems = Filesystems { ext4: true, xfs: true };

fn plan(facts: &SlowFacts) -> Result<SlowPlan, String> {
    super::plan(facts, EXT4)
}

/// A kernel that has everything.
fn complete() -> SlowFacts {
    let tracepoints = points().filter_map(|on| match *on {
        HookPoint::AtLeast(name, _) | HookPoint::Exactly(name, _) => Some(name),
        HookPoint::Function(_) | HookPoint::FunctionOf(..) => None,
    });
    SlowFacts {
        flush_seq: 2,
        throttled: 32,
        missing: Vec::new(),
        btf: true,
        sleeping_ring: false,
        typed: BOTH,
        tracepoints: tracepoints
            .map(|name| (name, if name == "block_bio_queue" { 1 } else { 8 }))
            .collect(),
        functions: points()
            .filter_map(HookPoint::function)
            .map(|name| match name {
                "ext4_mkdir" | "xfs_vn_mkdir" | "xfs_file_fsync" => (name, 4),
                "xfs_vn_setattr_size" => (name, 3),
                _ => (name, 6),
            })
            .collect(),
    }
}

#[test]
fn a_complete_kernel_gets_one_variant_of_each_hook() {
    let plan = plan(&complete()).unwrap();
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    let programs = plan.names();
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
fn an_absent_field_of_a_commit_is_noted() {
    let facts = SlowFacts { missing: vec!["transaction_s.t_state"], ..complete() };
    let notes = plan(&facts).unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("transaction_s.t_state"), "{notes:?}");
}

/// One hook point is removed at a time.
#[test]
fn an_absent_hook_costs_its_figure_or_stops_with_its_name() {
    for on in points() {
        let mut facts = complete();
        let name = match *on {
            HookPoint::AtLeast(name, _) | HookPoint::Exactly(name, _) => {
                facts.tracepoints.remove(name);
                name
            }
            HookPoint::Function(name) | HookPoint::FunctionOf(name, _) => {
                facts.functions.remove(name);
                name
            }
        };
        let hooks = || HOOKS.iter().filter(|h| h.on.contains(on));
        // Another hook gives the same, or a note does not name the hook.
        let silent = hooks().all(|h| h.silent);
        let said = super::plan(&facts, BOTH).map_or_else(|why| why, |p| p.notes.join("; "));
        let gives = hooks().any(|h| said.contains(h.gives));
        assert!(
            said.contains(name)
                || silent && (gives || name.contains("wait") || name.starts_with("iomap")),
            "{name}: {said}"
        );
    }
}

#[test]
fn without_fentry_a_note_names_each_missing_figure() {
    let facts = SlowFacts { functions: [].into(), ..complete() };
    let plan = plan(&facts).unwrap();
    assert!(plan.names().contains(&"rt_slow_sync_in"));
    for missing in
        ["no reads:", "no writes:", "no sync and syncfs:", "no tasks that request commits:"]
    {
        assert!(plan.notes.iter().any(|n| n.starts_with(missing)), "{missing}: {:?}", plan.notes);
    }
}

#[test]
fn the_end_of_asynchronous_io_has_one_variant() {
    let has = |plan: &SlowPlan, program: &str| plan.names().contains(&program);
    let mut facts = complete();
    facts.functions.insert("iomap_dio_complete", 1);
    let newer = plan(&facts).unwrap();
    assert!(has(&newer, "rt_slow_dio_done") && !has(&newer, "rt_slow_dio_out"));
    // Functions of the filesystem mark the start.
    assert!(!has(&newer, "rt_slow_dio_begin"));
    facts.tracepoints.remove("iomap_dio_complete");
    let older = plan(&facts).unwrap();
    assert!(has(&older, "rt_slow_dio_out") && older.notes.is_empty(), "{:?}", older.notes);
    facts.functions.clear();
    let neither = plan(&facts).unwrap();
    assert!(!has(&neither, "rt_slow_dio_begin"));
    let notes = &neither.notes;
    assert!(notes.iter().any(|n| n.starts_with("no asynchronous direct IO:")), "{notes:?}");
    let no_functions = SlowFacts { functions: [].into(), ..complete() };
    let late = plan(&no_functions).unwrap();
    assert!(has(&late, "rt_slow_dio_begin") && has(&late, "rt_slow_dio_done_too"));
}

#[test]
fn sleeps_of_tasks_are_required() {
    let mut facts = complete();
    facts.tracepoints.remove("sched_switch");
    let why = plan(&facts).unwrap_err();
    assert!(why.contains("sched_switch"), "{why}");
    assert!(plan(&SlowFacts::default()).unwrap_err().contains("CONFIG_DEBUG_INFO_BTF"));
}

#[test]
fn a_refused_program_drops_its_hook() {
    let mut plan = plan(&complete()).unwrap();
    assert!(plan.without("rt_slow_read_in", "EBUSY"));
    assert!(!plan.names().iter().any(|p| p.starts_with("rt_slow_read")));
    assert_eq!(plan.notes, ["no reads: this kernel refused rt_slow_read_in (EBUSY)"]);
    assert!(!plan.without("rt_slow_switch", "EPERM") && !plan.without("none", ""));
}

#[test]
fn each_filesystem_gets_its_own_programs() {
    let count = |of| {
        let plan = super::plan(&complete(), of).unwrap();
        assert!(plan.notes.is_empty(), "{:?}", plan.notes);
        let names = plan.names();
        let of = |start| names.iter().filter(|p| p.starts_with(start)).count();
        (of("rt_slow_xfs"), of("rt_slow_commit"), of("rt_slow_switch"))
    };
    assert_eq!(count(EXT4), (0, 6, 1));
    assert_eq!(count(XFS), (19, 0, 1));
    assert_eq!(count(BOTH), (19, 6, 1));
}

#[test]
fn xfs_without_types_leaves_ext4() {
    // Linux 5.10 has no BTF of modules.
    let facts = SlowFacts { typed: EXT4, ..complete() };
    let why = super::plan(&facts, XFS).unwrap_err();
    assert!(why.contains("/sys/kernel/btf/xfs"), "{why}");
    let both = super::plan(&facts, BOTH).unwrap();
    assert!(!both.names().iter().any(|p| p.starts_with("rt_slow_xfs")));
    assert!(both.notes[0].starts_with("no operations of XFS: "));
    // A kernel that refuses fentry.
    let mut both = super::plan(&complete(), BOTH).unwrap();
    assert!(both.without("rt_slow_xfs_sync_in", "EBUSY"));
    assert!(!both.names().iter().any(|p| p.starts_with("rt_slow_xfs")));
    assert!(both.names().contains(&"rt_slow_sync_in"));
    let mut xfs = super::plan(&complete(), XFS).unwrap();
    assert!(!xfs.without("rt_slow_xfs_sync_in", "EBUSY"));
}

#[test]
fn a_ring_buffer_that_sleeps_is_not_used() {
    let facts = SlowFacts { sleeping_ring: true, ..complete() };
    assert!(plan(&facts).unwrap_err().contains("PREEMPT_RT"));
}
