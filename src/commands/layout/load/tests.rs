//! Recordings in memory: what can be laid out, what is refused, and the output.

use std::io::Cursor;
use std::path::Path;

use serde_json::json;

use super::output::Findings;
use super::pass::LoadPass;
use super::plan::LoadPlan;
use crate::analysis::fold::{ArrayNow, MemberNow};
use crate::analysis::item::{Item, Request, RequestFlags, RequestPart, State};
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::relocate::MemberLoad;
use crate::analysis::snapshot::ArrayInfo;
use crate::commands::layout::mkfs::MkfsOptions;
use crate::commands::layout::table::write_lines;
use crate::mke2fs::{Conf, Options, plan};
use crate::origin::{Op, Origin};
use crate::raid::Level;
use crate::recording::described::Described;
use crate::recording::fixture::{START, Shared};
use crate::recording::header::{
    Header, RecordedArray, RecordedFilesystem, RecordedMember, RecordedMount,
};
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::writer::{Writer, WriterOptions};

/// Sectors of each of eight members: 64 GiB in total.
const MEMBER: u64 = 8 << 21;
/// First sector of the filesystem on the array.
const FIRST: u64 = 2048;

fn array(name: &str, level: &str, disks: u32) -> RecordedArray {
    RecordedArray {
        name: name.to_owned(),
        level: level.to_owned(),
        layout: if level == "raid5" { 2 } else { 0 },
        chunk_sectors: 1024,
        disks,
        sectors: MEMBER * 8,
        component_sectors: if level == "raid0" { 0 } else { MEMBER },
        members: (0..disks)
            .map(|slot| RecordedMember {
                name: format!("sd{}", char::from(b'a' + slot as u8)),
                slot: Some(slot),
                data_sectors: MEMBER,
                ..RecordedMember::default()
            })
            .collect(),
        ..RecordedArray::default()
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
        filesystems: vec![RecordedFilesystem {
            name: "md127p1".to_owned(),
            array: "md127".to_owned(),
            kind: "ext4".to_owned(),
            mounts: vec![RecordedMount {
                path: "/srv".to_owned(),
                options: "rw,stripe=1024".to_owned(),
            }],
            parameters: parameters.as_object().unwrap().clone(),
            layout: ranges.collect(),
            ..RecordedFilesystem::default()
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
        arrays: vec![ArrayNow {
            info: ArrayInfo {
                name: "md127".to_owned(),
                level: "raid0".to_owned(),
                disks: 8,
                ..ArrayInfo::default()
            },
            members: members.collect(),
            ..ArrayNow::default()
        }],
        ..State::default()
    }))
}

/// A request at a sector of the RAID 0.
fn request(n: i64, op: Op, origin: Origin, sector: u64, length: u32) -> Item {
    Item::Request(Request {
        time_us: START + n * 10_000 + 500,
        member: (sector / 1024 % 8) as u32,
        op,
        flags: RequestFlags::empty(),
        origin,
        sector: sector / 8192 * 1024 + sector % 1024,
        array_sector: Some(sector),
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
            items.push(request(n, Op::Write, Origin::BlockBitmap, sector, 4096));
        }
    }
    for i in 0..64_u64 {
        n += 1;
        let sector = FIRST + (1 << 21) + i * 1024;
        items.push(request(n, Op::Read, Origin::FileData, sector, 8192));
    }
    items
}

fn reader(header: &Header, items: &[Item], ends: bool) -> Reader {
    let out = Shared::default();
    let mut writer = Writer::create(out.clone(), header, WriterOptions::default()).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    writer.finish().unwrap();
    let mut bytes = out.bytes();
    if !ends {
        bytes.truncate(bytes.len() - 20);
    }
    let input = Box::new(Cursor::new(bytes));
    Reader::new(input, Path::new("a.rtrace"), WantedColumns::Everything).unwrap()
}

fn source() -> Described {
    Described::choose(&header(), None).unwrap()
}

fn plan_of(source: &Described, array: &ArrayOptions, options: Options) -> LoadPlan {
    LoadPlan::new(source, array, &MkfsOptions::Ext4(options), &Conf::compiled_in()).unwrap()
}

