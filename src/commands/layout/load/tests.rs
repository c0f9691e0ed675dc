//! Recordings in memory: what can be laid out, what is refused, and the output.

use std::io::Cursor;
use std::path::Path;

use serde_json::json;

use super::findings::Findings;
use super::mkfs::Options as Mkfs;
use super::pass::Pass;
use super::plan::Plan;
use super::source::Source;
use super::{json as as_json, text};
use crate::analysis::fold::{MemberNow, Subject};
use crate::analysis::item::{Flags, Item, Part, Request, State, Submission};
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::snapshot::ArrayInfo;
use crate::commands::layout::table::write_lines;
use crate::mke2fs::{Conf, Options, plan};
use crate::origin::{Op, Origin};
use crate::raid::Level;
use crate::recording::fixture::{START, Shared};
use crate::recording::header::{Array, Filesystem, Header, Member, Mount};
use crate::recording::reader::{Reader, Wanted};
use crate::recording::writer::{self, Writer};

/// Sectors of each of eight members: 64 GiB in total.
const MEMBER: u64 = 8 << 21;
/// First sector of the filesystem on the array.
const FIRST: u64 = 2048;

fn array(name: &str, level: &str, disks: u32) -> Array {
    Array {
        name: name.to_owned(),
        level: level.to_owned(),
        layout: if level == "raid5" { 2 } else { 0 },
        chunk_sectors: 1024,
        disks,
        sectors: MEMBER * 8,
        component_sectors: if level == "raid0" { 0 } else { MEMBER },
        members: (0..disks)
            .map(|slot| Member {
                name: format!("sd{}", char::from(b'a' + slot as u8)),
                slot: Some(slot),
                data_sectors: MEMBER,
                ..Member::default()
            })
            .collect(),
        ..Array::default()
    }
}

/// The default filesystem on md127, a RAID 0 of eight disks.
fn header() -> Header {
    let array = array("md127", "raid0", 8);
    let bytes = (MEMBER * 8 - FIRST) * 512;
    let layout = plan(bytes, 512 << 10, &Options::default(), &Conf::compiled_in()).unwrap();
    let sb = layout.superblock.as_ref().unwrap();
    let parameters = json!({
        "block_size": layout.block_size,
        "blocks": layout.blocks,
        "groups": layout.groups,
        "blocks_per_group": sb.blocks_per_group,
        "inodes_per_group": sb.inodes_per_group,
        "inode_size": sb.inode_size,
        "inodes": sb.inodes_count,
        "feature_incompat": sb.feature_incompat,
        "log_groups_per_flex": sb.log_groups_per_flex,
        "raid_stride": 128,
        "raid_stripe_width": 1024,
    });
    let ranges = layout.ranges.iter().map(|r| {
        let origin = r.origin.name().to_owned();
        (FIRST + r.first.0 * 8, r.count * 8, origin)
    });
    Header {
        filesystems: vec![Filesystem {
            name: "md127p1".to_owned(),
            array: "md127".to_owned(),
            kind: "ext4".to_owned(),
            mounts: vec![Mount { path: "/srv".to_owned(), options: "rw,stripe=1024".to_owned() }],
            parameters: parameters.as_object().unwrap().clone(),
            layout: ranges.collect(),
            ..Filesystem::default()
        }],
        arrays: vec![array],
        ..Header::default()
    }
}

fn state() -> Item {
    let members = (0..8).map(|slot| MemberNow {
        name: format!("sd{}", char::from(b'a' + slot as u8)),
        slot: Some(slot),
        ..MemberNow::default()
    });
    Item::State(Box::new(State {
        time_us: START,
        arrays: vec![Subject {
            info: ArrayInfo {
                name: "md127".to_owned(),
                level: "raid0".to_owned(),
                disks: 8,
                ..ArrayInfo::default()
            },
            members: members.collect(),
            ..Subject::default()
        }],
        ..State::default()
    }))
}

