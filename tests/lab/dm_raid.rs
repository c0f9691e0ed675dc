//! LVM's RAID volumes (`tests/lab/dm_raid.sh`), compared with the statistics of the devices of each
//! slot.

use std::path::Path;

use serde_json::Value;

use super::output::{by_origin, count, each, figures, lines, word};
use super::{intervals, lab, text};

const LEVELS: [(&str, &str); 6] = [
    ("raid1", "raid1"),
    ("raid5_ls", "raid5"),
    ("raid4", "raid5"),
    ("raid6_zr", "raid6"),
    ("raid10", "raid10"),
    ("raid0", "raid0"),
];
/// Bytes of the data device of a slot.
const DATA: u64 = 131_072 * 512;
const WHOLE_STRIPES: u64 = 8 * 768 * 1024;

/// Each byte of the disks is counted, those of the metadata devices as md's metadata, and parity
/// and copies have the size that the level gives them.
pub(super) fn volumes_of_dm_raid_are_arrays(kernel: &str) {
    let Some(dir) = lab(kernel, "dm_raid") else {
        return;
    };
    let work = lines(&dir, "work");
    let sums = by_origin(&work);
    let below = figures(&dir, "work.below");
    for (case, level) in LEVELS {
        let slots: Vec<_> = below
            .iter()
            .filter_map(|(slot, sectors)| {
                Some((slot.strip_prefix(case)?.strip_prefix('.')?, sectors))
            })
            .collect();
        let disks: Vec<&str> = slots.iter().map(|(disk, _)| *disk).collect();
        let has = |array: &&Value| {
            each(array, "members").iter().any(|member| word(member, "name") == disks[0])
        };
        let array = each(&work[0], "arrays").iter().find(has);
        assert_eq!(word(array.expect("an array"), "level"), level, "{case}");
        let sum = |keep: &dyn Fn(&str, &str, &str) -> bool| -> u64 {
            let own = sums.iter().filter(|((m, ..), _)| disks.contains(m));
            own.filter(|((m, origin, op), _)| keep(m, origin, op))
                .map(|(_, (_, bytes))| bytes)
                .sum()
        };
        let metadata = ["md_superblock", "md_bitmap"];
        for (disk, sectors) in &slots {
            let [all_read, all_written, _, metadata_written, _, data_written] = sectors[..] else {
                panic!("{sectors:?}")
            };
            let of = |op: &str, origins: &dyn Fn(&str) -> bool| {
                sum(&|m, origin, o| m == *disk && o == op && origins(origin)) / 512
            };
            assert_eq!(of("read", &|_| true), all_read, "{case} {disk}: {sums:#?}");
            assert_eq!(of("write", &|_| true), all_written, "{case} {disk}: {sums:#?}");
            let found = of("write", &|origin| metadata.contains(&origin));
            assert_eq!(found, metadata_written, "{case} {disk}: {sums:#?}");
            let rest = of("write", &|origin| !metadata.contains(&origin));
            assert_eq!(rest, data_written, "{case} {disk}: {sums:#?}");
        }
        let members = work.iter().flat_map(|line| each(line, "arrays"));
        let members = members.flat_map(|array| each(array, "members"));
        let members: Vec<_> = members.filter(|m| disks.contains(&word(m, "name"))).collect();
        let kernel: u64 = members.iter().map(|m| count(&m["disk"], "requests")).sum();
        let ours: u64 =
            (members.iter().flat_map(|m| each(m, "io"))).map(|row| count(row, "requests")).sum();
        assert_eq!(ours, kernel, "{case}: requests");
        let written = |origin: &str| sum(&|_, o, op| o == origin && op == "write");
        let copies = if ["raid1", "raid10"].contains(&level) { 2 } else { 1 };
        let files = written("file_data");
        let expected = copies * (WHOLE_STRIPES + 4096 + 20 * 4096);
        assert_eq!(files, expected, "{case}: {sums:#?}");
        assert_eq!(sum(&|_, o, _| ["unknown", "raw"].contains(&o)), 0, "{case}: {sums:#?}");
        let parity = written("parity");
        let of_stripes = match level {
            "raid5" => WHOLE_STRIPES / 2,
            "raid6" => WHOLE_STRIPES / 3 * 2,
            _ => 0,
        };
        assert!(parity >= of_stripes && (parity > 0) == (of_stripes > 0), "{case}: {parity}");
        println!("{case}: file data {files}, parity {parity}");
    }
    let check = lines(&dir, "check");
    let sums = by_origin(&check);
    for (slot, sectors) in figures(&dir, "check.below") {
        let (level, disk) = slot.split_once('.').expect("a level");
        if !["raid1", "raid5_ls", "raid10"].contains(&level) {
            continue;
        }
        let read = sums.get(&(disk, "resync", "read")).map_or(0, |(_, bytes)| *bytes);
        assert_eq!(read, sectors[4] * 512, "{slot}: {sums:#?}");
        // The kernel checks only what a RAID 1 had before it was enlarged. Some stripes were in the
        // cache.
        let checked = if level == "raid1" { DATA / 2 } else { DATA };
        assert!(read > checked / 100 * 99, "{slot}: {read}");
    }
    // A disk of the RAID 1 has failed.
    let failed = intervals(dir.join("failed.json"));
    let arrays = each(&failed[0], "arrays");
    let array = arrays.iter().find(|a| word(a, "level") == "raid1").expect("the RAID 1");
    assert_eq!(word(array, "health"), "degraded", "{array:#}");
    assert_eq!(array["members"][1]["health"], "faulty", "{array:#}");
    let doctor = text(dir.join("doctor.txt"));
    println!("{doctor}{}", text(dir.join("doctor.err")));
    assert!(doctor.contains("degraded by 1: the next disk failure loses data"));
    assert!(doctor.contains("lvconvert --repair vg/raid1"));
    assert!(doctor.contains("vgreduce --removemissing vg\n"));
    assert!(!doctor.contains("mdadm"));
    repaired_and_converted(&dir);
    missing(&dir);
}

