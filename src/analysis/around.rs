//! Facts about an array that its members' requests do not show: the array's own statistics, other
//! users of its disks, a resync, and tasks that have not returned from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cube::{Amount as _, Cube};
use crate::advice::slow::MdSettings;

/// Maximum number of names in [`Around::asleep`] of several intervals.
const MAX_ASLEEP: usize = 32;

/// Facts at the end of an interval. Counters are cumulative in a sample, and those of the interval
/// in a snapshot ([`Around::since`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Around {
    /// The array's own stat file. Before 5.14 md counts no times.
    pub io: DeviceIo,
    /// In a snapshot: what the array had counted before the interval, since it was assembled.
    #[serde(skip)]
    pub earlier: DeviceIo,
    /// Disks that not only the member uses, by name of the member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<SharedDisk>,
    /// Statistics of the members that are device-mapper devices, by name: what a target does with a
    /// request is not in the time of the disks below.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mapped: BTreeMap<String, DeviceIo>,
    /// Statistics of the paths of members on NVMe multipath, if there are several, by name of the
    /// member and of the path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, BTreeMap<String, DeviceIo>>,
    /// Statistics of thin volumes whose pool has blocks on the array, by their name in /dev/mapper.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub thin_volumes: BTreeMap<String, DeviceIo>,
    /// Processes that have a member's whole disk open, by kernel name of the disk.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub openers: BTreeMap<String, String>,
    /// md/sync_action, unless `idle` or `frozen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_action: Option<String>,
    /// Suspended devices: members that device mapper has suspended, or the array itself if
    /// md/suspend_lo and suspend_hi hold writes to a range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspended: Vec<String>,
    /// Thin pools with blocks on the array that hold writes, because they have none left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub full_pools: Vec<FullPool>,
    /// True if all stripes of a RAID 4/5/6 are in use (md/stripe_cache_active).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stripe_cache_full: bool,
    /// For advice; only with `sync_action` or `stripe_cache_full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<MdSettings>,
    /// Tasks that submitted to the array and have not run since, longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hung: Vec<HungTask>,
    /// Time asleep of tasks by name, longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asleep: Vec<Asleep>,
    /// Time asleep of tasks that are no kernel threads, µs, by the path of their cgroup; `None` is
    /// unknown. Not in recordings.
    #[serde(skip)]
    pub slept_us: Cube<Option<String>, u64>,
}

/// A thin pool that has no block left for writes that need one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FullPool {
    /// Name in /dev/mapper.
    pub name: String,
    /// Time since raidtrace first saw that it holds writes, ms.
    pub ms: u64,
}

/// Reads and writes, see Documentation/block/stat.rst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DeviceIo {
    /// Reads and writes completed.
    pub requests: [u64; 2],
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Sum of the times of these reads and writes, ms.
    pub ms: [u64; 2],
    /// Requests in flight now.
    pub in_flight: u32,
}

/// A disk below a member, if other devices use it, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedDisk {
    /// Member of the array.
    pub member: String,
    /// Kernel name of the whole disk.
    pub disk: String,
    /// All IO of the disk.
    pub io: DeviceIo,
    /// Partitions of the disk that are not the member.
    pub others: Vec<Neighbour>,
}

/// A partition beside a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Neighbour {
    /// Kernel name.
    pub device: String,
    /// Its user: an array or volume on it, the mount point of its filesystem, `swap`, or a process
    /// that has it open; empty if unknown.
    pub user: String,
    pub io: DeviceIo,
}

/// A task in uninterruptible sleep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HungTask {
    pub pid: u32,
    /// `comm`, printable.
    pub comm: String,
    /// Lower bound of the time since the task last ran, ms.
    pub ms: u64,
    /// Kernel function on the task's stack (/proc/PID/stack): the first of
    /// [`super::verdict::WAITS_IN`], else the innermost; empty if unknown.
    pub function: String,
}

/// Time that the tasks of one name slept in the kernel, from samples of their state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Asleep {
    /// `comm`, printable.
    pub comm: String,
    /// True for kernel threads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_kernel: bool,
    /// Estimated time in uninterruptible sleep, ms, by function as in [`HungTask::function`]. Times
    /// of tasks that sleep side by side add up.
    pub ms: Cube<String, u64>,
    /// Voluntary context switches.
    pub sleeps: u64,
}