fn submission(n: i64, op: Op, origin: Origin, sector: u64, length: u32) -> Item {
    Item::Submission(Submission {
        time_us: START + n * 10_000,
        array: 0,
        op,
        flags: Flags::empty(),
        origin,
        array_sector: sector,
        length,
        pid: 100,
        file: None,
    })
}

fn request(n: i64, op: Op, origin: Origin, member: u32, length: u32) -> Item {
    Item::Request(Request {
        time_us: START + n * 10_000 + 500,
        member,
        op,
        flags: Flags::empty(),
        origin,
        sector: 4096,
        array_sector: None,
        length,
        bytes: length,
        queue_us: Some(10),
        device_us: Some(4000),
        error: false,
        pid: None,
        file: None,
    })
}

/// Writes of every block bitmap, all on one member, and reads of files.
fn items() -> Vec<Item> {
    let header = header();
    let mut items = vec![state()];
    let mut n = 0;
    for (first, sectors, origin) in &header.filesystems[0].layout {
        if origin != "block_bitmap" {
            continue;
        }
        for sector in (*first..first + sectors).step_by(8) {
            n += 1;
            // In separate writes: with 10 ms between them they do not merge.
            items.push(submission(n, Op::Write, Origin::BlockBitmap, sector, 4096));
            let member = (sector / 1024 % 8) as u32;
            items.push(request(n, Op::Write, Origin::BlockBitmap, member, 4096));
        }
    }
    for i in 0..64_u64 {
        n += 1;
        let sector = FIRST + (1 << 21) + i * 1024;
        let member = (sector / 1024 % 8) as u32;
        items.push(submission(n, Op::Read, Origin::FileData, sector, 8192));
        items.push(request(n, Op::Read, Origin::FileData, member, 8192));
    }
    items
}

fn reader(header: &Header, items: &[Item], ends: bool) -> Reader {
    let out = Shared::default();
    let mut writer = Writer::create(out.clone(), header, writer::Options::default()).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    writer.finish().unwrap();
    let mut bytes = out.bytes();
    if !ends {
        bytes.truncate(bytes.len() - 20);
    }
    let input = Box::new(Cursor::new(bytes));
    Reader::new(input, Path::new("a.rtrace"), Wanted::Everything).unwrap()
}

fn source() -> Source {
    Source::choose(&header(), None).unwrap()
}

fn found<'a>(
    source: &'a Source,
    items: &[Item],
    array: &ArrayOptions,
    group: Option<u32>,
) -> Findings<'a> {
    let options = Options { group, ..Options::default() };
    let plan = Plan::new(source, array, &Mkfs::Ext4(options), &Conf::compiled_in()).unwrap();
    let mut pass = Pass::new(source, std::slice::from_ref(&plan)).unwrap();
    let notes = pass.read(reader(&header(), items, true)).unwrap();
    let (submissions, seconds) = (pass.submissions, pass.seconds());
    let laid = pass.finish();
    Findings { path: "a.rtrace".to_owned(), source, laid, plan, submissions, seconds, notes }
}

fn screen(found: &Findings<'_>) -> String {
    let mut out = Vec::new();
    write_lines(&mut out, text::lines(found)).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in text.lines() {
        assert!(crate::ui::text::width(line) <= 80, "{line}");
    }
    text
}

#[test]
fn screens() {
    let source = source();
    let other = found(&source, &items(), &ArrayOptions::default(), Some(32744));
    assert_eq!(other.errors(), [0.0, 0.0]);
    insta::assert_snapshot!("group", screen(&other));
    let array =
        ArrayOptions { level: Some(Level::Raid6), disks: Some(10), ..ArrayOptions::default() };
    let raid6 = found(&source, &items(), &array, None);
    insta::assert_snapshot!("raid6", screen(&raid6));
}

