use super::{ClockOffset, Translator, flags, us};
use crate::address::{ArraySector, DiskSector, MemberSector};
use crate::analysis::item::{Item, Request, RequestFlags, RequestPart};
use crate::machine::topology::Topology;
use crate::machine::{Array, Dev, HostTopology, Member, MemberPiece};
use crate::origin::{Op, Origin};
use crate::probe::events::{Completed, Event, OriginRun, RefusedBio, Submitted};

/// RAID 0 of two partitions with chunks of 64 KiB.
fn topology() -> Topology {
    let member = |slot: u32| Member {
        name: format!("sda{slot}"),
        start: DiskSector(2048),
        sectors: 1 << 20,
        slot: Some(slot),
        data_offset: MemberSector(1024),
        data_sectors: 1 << 19,
        ..Member::default()
    };
    let array = Array {
        name: "md0".to_owned(),
        dev: Dev { major: 9, minor: 0 },
        level: "raid0".to_owned(),
        layout: 1,
        chunk_sectors: 128,
        raid_disks: 2,
        sectors: 1 << 20,
        members: vec![member(0), member(1)],
        ..Array::default()
    };
    Topology {
        host: HostTopology { arrays: vec![array], notes: Vec::new() },
        ..Topology::default()
    }
}

fn translator(since: u64) -> Translator {
    let clock = ClockOffset { offset: 1_000_000_000 };
    Translator::new(&topology(), clock, since)
}

fn completed(runs: Option<u16>) -> Completed {
    Completed {
        part: false,
        member: 1,
        op: Op::Write,
        origin: Origin::FileData,
        flags: 1,
        error: false,
        // The first sector of the second chunk of the array's second row.
        sector: DiskSector(2048 + 1024 + 128),
        length: 16384,
        runs,
        now_ns: 5_000_000,
        issue_ns: 4_000_500,
        start_ns: 4_000_000,
    }
}

fn submitted(sector: u64, now_ns: u64) -> Event {
    Event::Submitted(Submitted {
        array: 0,
        op: Op::Write,
        origin: Origin::FileData,
        flags: 0,
        sector: ArraySector(sector),
        length: 16384,
        pid: 42,
        file: None,
        now_ns,
        nowait: false,
    })
}

fn nowait(sector: u64, now_ns: u64) -> Event {
    let Event::Submitted(s) = submitted(sector, now_ns) else { unreachable!() };
    Event::Submitted(Submitted { nowait: true, ..s })
}

fn items(translator: &mut Translator, events: &[Event]) -> Vec<Item> {
    let mut items = Vec::new();
    assert_eq!(translator.translate(events, |i| items.push(i)), 0);
    items
}

fn request(items: &[Item]) -> Request {
    let mut requests = items.iter().filter_map(|i| match i {
        Item::Request(r) => Some(*r),
        _ => None,
    });
    requests.next().unwrap()
}

#[test]
fn a_request_gets_its_array_sector_and_submitter() {
    let events = [submitted(384, 3_000_000), Event::Completed(completed(Some(0)))];
    let items = items(&mut translator(0), &events);
    assert_eq!(items.len(), 2);
    let r = request(&items);
    assert_eq!((r.time_us, r.sector), (1_005_000, 1152));
    assert_eq!((r.array_sector, r.pid), (Some(384), Some(42)));
    assert_eq!((r.queue_us, r.device_us), (Some(0), Some(999)));
    assert_eq!((r.length, r.bytes, r.flags), (16384, 16384, RequestFlags::SYNC));
}

/// The refusal may be drained after its submission, and another submission may have the same time.
#[test]
fn refused_submissions_are_dropped() {
    let refused = |sector, now_ns| {
        Event::Refused(RefusedBio { array: 0, sector: ArraySector(sector), now_ns })
    };
    let mut translator = translator(0);
    let released = |translator: &mut Translator, until| -> Vec<u64> {
        let mut sectors = Vec::new();
        translator.release(until, |item| {
            let Item::Submission(s) = item else { unreachable!() };
            sectors.push(s.array_sector);
        });
        sectors
    };
    let events = [nowait(1, 10), nowait(2, 20), refused(2, 20), nowait(3, 30), nowait(4, 30)];
    assert_eq!(items(&mut translator, &events), []);
    assert_eq!(released(&mut translator, 30), [1]);
    // 5: the submission was lost, or has been released.
    let events = [refused(3, 30), refused(5, 30), refused(1, 10), nowait(6, 40)];
    assert_eq!(items(&mut translator, &events), []);
    translator.continue_with(&topology());
    assert_eq!(released(&mut translator, u64::MAX), [4, 6]);
    assert_eq!(items(&mut translator, &[submitted(7, 50)]).len(), 1);
}

#[test]
fn io_of_md_itself_has_no_submitter() {
    let mut c = completed(Some(0));
    c.origin = Origin::Resync;
    let events = [submitted(384, 3_000_000), Event::Completed(c)];
    assert_eq!(request(&items(&mut translator(0), &events)).pid, None);
    // Before the data: md's superblock.
    c.origin = Origin::MdSuperblock;
    c.sector = DiskSector(2048 + 8);
    let r = request(&items(&mut translator(0), &[Event::Completed(c)]));
    assert_eq!((r.sector, r.array_sector, r.pid), (8, None, None));
    // A flush has no sector on the array.
    (c.sector, c.length, c.op) = (DiskSector(0), 0, Op::Flush);
    let r = request(&items(&mut translator(0), &[Event::Completed(c)]));
    assert_eq!((r.sector, r.array_sector, r.bytes), (0, None, 0));
}