/// What `layout --load` finds: text and JSON.
fn found(
    source: &Described,
    items: &[Item],
    array: &ArrayOptions,
    group: Option<u32>,
) -> (String, serde_json::Value) {
    let plan = plan_of(source, array, Options { group, ..Options::default() });
    let today = source.side().unwrap();
    let reader = reader(&header(), items, true);
    let (pass, notes) = LoadPass::read(reader, source, &today, &plan).unwrap();
    let found = Findings { path: "a.rtrace".to_owned(), plan: &plan, pass: &pass, notes };
    let mut out = Vec::new();
    write_lines(&mut out, found.lines()).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in text.lines() {
        assert!(crate::ui::text::width(line) <= 80, "{line}");
    }
    (text, found.object())
}

#[test]
fn screens() {
    let source = source();
    let (group, _) = found(&source, &items(), &ArrayOptions::default(), Some(32744));
    insta::assert_snapshot!("group", group);
    let array =
        ArrayOptions { level: Some(Level::Raid6), disks: Some(10), ..ArrayOptions::default() };
    insta::assert_snapshot!("raid6", found(&source, &items(), &array, None).0);
}

#[test]
fn json_object() {
    let source = source();
    let array = ArrayOptions::default();
    let (_, object) = found(&source, &items(), &array, Some(32744));
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
    assert_eq!(object["planned"]["options"], "-g 32744");
    assert_eq!(object["members"][2]["device_seconds"]["recorded"], 512.0 * 0.004 + 0.032);
    // The same filesystem has the same load.
    let (_, object) = found(&source, &items(), &array, None);
    for member in object["members"].as_array().unwrap() {
        for io in member["io"].as_array().unwrap() {
            assert_eq!(io["recorded"], io["planned"], "{io}");
        }
    }
}

/// The error for a changed header.
fn refused(change: impl FnOnce(&mut Header), wanted: Option<&str>) -> String {
    let mut header = header();
    change(&mut header);
    let error = Described::choose(&header, wanted).err().expect("an error");
    assert!(!error.contains('\n') && !error.contains('\x1b'), "{error}");
    error
}

