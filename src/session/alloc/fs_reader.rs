//! The sampled ext4 filesystems, and the allocator state that ext4 exports for each in /proc and
//! /sys.

use std::time::{Duration, Instant};

use crate::analysis::alloc::{CRITERIA, FigureSource, Fragmentation, FsAlloc};
use crate::machine::mballoc::{MbGroups, MbStats, MbStatsSwitch, MbStructs};
use crate::machine::topology::Topology;
use crate::machine::{DeviceRole, Filesystem, Sys};

/// Shortest time between two reads of mb_structs_summary: the kernel walks its lists of groups
/// under the allocator's locks.
const MIN_PAUSE: Duration = Duration::from_secs(10);

/// Time for which mb_stats is enabled without --mb-stats. It costs an atomic addition for each
/// group considered.
const SLICE: Duration = Duration::from_secs(2);

/// Reads the allocator state of one filesystem.
pub struct FsReader {
    /// The filesystem, without figures.
    pub fs: FsAlloc,
    /// mb_stats at the start of the interval or slice; `None` while mb_stats is off.
    stats: Option<(Instant, MbStats)>,
    /// Counts of a slice that ended within this interval.
    sliced: Option<MbStats>,
    /// True if mb_stats stays on all the time.
    always: bool,
    /// Free extents of every group, if requested.
    every_group: Option<Fragmentation>,
    /// mb_structs_summary and the time it was read.
    lists: Option<(Instant, Option<MbStructs>)>,
    /// Restores mb_stats on drop.
    switch: Option<MbStatsSwitch>,
}

/// Mounted ext4 filesystems of a topology, in any mount namespace: those in /sys/fs/ext4.
pub fn filesystems(sys: &Sys, topology: &Topology) -> Vec<FsAlloc> {
    let arrays = topology.host.arrays.iter();
    let mut found: Vec<FsAlloc> = arrays
        .flat_map(|a| &a.filesystems)
        .filter(|fs| sys.path(format!("/sys/fs/ext4/{}", fs.name)).is_dir())
        .filter_map(|fs| filesystem(topology, fs))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by_key(|fs| fs.dev);
    found
}

/// The reason why there is nothing to sample, in one line.
pub fn no_ext4(targets: &[String], topology: &Topology) -> String {
    let all = topology.host.arrays.iter().flat_map(|a| &a.filesystems);
    let mount = |fs: &Filesystem| fs.mounts.first().filter(|m| m.fstype == "xfs").cloned();
    let xfs = all.filter(|fs| fs.role == DeviceRole::Main).find_map(mount);
    if let Some(xfs) = xfs {
        return format!(
            "{} is XFS: alloc measures ext4's block allocator, and has no figures for XFS; for \
             its IO: raidtrace top {0}",
            xfs.path.display()
        );
    }
    let on = match targets {
        [] => "here".to_owned(),
        targets => format!("on {}", targets.join(", ")),
    };
    format!(
        "no mounted ext4 {on}: the allocator's figures are for ext4 only; name a mount point, or \
         an array, disk or partition that holds one"
    )
}

/// Number of mounted ext4 filesystems on this machine.
pub fn mounted(sys: &Sys) -> usize {
    sys.names("/sys/fs/ext4").iter().filter(|n| *n != "features").count()
}

fn filesystem(topology: &Topology, fs: &Filesystem) -> Option<FsAlloc> {
    let layout = topology.layouts.get(&fs.dev)?.ext4()?;
    Some(FsAlloc {
        name: fs.name.clone(),
        mount: fs.mounts.first().map(|m| m.path.display().to_string()),
        dev: fs.dev.kernel(),
        block_bytes: layout.block_size,
        groups: layout.groups.unwrap_or(0),
        ..FsAlloc::default()
    })
}

