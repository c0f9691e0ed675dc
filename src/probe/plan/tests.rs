use super::super::md::Md;
use super::{DirtiedCounting, KernelFacts, Need, Planned as _, plan};
use crate::probe::fields::LOST;
use crate::probe::shadows::{SHADOWED, is_shadow};
use crate::probe::symbols::EXPECTED;

const MODERN: KernelFacts = KernelFacts {
    btf: true,
    rq_issue: Some(1),
    rq_complete: Some(3),
    bio_queue: Some(1),
    free_blocks: Some(4),
    ext4_module_btf: false,
    bio_complete: Some(2),
    md: Md {
        no_module_types: false,
        raid5_end_read: 1,
        raid5_end_write: 1,
        raid5_end_aligned: 1,
        raid10_end_read: 1,
        raid10_end_write: 1,
        flush_end: 1,
        ppl_flush_end: 1,
        crypt_end: 1,
        sync_ends: [1; 6],
        stripe_syncing: 8,
        stripe_expanding: 16,
        stripe_expand_source: 32,
        hidden: false,
    },
    xfs_types: true,
    xfs_buf_end: 1,
    xfs_log_end: 1,
    chain_end: 1,
    vmemmap_base: 0,
    page_offset_base: 0,
    dio_end_io: 1,
    dio_simple: true,
    dio_simple_pool: 1,
    dio_simple_iocb: 64,
    ext4_end_io: 1,
    dm_end_io: 0,
    wait_end_io: 1,
    preemptible: false,
    sleeping_ring: false,
    guarded: true,
    several_queues: true,
    handle_stats: Some(8),
    jbd2_module_btf: false,
    checkpoint: Some(2),
    checkpoint_stats: Some(3),
    log_tail: Some(4),
    ftrace: true,
    dirty_folio: Some(2),
    dirty_page: None,
    missing: [None; LOST.len()],
    absent: 0,
};
const PLAIN: Need = Need {
    stripes: false,
    md_submits: false,
    mirrors: false,
    bio_based: false,
    quota: false,
    ext4: false,
    xfs: false,
    dirtied: DirtiedCounting::No,
    journals: false,
    nothing: false,
};

fn names(facts: &KernelFacts) -> Vec<&'static str> {
    plan(facts, PLAIN).unwrap().programs.iter().map(|c| c.program).collect()
}

#[test]
fn a_modern_kernel_gets_everything_and_no_notes() {
    assert_eq!(
        names(&MODERN),
        [
            "rt_rq_requeue",
            "rt_rq_issue",
            "rt_rq_complete",
            "rt_bio_queue",
            "rt_free_blocks",
            "rt_bio_refused",
            "rt_rq_complete_2"
        ]
    );
    assert!(plan(&MODERN, PLAIN).unwrap().notes.is_empty());
}

#[test]
fn unknown_waiters_are_noted() {
    let plan = plan(&KernelFacts { wait_end_io: 0, ..MODERN }, PLAIN).unwrap();
    assert_eq!(plan.notes.len(), 1);
    assert!(plan.notes[0].contains("bio_wait_end_io"), "{:?}", plan.notes);
}

#[test]
fn simple_direct_reads_without_their_pool_are_noted() {
    let notes = |facts: &KernelFacts| plan(facts, PLAIN).unwrap().notes.join("; ");
    let hidden = KernelFacts { dio_simple_pool: u64::MAX, ..MODERN };
    assert!(notes(&hidden).contains("iomap_dio_simple_pool"), "{}", notes(&hidden));
    let older = KernelFacts { dio_simple: false, dio_simple_pool: 0, ..MODERN };
    assert_eq!(notes(&older), "");
}

#[test]
fn stripes_need_the_md_submit_program() {
    let need = Need { stripes: true, md_submits: true, ..PLAIN };
    let plan = plan(&MODERN, need).unwrap();
    assert!(plan.programs.iter().any(|c| c.program == "rt_md_submit"));
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
}

#[test]
fn shadow_programs_follow_their_programs() {
    let facts = KernelFacts { preemptible: true, ..MODERN };
    let names = names(&facts);
    for first in ["rt_rq_issue", "rt_bio_queue"] {
        let at = |name: &str| names.iter().position(|n| *n == name);
        assert!(at(&format!("{first}_2")) > at(first), "{names:?}");
    }
    assert!(!names.contains(&"rt_md_submit_2"));
}

/// The suffix `_2` marks a shadow program: under another name it would count the events of its
/// first program again.
#[test]
fn every_program_that_can_be_skipped_has_a_shadow_program_with_its_name() {
    let facts = KernelFacts { preemptible: true, several_queues: true, ..MODERN };
    let need = Need { stripes: true, md_submits: true, bio_based: true, ..PLAIN };
    let plan = plan(&facts, need).unwrap();
    let shadows = plan.programs.iter().map(|c| c.program);
    let mut shadows: Vec<_> = shadows.filter(|p| is_shadow(p)).collect();
    shadows.sort_unstable();
    let mut expected = SHADOWED.map(|first| format!("{first}_2"));
    expected.sort_unstable();
    assert_eq!(shadows, expected);
}

