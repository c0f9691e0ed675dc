//! Figures of a snapshot, their sources, and their text. A figure whose source is missing is
//! absent, never 0.

pub use super::sums::total;
use crate::analysis::alloc::{
    AllocShare, AllocSnapshot, Counts, FigureSource, Fragmentation, FsAlloc, GroupRefusal,
    GroupsConsidered,
};
use crate::analysis::hist;
use crate::analysis::hist::Hist;

/// Minimum cost that is noticeable: share of a CPU, or of a task's time, spent in the allocator.
pub const MIN_NOTICEABLE_COST: f64 = 0.1;
/// Minimum mean time of slow requests, ns. A healthy request takes 2 to 50 µs.
const MIN_SLOW_NS: u64 = 200_000;
/// Tolerated difference between a hook's count of groups and ext4's own, relative to ext4's.
const MAX_DIFFERENCE: f64 = 0.2;
/// Minimum number of searches for comparing the two counts.
const MIN_SEARCHES: u64 = 100;
/// Minimum duration of a slow search, µs.
const MIN_LONG_SEARCH_US: u64 = 1_000_000;

/// Names of the figures, the keys of [`AllocSnapshot::sources`].
pub const FIGURES: [&str; 13] = [
    REQUESTS,
    LATENCY,
    SEARCHES,
    PREALLOCATED,
    GROUPS,
    REASONS,
    BITMAPS,
    READS,
    WAITS,
    DISCARDS,
    MEMBERS,
    FRAGMENTATION,
    CPU,
];
/// Requests, blocks requested and blocks allocated.
pub const REQUESTS: &str = "requests";
/// Time of an allocation.
pub const LATENCY: &str = "latency";
/// Searches, their goals, the criteria reached, groups searched.
pub const SEARCHES: &str = "searches";
/// Requests served from preallocated space.
pub const PREALLOCATED: &str = "preallocated";
/// Groups considered and refused.
pub const GROUPS: &str = "groups";
/// Reasons why groups were refused.
pub const REASONS: &str = "reasons";
/// Bitmaps and buddy bitmaps loaded into memory.
pub const BITMAPS: &str = "bitmaps";
/// Bitmaps read from disk.
pub const READS: &str = "reads";
/// Waits for bitmaps.
pub const WAITS: &str = "waits";
/// Preallocated space released.
pub const DISCARDS: &str = "discards";
/// Bitmap reads by member.
pub const MEMBERS: &str = "members";
/// Free extents.
pub const FRAGMENTATION: &str = "fragmentation";
/// CPU samples.
pub const CPU: &str = "cpu";

/// True if `figure` is known. If `sources` has no entry for it, returns `seen`, which is true if
/// something was counted.
pub fn has(snapshot: &AllocSnapshot, figure: &str, seen: bool) -> bool {
    match snapshot.sources.get(figure) {
        None => seen,
        Some(FigureSource::None) => false,
        // Hooks were replaced by sampling to reduce overhead: only earlier counts are available.
        Some(FigureSource::Samples) if figure != CPU => seen,
        Some(_) => true,
    }
}

/// True if allocated blocks are known. Their tracepoint is also needed for latency.
pub fn has_given(snapshot: &AllocSnapshot, counts: &Counts) -> bool {
    counts.given > 0 || has(snapshot, LATENCY, false)
}

/// True if groups considered are known.
pub fn has_groups(snapshot: &AllocSnapshot, counts: &Counts) -> bool {
    match snapshot.sources.get(GROUPS) {
        // mb_stats may be on for some of the filesystems only, and for part of the time.
        Some(FigureSource::MbStats) => counts.hits > 0 || counts.looks() > 0,
        _ => has(snapshot, GROUPS, counts.looks() > 0),
    }
}

/// True if a hook counts groups: by search, task and file, and with refusals. mb_stats has none of
/// these.
pub fn is_hooked(snapshot: &AllocSnapshot, counts: &Counts) -> bool {
    match snapshot.sources.get(GROUPS) {
        Some(FigureSource::MbStats) => false,
        _ => has_groups(snapshot, counts),
    }
}