impl FsReader {
    /// `mb_stats` enables ext4's counting; `groups` reads each group's free extents. Adds a note
    /// for each failure.
    pub fn new(
        sys: &Sys,
        fs: FsAlloc,
        mb_stats: bool,
        groups: bool,
        notes: &mut Vec<String>,
    ) -> Self {
        let name = &fs.name;
        let mut every_group = None;
        if groups {
            match MbGroups::read(sys, name) {
                Ok(groups) => {
                    if groups.invalid > 0 {
                        notes.push(format!(
                            "{name}: {} of its groups could not be read",
                            groups.invalid
                        ));
                    }
                    every_group = Some(from_groups(groups));
                }
                Err(e) => notes.push(format!(
                    "{name}: free extents are unknown: /proc/fs/ext4/{name}/mb_groups: {e}"
                )),
            }
        }
        // Last: a process killed during the slow reads above must not leave mb_stats on.
        let mut switch = None;
        let counters = sys.path(format!("/proc/fs/ext4/{name}/mb_stats"));
        if mb_stats && !counters.exists() {
            notes.push(format!(
                "{name}: ext4 does not export its counters on this kernel: no \
                 /proc/fs/ext4/{name}/mb_stats"
            ));
        } else if mb_stats {
            match MbStatsSwitch::on(sys, name) {
                Ok(on) => switch = on,
                Err(e) => notes.push(format!(
                    "{name}: ext4's counters could not be enabled: /sys/fs/ext4/{name}/mb_stats: \
                     {e}"
                )),
            }
        }
        Self {
            stats: stats(sys, name),
            sliced: None,
            always: mb_stats,
            fs,
            every_group,
            lists: None,
            switch,
        }
    }

    /// Replaces the mount point and size.
    pub fn with(self, fs: FsAlloc) -> Self {
        Self { fs, ..self }
    }

    /// The filesystem with its current stripe, tunables and free extents.
    pub fn now(&mut self, sys: &Sys) -> FsAlloc {
        let name = &self.fs.name;
        if self.lists.as_ref().is_none_or(|(since, _)| since.elapsed() >= MIN_PAUSE) {
            self.lists = Some((Instant::now(), MbStructs::read(sys, name)));
        }
        let options = sys.text(&format!("/proc/fs/ext4/{name}/options"));
        let stripe = options
            .iter()
            .flat_map(|text| text.lines())
            .find_map(|l| l.strip_prefix("stripe=")?.trim().parse().ok());
        let lists = self.lists.as_ref().and_then(|(_, lists)| lists.clone());
        let optimised = lists.as_ref().and_then(|l| l.optimised);
        let fragmentation = match &self.every_group {
            Some(known) => Some(Fragmentation { optimised, ..known.clone() }),
            None => lists.map(from_lists),
        };
        let number =
            |file: &str| sys.text(&format!("/sys/fs/ext4/{name}/{file}"))?.trim().parse().ok();
        FsAlloc {
            stripe: stripe.unwrap_or(0),
            group_prealloc: number("mb_group_prealloc"),
            stream_req: number("mb_stream_req"),
            fragmentation,
            ..self.fs.clone()
        }
    }

    /// True if this kernel's ext4 has lists of groups by free space (5.13). Older kernels have none
    /// of these files.
    pub fn has_lists(&self, sys: &Sys) -> bool {
        let name = &self.fs.name;
        sys.path(format!("/sys/fs/ext4/{name}/mb_max_linear_groups")).exists()
            || sys.path(format!("/proc/fs/ext4/{name}/mb_structs_summary")).exists()
    }

    /// Source of the free extents in `now`.
    pub fn fragmentation_source(&self, now: &FsAlloc) -> Option<FigureSource> {
        let known = now.fragmentation.as_ref().filter(|f| f.groups > 0)?;
        Some(match known.extents {
            Some(_) => FigureSource::MbGroups,
            None => FigureSource::MbStructs,
        })
    }

    /// Starts an interval for [`FsReader::counted`].
    pub fn begin(&mut self, sys: &Sys) {
        if self.stats.is_some() {
            self.stats = stats(sys, &self.fs.name);
        }
    }

    /// ext4's counts since the last call, or in a slice of that time; `None` if mb_stats was off.
    pub fn counted(&mut self, sys: &Sys) -> Option<MbStats> {
        self.end_slice(sys, Duration::ZERO);
        if let Some(sliced) = self.sliced.take() {
            return Some(sliced);
        }
        let now = stats(sys, &self.fs.name);
        let was = std::mem::replace(&mut self.stats, now.clone());
        // If mb_stats was enabled in between, its counters also hold older counts.
        Some(now?.1.since(&was?.1))
    }

