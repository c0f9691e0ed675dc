//! Text, JSON and SVG of planned XFS filesystems, as `layout` prints them.

use clap::Parser;

use super::args::LayoutArgs;
use super::{json, picture, table, xfs};
use crate::analysis::placement::report::PlacementReport;
use crate::analysis::placement::{Groups, grow};
use crate::machine::mkfs_xfs;

/// Size of a RAID 5 of seven 8 TB disks with chunks of 512 KiB.
const SEVEN: &str = "46883364864K";

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    layout: LayoutArgs,
}

fn args(words: &str) -> LayoutArgs {
    let words = format!("layout --fs xfs {words}");
    // "~" is a space in a word.
    Cli::try_parse_from(words.split_whitespace().map(|w| w.replace('~', " ")))
        .unwrap_or_else(|e| panic!("{e}"))
        .layout
}

fn report(words: &str) -> PlacementReport {
    let args = args(words);
    let target = xfs::planned(&args, args.plan.unwrap()).unwrap();
    let mut report = PlacementReport::new(target);
    if report.uneven {
        report.advice = Some(xfs::remedy(&args, &report.target));
    }
    if let Some(disks) = args.grow_to {
        let grown = grow::array(&report.target, disks).unwrap();
        let skews = grow::planned_xfs(&report.target, &report.target.fs, &grown).unwrap();
        report.grown = Some((disks, skews));
    }
    report
}

/// True if mkfs.xfs has the features of the snapshots by default.
fn is_6_1() -> bool {
    let is = mkfs_xfs::release().is_some_and(|release| release.starts_with("6.1."));
    if !is {
        eprintln!("skipped: the snapshots are of mkfs.xfs 6.1");
    }
    is
}

fn narrow(text: Vec<u8>) -> String {
    let text = String::from_utf8(text).unwrap();
    for line in text.lines() {
        assert!(crate::ui::text::width(line) <= 80, "{line}");
    }
    text
}

fn text(words: &str) -> String {
    let report = report(words);
    let mut out = Vec::new();
    table::write_lines(&mut out, table::lines(&report, words.contains("--all"))).unwrap();
    narrow(out)
}

#[test]
fn screens() {
    if !is_6_1() {
        return;
    }
    let seven = format!("--plan {SEVEN} --level 5 --disks 7");
    insta::assert_snapshot!("xfs_seven", text(&format!("{seven} --grow-to 8 --all")));
    let even = format!("{seven} --mkfs=-dagsize=1099510579200");
    insta::assert_snapshot!("xfs_seven_even", text(&even));
    // Two of four members hold all headers.
    insta::assert_snapshot!("xfs_raid0", text("--plan 15627544576K --level 0 --disks 4"));
    insta::assert_snapshot!("xfs_raid1", text("--plan 1T --level 1 --disks 2"));
    insta::assert_snapshot!("xfs_few", text("--plan 4G --level 0 --disks 12"));
}