#[test]
fn json_object() {
    let source = source();
    let object = as_json::object(&found(&source, &items(), &ArrayOptions::default(), Some(32744)));
    assert_eq!(object["schema"], "raidtrace.layout-load/1");
    let bitmaps: Vec<u64> = object["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| {
            let io = member["io"].as_array().unwrap();
            let bitmap = io.iter().find(|io| io["origin"] == "block_bitmap");
            bitmap.unwrap()["planned"]["requests"].as_u64().unwrap()
        })
        .collect();
    let recorded = object["members"][2]["io"][0]["recorded"]["requests"].as_u64();
    assert_eq!(recorded.unwrap(), bitmaps.iter().sum::<u64>());
    assert!(bitmaps.iter().all(|n| (48..=80).contains(n)), "{bitmaps:?}");
    assert_eq!(object["skew"]["recorded"]["write"], 8.0);
}

/// The error for a changed header.
fn refused(change: impl FnOnce(&mut Header), wanted: Option<&str>) -> String {
    let mut header = header();
    change(&mut header);
    let error = Source::choose(&header, wanted).err().expect("an error");
    assert!(!error.contains('\n') && !error.contains('\x1b'), "{error}");
    error
}

#[test]
fn recordings_without_a_usable_layout_are_refused() {
    let fs = |h: &mut Header, change: fn(&mut Filesystem)| change(&mut h.filesystems[0]);
    for (error, words) in [
        (refused(|h| h.filesystems.clear(), None), "no filesystem"),
        (refused(|h| h.arrays.clear(), None), "no array"),
        (refused(|h| fs(h, |f| f.kind = "btrfs".into()), None), "md127p1 holds btrfs"),
        (refused(|h| fs(h, |f| f.kind = "\x1b[1m".into()), None), "--load supports ext2"),
        (refused(|h| fs(h, |f| f.kind.clear()), None), "no known filesystem"),
        (refused(|h| fs(h, |f| f.layout.clear()), None), "no layout"),
        (refused(|h| fs(h, |f| f.layout.truncate(20)), None), "incomplete layout"),
        (refused(|h| fs(h, |f| f.parameters.clear()), None), "no block_size"),
        (refused(|h| fs(h, |f| f.segments = vec![(0, 0, 8), (8, 80, 8)]), None), "several pieces"),
        (refused(|h| h.arrays[0].reshape_position = Some(8), None), "reshaping"),
        (refused(|h| h.arrays[0].sync_action = Some("reshape".into()), None), "reshaping"),
        (refused(|h| h.arrays[0].level = "linear".into(), None), "linear"),
        (refused(|h| h.arrays[0].chunk_sectors = 0, None), "chunk"),
        (refused(|_| (), Some("md9")), "it has no md9; its filesystems: md127p1"),
    ] {
        assert!(error.contains(words), "{error}");
    }
    let nested = refused(
        |h| {
            h.arrays.push(array("md1", "raid5", 3));
            h.arrays[0].members[2].name = "md1".to_owned();
        },
        None,
    );
    assert!(nested.contains("array of arrays (md1)"), "{nested}");
}

#[test]
fn one_of_several_filesystems_is_named() {
    let two = |h: &mut Header| {
        let mut second = h.filesystems[0].clone();
        second.name = "md127p2".to_owned();
        second.mounts.clear();
        h.filesystems.push(second);
    };
    let error = refused(two, None);
    assert!(error.contains("name one of md127p1, md127p2"), "{error}");
    let mut header = header();
    two(&mut header);
    for name in ["md127p1", "/dev/md127p1", "/srv"] {
        assert_eq!(Source::choose(&header, Some(name)).unwrap().name, "md127p1");
    }
}