    /// Enables mb_stats for [`SLICE`], unless it is on.
    ///
    /// # Errors
    /// See [`MbStatsSwitch::on`].
    pub fn begin_slice(&mut self, sys: &Sys) -> std::io::Result<()> {
        if self.switch.is_none() && self.stats.is_none() {
            self.switch = MbStatsSwitch::on(sys, &self.fs.name)?;
            self.stats = stats(sys, &self.fs.name);
        }
        Ok(())
    }

    /// Ends a slice after [`SLICE`]. Call this about ten times a second.
    pub fn tick(&mut self, sys: &Sys) {
        self.end_slice(sys, SLICE);
    }

    fn end_slice(&mut self, sys: &Sys, least: Duration) {
        let over = |(since, _): &(Instant, MbStats)| since.elapsed() >= least;
        if self.always || self.switch.is_none() || !self.stats.as_ref().is_none_or(over) {
            return;
        }
        let was = self.stats.take();
        let now = stats(sys, &self.fs.name);
        self.sliced = now.zip(was).map(|(now, was)| now.1.since(&was.1));
        self.switch = None;
    }
}

/// mb_stats now; `None` while it is off, and on kernels without counts by criterion (before 5.13;
/// stable kernels have a backport, for example 5.10.223).
fn stats(sys: &Sys, name: &str) -> Option<(Instant, MbStats)> {
    let stats = MbStats::read(sys, name).filter(|s| !s.criteria.is_empty())?;
    Some((Instant::now(), stats))
}

/// Groups considered by criterion, according to ext4.
pub fn considered(stats: &MbStats) -> [u64; CRITERIA] {
    let mut considered = [0; CRITERIA];
    for (sum, c) in considered.iter_mut().zip(&stats.criteria) {
        *sum = c.considered;
    }
    considered
}

fn from_groups(groups: MbGroups) -> Fragmentation {
    Fragmentation {
        groups: groups.groups,
        largest: groups.largest,
        extents: Some(groups.extents),
        average: Some(groups.average),
        optimised: None,
    }
}