impl Asleep {
    /// Time in uninterruptible sleep, ms.
    pub fn total_ms(&self) -> u64 {
        self.ms.values().sum()
    }

    /// Adds those of the same name in another interval.
    pub fn add(&mut self, other: &Self) {
        self.ms.merge(&other.ms);
        self.sleeps.add(&other.sleeps);
    }
}

impl DeviceIo {
    /// Number of reads and writes, and their mean time in µs.
    pub fn mean(&self) -> (u64, Option<u64>) {
        let requests = self.requests[0].saturating_add(self.requests[1]);
        let ms = self.ms[0].saturating_add(self.ms[1]);
        (requests, ms.saturating_mul(1000).checked_div(requests))
    }

    /// Increase since `before`; `in_flight` is the present one.
    pub fn since(&self, before: &Self) -> Self {
        let less = |a: [u64; 2], b: [u64; 2]| {
            // Counters of a device that was removed and added again start at 0.
            if a[0] < b[0] || a[1] < b[1] { [0, 0] } else { [a[0] - b[0], a[1] - b[1]] }
        };
        Self {
            requests: less(self.requests, before.requests),
            bytes: less(self.bytes, before.bytes),
            ms: less(self.ms, before.ms),
            in_flight: self.in_flight,
        }
    }

    /// Adds the counters of an earlier interval.
    fn add(&mut self, earlier: &Self) {
        self.requests.add(&earlier.requests);
        self.bytes.add(&earlier.bytes);
        self.ms.add(&earlier.ms);
    }
}

impl Around {
    /// The facts with the counters since `before`; counters of devices that are not in `before` are
    /// those since now.
    pub fn since(&self, before: &Self) -> Self {
        let mut now = self.clone();
        now.io = self.io.since(&before.io);
        now.earlier = before.io;
        now.pair(before, |io, was| {
            let all = *io;
            *io = all.since(was.unwrap_or(&all));
        });
        now
    }

    /// Adds the counters of the interval before.
    pub fn merge(&mut self, earlier: &Self) {
        self.io.add(&earlier.io);
        for earlier in &earlier.asleep {
            if let Some(asleep) = self.asleep.iter_mut().find(|a| a.comm == earlier.comm) {
                asleep.add(earlier);
            } else if self.asleep.len() < MAX_ASLEEP {
                self.asleep.push(earlier.clone());
            }
        }
        self.slept_us.merge(&earlier.slept_us);
        self.pair(earlier, |io, was| {
            if let Some(was) = was {
                io.add(was);
            }
        });
    }

    /// Makes them the facts of an interval in which nothing was read: counters that stand still
    /// while requests are in flight would look like IO that does not end.
    pub fn forget_the_interval(&mut self) {
        self.io.in_flight = 0;
        self.asleep.clear();
        self.pair(&Self::default(), |io, _| io.in_flight = 0);
    }

    /// Calls `each` with the counters of every disk and neighbour, and those of the same device in
    /// `other`.
    fn pair(&mut self, other: &Self, each: impl Fn(&mut DeviceIo, Option<&DeviceIo>)) {
        for (name, io) in &mut self.mapped {
            each(io, other.mapped.get(name));
        }
        for (name, io) in &mut self.thin_volumes {
            each(io, other.thin_volumes.get(name));
        }
        for (member, paths) in &mut self.paths {
            let was = other.paths.get(member);
            paths.iter_mut().for_each(|(name, io)| each(io, was.and_then(|was| was.get(name))));
        }
        for disk in &mut self.disks {
            let was =
                other.disks.iter().find(|d| (&d.member, &d.disk) == (&disk.member, &disk.disk));
            each(&mut disk.io, was.map(|d| &d.io));
            for neighbour in &mut disk.others {
                let was = was.and_then(|d| d.others.iter().find(|n| n.device == neighbour.device));
                each(&mut neighbour.io, was.map(|n| &n.io));
            }
        }
    }
}
