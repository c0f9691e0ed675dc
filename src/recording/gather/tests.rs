use std::collections::BTreeMap;
use std::io::Write as _;

use proptest::prelude::*;

use super::{Report, Sizes, gather};
use crate::analysis::item::Item;
use crate::recording::fixture;

type Sums = BTreeMap<String, [u64; 4]>;

/// Adds the sums of each member: requests, bytes, requests counted by the kernel, busy
/// microseconds.
fn sums(report: &Report, into: &mut Sums) {
    let us = report.snapshot.interval.as_secs_f64() * 1e6;
    for member in report.snapshot.arrays.iter().flat_map(|a| &a.members) {
        let (io, disk) = (member.sum(|_| true), member.disk.unwrap());
        let sum = into.entry(member.name.clone()).or_default();
        let busy = (disk.utilisation * us).round() as u64;
        for (sum, n) in sum.iter_mut().zip([io.0, io.1, disk.requests, busy]) {
            *sum += n;
        }
    }
}

fn file(items: &[Item]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&fixture::file_of(items, 500)).unwrap();
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn adjoining_periods_add_up_to_the_whole(
        mut cuts in prop::collection::vec(1u32..7999, 1..8),
        idle in any::<bool>(),
    ) {
        let mut items = fixture::items(4000, 8);
        for item in &mut items {
            if let (Item::State(state), true) = (item, idle) {
                let members = state.arrays.iter_mut().flat_map(|a| &mut a.members);
                members.flat_map(|m| &mut m.disk).for_each(|d| d.in_flight = 0);
            }
        }
        let file = file(&items);
        let report = |from: Option<&str>, to: Option<&str>| gather(file.path(), from, to).unwrap();
        let mut whole = Sums::new();
        sums(&report(None, None), &mut whole);
        prop_assert!(whole.values().all(|sum| sum[2] == 800 && sum[3] > 1_000_000));
        cuts.sort_unstable();
        cuts.dedup();
        let times: Vec<String> =
            cuts.iter().map(|ms| format!("+{}.{:03}", ms / 1000, ms % 1000)).collect();
        let mut parts = Sums::new();
        sums(&report(None, Some(&times[0])), &mut parts);
        for pair in times.windows(2) {
            sums(&report(Some(&pair[0]), Some(&pair[1])), &mut parts);
        }
        sums(&report(times.last().map(String::as_str), None), &mut parts);
        prop_assert_eq!(parts, whole);
    }
}

#[test]
fn requests_completed_before_the_first_state_are_counted() {
    let mut items = fixture::items(4000, 8);
    for item in items.iter_mut().take(40) {
        if let Item::Request(r) = item {
            r.time_us = fixture::START - 500;
        }
    }
    let file = file(&items);
    let requests = |from, to| {
        let report = gather(file.path(), from, to).unwrap();
        let members = report.snapshot.arrays.iter().flat_map(|a| &a.members);
        let sums: u64 = members.map(|m| m.sum(|_| true).0).sum();
        let parts: u64 =
            report.timeline.intervals.iter().flat_map(|i| &i.members).map(|w| w.requests()).sum();
        assert_eq!((report.requests, parts), (sums, sums));
        sums
    };
    assert_eq!(requests(None, None), 4000);
    assert_eq!(requests(None, Some("+3")) + requests(Some("+3"), None), 4000);
    assert_eq!(requests(Some("+0"), None), 4000);
}

#[test]
fn a_part_of_a_second_has_its_own_utilisation() {
    let mut items = fixture::items(4000, 8);
    // Nothing happens from 2.2 to 2.8 s.
    let idle = fixture::START + 2_200_000..fixture::START + 2_800_000;
    items.retain(|i| matches!(i, Item::State(_)) || !idle.contains(&i.time_us()));
    for item in &mut items {
        if let Item::State(state) = item {
            let members = state.arrays.iter_mut().flat_map(|a| &mut a.members);
            members.flat_map(|m| &mut m.disk).for_each(|d| d.in_flight = 0);
        }
    }
    let file = file(&items);
    let part = |from, to| {
        let report = gather(file.path(), Some(from), Some(to)).unwrap();
        report.snapshot.arrays[0].members[0].disk.unwrap()
    };
    let (idle, busy) = (part("+2.3", "+2.81"), part("+2.0", "+2.2"));
    assert!(idle.utilisation < 0.05, "{idle:?}");
    assert!(busy.utilisation > 0.5 && busy.requests > 5, "{busy:?}");
}

/// A mean over the whole recording hides the stall.
#[test]
fn a_stall_leads_the_headline() {
    for ticks in [true, false] {
        let file = file(&fixture::stalled_items(ticks));
        for (from, to, expected) in [
            (None, None, "loop3 completed nothing for 12 s, with 12 requests in flight"),
            (Some("+8"), None, "loop3 completed nothing for 9 s, with"),
            (
                Some("+4.5"),
                Some("+12"),
                "loop3 completes nothing: 12 requests in flight, none completed in 7 s",
            ),
            (Some("+13"), None, ""),
            (None, Some("+9"), ""),
            (Some("+17"), None, ""),
        ] {
            let report = gather(file.path(), from, to).unwrap();
            let hotspot = report.snapshot.arrays[0].hotspot.clone().unwrap();
            let stalled = hotspot.kind == crate::analysis::hotspot::HotspotKind::Stalled;
            assert_eq!(stalled, !expected.is_empty(), "{from:?} {to:?} {hotspot:?}");
            assert!(hotspot.headline.starts_with(expected), "{from:?} {to:?} {hotspot:?}");
        }
    }
}

#[test]
fn sizes_are_powers_of_two() {
    let buckets = [(0, 0), (1, 1), (511, 1), (512, 2), (4096, 5), (4097, 5), (u32::MAX, 24)];
    for (length, bucket) in buckets {
        assert_eq!(Sizes::bucket(length), bucket, "{length}");
        assert!(Sizes::from(bucket) <= u64::from(length));
        assert!(bucket + 1 == Sizes::BUCKETS || Sizes::from(bucket + 1) > u64::from(length));
    }
}

/// A recorder that was killed before its first second leaves a header and a state.
#[test]
fn a_recording_without_a_complete_second_says_that_it_is_truncated() {
    let state = Item::State(Box::new(fixture::state(fixture::START)));
    let whole = fixture::file_of(&[state], 500);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    // Without the end marker.
    file.write_all(&whole[..whole.len() - 8]).unwrap();
    let why = gather(file.path(), None, None).err().unwrap().to_string();
    assert!(why.contains("contains no complete second; the recording is truncated"), "{why}");
}
