use proptest::prelude::*;

use super::{AllocInterval, RecordedAlloc};
use crate::analysis::alloc::{AllocSnapshot, FigureSource, GroupsConsidered, figures, fixture};
use crate::analysis::item::Item;
use crate::analysis::profile::Profile;
use crate::analysis::profile::sums::tests::{of, seed};

fn json(snapshot: &AllocSnapshot, stacks: &Profile) -> String {
    match AllocInterval::item(snapshot, stacks).unwrap() {
        Item::Alloc { json, .. } => json,
        other => panic!("{other:?}"),
    }
}

fn again(snapshot: &AllocSnapshot) -> RecordedAlloc {
    let time_us = snapshot.time.as_microsecond();
    AllocInterval::parse(time_us, &json(snapshot, &Profile::default())).unwrap()
}

fn printed(snapshot: &AllocSnapshot) -> String {
    serde_json::to_string(&AllocInterval::new(snapshot)).unwrap()
}

fn all() -> [AllocSnapshot; 8] {
    [
        fixture::healthy(),
        fixture::linear(),
        fixture::livelock(),
        fixture::cold(),
        fixture::fragmented(),
        fixture::degraded(),
        fixture::empty(),
        fixture::huge(),
    ]
}

#[test]
fn written_intervals_are_read_back() {
    for snapshot in all() {
        let read = again(&snapshot).snapshot;
        assert_eq!(printed(&read), printed(&snapshot));
        for (a, b) in read.filesystems.iter().zip(&snapshot.filesystems) {
            assert_eq!(a.counts, b.counts);
            assert_eq!(a.tasks, b.tasks);
            let reason = (&a.reason, &a.fragmentation);
            assert_eq!(reason, (&b.reason, &b.fragmentation));
        }
        assert_eq!(read.time, snapshot.time);
        assert_eq!(read.on_cpu, snapshot.on_cpu);
        assert_eq!(read.sources, snapshot.sources);
    }
}

#[test]
fn stacks_are_read_back() {
    let comm = [(0, 1, "\u{1b};", "ext4_mb_new_blocks;f.isra.0", 3)];
    for mut profile in [seed(), of(&comm), Profile::default()] {
        profile.add_other(7);
        let read = AllocInterval::parse(0, &json(&fixture::empty(), &profile)).unwrap();
        let stacks = |p: &Profile| {
            let each =
                p.stacks().map(|(comm, stack, n)| (comm.to_vec(), stack.names().join(";"), n));
            let mut all: Vec<_> = each.collect();
            all.sort();
            all
        };
        assert_eq!(stacks(&read.stacks), stacks(&profile));
        assert_eq!(read.stacks.other(), profile.other());
    }
    assert!(!printed(&fixture::linear()).contains("\"stacks\""));
}