#[test]
fn recordings_without_a_usable_layout_are_refused() {
    let fs = |h: &mut Header, change: fn(&mut RecordedFilesystem)| change(&mut h.filesystems[0]);
    for (error, words) in [
        (refused(|h| h.filesystems.clear(), None), "no filesystem"),
        (refused(|h| h.arrays.clear(), None), "no array"),
        (refused(|h| fs(h, |f| f.kind = "btrfs".into()), None), "md127p1 (btrfs)"),
        (refused(|h| fs(h, |f| f.kind = "\x1b[1m".into()), None), "--load supports ext2"),
        (refused(|h| fs(h, |f| f.kind.clear()), None), "0 filesystems that fit"),
        (refused(|h| fs(h, |f| f.layout.clear()), None), "no layout"),
        (refused(|h| fs(h, |f| f.parameters.clear()), None), "no block_size"),
        (refused(|h| fs(h, |f| f.segments = vec![(0, 0, 8), (8, 80, 8)]), None), "several pieces"),
        (
            refused(|h| fs(h, |f| f.segments = vec![(0, 80, 8)]), None),
            "md127 has a part of md127p1",
        ),
        (
            refused(
                |h| {
                    fs(h, |f| (f.segments, f.stripes) = (vec![(0, 80, 1 << 40)], vec![(8, 8, 0)]));
                },
                None,
            ),
            "has a part of",
        ),
        (
            refused(|h| h.filesystems.push(h.filesystems[0].clone()), None),
            "several arrays (md127, ",
        ),
        (refused(|h| h.arrays[0].reshape_position = Some(8), None), "reshaping"),
        (refused(|h| h.arrays[0].sync_action = Some("reshape".into()), None), "reshaping"),
        (refused(|h| h.arrays[0].level = "faulty".into(), None), "faulty"),
        (refused(|h| h.arrays[0].chunk_sectors = 0, None), "chunk"),
        (refused(|_| (), Some("md9")), "name one of md127p1 (ext4)"),
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
    assert!(nested.contains("array of arrays"), "{nested}");
    let mut header = header();
    header.filesystems[0].layout.truncate(20);
    let error = Described::choose(&header, None).unwrap().side().unwrap_err();
    assert!(error.contains("incomplete layout of md127p1"), "{error}");
    // As many slots are not counted before they are refused.
    let many = refused(|h| h.arrays[0].disks = u32::MAX, None);
    assert!(many.contains("256"), "{many}");
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
    assert!(error.contains("name one of md127p1 (ext4), md127p2 (ext4)"), "{error}");
    let mut header = header();
    two(&mut header);
    for name in ["md127p1", "/dev/md127p1", "/srv"] {
        assert_eq!(Described::choose(&header, Some(name)).unwrap().target.name, "md127p1");
    }
}

#[test]
fn a_truncated_layout_is_completed_if_mke2fs_makes_it() {
    let mut header = header();
    let fs = &mut header.filesystems[0];
    fs.layout.truncate(40);
    fs.layout_is_cut = true;
    let source = Described::choose(&header, None).unwrap();
    assert!(source.target.notes[0].contains("what mke2fs would make"));
    assert_eq!(source.target.fs.ranges, self::source().target.fs.ranges);
    header.arrays[0].degraded = 1;
    let notes = Described::choose(&header, None).unwrap().target.notes;
    assert!(notes[1].contains("was degraded"), "{notes:?}");
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

fn read(items: &[Item], ends: bool) -> Result<String, String> {
    let source = source();
    let plan = plan_of(&source, &ArrayOptions::default(), Options::default());
    let today = source.side().unwrap();
    let (_, notes) = LoadPass::read(reader(&header(), items, ends), &source, &today, &plan)?;
    Ok(notes.join("\n"))
}

#[test]
fn gaps_and_missing_requests_are_reported() {
    let error = read(&[state()], true).unwrap_err();
    assert!(error.contains("no reads or writes of md127p1"), "{error}");
    let mut with_loss = items();
    with_loss.push(Item::Lost {
        time_us: START + 20_000_000,
        reason: "ring full".to_owned(),
        count: 7,
    });
    with_loss.push(request(2000, Op::Write, Origin::Raw, 0, 4096));
    // After the end of the array.
    with_loss.push(request(2001, Op::Read, Origin::Unknown, u64::MAX >> 3, 4096));
    let notes = read(&with_loss, true).unwrap();
    for words in ["7 events were lost", "8.0 KiB outside the filesystem"] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let notes = read(&items(), false).unwrap_or_default();
    assert!(notes.contains("truncated") || notes.is_empty(), "{notes:?}");
}

/// The recorded members, and the planned ones.
fn laid(
    source: &Described,
    header: &Header,
    items: &[Item],
    plan: &LoadPlan,
) -> [Vec<MemberLoad>; 2] {
    let today = source.side().unwrap();
    let (pass, _) = LoadPass::read(reader(header, items, true), source, &today, plan).unwrap();
    [pass.recorded.clone(), pass.lane.members.clone()]
}

fn bytes(members: &[MemberLoad]) -> Vec<u64> {
    members.iter().map(MemberLoad::bytes).collect()
}

#[test]
fn only_the_load_is_laid_out() {
    let source = source();
    let plan = plan_of(&source, &ArrayOptions::default(), Options::default());
    let before = laid(&source, &header(), &items(), &plan);
    let mut more = items();
    // Of md itself, a flush, a discard.
    more.push(request(2000, Op::Write, Origin::MdSuperblock, FIRST, 4096));
    more.push(request(2001, Op::Write, Origin::Raw, FIRST, 0));
    more.push(request(2002, Op::Flush, Origin::Raw, FIRST, 0));
    more.push(request(2003, Op::Discard, Origin::FileData, FIRST, 4096));
    more.push(Item::Part(RequestPart {
        time_us: START + 20_040_000,
        member: 1,
        op: Op::Write,
        origin: Origin::Resync,
        sector: 8,
        bytes: 4096,
    }));
    let after = laid(&source, &header(), &more, &plan);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(bytes(before), bytes(after));
    }
    assert_eq!(bytes(&after[0]), bytes(&after[1]));
}

/// A recording of a RAID 5, a RAID 6 and a RAID 10, with what md adds to the load: the same array
/// has the same load.
#[test]
fn the_same_array_has_the_same_load() {
    for (level, layout, disks) in [("raid5", 2, 4), ("raid6", 2, 6), ("raid10", 0x102, 4)] {
        let mut header = header();
        let layout = RecordedArray { layout, ..array("md127", level, disks) };
        header.arrays = vec![layout];
        header.filesystems[0].segments = vec![(0, FIRST, 1 << 40)];
        let source = Described::choose(&header, None).unwrap();
        let geometry = &source.target.array.geometry;
        let mut items = vec![state()];
        for n in 0..200_u64 {
            // All members of a stripe of 8 sectors, each with what it has there.
            let row = n * 1000 / 8 * 8 + 4096;
            for slot in 0..disks {
                let located = geometry.locate(slot, crate::address::DataSector(row));
                let (op, origin) = match (located, n % 3) {
                    (crate::raid::Mapping::Parity { .. }, 0) => (Op::Write, Origin::Parity),
                    (_, 1) if level != "raid10" => (Op::Read, Origin::RmwRead),
                    (crate::raid::Mapping::Data { .. }, _) => (Op::Write, Origin::FileData),
                    _ => continue,
                };
                let mut item = request(n as i64, op, origin, 0, 4096);
                if let Item::Request(request) = &mut item {
                    (request.member, request.sector) = (slot, row);
                }
                items.push(item);
            }
        }
        let plan = plan_of(&source, &ArrayOptions::default(), Options::default());
        let laid = laid(&source, &header, &items, &plan);
        assert!(bytes(&laid[0]).iter().all(|bytes| *bytes > 0), "{level}: {:?}", bytes(&laid[0]));
        assert_eq!(bytes(&laid[0]), bytes(&laid[1]), "{level}");
    }
}

#[test]
fn wrong_plans_are_refused() {
    let source = source();
    let error = |array: ArrayOptions, options: Options| {
        LoadPlan::new(&source, &array, &MkfsOptions::Ext4(options), &Conf::compiled_in())
            .err()
            .expect("an error")
    };
    let array = ArrayOptions::default;
    let chunk = ArrayOptions { chunk: Some(12 << 10), level: Some(Level::Raid5), ..array() };
    assert!(error(chunk, Options::default()).contains("--chunk"));
    let disks = ArrayOptions { disks: Some(300), ..array() };
    assert!(error(disks, Options::default()).contains("--disks"));
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
        "version": 5, "block_size": 4096, "sector_size": 512, "inode_size": 512,
        "blocks": 16 * 1_048_448, "ag_blocks": 1_048_448,
        "ag_count": 16, "log_first": 8 * 1_048_448 + 8, "log_blocks": 16384, "inode_align": 8,
        "stripe_unit": 128,
        "stripe_width": 1024, "finobt": true, "rmapbt": false, "reflink": true,
    });
    fs.parameters = parameters.as_object().unwrap().clone();
    header
}

