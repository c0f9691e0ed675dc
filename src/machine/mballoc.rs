//! Statistics of ext4's block allocator in /proc/fs/ext4/DEV: mb_stats and its switch,
//! mb_structs_summary, mb_groups (fs/ext4/mballoc.c: `ext4_seq_mb_stats_show()`,
//! `ext4_mb_seq_structs_summary_show()`, `ext4_mb_seq_groups_show()`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};

use super::sys::Sys;

mod switch;

pub use switch::{MbStatsSwitch, left_on, restore};

/// Maximum number of orders of a buddy bitmap: a group has at most 2^19 blocks (of 64 KiB).
pub const MAX_ORDERS: usize = 20;
/// Maximum length of a line of mb_groups in bytes. Lines have about 130.
const MAX_LINE: u64 = 4096;
/// Maximum number of groups that are read: 2^22 groups are 512 TiB with blocks of 4 KiB.
const MAX_GROUPS: usize = 1 << 22;

/// mb_stats: counters since the mount, or since they were enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MbStats {
    /// Allocations.
    pub requests: u64,
    /// Groups whose free extents were searched.
    pub groups_scanned: u64,
    /// Counters by criterion, in the kernel's order.
    pub criteria: Vec<MbCriterion>,
}

/// Searches with one criterion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MbCriterion {
    /// Searches that ended with this criterion.
    pub hits: u64,
    /// Groups considered.
    pub considered: u64,
    /// Unsuitable groups suggested by the lists; 5.13 to 6.16 only.
    pub bad_suggestions: u64,
}

impl MbStats {
    /// Parses any format of mb_stats; `None` if it is off or invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut stats = Self::default();
        let (mut requests, mut scanned) = (None, None);
        for line in text.lines() {
            let Some((name, value)) = line.trim().split_once(':') else {
                continue;
            };
            // cr0_stats, cr_goal_fast_stats: starts the counters of a criterion.
            if name.starts_with("cr") && name.ends_with("_stats") {
                stats.criteria.push(MbCriterion::default());
                continue;
            }
            let Ok(value) = value.trim().parse::<u64>() else {
                continue;
            };
            match (name, stats.criteria.last_mut()) {
                ("reqs", _) => requests = requests.or(Some(value)),
                ("groups_scanned", _) => scanned = scanned.or(Some(value)),
                ("hits", Some(c)) => c.hits = value,
                ("groups_considered", Some(c)) => c.considered = value,
                ("bad_suggestions", Some(c)) => c.bad_suggestions = value,
                _ => {}
            }
        }
        stats.requests = requests?;
        stats.groups_scanned = scanned?;
        Some(stats)
    }

    /// Reads mb_stats of a mounted filesystem (kernel name of its device); `None` if it is off or
    /// missing.
    pub fn read(sys: &Sys, name: &str) -> Option<Self> {
        Self::parse(&sys.text(&format!("/proc/fs/ext4/{name}/mb_stats"))?)
    }

    /// Searches that found blocks, except at the goal itself.
    pub fn hits(&self) -> u64 {
        self.sum(|c| c.hits)
    }

    /// Groups considered by all searches.
    pub fn considered(&self) -> u64 {
        self.sum(|c| c.considered)
    }

    /// Unsuitable groups suggested by the lists, all criteria.
    pub fn bad_suggestions(&self) -> u64 {
        self.sum(|c| c.bad_suggestions)
    }

    fn sum(&self, field: impl Fn(&MbCriterion) -> u64) -> u64 {
        self.criteria.iter().map(field).fold(0, u64::saturating_add)
    }

    /// Counts since `earlier`; 0 for a counter that decreased.
    pub fn since(&self, earlier: &Self) -> Self {
        let nothing = MbCriterion::default();
        let criterion = |(i, now): (usize, &MbCriterion)| {
            let was = earlier.criteria.get(i).unwrap_or(&nothing);
            MbCriterion {
                hits: now.hits.saturating_sub(was.hits),
                considered: now.considered.saturating_sub(was.considered),
                bad_suggestions: now.bad_suggestions.saturating_sub(was.bad_suggestions),
            }
        };
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            groups_scanned: self.groups_scanned.saturating_sub(earlier.groups_scanned),
            criteria: self.criteria.iter().enumerate().map(criterion).collect(),
        }
    }
}

/// mb_structs_summary: groups whose buddy bitmaps are in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MbStructs {
    /// True if the allocator uses its lists of groups by order (mb_optimize_scan).
    pub optimised: Option<bool>,
    /// Groups by the order of their largest free extent. All zero if the lists are not maintained
    /// (mb_optimize_scan=0).
    pub largest: Vec<u64>,
    /// Groups by the order of their average free extent.
    pub average: Vec<u64>,
}