/// The second row of the array is in the second piece of its member.
#[test]
fn a_member_in_pieces() {
    let mut topology = topology();
    let member = &mut topology.host.arrays[0].members[1];
    member.later_pieces = vec![MemberPiece {
        sector: MemberSector(1024 + 128),
        start: DiskSector(1 << 24),
        sectors: (1 << 20) - (1024 + 128),
    }];
    let mut c = completed(Some(0));
    c.sector = DiskSector((1 << 24) + 8);
    let mut translator = Translator::new(&topology, ClockOffset { offset: 1_000_000_000 }, 0);
    let r = request(&items(&mut translator, &[Event::Completed(c)]));
    assert_eq!((r.sector, r.array_sector), (1024 + 128 + 8, Some(384 + 8)));
}

#[test]
fn unknown_times_are_none() {
    let mut c = completed(Some(0));
    c.start_ns = c.issue_ns + 1;
    let r = request(&items(&mut translator(0), &[Event::Completed(c)]));
    assert_eq!((r.queue_us, r.device_us), (None, Some(999)));
    (c.start_ns, c.issue_ns) = (1, 0);
    let r = request(&items(&mut translator(0), &[Event::Completed(c)]));
    assert_eq!((r.queue_us, r.device_us), (None, None));
}

fn parts(items: &[Item]) -> Vec<(u64, Origin, u32)> {
    let part = |i: &Item| match i {
        Item::Part(RequestPart { sector, origin, bytes, .. }) => Some((*sector, *origin, *bytes)),
        _ => None,
    };
    items.iter().filter_map(part).collect()
}

#[test]
fn runs_become_consecutive_parts() {
    let run = |origin, bytes| Event::Run(OriginRun { origin, bytes });
    let runs =
        [run(Origin::FileData, 4096), run(Origin::Journal, 8192), run(Origin::FileData, 4096)];
    let mut events = vec![Event::Completed(completed(Some(3)))];
    events.extend(runs);
    let all = items(&mut translator(0), &events);
    let r = request(&all);
    assert_eq!((r.bytes, r.length), (4096, 16384));
    assert_eq!(parts(&all), [(1160, Origin::Journal, 8192), (1176, Origin::FileData, 4096)]);
    // If a request is incomplete or has too many runs, all runs become parts and the request has no
    // bytes of its own.
    let mut c = completed(Some(3));
    c.part = true;
    events[0] = Event::Completed(c);
    events.push(Event::Completed(completed(None)));
    let all = items(&mut translator(0), &events);
    assert_eq!(request(&all).bytes, 0);
    assert_eq!(parts(&all)[0], (1152, Origin::FileData, 4096));
    assert_eq!(parts(&all).len(), 3);
}

#[test]
fn events_before_since_are_not_emitted_but_identify_submitters() {
    let mut early = completed(Some(1));
    early.now_ns = 3_999_999;
    let events = [
        submitted(384, 3_000_000),
        Event::Completed(early),
        Event::Run(OriginRun { origin: Origin::FileData, bytes: 16384 }),
        Event::Completed(completed(Some(0))),
    ];
    let items = items(&mut translator(4_000_000), &events);
    assert_eq!(items.len(), 1);
    assert_eq!(request(&items).pid, Some(42));
}

#[test]
fn requests_of_unknown_members_are_counted() {
    let mut c = completed(Some(0));
    c.member = 2;
    let mut emitted = 0;
    let unknown = translator(0).translate(&[Event::Completed(c)], |_| emitted += 1);
    assert_eq!((unknown, emitted), (1, 0));
}

#[test]
fn microseconds_match_the_bpf_programs() {
    for ns in [0, 999, 1000, 1001, 999_999, 1_000_000, 8_589_934_592] {
        assert_eq!(u64::from(us(ns)), ns / 1000, "{ns}");
    }
    assert_eq!(us(u64::MAX), u32::MAX);
}

#[test]
fn kernel_flags_are_converted() {
    assert_eq!(flags(0), RequestFlags::empty());
    assert_eq!(flags(1 << 7 | 1 << 6), RequestFlags::PREFLUSH | RequestFlags::FUA);
    assert_eq!(flags(1 << 1 | 1 << 2).letters(), "M");
    assert_eq!(flags(1 << 8 | 1 << 9).letters(), "AB");
}

#[test]
fn submissions_are_kept_while_arrays_keep_their_numbers() {
    let pid = |name: &str| {
        let mut translator = translator(4_000_000);
        // Submitted before the recording, and before the programs were reloaded.
        assert!(items(&mut translator, &[submitted(384, 3_999_999)]).is_empty());
        let mut topology = topology();
        name.clone_into(&mut topology.host.arrays[0].name);
        translator.continue_with(&topology);
        request(&items(&mut translator, &[Event::Completed(completed(Some(0)))])).pid
    };
    assert_eq!(pid("md0"), Some(42));
    assert_eq!(pid("md1"), None);
}

#[test]
fn a_clock_that_was_set_is_detected() {
    let clock = super::ClockOffset::now();
    let second = std::time::Duration::from_secs(1);
    assert!(clock.stepped(second).is_none());
    for step in [-3_600_000_000_000, 90_000_000_000] {
        let set = super::ClockOffset { offset: clock.offset + step };
        let now = set.stepped(second).unwrap();
        assert!(now.offset.abs_diff(clock.offset) < 1_000_000_000);
    }
}