/// Fragmentation from mb_structs_summary; without figures if the kernel does not maintain the
/// lists.
fn from_lists(lists: MbStructs) -> Fragmentation {
    if !lists.has_lists() {
        return Fragmentation { optimised: lists.optimised, ..Fragmentation::default() };
    }
    Fragmentation {
        groups: lists.largest.iter().sum(),
        largest: lists.largest,
        extents: None,
        average: Some(lists.average),
        optimised: lists.optimised,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FsReader, considered, no_ext4};
    use crate::analysis::alloc::FsAlloc;
    use crate::machine::tests::tree::Tree;

    const SWITCH: &str = "sys/fs/ext4/sda1/mb_stats";
    const STATS: &str = "proc/fs/ext4/sda1/mb_stats";

    fn sda1() -> FsAlloc {
        FsAlloc { name: "sda1".to_owned(), ..FsAlloc::default() }
    }

    #[test]
    fn an_xfs_is_named_as_such() {
        let mut topology = crate::machine::topology::Topology::default();
        let targets = ["/srv".to_owned()];
        assert!(no_ext4(&targets, &topology).starts_with("no mounted ext4 on /srv:"));
        let mount = crate::machine::Mount {
            path: "/srv".into(),
            fstype: "xfs".to_owned(),
            ..Default::default()
        };
        topology.host.arrays.push(crate::machine::Array {
            filesystems: vec![crate::machine::Filesystem {
                mounts: vec![mount],
                ..Default::default()
            }],
            ..Default::default()
        });
        let why = no_ext4(&targets, &topology);
        assert!(why.starts_with("/srv is XFS: alloc measures ext4's block allocator"), "{why}");
        assert!(why.ends_with("raidtrace top /srv"), "{why}");
    }

    #[test]
    fn mb_stats_is_restored_on_drop() {
        let tree = Tree::new("");
        tree.write(SWITCH, "0\n");
        tree.write(STATS, "mballoc:\n");
        let switch = || fs::read_to_string(tree.path(SWITCH)).unwrap();
        let mut notes = Vec::new();
        let reader = FsReader::new(&tree.sys(), sda1(), true, false, &mut notes);
        assert_eq!(switch(), "1");
        drop(reader);
        assert_eq!(switch(), "0");

        // mb_stats enabled by another program stays on.
        tree.write(SWITCH, "1\n");
        drop(FsReader::new(&tree.sys(), sda1(), true, false, &mut notes));
        assert_eq!(switch(), "1\n");
        assert!(notes.is_empty());
        drop(FsReader::new(&tree.sys(), FsAlloc::default(), true, true, &mut notes));
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn lists_that_the_kernel_does_not_maintain_give_no_figures() {
        let tree = Tree::new("");
        tree.write(
            "proc/fs/ext4/sda1/mb_structs_summary",
            "optimize_scan: 0\nmax_free_order_lists:\n\tlist_order_0_groups: \
             0\navg_fragment_size_lists:\n\tlist_order_0_groups: 0\n",
        );
        tree.write("proc/fs/ext4/sda1/options", "rw\nstripe=640\n");
        let mut reader = FsReader::new(&tree.sys(), sda1(), false, false, &mut Vec::new());
        let now = reader.now(&tree.sys());
        let fragmentation = now.fragmentation.unwrap();
        assert_eq!((now.stripe, fragmentation.optimised), (640, Some(false)));
        assert!(fragmentation.largest.is_empty() && fragmentation.average.is_none());
    }

    const OFF: &str = "mballoc:\n\tmb stats collection turned off.\n";

    #[test]
    fn a_slice_ends_after_its_time_or_with_the_interval() {
        let tree = Tree::new("");
        tree.write(SWITCH, "0\n");
        tree.write(STATS, OFF);
        let switch = || fs::read_to_string(tree.path(SWITCH)).unwrap();
        let set = |n: u64| {
            let cr0 = format!("cr0_stats:\n\t\thits: {n}\n\t\tgroups_considered: {n}0\n");
            tree.write(STATS, format!("\treqs: {n}\n\tgroups_scanned: 0\n\t{cr0}"));
        };
        let mut reader = FsReader::new(&tree.sys(), sda1(), false, false, &mut Vec::new());
        assert_eq!(reader.counted(&tree.sys()), None);
        set(3);
        reader.begin_slice(&tree.sys()).unwrap();
        assert_eq!(switch(), "1");
        reader.tick(&tree.sys());
        assert_eq!(switch(), "1", "2 s have not passed");
        set(8);
        let counted = reader.counted(&tree.sys()).unwrap();
        assert_eq!((counted.hits(), considered(&counted)[0]), (5, 50));
        assert_eq!(switch(), "0");
        tree.write(STATS, OFF);
        assert_eq!(reader.counted(&tree.sys()), None);
        // A slice that ends before the interval.
        set(9);
        reader.begin_slice(&tree.sys()).unwrap();
        set(10);
        reader.end_slice(&tree.sys(), std::time::Duration::ZERO);
        assert_eq!(switch(), "0");
        tree.write(STATS, OFF);
        assert_eq!(reader.counted(&tree.sys()).map(|c| c.hits()), Some(1));
        assert_eq!(reader.counted(&tree.sys()), None);
    }

    #[test]
    fn counts_of_an_interval() {
        let tree = Tree::new("");
        let set = |n: u64| {
            let cr0 = format!("cr0_stats:\n\t\tgroups_considered: {n}0\n");
            tree.write(STATS, format!("mballoc:\n\treqs: {n}\n\tgroups_scanned: {n}\n\t{cr0}"));
        };
        set(3);
        let mut reader = FsReader::new(&tree.sys(), sda1(), false, false, &mut Vec::new());
        set(5);
        let counted = reader.counted(&tree.sys()).unwrap();
        assert_eq!((counted.requests, considered(&counted)), (2, [20, 0, 0, 0, 0]));
        assert_eq!(reader.counted(&tree.sys()).map(|c| c.requests), Some(0));
        // Counts before the interval are left out.
        set(8);
        reader.begin(&tree.sys());
        set(9);
        assert_eq!(reader.counted(&tree.sys()).map(|c| c.requests), Some(1));
        tree.write(STATS, OFF);
        assert_eq!(reader.counted(&tree.sys()), None);
        set(900);
        assert_eq!(reader.counted(&tree.sys()), None);
        set(901);
        assert_eq!(reader.counted(&tree.sys()).map(|c| c.requests), Some(1));
    }
}