#[test]
fn invalid_intervals_are_rejected_with_a_reason() {
    for (bad, why) in [
        ("{", "EOF"),
        ("[]", "schema is"),
        ("\u{1b}[2J", "expected value"),
        ("{}", "schema is \"\""),
        (r#"{"schema":"raidtrace.top/1"}"#, "raidtrace.top/1"),
        (r#"{"schema":"raidtrace.alloc/1"}"#, "\"\" is not a time"),
        (
            r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z","interval_s":-1}"#,
            "interval_s is -1",
        ),
        (
            r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z","interval_s":1e300}"#,
            "interval_s is",
        ),
        (
            r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z",
                "filesystems":[{"dev":"9"}]}"#,
            "\"9\" is not a device number",
        ),
    ] {
        let error = AllocInterval::parse(0, bad).unwrap_err();
        assert!(error.contains(why), "{bad}: {error}");
    }
    let error = AllocInterval::parse(0, &" ".repeat(crate::recording::interval::MAX_BYTES + 1))
        .unwrap_err();
    assert_eq!(error, "more than 32 MiB of JSON");
}

#[test]
fn lists_are_limited() {
    let start = r#"{"schema":"raidtrace.alloc/1","time":"2026-11-20T12:00:01Z""#;
    let interval = |rest: String| format!("{start},{rest}}}");
    let many = |one: &str, n: usize| vec![one; n].join(",");
    let fs = |key: &str, n| {
        let one = match key {
            "files" => r#"{"dev":"9:3"}"#,
            _ => "{}",
        };
        let list = many(one, n);
        interval(format!(r#""filesystems":[{{"dev":"9:3","{key}":[{list}]}}]"#))
    };
    let dev = r#"{"dev":"0:0"}"#;
    let filesystems = |n| interval(format!(r#""filesystems":[{}]"#, many(dev, n)));
    let threads = |n| interval(format!(r#""on_cpu":[{}]"#, many("{}", n)));
    let stacks = |n| interval(format!(r#""stacks":{{"kept":[{}]}}"#, many("{}", n)));
    for (least, text) in [
        (257, &filesystems as &dyn Fn(usize) -> String),
        (4097, &|n| fs("members", n)),
        (16_385, &|n| fs("tasks", n)),
        (16_385, &|n| fs("files", n)),
        (16_385, &threads),
        (16_385, &stacks),
    ] {
        assert!(AllocInterval::parse(0, &text(least - 1)).is_ok());
        let error = AllocInterval::parse(0, &text(least)).unwrap_err();
        let most = format!("more than {} in a list", least - 1);
        assert!(error.contains(&most), "{error}");
    }
    // The members of all filesystems count.
    let half = format!(r#"{{"dev":"9:3","members":[{}]}}"#, many("{}", 2049));
    let error = AllocInterval::parse(0, &interval(format!(r#""filesystems":[{half},{half}]"#)));
    assert!(error.unwrap_err().contains("4098 members"));
}

#[test]
fn threads_of_an_interval_are_limited() {
    let mut s = fixture::huge();
    s.on_cpu = vec![s.on_cpu[0].clone(); 16_384];
    assert_eq!(again(&s).snapshot.on_cpu.len(), 1024);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn figures_are_read_back(
        n in prop::collection::vec(any::<u64>(), 80),
        us in prop::collection::vec((any::<u64>(), 1u32..1000), 0..9),
        comm in prop::collection::vec(any::<u8>(), 0..16),
        unknown in any::<u16>(),
    ) {
        let mut s = fixture::linear();
        for (i, figure) in figures::FIGURES.into_iter().enumerate() {
            if unknown >> i & 1 == 1 {
                s.sources.insert(figure, FigureSource::None);
            }
        }
        let fs = &mut s.filesystems[0];
        let c = &mut fs.counts;
        (c.requests, c.asked, c.given, c.got, c.nanoseconds) = (n[0], n[1], n[2], n[3], n[4]);
        (
            c.searches,
            c.goal,
            c.scanned,
            c.preallocated,
            c.discards,
        ) = (n[5], n[6], n[7], n[8], n[9]);
        (c.bitmaps, c.buddies, c.reads, c.prefetches) = (n[10], n[11], n[12], n[13]);
        c.criteria = std::array::from_fn(|i| n[14 + i]);
        c.looked = std::array::from_fn(|i| n[19 + i]);
        c.refused = std::array::from_fn(|i| n[24 + i]);
        c.reasons = std::array::from_fn(|i| n[29 + i]);
        c.groups = GroupsConsidered(std::array::from_fn(|i| n[36 + i]));
        c.latency = fixture::hist(&us);
        c.waits = fixture::hist(&us);
        fs.tasks[0].comm = comm.clone();
        fs.files[0].location.path = Some(comm);
        let read = again(&s).snapshot;
        prop_assert_eq!(printed(&read), printed(&s));
        let (a, b) = (&read.filesystems[0], &s.filesystems[0]);
        let mut tasks = b.tasks.clone();
        if s.sources[figures::GROUPS] == FigureSource::None {
            tasks.iter_mut().for_each(|t| t.share.looked = 0);
        }
        prop_assert_eq!(&a.tasks, &tasks);
        prop_assert_eq!(&a.files[0].location.path, &b.files[0].location.path);
        if unknown == 0 {
            prop_assert_eq!(&a.counts, &b.counts);
        }
    }
}

#[test]
fn schema() {
    crate::test_schema::check::<AllocInterval>("raidtrace.alloc/1");
}