fn xfs_plan(source: &Described, options: &str) -> Result<LoadPlan, String> {
    let options = MkfsOptions::Xfs(crate::machine::mkfs_xfs::XfsOptions::parse(options)?);
    LoadPlan::new(source, &ArrayOptions::default(), &options, &Conf::compiled_in())
}

#[test]
fn an_xfs_is_laid_out() {
    let header = xfs_header();
    let source = Described::choose(&header, None).unwrap();
    assert_eq!(source.start, FIRST);
    let plan = xfs_plan(&source, "-d agsize=4293918720").unwrap();
    // Its sectors are those of the recorded one.
    assert_eq!(plan.target.fs.ranges[0].count, 1);
    let mut items = vec![state()];
    for ag in 0..16 {
        let sector = FIRST + ag * 8 * 1_048_448 + 1;
        items.push(request(ag as i64, Op::Write, Origin::AgHeader, sector, 512));
    }
    let laid = laid(&source, &header, &items, &plan);
    // 8191 chunks apart: even. 8190 chunks apart, 6 modulo 8: every second member.
    assert_eq!(bytes(&laid[0]), [1024; 8]);
    assert_eq!(bytes(&laid[1]), [2048, 0, 2048, 0, 2048, 0, 2048, 0]);
}

#[test]
fn damaged_parameters_of_an_xfs_are_refused() {
    let source = Described::choose(&xfs_header(), None).unwrap();
    assert!(xfs_plan(&source, "-d agsize=1").err().unwrap().contains("agsize"));
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
        let error = Described::choose(&header, None).err().expect(name);
        assert!(error.contains(why), "{name}: {error}");
    }
}

#[test]
fn names_in_a_recording_are_untrusted() {
    let mut header = header();
    header.filesystems[0].name = "\x1b[31m<&>\u{202e}".to_owned();
    header.arrays[0].members[0].name = "\x1b]0;\x07<b>".to_owned();
    let source = Described::choose(&header, None).unwrap();
    let (screen, _) = found(&source, &items(), &ArrayOptions::default(), None);
    assert!(!screen.contains('\x1b') && !screen.contains('\u{202e}'));
}