impl MbStructs {
    /// Parses the file; `None` without its first line.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = Self::default();
        let mut lines = text.lines();
        let first = lines.next()?.trim().strip_prefix("optimize_scan:")?.trim();
        all.optimised = match first {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        };
        let mut list = None;
        for line in lines {
            let Some((name, value)) = line.trim().split_once(':') else {
                continue;
            };
            match name {
                "max_free_order_lists" => list = Some(&mut all.largest),
                "avg_fragment_size_lists" => list = Some(&mut all.average),
                _ => {
                    let order = name
                        .strip_prefix("list_order_")
                        .and_then(|n| n.strip_suffix("_groups"))
                        .and_then(|n| n.parse::<usize>().ok());
                    if let (Some(order), Some(list), Ok(count)) =
                        (order, list.as_deref_mut(), value.trim().parse())
                        && order == list.len()
                        && order < MAX_ORDERS
                    {
                        list.push(count);
                    }
                }
            }
        }
        Some(all)
    }

    /// Reads the file of a mounted filesystem; `None` before 5.13.
    pub fn read(sys: &Sys, name: &str) -> Option<Self> {
        Self::parse(&sys.text(&format!("/proc/fs/ext4/{name}/mb_structs_summary"))?)
    }

    /// True if the kernel maintains the lists.
    pub fn has_lists(&self) -> bool {
        self.largest.iter().any(|n| *n > 0)
    }
}

/// Reads only [`MbStructs::optimised`], from the first line. For the other lines the kernel would
/// count the groups in its lists.
pub fn optimises(sys: &Sys, name: &str) -> Option<bool> {
    let path = sys.path(format!("/proc/fs/ext4/{name}/mb_structs_summary"));
    let mut bytes = [0; 32];
    let n = File::open(path).ok()?.read(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes[..n]);
    MbStructs::parse(text.lines().next()?)?.optimised
}

/// mb_groups: all groups. For this file the kernel reads every block bitmap that is not in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MbGroups {
    /// Groups in the file.
    pub groups: u64,
    /// Groups with free blocks by the order of their largest free extent.
    pub largest: Vec<u64>,
    /// Free extents by order in the buddy bitmaps: 3 free blocks are one extent of 2 and one of 1.
    pub extents: Vec<u64>,
    /// Groups with free blocks by the order of their average free extent.
    pub average: Vec<u64>,
    /// Invalid lines and unreadable groups.
    pub invalid: u64,
}

impl MbGroups {
    /// Reads the file of a mounted filesystem.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(sys: &Sys, name: &str) -> io::Result<Self> {
        let file = File::open(sys.path(format!("/proc/fs/ext4/{name}/mb_groups")))?;
        Self::parse(BufReader::with_capacity(1 << 16, file))
    }

    fn parse(mut from: impl BufRead) -> io::Result<Self> {
        let mut all = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if (&mut from).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(all);
            }
            // The first line names the columns.
            if line.starts_with(b"#group") {
                continue;
            }
            match std::str::from_utf8(&line).ok().and_then(group) {
                Some(group) => all.add(&group),
                None => all.invalid += 1,
            }
            if all.groups as usize >= MAX_GROUPS {
                return Ok(all);
            }
        }
    }

    fn add(&mut self, (free, fragments, orders): &(u64, u64, Vec<u64>)) {
        self.groups += 1;
        let length = self.extents.len().max(orders.len());
        for list in [&mut self.extents, &mut self.largest, &mut self.average] {
            list.resize(length, 0);
        }
        for (sum, n) in self.extents.iter_mut().zip(orders) {
            *sum = sum.saturating_add(*n);
        }
        if let Some(order) = orders.iter().rposition(|n| *n > 0) {
            self.largest[order] += 1;
        }
        if let Some(average) = free.checked_div(*fragments)
            && average > 0
        {
            // mb_avg_fragment_size_order() (fs/ext4/mballoc.c) returns one less, but at least 0.
            let order = (average.ilog2() as usize).min(length.saturating_sub(1));
            if let Some(count) = self.average.get_mut(order) {
                *count += 1;
            }
        }
    }
}

/// Parses `#0    : 23970 79    1097  [ 2     156   156 ... ]`: free blocks, free extents, and
/// extents by order.
fn group(line: &str) -> Option<(u64, u64, Vec<u64>)> {
    let (number, rest) = line.strip_prefix('#')?.split_once(':')?;
    number.trim().parse::<u64>().ok()?;
    let (counts, orders) = rest.split_once('[')?;
    let mut counts = counts.split_whitespace();
    let (free, fragments) = (counts.next()?.parse().ok()?, counts.next()?.parse().ok()?);
    let orders: Vec<u64> = orders
        .split_once(']')?
        .0
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    (orders.len() <= MAX_ORDERS).then_some((free, fragments, orders))
}

#[cfg(test)]
mod tests {
    use super::{MbCriterion, MbGroups, MbStats, MbStructs};
    use proptest::prelude::*;