/// Mean number of groups considered by the searches that ended, or the total if no search has
/// ended. `None` if there was no search, or if groups are not known.
pub fn mean_groups(snapshot: &AllocSnapshot, counts: &Counts) -> Option<f64> {
    let looks = counts.looks();
    if looks == 0 || !has_groups(snapshot, counts) {
        return None;
    }
    if !is_hooked(snapshot, counts) {
        return (counts.hits > 0).then(|| looks as f64 / counts.hits as f64);
    }
    let ended = counts.groups.count();
    if ended == 0 {
        return Some(looks as f64);
    }
    // `looks` includes failed and running searches. Only ended searches are in the histogram, so
    // clamp the mean to its range.
    let (mut least, mut most) = (0.0, 0.0);
    for (bucket, &n) in counts.groups.0.iter().enumerate() {
        let (first, last) = GroupsConsidered::range(bucket);
        least += first as f64 * n as f64;
        // The last bucket has no end.
        if n > 0 {
            most += last.map_or(f64::INFINITY, |l| l as f64 * n as f64);
        }
    }
    let n = ended as f64;
    Some((looks as f64 / n).clamp(least / n, (most / n).max(least / n)))
}

/// Note with both counts of groups considered, if the hook's count and ext4's own (mb_stats) differ
/// by more than 20 % over at least 100 searches. The two counts are read one after the other, and
/// ext4 adds a search only when it ends. So each search that only one of them has counted (up to a
/// tenth of all), and one search in progress, may account for a difference of two passes over all
/// groups.
pub fn disagreement(snapshot: &AllocSnapshot, fs: &FsAlloc) -> Option<String> {
    let c = &fs.counts;
    let by_ext4 = fs.mb_stats.filter(|_| is_hooked(snapshot, c))?;
    let searches = c.searches.max(by_ext4.searches);
    let apart = c.looks().abs_diff(by_ext4.groups);
    let between = c.searches.abs_diff(by_ext4.searches).min(searches / 10) + 1;
    let explained = between.saturating_mul(2 * u64::from(fs.groups));
    if searches < MIN_SEARCHES
        || apart <= explained
        || apart as f64 <= MAX_DIFFERENCE * by_ext4.groups as f64
    {
        return None;
    }
    let hook = snapshot.sources.get(GROUPS).map_or("hook", |s| source(*s));
    Some(format!(
        "{}: {} groups considered by the hook's count ({hook}), {} by ext4's own (mb_stats), in \
         {} searches: more than 20 % apart. The hook's count is shown",
        fs.name,
        whole(c.looks()),
        whole(by_ext4.groups),
        whole(searches)
    ))
}

/// Notes of a snapshot, and those derived from its figures.
pub fn notes(snapshot: &AllocSnapshot) -> Vec<String> {
    let made = snapshot.filesystems.iter().filter_map(|fs| disagreement(snapshot, fs));
    snapshot.notes.iter().cloned().chain(made).collect()
}

/// Mean goal length of a search, in blocks.
pub fn mean_goal(counts: &Counts) -> Option<u64> {
    counts.goal.checked_div(counts.searches).filter(|goal| *goal > 0)
}

/// Possible samples of one CPU; `None` without sampling, or if all CPUs were idle.
pub fn one_cpu(snapshot: &AllocSnapshot) -> Option<u64> {
    snapshot.cpus.values().map(|c| c.possible).max().filter(|n| *n > 0)
}

/// CPU time in the allocator, in CPUs: 0.83 is 83 % of one CPU.
pub fn allocator_cpus(snapshot: &AllocSnapshot) -> Option<f64> {
    let samples = snapshot.cpu.as_ref()?.allocator;
    if samples == 0 {
        return Some(0.0);
    }
    Some(samples as f64 / one_cpu(snapshot)? as f64)
}

/// Mean number of tasks in the allocator at a time, waits included, computed from the requests that
/// ended.
pub fn tasks_at_once(fs: &FsAlloc, seconds: f64) -> f64 {
    fs.counts.nanoseconds as f64 / 1e9 / seconds
}

/// True if tasks wait in the allocator: a tenth of a task's time is spent there at 200 µs or more
/// per request, or a search has been in progress for a second.
pub fn is_slow(fs: &FsAlloc, seconds: f64) -> bool {
    let c = &fs.counts;
    let each = c.nanoseconds / c.latency.count().max(1);
    (tasks_at_once(fs, seconds) >= MIN_NOTICEABLE_COST && each >= MIN_SLOW_NS)
        || fs.searching.longest_us >= MIN_LONG_SEARCH_US
}

/// Share of the groups without a free extent of 2^`order` blocks, and the number of groups that it
/// is a share of; `None` if unknown.
pub fn without(fragmentation: &Fragmentation, order: usize) -> Option<(f64, u64)> {
    let f = fragmentation;
    let sum = total(f.largest.iter());
    let known = f.groups.max(sum);
    if known == 0 || sum == 0 {
        // All are 0 if the kernel does not keep the lists.
        return None;
    }
    let with = total(f.largest.iter().skip(order));
    Some(((known - with) as f64 / known as f64, known))
}