#[test]
fn a_truncated_layout_is_completed_if_mke2fs_makes_it() {
    let mut header = header();
    let fs = &mut header.filesystems[0];
    fs.layout.truncate(40);
    fs.layout_is_cut = true;
    let source = Source::choose(&header, None).unwrap();
    assert!(source.notes[0].contains("what mke2fs would make"), "{:?}", source.notes);
    assert_eq!(source.fs.ranges, self::source().fs.ranges);
    let error = refused(
        |h| {
            let fs = &mut h.filesystems[0];
            fs.layout.truncate(40);
            fs.layout_is_cut = true;
            let bitmap = fs.layout.iter_mut().find(|r| r.2 == "block_bitmap");
            bitmap.unwrap().0 += 8 * 40_000;
        },
        None,
    );
    assert!(error.contains("mke2fs cannot supply the rest"), "{error}");
}

fn read(header: &Header, items: &[Item], ends: bool) -> Result<Vec<String>, String> {
    let source = source();
    let plan = Plan::new(
        &source,
        &ArrayOptions::default(),
        &Mkfs::Ext4(Options::default()),
        &Conf::compiled_in(),
    )
    .unwrap();
    let mut pass = Pass::new(&source, std::slice::from_ref(&plan)).unwrap();
    pass.read(reader(header, items, ends))
}