#[test]
fn completion_shadow_is_not_attached_without_a_multiqueue_disk() {
    let attached = |facts: &KernelFacts| {
        let plan = plan(facts, PLAIN).unwrap();
        let mut found = plan.programs.into_iter();
        found.find(|c| c.program == "rt_rq_complete_2").map(|c| c.attached)
    };
    let one_queue = KernelFacts { several_queues: false, ..MODERN };
    let preemptible = KernelFacts { preemptible: true, ..one_queue };
    assert_eq!(
        [MODERN, one_queue, preemptible].map(|f| attached(&f)),
        [Some(true), Some(false), Some(true)]
    );
}

#[test]
fn dirtied_data_is_hooked_if_wanted_and_permitted() {
    let programs = |facts: &KernelFacts, dirtied| {
        let need = Need { ext4: true, dirtied, ..PLAIN };
        let plan = plan(facts, need).unwrap();
        let names = plan.programs.iter().map(|c| c.program);
        let names: Vec<_> = names.filter(|p| p.starts_with("rt_dirty")).collect();
        (names, plan.notes.len())
    };
    let unhooked = KernelFacts { ftrace: false, ..MODERN };
    let old = KernelFacts { dirty_folio: None, dirty_page: Some(2), ..MODERN };
    let untyped = KernelFacts { handle_stats: None, ..MODERN };
    let (by_handle, by_block) = ("rt_dirty_handle", "rt_dirty_block");
    let (folio, page) = ("rt_dirty_folio", "rt_dirty_page");
    for (facts, dirtied, expected) in [
        (MODERN, DirtiedCounting::No, (vec![], 0)),
        (MODERN, DirtiedCounting::Counted, (vec![by_handle, folio], 0)),
        (MODERN, DirtiedCounting::ByOrigin, (vec![by_block, folio], 0)),
        (unhooked, DirtiedCounting::Counted, (vec![by_handle, folio], 0)),
        (unhooked, DirtiedCounting::ByOrigin, (vec![by_handle, folio], 1)),
        (old, DirtiedCounting::Counted, (vec![by_handle, page], 0)),
        (untyped, DirtiedCounting::Counted, (vec![folio], 1)),
    ] {
        assert_eq!(programs(&facts, dirtied), expected, "{dirtied:?}");
    }
    let xfs = Need { xfs: true, dirtied: DirtiedCounting::Counted, ..PLAIN };
    let plan = plan(&MODERN, xfs).unwrap();
    let dirty = plan.programs.iter().map(|c| c.program).filter(|p| p.starts_with("rt_dirty"));
    assert_eq!(dirty.collect::<Vec<_>>(), [folio], "XFS has no handles of jbd2");
}

#[test]
fn programs_for_a_degraded_array_are_loaded() {
    let of = |need| {
        let plan = plan(&MODERN, need).unwrap();
        let mut found = plan.programs.into_iter();
        found.find(|c| c.program == "rt_bio_complete").map(|c| c.attached)
    };
    let whole = Need { stripes: true, ..PLAIN };
    let degraded = Need { bio_based: true, ..whole };
    assert_eq!([PLAIN, whole, degraded].map(of), [None, Some(false), Some(true)]);
    let old = KernelFacts { bio_complete: None, ..MODERN };
    let notes = |need| plan(&old, need).unwrap().notes.len();
    assert_eq!([whole, degraded].map(notes), [1, 2], "refused bios; nested arrays");
}

#[test]
fn tracepoints_with_two_arguments_select_the_old_variant() {
    let facts = KernelFacts { bio_queue: Some(2), rq_issue: Some(2), ..MODERN };
    let names = names(&facts);
    assert!(names.contains(&"rt_bio_queue_q") && names.contains(&"rt_rq_issue_q"));
    assert!(!names.contains(&"rt_rq_issue") && names.contains(&"rt_rq_requeue_q"));
}

#[test]
fn a_missing_tracepoint_costs_one_feature_and_a_note() {
    let facts = KernelFacts { bio_queue: None, free_blocks: None, ..MODERN };
    let plan = plan(&facts, PLAIN).unwrap();
    assert_eq!(plan.programs.len(), 5);
    assert_eq!(plan.notes.len(), 2);
}

#[test]
fn without_btf_or_requests_the_error_has_a_remedy() {
    assert!(plan(&KernelFacts::default(), PLAIN).unwrap_err().contains("CONFIG_DEBUG_INFO_BTF"));
    let strange = KernelFacts { rq_issue: Some(3), ..MODERN };
    assert!(plan(&strange, PLAIN).unwrap_err().contains("has 3 arguments"));
}

#[test]
fn only_optional_programs_can_be_dropped() {
    let mut p = plan(&MODERN, PLAIN).unwrap();
    assert!(!p.without("rt_rq_issue", "EPERM"));
    assert_eq!(p.last_optional(), Some("rt_rq_complete_2"));
    assert!(p.without("rt_free_blocks", "EPERM"));
    assert!(!p.without("rt_free_blocks", "EPERM"));
    assert_eq!(p.notes.len(), 1);
}

