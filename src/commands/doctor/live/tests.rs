//! Comparison of snapshots with the layouts of simulated machines.

use std::time::Duration;

use super::{compare, raise_severity};
use crate::analysis::fixture::{array, cell, member, snapshot};
use crate::analysis::snapshot::{Cell, JournalStalls, Snapshot};
use crate::analysis::verdict::{self, Verdict};
use crate::commands::doctor::facts::Space;
use crate::commands::doctor::finding::FindingSeverity;
use crate::commands::doctor::tests::Machine;
use crate::fs::ext4::Journal;
use crate::origin::{Op, Origin};

/// A snapshot of one second on 12 members. `blocks`: blocks of block bitmaps written, by slot.
fn snapshot_with(blocks: impl Fn(usize) -> u64, more: impl Fn(usize) -> Vec<Cell>) -> Snapshot {
    let of = |slot| {
        let n = blocks(slot);
        let mut io = vec![cell(Origin::BlockBitmap, Op::Write, n, n * 4096, 500)];
        io.extend(more(slot));
        member(slot, io)
    };
    let mut array = array((0..12).map(of).collect());
    array.info.name = "md0".to_owned();
    snapshot(array)
}

fn none(_: usize) -> Vec<Cell> {
    Vec::new()
}

fn ids(machine: &Machine, snapshot: &Snapshot) -> Vec<&'static str> {
    let (_, found) = compare(&machine.facts(), snapshot);
    found.iter().map(|f| f.id).collect()
}

#[test]
fn writes_as_predicted_by_the_layout() {
    let machine = Machine::new("raid0", 12, None);
    let on_three = |slot: usize| if slot.is_multiple_of(4) { 490 } else { 0 };
    let (live, found) = compare(&machine.facts(), &snapshot_with(on_three, none));
    assert_eq!(live.rows.len(), 1);
    let row = &live.rows[0];
    assert!((row.observed - 4.0).abs() < 0.01 && (row.predicted - 4.0).abs() < 0.1, "{row:?}");
    assert_eq!(row.busiest(), ["loop1", "loop5", "loop9"]);
    assert_eq!(found.len(), 1, "{found:?}");
    // In the fixture, 490 requests in a second are a utilisation of 98 %. The other members are
    // idle.
    assert_eq!((found[0].id, found[0].severity), ("live-skew", FindingSeverity::Warning));
    let calm = |slot: usize| if slot.is_multiple_of(4) { 90 } else { 0 };
    let (_, found) = compare(&machine.facts(), &snapshot_with(calm, none));
    assert_eq!((found[0].id, found[0].severity), ("live-skew", FindingSeverity::Info));
}

#[test]
fn what_tasks_wait_for_is_a_finding() {
    let machine = Machine::new("raid0", 12, None);
    let mut snapshot = snapshot_with(|_| 0, none);
    let mut verdict = Verdict::default();
    verdict.sentence = "writes to md0 take 96ms".to_owned();
    snapshot.arrays[0].verdict = Some(verdict.clone());
    assert_eq!(ids(&machine, &snapshot), [""; 0]);
    for (slow, severity) in [
        (verdict::Severity::Slow, FindingSeverity::Warning),
        (verdict::Severity::Stalled, FindingSeverity::Critical),
    ] {
        verdict.severity = slow;
        snapshot.arrays[0].verdict = Some(verdict.clone());
        let (_, found) = compare(&machine.facts(), &snapshot);
        assert_eq!((found[0].id, found[0].severity), ("live-slow", severity));
        assert_eq!(found[0].title, "writes to md0 take 96ms");
    }
}

/// A skew of the layout is a warning only if members saturate.
#[test]
fn a_skew_that_saturates_members_is_a_warning() {
    let machine = Machine::new("raid0", 12, None);
    let severity = |blocks: u64| {
        let on_three = |slot: usize| if slot.is_multiple_of(4) { blocks } else { 0 };
        let facts = machine.facts();
        let mut found = crate::commands::doctor::rules::check(&facts);
        let (_, more) = compare(&facts, &snapshot_with(on_three, none));
        raise_severity(&mut found, &more);
        let skew = found.into_iter().find(|f| f.id == "layout-skew").unwrap();
        let measured = skew.seen.iter().any(|s| s.starts_with("measured: "));
        (skew.severity, measured)
    };
    assert_eq!(severity(490), (FindingSeverity::Warning, true));
    assert_eq!(severity(90), (FindingSeverity::Info, false));
    assert_eq!(severity(0), (FindingSeverity::Info, false));
}