/// Lower bound of the sum of all values in `hist`, µs. It is at most a fifth too low for values of
/// 4 µs and more.
pub fn at_least_us(hist: &Hist) -> u64 {
    let counts = hist.counts().iter().enumerate();
    counts.fold(0, |sum, (bucket, &n)| {
        let edge = if bucket == 0 { 0 } else { hist::upper_edge(bucket - 1) };
        sum.saturating_add(edge.saturating_mul(u64::from(n)))
    })
}

/// Total share of the tasks or files that are not in `listed`.
pub fn rest<'a>(fs: &FsAlloc, listed: impl Iterator<Item = &'a AllocShare>) -> AllocShare {
    let mut sum = AllocShare::default();
    for share in listed {
        sum.add(share);
    }
    AllocShare {
        requests: fs.counts.requests.saturating_sub(sum.requests),
        blocks: fs.counts.got.saturating_sub(sum.blocks),
        nanoseconds: fs.counts.nanoseconds.saturating_sub(sum.nanoseconds),
        looked: fs.counts.looks().saturating_sub(sum.looked),
    }
}

/// Formats a count with thousands separators: `41,000`.
pub fn whole(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Formats a share in percent with one decimal: `99.2 %`. Rounds only 1.0 to 100 % and only 0.0 to
/// 0 %.
pub fn per_cent(share: f64) -> String {
    let tenths = (share.clamp(0.0, 1.0) * 1000.0).round();
    let tenths = match tenths {
        t if t >= 1000.0 && share < 1.0 => 999.0,
        t if t < 1.0 && share > 0.0 => return "<0.1 %".to_owned(),
        t => t,
    };
    let text = format!("{:.1}", tenths / 10.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// Formats the range of a bucket of groups: `0`, `1`, `32..63`, `4.2M+`.
pub fn bucket(bucket: usize) -> String {
    let short = |n: u64| {
        if n < 10_000 { n.to_string() } else { crate::analysis::units::count(n as f64) }
    };
    match GroupsConsidered::range(bucket) {
        (first, Some(last)) if first == last => short(first),
        (first, Some(last)) => format!("{}..{}", short(first), short(last)),
        (first, None) => format!("{}+", short(first)),
    }
}

/// Name of a criterion, or its number if the kernel does not report names.
pub fn criterion(names: &[String], number: usize) -> String {
    names.get(number).cloned().unwrap_or_else(|| format!("criterion {number}"))
}

/// Text for a refusal reason, to follow `... of them`.
pub const fn refusal_text(reason: GroupRefusal) -> &'static str {
    match reason {
        GroupRefusal::Full => "full",
        GroupRefusal::Corrupt => "bitmap corrupt",
        GroupRefusal::ForDirectories => "kept for directories",
        GroupRefusal::Order => "no free extent of the order asked for",
        GroupRefusal::Average => "average free extent shorter than the goal",
        GroupRefusal::Blocks => "fewer free blocks than the goal",
        GroupRefusal::Other => "other or unknown",
        GroupRefusal::NotLoaded => "buddy bitmap not in memory",
    }
}

/// Sampled refusal reasons with their shares, most common first.
pub fn reasons(counts: &Counts) -> Vec<(GroupRefusal, f64)> {
    let all = total(counts.reasons.iter());
    let mut named: Vec<(GroupRefusal, u64)> =
        GroupRefusal::ALL.into_iter().zip(counts.reasons).collect();
    named.retain(|r| r.1 > 0);
    named.sort_by_key(|r| std::cmp::Reverse(r.1));
    let share = |(reason, n)| (reason, n as f64 / all as f64);
    named.into_iter().map(share).collect()
}

/// Name of a source.
pub const fn source(source: FigureSource) -> &'static str {
    match source {
        FigureSource::Tracepoint => "tracepoint",
        FigureSource::Fentry => "fentry",
        FigureSource::Kprobe => "kprobe",
        FigureSource::Samples => "samples",
        FigureSource::MbStats => "mb_stats",
        FigureSource::MbStructs => "mb_structs_summary",
        FigureSource::MbGroups => "mb_groups",
        FigureSource::None => "none",
    }
}

/// Lists figures by source, those without a source last: `requests, latency: tracepoint; groups:
/// fentry`.
pub fn sources(snapshot: &AllocSnapshot) -> String {
    let mut by: std::collections::BTreeMap<FigureSource, Vec<&str>> =
        std::collections::BTreeMap::new();
    for (figure, source) in &snapshot.sources {
        by.entry(*source).or_default().push(figure);
    }
    let parts =
        by.iter().map(|(from, figures)| format!("{}: {}", source(*from), figures.join(", ")));
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, at_least_us, bucket, disagreement, notes, per_cent, whole, without};
    use crate::analysis::alloc::fixture;
    use crate::analysis::alloc::{FigureSource, Fragmentation, MbCount};
    use crate::analysis::hist::Hist;

    #[test]
    fn numbers_as_text() {
        assert_eq!(
            [0, 999, 1000, 41_000, 1_234_567].map(whole),
            ["0", "999", "1,000", "41,000", "1,234,567"]
        );
        assert_eq!(
            [0.0, 0.0001, 0.5, 0.992, 0.9999, 1.0].map(per_cent),
            ["0 %", "<0.1 %", "50 %", "99.2 %", "99.9 %", "100 %"]
        );
        assert_eq!([0, 1, 6, 17, 23].map(bucket), ["0", "1", "32..63", "65.5k..131k", "4.2M+"]);
    }

    #[test]
    fn a_hook_count_that_differs_from_ext4_is_noted() {
        let mut s = fixture::linear();
        s.filesystems[0].counts.searches = 120;
        let looks = s.filesystems[0].counts.looks();
        let with = |groups, searches| {
            let mut s = s.clone();
            s.filesystems[0].mb_stats = Some(MbCount { searches, groups });
            s
        };
        // Both directions. A difference of exactly a fifth is tolerated.
        for groups in [looks * 10 / 13, looks * 10 / 7] {
            let s = with(groups, 118);
            let said = disagreement(&s, &s.filesystems[0]).unwrap();
            assert_eq!(
                said,
                format!(
                    "md3: {} groups considered by the hook's count (fentry), {} by ext4's own \
                     (mb_stats), in 120 searches: more than 20 % apart. The hook's count is shown",
                    whole(looks),
                    whole(groups)
                )
            );
            assert_eq!(notes(&s), [said]);
        }
        for groups in [looks, looks * 10 / 12 + 1, looks * 10 / 8 - 1] {
            assert!(notes(&with(groups, 118)).is_empty(), "{groups} of {looks}");
        }
        // Only one of ext4 and the hook counted any group.
        assert!(!notes(&with(0, 0)).is_empty());
        let two_passes = 2 * u64::from(s.filesystems[0].groups);
        let mut none = with(3 * two_passes + 1, 118);
        none.filesystems[0].counts.looked = [0; 5];
        assert!(!notes(&none).is_empty());
        // Two searches that ended between the two readings, and one in progress.
        none.filesystems[0].groups += 1;
        assert!(notes(&none).is_empty());
        // A difference of more than a tenth of the searches is not explained by the time between
        // the readings.
        let mut few = with(26 * two_passes, 40);
        few.filesystems[0].counts.looked = [0; 5];
        assert!(!notes(&few).is_empty());
        // Few searches, no count from ext4, or no count from a hook.
        let mut few = with(1, 99);
        few.filesystems[0].counts.searches = 99;
        assert!(notes(&few).is_empty() && notes(&s).is_empty());
        let mut said = with(1, 118);
        said.sources.insert(GROUPS, FigureSource::MbStats);
        assert!(notes(&said).is_empty());
    }

    #[test]
    fn groups_without_an_extent_of_an_order() {
        let mut f =
            Fragmentation { largest: vec![10, 80, 5], groups: 100, ..Fragmentation::default() };
        assert_eq!(without(&f, 2), Some((0.95, 100)));
        assert_eq!(without(&f, 1), Some((0.15, 100)));
        assert_eq!(without(&f, 9), Some((1.0, 100)));
        // Groups in memory only: the number of groups without a free extent is unknown.
        f.groups = 95;
        assert_eq!(without(&f, 0), Some((0.0, 95)));
        f.largest = vec![0; 14];
        assert_eq!(without(&f, 0), None);
    }

    #[test]
    fn the_lower_bound_is_at_most_a_fifth_too_low() {
        let mut hist = Hist::default();
        let values = [0, 1, 3, 4, 900, 84_000, 1_000_000];
        values.iter().for_each(|&v| hist.record(v));
        let (least, sum) = (at_least_us(&hist), values.iter().sum::<u64>());
        assert!(least <= sum && least as f64 >= 0.8 * sum as f64, "{least} {sum}");
    }
}