#[test]
fn a_missing_field_costs_its_figure_or_stops_with_its_name() {
    for (at, (lost, fields)) in LOST.iter().enumerate() {
        for field in fields.split(' ') {
            let mut facts = MODERN;
            facts.missing[at] = Some(field);
            let name = field.replace('?', "").replace('|', " or ");
            match plan(&facts, PLAIN) {
                Ok(plan) => assert!(plan.notes[0].contains(lost) && plan.notes[0].contains(&name)),
                Err(why) => assert!(lost.is_empty() && why.contains(&name), "{why}"),
            }
        }
    }
}

/// One tracepoint is removed at a time.
#[test]
fn an_absent_tracepoint_costs_its_figure_or_stops_with_its_name() {
    type Remove = fn(&mut KernelFacts) -> &mut Option<usize>;
    let tracepoints: [(&str, Remove); 9] = [
        ("block_rq_issue", |f| &mut f.rq_issue),
        ("block_rq_complete", |f| &mut f.rq_complete),
        ("block_bio_queue", |f| &mut f.bio_queue),
        ("block_bio_complete", |f| &mut f.bio_complete),
        ("ext4", |f| &mut f.free_blocks),
        ("journal", |f| &mut f.checkpoint),
        ("journal", |f| &mut f.checkpoint_stats),
        ("journal", |f| &mut f.log_tail),
        ("file data that tasks dirty", |f| &mut f.dirty_folio),
    ];
    let all = Need { bio_based: true, ext4: true, journals: true, ..PLAIN };
    let all = Need { dirtied: DirtiedCounting::Counted, ..all };
    assert_eq!(plan(&MODERN, all).unwrap().notes, [""; 0]);
    for (name, remove) in tracepoints {
        let mut facts = MODERN;
        *remove(&mut facts) = None;
        let said = plan(&facts, all).map_or_else(|why| why, |plan| plan.notes.join("; "));
        assert!(said.contains(name), "{name}: {said}");
    }
}

#[test]
fn an_absent_symbol_costs_its_figure() {
    let need = Need { ext4: true, xfs: true, stripes: true, mirrors: true, ..PLAIN };
    for (bit, (name, module, lost)) in EXPECTED.into_iter().enumerate() {
        let facts = KernelFacts { absent: 1 << bit, ..MODERN };
        let notes = |need| plan(&facts, need).unwrap().notes;
        let note = notes(need).join("; ");
        assert!(note.contains(name) && note.contains(lost) && note.contains(module), "{note}");
        let always = ["", "dm_mod", "dm_crypt"].contains(&module);
        assert_eq!(notes(PLAIN).is_empty(), !always, "{name}");
    }
}

#[test]
fn waits_for_a_journal_need_the_types_of_jbd2() {
    let need = Need { ext4: true, journals: true, ..PLAIN };
    let found = |facts: &KernelFacts, need: Need| {
        let plan = plan(facts, need).unwrap();
        let programs = plan.programs.iter().map(|c| c.program);
        let all = ["rt_checkpoint", "rt_checkpoint_done", "rt_log_tail"];
        (programs.filter(|p| all.contains(p)).count(), plan.notes.join("; "))
    };
    assert_eq!(found(&MODERN, need), (3, String::new()));
    assert_eq!(found(&MODERN, PLAIN), (0, String::new()));
    let untyped = KernelFacts { checkpoint_stats: None, ..MODERN };
    let (programs, note) = found(&untyped, need);
    assert!(programs == 0 && note.contains("no waits for room in a journal"), "{note}");
    let module = KernelFacts { jbd2_module_btf: true, ..untyped };
    assert_eq!(found(&module, need), (3, String::new()));
}

#[test]
fn a_topology_only_session_loads_nothing() {
    let need = Need { nothing: true, ..PLAIN };
    let plan = plan(&KernelFacts { btf: true, ..KernelFacts::default() }, need).unwrap();
    assert!(plan.programs.is_empty() && plan.notes.is_empty());
}

#[test]
fn xfs_blocks_of_unknown_kind_give_a_note() {
    let notes = |facts: &KernelFacts| {
        let need = Need { xfs: true, ..PLAIN };
        plan(facts, need).unwrap().notes
    };
    assert_eq!(notes(&MODERN), [""; 0]);
    let hidden = KernelFacts { xfs_buf_end: u64::MAX, ..MODERN };
    assert!(notes(&hidden)[0].contains("XFS"), "{:?}", notes(&hidden));
    let untyped = KernelFacts { xfs_types: false, ..MODERN };
    assert!(notes(&untyped)[0].contains("types of XFS"));
    assert!(plan(&untyped, PLAIN).unwrap().notes.is_empty());
}

#[test]
fn freed_blocks_of_xfs_are_forgotten_if_its_types_are_known() {
    let freed = |facts: &KernelFacts, xfs| {
        let plan = plan(facts, Need { xfs, ..PLAIN }).unwrap();
        plan.programs.iter().any(|c| c.program == "rt_xfs_freed")
    };
    assert!(freed(&MODERN, true) && !freed(&MODERN, false));
    let untyped = KernelFacts { xfs_types: false, ..MODERN };
    assert!(!freed(&untyped, true));
}