/// A disk was gone before the volume was activated.
fn missing(dir: &Path) {
    let missing = lines(dir, "missing");
    let array = &missing.last().expect("an interval")["arrays"][0];
    assert_eq!(word(array, "health"), "degraded", "{array:#}");
    let health: Vec<&Value> = each(array, "members").iter().map(|m| &m["health"]).collect();
    assert_eq!(health, [&Value::Null, &"faulty".into(), &Value::Null], "{array:#}");
    let sums = by_origin(&missing);
    let member = |slot: usize| word(&array["members"][slot], "name");
    let written = |slot| {
        let own = sums.iter().filter(|((m, _, op), _)| (*m, *op) == (member(slot), "write"));
        own.map(|(_, (_, bytes))| bytes).sum::<u64>()
    };
    assert!(written(0) > 20 * 20 * 64 * 1024 / 2, "{sums:#?}");
    assert_eq!(written(1), 0, "{sums:#?}");
    let notes = text(dir.join("missing.err"));
    assert!(notes.contains("a disk is missing: dm-"), "{notes}");
    let doctor = text(dir.join("doctor_missing.txt"));
    assert!(doctor.contains("degraded by 1: the next disk failure loses data"), "{doctor}");
}

/// The new disk is traced from its first write on after the repair; a RAID 5 of two disks has
/// parity.
fn repaired_and_converted(dir: &Path) {
    let spare = text(dir.join("spare"));
    let repair = lines(dir, "repair");
    let array = &repair.last().expect("an interval")["arrays"][0];
    assert_eq!((word(array, "volume"), array.get("health")), ("vg/raid1", Some(&Value::Null)));
    let names: Vec<&str> = each(array, "members").iter().map(|m| word(m, "name")).collect();
    assert_eq!(names[1], spare.trim(), "{array:#}");
    let sums = by_origin(&repair);
    let bytes = |disk| sums.get(&(disk, "file_data", "write")).map_or(0, |(_, bytes)| *bytes);
    assert_eq!(bytes(names[1]), 20 * 20 * 64 * 1024, "{sums:#?}");
    assert_eq!(bytes(names[0]), bytes(names[1]), "{sums:#?}");

    let convert = lines(dir, "convert");
    let first: usize = text(dir.join("converted")).trim().parse().expect("a number");
    let sums = by_origin(&convert[first..]);
    println!("{sums:#?}");
    let of = |origin| -> u64 {
        let own = sums.iter().filter(|((_, o, op), _)| (*o, *op) == (origin, "write"));
        own.map(|(_, (_, bytes))| bytes).sum()
    };
    assert_eq!(of("file_data"), 64 * 64 * 1024, "{sums:#?}");
    assert!(of("parity") >= of("file_data"), "{sums:#?}");
    assert_eq!(of("unknown") + of("raw"), 0, "{sums:#?}");
    assert!(text(dir.join("convert.err")).contains("raid1 -> raid5"));
}
