//! Snapshot tests (insta) of the text and the JSON output.

use super::Machine;
use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::kernel::{Ability, Properties};
use crate::commands::doctor::select::{Diagnosis, LeftOut};
use crate::commands::doctor::{json, rules, table};
use crate::probe::KernelFacts;

fn properties() -> Properties {
    Properties {
        release: "6.12.107+deb13-amd64".to_owned(),
        root: true,
        capabilities: Some(u64::MAX),
        kptr_restrict: Some(2),
        facts: KernelFacts {
            btf: true,
            rq_issue: Some(1),
            rq_complete: Some(3),
            bio_queue: Some(1),
            bio_complete: Some(2),
            free_blocks: Some(4),
            ..KernelFacts::default()
        },
        modules: vec![("raid456", true)],
        ..Properties::default()
    }
}

fn text(machine: &Machine) -> String {
    let facts = machine.facts();
    let found = rules::check(&facts);
    let able = Ability::new(&properties(), vec!["a note of the plan".to_owned()]);
    let mut out = Vec::new();
    table::write(&mut out, &super::diagnosis(&facts, &found, &able)).unwrap();
    String::from_utf8(out).unwrap()
}

/// An uneven layout, two missing disks, bad blocks, and a stripe width in the superblock that is
/// from before the array grew.
fn faulty() -> Machine {
    Machine::new("raid6", 8, None)
        .with(
            "file sys/block/md0/md/degraded 2
            file sys/block/md0/md/dev-sdc/slot none
            file sys/block/md0/md/dev-sdc/state faulty
            file sys/block/md0/md/dev-sdd/bad_blocks 4096 8",
        )
        .sb(|sb| {
            sb.raid_stripe_width = 384;
            sb.free_inodes_count = sb.inodes_count - 1000;
        })
}

#[test]
fn worst_first() {
    let machine = faulty();
    machine.options("rw\nerrors=continue\nstripe=384");
    insta::assert_snapshot!("faulty", text(&machine));
}

#[test]
fn no_findings() {
    insta::assert_snapshot!("no_findings", text(&Machine::raid6()));
}

#[test]
fn left_out_findings_are_counted() {
    let facts = Machine::raid6().facts();
    let able = Ability::new(&properties(), Vec::new());
    let print = |found: &[Finding]| {
        let mut out = Vec::new();
        let diagnosis = Diagnosis {
            left_out: LeftOut { ignored: 2, acknowledged: 1, below_min_severity: 0 },
            ..super::diagnosis(&facts, found, &able)
        };
        table::write(&mut out, &diagnosis).unwrap();
        String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        print(&[]).contains(
            "no other findings on 1 array or disk and 1 filesystem; left out: 2 ignored, 1 \
             acknowledged"
        ),
        "{}",
        print(&[])
    );
    let one = Finding::critical("array-degraded", "");
    assert!(print(&[one]).contains("1 critical; left out: 2 ignored, 1 acknowledged"));
}

#[test]
fn kernel() {
    let mut out = Vec::new();
    table::kernel(&mut out, &Ability::new(&properties(), Vec::new())).unwrap();
    insta::assert_snapshot!("kernel", String::from_utf8(out).unwrap());
}

#[test]
fn lines_have_at_most_80_columns() {
    let machine = faulty();
    machine.options("rw\nerrors=continue\nstripe=384");
    for line in text(&machine).lines() {
        let command = line.contains("mdadm")
            || line.contains("mkfs")
            || line.contains("tune2fs")
            || line.contains("mount");
        assert!(command || crate::ui::text::width(line) <= 80, "{line}");
    }
}

#[test]
fn as_json() {
    let facts = faulty().facts();
    let able = Ability::new(&properties(), Vec::new());
    let mut object = json::object(&super::diagnosis(&facts, &rules::check(&facts), &able));
    object["time"] = "2026-11-21T09:00:00Z".into();
    assert_eq!(object["schema"], "raidtrace.doctor/1");
    assert_eq!(object["worst"], "critical");
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&object).unwrap());
}