    const OLD: &str = "mballoc:\n\treqs: 301\n\tsuccess: 301\n\tgroups_scanned: \
                       194\n\tcr0_stats:\n\t\thits: 0\n\t\tgroups_considered: \
                       0\n\t\tuseless_loops: 0\n\t\tbad_suggestions: 0\n\tcr1_stats:\n\t\thits: \
                       1\n\t\tgroups_considered: 381\n\t\tuseless_loops: 1\n\t\tbad_suggestions: \
                       187\n\tcr2_stats:\n\t\thits: 1\n\t\tgroups_considered: \
                       1\n\t\tuseless_loops: 0\n\tcr3_stats:\n\t\thits: 0\n\t\tgroups_considered: \
                       0\n\t\tuseless_loops: 0\n\textents_scanned: 2\n\t\tgoal_hits: \
                       1\n\t\t2^n_hits: 0\n\tbuddies_generated: 16/192\n";
    const NEW: &str = "mballoc:\n\treqs: 1318\n\tsuccess: 1060\n\tgroups_scanned: \
                       8367\n\tcr_p2_aligned_stats:\n\t\thits: 0\n\t\tgroups_considered: \
                       368639\n\t\textents_scanned: 0\n\t\tuseless_loops: \
                       45\n\tcr_goal_fast_stats:\n\t\thits: 79\n\t\tgroups_considered: \
                       1997583\n\t\textents_scanned: 381\n\t\tuseless_loops: \
                       243\n\tcr_best_avail_stats:\n\t\thits: 0\n\t\tgroups_considered: \
                       1990643\n\tcr_goal_slow_stats:\n\t\thits: \
                       203\n\tcr_any_free_stats:\n\t\thits: 40\n\textents_scanned: 49224\n";

    #[test]
    fn mb_stats_in_both_forms() {
        let old = MbStats::parse(OLD).unwrap();
        assert_eq!((old.requests, old.groups_scanned), (301, 194));
        assert_eq!(old.criteria.len(), 4);
        assert_eq!(old.criteria[1], MbCriterion { hits: 1, considered: 381, bad_suggestions: 187 });
        assert_eq!((old.considered(), old.bad_suggestions()), (382, 187));
        let new = MbStats::parse(NEW).unwrap();
        let hits: Vec<u64> = new.criteria.iter().map(|c| c.hits).collect();
        assert_eq!(hits, [0, 79, 0, 203, 40]);
        assert_eq!(new.considered(), 368_639 + 1_997_583 + 1_990_643);
    }

    #[test]
    fn mb_stats_turned_off_or_invalid() {
        let off = "mballoc:\n\tmb stats collection turned off.\n\tTo enable, please write \"1\" \
                   to sysfs file mb_stats.\n";
        assert_eq!(MbStats::parse(off), None);
        let invalid =
            "reqs: 18446744073709551615\nreqs: 9\ngroups_scanned: 99999999999999999999999\n";
        assert_eq!(MbStats::parse(invalid), None);
        let large = "reqs: 1\ngroups_scanned: 1\ncr0_stats:\ngroups_considered: \
                     18446744073709551615\ncr1_stats:\ngroups_considered: 9\n";
        assert_eq!(MbStats::parse(large).unwrap().considered(), u64::MAX);
    }

    #[test]
    fn counts_of_an_interval() {
        let (old, none) = (MbStats::parse(OLD).unwrap(), MbStats::default());
        assert_eq!(old.since(&none), old);
        assert_eq!(old.since(&old).considered(), 0);
        assert_eq!(none.since(&old), none);
    }

    #[test]
    fn the_lists_of_groups() {
        let text = "optimize_scan: 1\nmax_free_order_lists:\n\tlist_order_0_groups: \
                    0\n\tlist_order_1_groups: 7\navg_fragment_size_lists:\n\tlist_order_0_groups: \
                    2\n\tlist_order_1_groups: 5\n\tlist_order_9_groups: 1\n";
        let lists = MbStructs::parse(text).unwrap();
        assert_eq!(lists.optimised, Some(true));
        assert_eq!(lists.largest, [0, 7]);
        assert_eq!(lists.average, [2, 5]);
        assert!(lists.has_lists());
        let off =
            MbStructs::parse("optimize_scan: 0\nmax_free_order_lists:\n\tlist_order_0_groups: 0\n")
                .unwrap();
        assert_eq!((off.optimised, off.has_lists()), (Some(false), false));
        assert_eq!(MbStructs::parse("cr0: 1\n"), None);
    }

    #[test]
    fn every_group() {
        let text = "#group: free  frags first [ 2^0   2^1   2^2   2^3   ]\n\
            #0    : 5     2     1788  [ 1     0     1     0     ]\n\
            #1    : 0     0     32768 [ 0     0     0     0     ]\n\
            #2    : I/O error\n\
            #3    : 8     1     0     [ 0     0     0     1     ]\n";
        let groups = MbGroups::parse(text.as_bytes()).unwrap();
        let want = MbGroups {
            groups: 3,
            largest: vec![0, 0, 1, 1],
            extents: vec![1, 0, 1, 1],
            average: vec![0, 1, 0, 1],
            invalid: 1,
        };
        assert_eq!(groups, want);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(#?[0-9]{0,25}: ?[0-9 ]{0,40}\\[?[0-9 \
                                   ]{0,200}\\]?|cr[0-9]_stats:|hits: [0-9]{0,25}|[ \
                                   -~]{0,40}\n){0,12}") {
            let _ = MbStats::parse(&text);
            let _ = MbStructs::parse(&text);
            let _ = MbGroups::parse(text.as_bytes());
        }
    }
}