/// AG headers of an XFS with mkfs.xfs's defaults on a RAID 5 of seven disks of 8 TB. md writes
/// whole pages, of which 3584 bytes are AG headers and 512 the superblock.
#[test]
fn headers_of_allocation_groups_on_one_member() {
    let facts = crate::commands::doctor::rules::allocation_groups::tests::seven_disks();
    let headers = |on: &dyn Fn(usize) -> u64| {
        let io = |slot| cell(Origin::AgHeader, Op::Write, 0, on(slot) * 3584, 500);
        let mut array = array((0..7).map(|slot| member(slot, vec![io(slot)])).collect());
        array.info.name = "md0".to_owned();
        compare(&facts, &snapshot(array))
    };
    let (live, found) = headers(&|slot| if slot == 0 { 300 } else { 0 });
    assert_eq!((live.rows[0].observed, live.rows[0].predicted), (7.0, 7.0));
    assert_eq!(found[0].id, "live-skew");
    let (_, found) = headers(&|_| 43);
    assert_eq!((found[0].id, found[0].severity), ("live-disagrees", FindingSeverity::Warning));
}

/// Inode tables are on all members, but their heads are not.
#[test]
fn heads_of_inode_tables_count() {
    let machine = Machine::new("raid0", 12, None);
    let table = |slot: usize| {
        let n = if slot.is_multiple_of(4) { 90 } else { 0 };
        vec![cell(Origin::InodeTable, Op::Write, n, n * 4096, 500)]
    };
    assert_eq!(ids(&machine, &snapshot_with(|_| 0, table)), ["live-skew"]);
}

#[test]
fn no_finding_for_even_writes_on_an_even_layout() {
    let machine = Machine::new("raid0", 12, Some(32744));
    assert!(ids(&machine, &snapshot_with(|slot| 90 + slot as u64, none)).is_empty());
    // Too few writes.
    assert!(ids(&machine, &snapshot_with(|slot| if slot == 3 { 90 } else { 0 }, none)).is_empty());
}

#[test]
fn writes_to_a_few_groups_are_information() {
    let machine = Machine::new("raid0", 12, Some(32744));
    let (_, found) =
        compare(&machine.facts(), &snapshot_with(|slot| if slot == 3 { 900 } else { 1 }, none));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].severity), ("live-disagrees", FindingSeverity::Info));
}

#[test]
fn writes_where_the_layout_has_none() {
    let machine = Machine::new("raid0", 12, None);
    let (_, found) = compare(&machine.facts(), &snapshot_with(|_| 100, none));
    assert_eq!((found[0].id, found[0].severity), ("live-disagrees", FindingSeverity::Warning));
    assert!(found[0].title.contains("where the layout has none"), "{}", found[0].title);
}

#[test]
fn a_hot_bitmap() {
    let machine = Machine::raid6();
    let with = |bitmap: u64| {
        snapshot_with(
            |_| 0,
            move |_| {
                vec![
                    cell(Origin::MdBitmap, Op::Write, bitmap, bitmap * 4096, 900),
                    cell(Origin::FileData, Op::Write, 500, 500 * 4096, 900),
                ]
            },
        )
    };
    assert_eq!(ids(&machine, &with(500)), ["bitmap-hot"]);
    let commands = |lines: &str| {
        let (_, mut found) = compare(&Machine::raid6().with(lines).facts(), &with(500));
        found.remove(0).commands
    };
    let large = "file sys/block/md0/md/bitmap/chunksize 1073741824";
    let rare = "file sys/block/md0/md/bitmap/time_base 300";
    assert_eq!(
        commands(""),
        [
            "echo 60 > /sys/block/md0/md/bitmap/time_base",
            "mdadm --grow --bitmap=none /dev/md0",
            "mdadm --grow --bitmap=internal --bitmap-chunk=1G /dev/md0",
        ]
    );
    assert_eq!(commands(large), ["echo 60 > /sys/block/md0/md/bitmap/time_base"]);
    assert_eq!(commands(rare).len(), 2);
    assert!(commands(&format!("{large}\n{rare}")).is_empty());
    assert!(ids(&machine, &with(50)).is_empty());
    let busy = Machine::raid6().with("file sys/block/md0/md/sync_action check");
    let (_, found) = compare(&busy.facts(), &with(500));
    assert!(found[0].commands.is_empty());
}