#[test]
fn json_object() {
    let report = report(&format!("--plan {SEVEN} --level 5 --disks 7 --grow-to 8"));
    let object = json::object(&report);
    let headers: Vec<u64> = object["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["ag_headers"].as_u64().unwrap())
        .collect();
    assert_eq!(headers, [44, 0, 0, 0, 0, 0, 0]);
    assert_eq!(object["skew"]["ag_headers"], 7.0);
    // Those of the group with the log are after the log.
    assert!(object["skew"]["first_inodes"].as_f64().unwrap() > 6.8);
    assert_eq!(object["skew"]["worst"], 7.0);
    assert_eq!(object["allocation_groups"], 44);
    assert_eq!(object["filesystem"], "xfs");
    assert!(object.get("groups_per_flex").is_none());
    assert!(object["grown"]["skew"]["ag_headers"].as_f64().unwrap() < 1.2);
    let svg = picture::draw(&report);
    assert!(svg.contains("AG headers") && svg.contains("busiest 7.0x the mean"));
}

fn search(words: &str) -> (String, serde_json::Value) {
    let args = args(words);
    let target = xfs::planned(&args, args.plan.unwrap()).unwrap();
    let grown = args.grow_to.map(|n| grow::array(&target, n).unwrap());
    let found = xfs::compare(&args, &target, grown.as_ref()).unwrap();
    let mut out = Vec::new();
    table::write_lines(&mut out, found.lines()).unwrap();
    (narrow(out), found.object())
}

#[test]
fn searches() {
    if !is_6_1() {
        return;
    }
    let seven = format!("--plan {SEVEN} --level 5 --disks 7 --search");
    let (text, object) = search(&format!("{seven} --grow-to 8"));
    insta::assert_snapshot!("xfs_search", text);
    assert_eq!(object["schema"], "raidtrace.layout-search/1");
    assert_eq!(object["command"], "mkfs.xfs -d agsize=1099510579200 DEVICE");
    let best = &object["candidates"][0];
    assert_eq!(best["recommended"], true);
    assert_eq!(best["agsize_bytes"], 1_099_510_579_200_u64);
    // mkfs.xfs's own size is even on four disks of 8 TB.
    let (text, object) = search("--plan 31255576576K --level 0 --disks 4 --search");
    assert_eq!(object["command"], "mkfs.xfs DEVICE");
    assert!(text.contains("no change needed"), "{text}");
}

/// The command keeps options without effect on the geometry, and the device of the log.
#[test]
fn commands_keep_the_options_of_the_user() {
    let seven = format!("--plan {SEVEN} --level 5 --disks 7 --search");
    let mkfs = "--mkfs=-Lsrv~-f~-mbigtime=0~-dcowextsize=16~-llogdev=/dev/sdz,size=64m";
    let (_, object) = search(&format!("{seven} {mkfs}"));
    assert_eq!(
        object["command"],
        "mkfs.xfs -L srv -f -m bigtime=0 -d cowextsize=16,agsize=1099510579200 -l \
         logdev=/dev/sdz,size=64m DEVICE"
    );
}

/// With noalign, agsize is not rounded to the chunk.
#[test]
fn without_alignment() {
    let seven = format!("--plan {SEVEN} --level 5 --disks 7 --search");
    let (text, object) = search(&format!("{seven} --mkfs=-dagcount=44,noalign"));
    let candidates = object["candidates"].as_array().unwrap();
    let words = |c: &serde_json::Value| c["options"].as_str().unwrap().to_owned();
    assert!(candidates.iter().all(|c| words(c).contains("noalign")), "{text}");
    let base = candidates.iter().find(|c| c["base"] == true).unwrap();
    assert!(!base["agsize_bytes"].as_u64().unwrap().is_multiple_of(512 << 10));
    // Alignment is worth more than the noise of a few groups.
    let (_, object) = search(&seven);
    let mut last =
        object["candidates"].as_array().unwrap().iter().filter(|c| words(c).contains("noalign"));
    assert_eq!(last.next().unwrap()["recommended"], false);
}

/// A filesystem that grew with its array is the one that would be planned there, apart from its
/// agsize.
#[test]
fn a_grown_filesystem_keeps_agsize() {
    let now = report("--plan 20T --level 0 --disks 4");
    let grown = grow::array(&now.target, 8).unwrap();
    let skews = grow::planned_xfs(&now.target, &now.target.fs, &grown).unwrap();
    let Some(Groups::Allocation(groups)) = now.target.fs.groups else {
        panic!("{:?}", now.target.fs.groups);
    };
    let bytes = groups.sectors * 512;
    let then = report(&format!("--plan 40T --level 0 --disks 8 --mkfs=-dagsize={bytes}"));
    assert_eq!(skews.allocation, then.skews.allocation);
    assert_eq!(skews.alone, then.skews.alone);
}

/// The number of groups after growing is bounded.
#[test]
fn too_many_groups_after_growing() {
    let small = "--mkfs=-dagsize=16m~-llogdev=x,size=64m";
    let now = report(&format!("--plan 1T --level 0 --disks 2 {small}"));
    let grown = grow::array(&now.target, 200).unwrap();
    let error = grow::planned_xfs(&now.target, &now.target.fs, &grown).unwrap_err();
    assert!(error.contains("6553600 allocation groups"), "{error}");
}