#[test]
fn gaps_and_missing_submissions_are_reported() {
    let error = read(&header(), &[state()], true).unwrap_err();
    assert!(error.contains("no reads or writes submitted to md127p1"), "{error}");
    let mut with_loss = items();
    with_loss.push(Item::Lost {
        time_us: START + 20_000_000,
        reason: "ring full".to_owned(),
        count: 7,
    });
    with_loss.push(submission(2000, Op::Write, Origin::Raw, 0, 4096));
    with_loss.push(submission(2001, Op::Discard, Origin::FileData, FIRST, 4096));
    with_loss.push(request(2002, Op::Write, Origin::MdSuperblock, 1, 4096));
    with_loss.push(Item::Part(Part {
        time_us: START + 20_030_000,
        member: 1,
        op: Op::Write,
        origin: Origin::Resync,
        sector: 8,
        bytes: 4096,
    }));
    let notes = read(&header(), &with_loss, true).unwrap().join("\n");
    for words in [
        "has gaps: 7 events were lost (ring full)",
        "4.0 KiB submitted outside the filesystem",
        "8.0 KiB of md itself",
        "1 discards",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let notes = read(&header(), &items(), false).unwrap_or_default();
    assert!(notes.iter().any(|n| n.contains("truncated")) || notes.is_empty(), "{notes:?}");
}

#[test]
fn wrong_plans_are_refused() {
    let source = source();
    let error = |array: ArrayOptions, options: Options| {
        Plan::new(&source, &array, &Mkfs::Ext4(options), &Conf::compiled_in())
            .err()
            .expect("an error")
    };
    let array = ArrayOptions::default;
    let chunk = ArrayOptions { chunk: Some(12 << 10), level: Some(Level::Raid5), ..array() };
    assert!(error(chunk, Options::default()).contains("--chunk"));
    let disks = ArrayOptions { disks: Some(300), ..array() };
    assert!(error(disks, Options::default()).contains("--disks"));
    let blocks = Options { block_size: Some(1024), ..Options::default() };
    assert!(error(array(), blocks).contains("add -b 4096"));
    let group = Options { group: Some(7), ..Options::default() };
    assert!(error(array(), group).contains("-g 7"));
}

/// An XFS on the same array.
fn xfs_header() -> Header {
    let mut header = header();
    let fs = &mut header.filesystems[0];
    fs.kind = "xfs".to_owned();
    fs.layout = vec![(FIRST, 1, "superblock".to_owned())];
    fs.segments = vec![(0, FIRST, MEMBER * 8 - FIRST)];
    let parameters = json!({
        "version": 5, "block_size": 4096, "sector_size": 512, "inode_size": 512, "blocks": 16 * 1_048_448, "ag_blocks": 1_048_448,
        "ag_count": 16, "log_first": 8 * 1_048_448 + 8, "log_blocks": 16384, "inode_align": 8, "stripe_unit": 128,
        "stripe_width": 1024, "finobt": true, "rmapbt": false, "reflink": true,
    });
    fs.parameters = parameters.as_object().unwrap().clone();
    header
}

fn xfs_plan(source: &Source, options: &str) -> Result<Plan, String> {
    let options = Mkfs::Xfs(crate::machine::mkfs_xfs::Options::parse(options)?);
    Plan::new(source, &ArrayOptions::default(), &options, &Conf::compiled_in())
}

#[test]
fn an_xfs_is_laid_out() {
    let header = xfs_header();
    let source = Source::choose(&header, None).unwrap();
    assert_eq!(source.start, FIRST);
    let plan = xfs_plan(&source, "-d agsize=4293918720").unwrap();
    // Its sectors are those of the recorded one, not of the disk.
    assert_eq!(plan.words, "-d agsize=4293918720 -s size=512");
    assert!(plan.notes(&source).is_empty());
    let mut pass = Pass::new(&source, std::slice::from_ref(&plan)).unwrap();
    let mut items = vec![state()];
    for ag in 0..16 {
        let sector = FIRST + ag * 8 * 1_048_448 + 1;
        let write = submission(ag as i64, Op::Write, Origin::AgHeader, sector, 512);
        items.push(write);
    }
    pass.read(reader(&header, &items, true)).unwrap();
    let laid = pass.finish();
    let bytes = |figures: &crate::analysis::relocate::Figures| -> Vec<u64> {
        let sums = figures.by_member(crate::analysis::relocate::Direction::Write);
        sums.iter().map(|s| s.bytes).collect()
    };
    // 8191 chunks apart: even. 8190 chunks apart, 6 modulo 8: every second member.
    assert_eq!(bytes(&laid.today), [1024; 8]);
    let half = [2048, 0, 2048, 0, 2048, 0, 2048, 0];
    assert_eq!(bytes(&laid.planned[0]), half);
}

#[test]
fn an_xfs_with_another_load_is_refused() {
    let header = xfs_header();
    let source = Source::choose(&header, None).unwrap();
    for (options, why) in [
        ("-b size=1k", "-b size=1024: the recorded filesystem has 4096"),
        ("-m rmapbt=1", "-m rmapbt=1: the recorded filesystem has 0"),
        ("-d agcount=33", "33 allocation groups, the recorded one 16"),
        ("-d agsize=1", "agsize"),
    ] {
        let error = xfs_plan(&source, options).err().expect(options);
        assert!(error.contains(why), "{options}: {error}");
    }
    let other = xfs_plan(&source, "-d agcount=11").unwrap();
    assert!(other.notes(&source)[0].contains("11 allocation groups instead of 16"));
    for (name, value, why) in [
        ("rmapbt", json!(null), "an older version recorded it"),
        ("ag_count", json!(17), "17 AGs"),
        ("ag_blocks", json!(0), "AGs of 0 blocks"),
        ("log_first", json!(u64::MAX), "log"),
        ("log_blocks", json!(1_u64 << 40), "log_blocks is"),
        ("block_size", json!(4095), "block size is 4095"),
        ("inode_size", json!(0), "inode size is 0"),
        ("sector_size", json!(8192), "sector size is 8192"),
    ] {
        let mut header = xfs_header();
        let parameters = &mut header.filesystems[0].parameters;
        parameters.insert(name.to_owned(), value);
        let error = Source::choose(&header, None).err().expect(name);
        assert!(error.contains(why), "{name}: {error}");
    }
}

#[test]
fn names_in_a_recording_are_untrusted() {
    let mut header = header();
    header.filesystems[0].name = "\x1b[31m<&>\u{202e}".to_owned();
    header.arrays[0].members[0].name = "\x1b]0;\x07<b>".to_owned();
    let source = Source::choose(&header, None).unwrap();
    let screen = screen(&found(&source, &items(), &ArrayOptions::default(), None));
    assert!(!screen.contains('\x1b') && !screen.contains('\u{202e}'));
}