/// A snapshot of ten seconds with waits for the journal of `name`.
fn waits(name: &str, checkpoints: u64, wait_ms: u64) -> Snapshot {
    let mut snapshot = snapshot_with(|_| 0, none);
    snapshot.interval = Duration::from_secs(10);
    snapshot.arrays[0].journal_stalls = vec![JournalStalls {
        filesystem: name.to_owned(),
        checkpoints,
        wait: Duration::from_millis(wait_ms),
    }];
    snapshot
}

fn with_journal(blocks: u64) -> Machine {
    let mut machine = Machine::raid6();
    machine.layout.journal = Journal::Internal { blocks };
    machine.with("file proc/fs/jbd2/md0-8/info 1 transactions")
}

#[test]
fn a_journal_without_room() {
    let machine = with_journal(1024);
    machine.tree.write(
        "proc/fs/jbd2/md0-8/info",
        "812 transactions (810 requested), each up to 256 blocks\naverage: \n  3ms request \
         delay\n  17 logged blocks per transaction\n",
    );
    let mut snapshot = waits("md0", 40, 2_500);
    let submitted = &mut snapshot.arrays[0].submitted;
    submitted.insert((Origin::Journal, Op::Write), 20 << 20);
    let (_, found) = compare(&machine.facts(), &snapshot);
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((finding.id, finding.severity), ("journal-small", FindingSeverity::Warning));
    let about = [&finding.array, &finding.filesystem, &finding.mounted_on];
    assert_eq!(about.map(|a| a.as_deref()), [Some("md0"), Some("md0"), Some("/srv")]);
    assert_eq!(finding.title, "tasks waited for room in the journal of 4 MiB for 25 % of the time");
    assert_eq!(
        finding.seen,
        [
            "tasks waited for 40 checkpoints in 10 s, 4 per second, 62ms each",
            "mke2fs creates a journal of 1 GiB for a filesystem of 1.2 TiB",
            "2.0 MiB per second were written to the journal",
            "before that, since the mount (/proc/fs/jbd2): 812 transactions, each up to 256 \
             blocks, 17 logged on average; 3 ms from the request of a commit to its start",
        ]
    );
    assert_eq!(
        finding.commands,
        [
            "umount /srv",
            "tune2fs -O ^has_journal DEVICE",
            "tune2fs -J size=1024 DEVICE",
            "mount DEVICE /srv"
        ]
    );
    assert!(finding.risk.contains("/dev/md0"), "{}", finding.risk);
    crate::commands::doctor::tests::commands::may_be_pasted(&found);
}

/// tune2fs refuses a journal of more than half of the free blocks, when the old one is gone
/// already.
#[test]
fn a_larger_journal_fits_into_the_free_space() {
    let advised = |free_mib: u64| {
        let mut facts = with_journal(1024).facts();
        facts.arrays[0].filesystems[0].space =
            Some(Space { free: free_mib << 20, ..Space::default() });
        let (_, found) = compare(&facts, &waits("md0", 40, 2_500));
        found.first().and_then(|f| f.commands.get(2).cloned()).unwrap_or_default()
    };
    assert_eq!(advised(1 << 20), "tune2fs -J size=1024 DEVICE");
    assert_eq!(advised(1000), "tune2fs -J size=256 DEVICE");
    assert_eq!(advised(10), "");
}

/// Neither a small journal alone nor a few waits cause a finding.
#[test]
fn small_journals_without_waits() {
    for (blocks, snapshot) in [
        (1024, snapshot_with(|_| 0, none)),
        (1024, waits("md0", 2, 9_000)),
        (1024, waits("md0", 40, 150)),
        (1024, waits("md7", 40, 2_500)),
        // A larger journal would not help.
        (262_144, waits("md0", 40, 2_500)),
    ] {
        let found = ids(&with_journal(blocks), &snapshot);
        assert!(found.is_empty(), "{blocks}: {found:?}");
    }
    let mut machine = Machine::raid6();
    machine.layout.journal = Journal::None;
    assert!(ids(&machine, &waits("md0", 40, 2_500)).is_empty());
    let nowhere = Machine::raid6();
    let mut empty = waits("md0", 40, 2_500);
    empty.interval = Duration::ZERO;
    assert!(ids(&nowhere, &empty).is_empty());
}

/// tune2fs cannot change the size of an external journal.
#[test]
fn an_external_journal_has_no_command() {
    let mut machine = Machine::raid6();
    machine.layout.journal = Journal::External { uuid: None };
    let (_, found) = compare(&machine.facts(), &waits("md0", 40, 2_500));
    assert_eq!(found[0].id, "journal-small");
    assert!(found[0].commands.is_empty() && found[0].risk.is_empty());
    assert!(found[0].not_when.contains("separate device"));
}
