//! Events built by hand in the format of the BPF programs.

use super::{
    Completed, Event, OriginRun, PART, REQUEST, RUN_SHIFT, RUNS_SENT, SUBMISSION, decode, in_order,
    size,
};
use crate::origin::{Op, Origin};
use crate::probe::drain::by_position;
use crate::probe::member_ids::MemberIds;
use crate::probe::wire::{Wire as _, rt_event_request, rt_event_submission, rt_file_id};

fn request() -> rt_event_request {
    rt_event_request {
        kind: REQUEST,
        op: Op::Write as u8,
        origin: Origin::Journal as u8,
        length: 4096,
        member: 3,
        ..Default::default()
    }
}

#[test]
fn a_request_and_its_runs() {
    let mut events = Vec::new();
    let mut wire = request();
    wire.runs = 2;
    let mut bytes = wire.bytes().to_vec();
    bytes.extend((1 | (Origin::Journal as u32) << RUN_SHIFT).bytes());
    // Too short for its second run.
    assert_eq!((decode(&bytes, &mut events), events.len()), (None, 0));
    bytes.extend((0xff_ffff | (Origin::FileData as u32) << RUN_SHIFT).bytes());
    decode(&bytes, &mut events).unwrap();
    let [Event::Completed(first), Event::Run(one), Event::Run(two)] = events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((first.member, first.runs, first.part), (3, Some(2), false));
    let run = |origin, bytes| OriginRun { origin, bytes };
    assert_eq!(one, run(Origin::Journal, 512));
    assert_eq!(two, run(Origin::FileData, u32::MAX - 511));
    events.clear();
    wire.runs = RUNS_SENT;
    decode(wire.bytes(), &mut events).unwrap();
    assert!(matches!(events[..], [Event::Completed(c)] if c.runs.is_none()));
}

/// Member 0 has changed and got id 2, member 1 has left, and the member with id 3 has joined.
#[test]
fn events_of_new_members_wait_for_the_next_topology() {
    let mut events = Vec::new();
    let mut wire = request();
    wire.runs = 1;
    for member in [0, 1, 2, 3, 9] {
        wire.member = member;
        let run = 8u32 | u32::from(Origin::Journal as u8) << RUN_SHIFT;
        decode(&[wire.bytes(), run.bytes()].concat(), &mut events).unwrap();
    }
    let was = MemberIds::new(vec![vec![0, 2], vec![1]]);
    let next = MemberIds::new(vec![vec![3], vec![2, 0]]);
    let members = |events: &[Event]| -> Vec<u32> {
        assert_eq!(events.len() % 2, 0);
        let pairs = events.chunks_exact(2);
        pairs
            .map(|pair| match pair {
                [Event::Completed(Completed { member, .. }), Event::Run(_)] => *member,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let (mut now, mut early) = (Vec::new(), Vec::new());
    by_position(events, &was, Some((&next, &mut early)), &mut now);
    assert_eq!(members(&now), [0, 1, 0, u32::MAX]);
    now.clear();
    by_position(early, &next, None, &mut now);
    assert_eq!(members(&now), [0]);
}

#[test]
fn a_submission_may_have_a_file() {
    let mut events = Vec::new();
    let mut wire = rt_event_submission { kind: SUBMISSION, pid: 7, ..Default::default() };
    decode(wire.bytes(), &mut events).unwrap();
    wire.file = rt_file_id { inode: 12, dev: 1, generation: 2 };
    decode(wire.bytes(), &mut events).unwrap();
    let files: Vec<_> =
        events.iter().map(|e| matches!(e, Event::Submitted(s) if s.file.is_some())).collect();
    assert_eq!(files, [false, true]);
}

#[test]
fn malformed_events_are_rejected() {
    let mut events = Vec::new();
    let with = |f: fn(&mut rt_event_request)| {
        let mut wire = request();
        f(&mut wire);
        wire.bytes().to_vec()
    };
    for bytes in [
        Vec::new(),
        vec![REQUEST; 8],
        vec![9; 64],
        with(|w| w.op = 200),
        with(|w| w.origin = 31),
        with(|w| (w.kind, w.runs) = (PART, 65)),
    ] {
        assert_eq!(decode(&bytes, &mut events), None, "{bytes:?}");
    }
    assert_eq!(events, []);
}

#[test]
fn buffers_are_powers_of_two_of_pages() {
    assert_eq!(size(None, 1), rustix::param::page_size());
    assert_eq!(size(Some(16 << 20), 2), 8 << 20);
    assert_eq!(size(Some(16 << 20), 12), 1 << 20);
    assert_eq!(size(Some(1 << 20), 1024), rustix::param::page_size());
    assert_eq!(size(Some(u32::MAX), 2), 1 << 30);
}

#[test]
fn events_of_several_rings_are_ordered_by_time() {
    let mut events = Vec::new();
    let mut wire = request();
    // Events of one ring, then of the next, and one event later than the time up to which a third
    // ring has been drained.
    for (now_ns, runs) in [(10, 1), (30, 0), (20, 2), (40, 0), (25, 1)] {
        (wire.now_ns, wire.runs) = (now_ns, runs);
        let run = |n| (now_ns as u32 + n) | u32::from(Origin::Journal as u8) << RUN_SHIFT;
        let mut bytes = wire.bytes().to_vec();
        (0..u32::from(runs)).for_each(|n| bytes.extend(run(n).bytes()));
        decode(&bytes, &mut events).unwrap();
    }
    let show = |events: &[Event]| -> Vec<u64> {
        let number = |e: &Event| match e {
            Event::Run(run) => 1000 + u64::from(run.bytes >> 9),
            other => other.time().unwrap(),
        };
        events.iter().map(number).collect()
    };
    let ordered = in_order(&mut events, 30);
    assert_eq!(show(&ordered), [10, 1010, 20, 1020, 1021, 25, 1025, 30], "each with its runs");
    assert_eq!(show(&events), [40]);
    assert_eq!(show(&in_order(&mut events, 40)), [40]);
    assert!(in_order(&mut events, 50).is_empty());
}
