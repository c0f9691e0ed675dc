//! Reads the facts of [`Around`] once an interval.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::asleep::Sleepers;
use super::{Session, md_settings};
use crate::analysis::around::{Around, DeviceIo, FullPool, Neighbour, SharedDisk};
use crate::analysis::cube::Cube;
use crate::analysis::fold::ArrayNow;
use crate::machine::privileges::raised;
use crate::machine::thin::{self, ThinPool};
use crate::machine::{Array, ArrayState, DiskStat, Member, StatFile, Sys, neighbours};

/// Interval of the search for other users of the disks.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// Open files and tasks to look at.
#[derive(Default)]
pub struct Surroundings {
    /// Open stat files by kernel name.
    stats: HashMap<String, StatFile>,
    /// Other devices on the disks of members, and their users.
    others: HashMap<OnDisk, Vec<(String, String)>>,
    /// Processes that have one of the disks, or of the other devices, open.
    openers: BTreeMap<String, String>,
    searched: Option<Instant>,
    /// Statistics of each array in the last interval, by name.
    last_io: BTreeMap<String, DeviceIo>,
    /// Thin pools above each array, and since when one holds writes.
    pools: BTreeMap<String, Vec<(ThinPool, Option<Instant>)>>,
    pub sleepers: Sleepers,
}

/// A member that may share its disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OnDisk {
    disk: String,
    member: String,
    /// The volumes on the disk that are the member.
    volumes: Vec<String>,
}

impl Surroundings {
    fn io(&mut self, sys: &Sys, name: &str) -> Option<DeviceIo> {
        if !self.stats.contains_key(name) {
            let disk = neighbours::disk_of(sys, name);
            let (disk, part) = disk.as_deref().map_or((name, None), |disk| (disk, Some(name)));
            self.stats.insert(name.to_owned(), StatFile::open(sys, disk, part).ok()?);
        }
        let stat = self.stats.get(name)?.read().ok();
        if stat.is_none() {
            self.stats.remove(name); // the device was removed, and may be added again
        }
        stat.as_ref().map(device_io)
    }

    fn disks(&mut self, sys: &Sys, array: &Array) -> Vec<SharedDisk> {
        let mut disks = Vec::new();
        let is_part = |m: &&Member| m.disk_name != m.name || !m.volumes.is_empty();
        for member in array.members.iter().filter(is_part) {
            let key = OnDisk {
                disk: member.disk_name.clone(),
                member: member.name.clone(),
                volumes: member.volumes.clone(),
            };
            let others = self.others.entry(key.clone()).or_insert_with(|| find(sys, &key));
            let others = others.clone();
            let Some(io) = self.io(sys, &member.disk_name) else { continue };
            let mut known = Vec::new();
            for (device, mut user) in others {
                let Some(io) = self.io(sys, &device) else { continue };
                if user.is_empty() {
                    user = self.openers.get(&device).cloned().unwrap_or_default();
                }
                known.push(Neighbour { device, user, io });
            }
            let others = known;
            disks.push(SharedDisk { member: key.member, disk: key.disk, io, others });
        }
        disks
    }

    fn mapped(&mut self, sys: &Sys, array: &Array) -> BTreeMap<String, DeviceIo> {
        let members = array.members.iter().filter(|m| m.name.starts_with("dm-"));
        members.filter_map(|m| Some((m.name.clone(), self.io(sys, &m.name)?))).collect()
    }

    fn paths(&mut self, sys: &Sys, array: &Array) -> BTreeMap<String, BTreeMap<String, DeviceIo>> {
        let members = array.members.iter().filter(|m| m.paths.len() > 1);
        let each = members.map(|member| {
            let paths = member.paths.iter();
            let paths = paths.filter_map(|p| Some((p.name.clone(), self.io(sys, &p.name)?)));
            (member.name.clone(), paths.collect())
        });
        each.collect()
    }

    fn thin_volumes(&mut self, sys: &Sys, array: &str) -> BTreeMap<String, DeviceIo> {
        let pools = self.pools.get(array).into_iter().flatten();
        let volumes: Vec<_> = pools.flat_map(|(pool, _)| pool.volumes.clone()).collect();
        let io = |(kernel_name, name): (String, String)| Some((name, self.io(sys, &kernel_name)?));
        volumes.into_iter().filter_map(io).collect()
    }

    /// Pools that hold writes because they have no free block. `is_idle`: the array completed
    /// nothing in the interval, and has nothing in flight.
    fn full_pools(&mut self, sys: &Sys, array: &str, is_idle: bool, now: Instant) -> Vec<FullPool> {
        let pools = self.pools.get_mut(array).into_iter().flatten();
        let full = pools.filter_map(|(pool, since)| {
            // Not of a busy pool: the kernel waits for its commits, which can take seconds
            // (dm-thin-metadata.c, root_lock).
            let status = (is_idle || since.is_some()).then(|| thin::status(sys, pool.dev));
            let holds = status.flatten().is_some_and(|status| status.holds_writes());
            *since = holds.then(|| since.unwrap_or(now));
            let ms = (now - (*since)?).as_millis() as u64;
            Some(FullPool { name: pool.mapper_name.clone(), ms })
        });
        full.collect()
    }

    /// Looks up the other devices and their users again, now and then.
    fn search(&mut self, sys: &Sys, arrays: &[Array], now: Instant) {
        if self.searched.is_some_and(|last| now - last < SEARCH_INTERVAL) {
            return;
        }
        self.searched = Some(now);
        for (key, others) in &mut self.others {
            *others = find(sys, key);
        }
        for array in arrays {
            let before = self.pools.remove(&array.name).unwrap_or_default();
            let since = |pool: &ThinPool| before.iter().find(|b| b.0.dev == pool.dev)?.1;
            let pools = thin::pools(sys, &array.name).into_iter().map(|pool| {
                let since = since(&pool);
                (pool, since)
            });
            self.pools.insert(array.name.clone(), pools.collect());
        }
        let others = self.others.values().flatten();
        let unknown = others.filter(|other| other.1.is_empty()).map(|other| other.0.clone());
        let members = arrays.iter().flat_map(|a| &a.members).map(|m| m.disk_name.clone());
        let devices = members.chain(unknown).collect();
        self.openers = raised(|| neighbours::openers(sys, &devices));
    }
}

/// Other devices on the disk of a member, and their users.
fn find(sys: &Sys, of: &OnDisk) -> Vec<(String, String)> {
    let with_user = |name: String| {
        let user = neighbours::user_of(sys, &name);
        (name, user)
    };
    let member = std::slice::from_ref(&of.member);
    let own = if of.volumes.is_empty() { member } else { &of.volumes[..] };
    neighbours::others_on(sys, &of.disk, own).into_iter().map(with_user).collect()
}

fn device_io(stat: &DiskStat) -> DeviceIo {
    DeviceIo {
        requests: [stat.reads, stat.writes],
        bytes: [stat.read_sectors, stat.write_sectors].map(|n| n.saturating_mul(512)),
        ms: [stat.read_ms, stat.write_ms],
        in_flight: u32::try_from(stat.in_flight).unwrap_or(u32::MAX),
    }
}

impl Session {
    /// Fills in the facts of all arrays.
    pub(super) fn look_around(&mut self, subjects: &mut [ArrayNow]) {
        let now = Instant::now();
        let (sys, around) = (&*self.sys, &mut self.around);
        around.search(sys, &self.traced.topology.host.arrays, now);
        around.sleepers.look(sys, now);
        let arrays = self.traced.topology.host.arrays.iter().zip(&self.states);
        for ((array, state), (subject, number)) in arrays.zip(subjects.iter_mut().zip(0..)) {
            let Some(io) = around.io(sys, &array.name) else { continue };
            let last_io = around.last_io.insert(array.name.clone(), io);
            let is_idle = last_io == Some(io) && io.in_flight == 0;
            let action = state.as_ref().and_then(|s: &ArrayState| s.sync_action.clone());
            let action = action.filter(|a| a != "idle" && a != "frozen");
            let is_full = md(sys, array, "stripe_cache_active")
                .zip(md(sys, array, "stripe_cache_size"))
                .is_some_and(|(active, size)| active >= size);
            let mut slept_us = Cube::default();
            for (task, us) in around.sleepers.take_slept(number) {
                let name = self.traced.probe.task_name(task);
                let cgroup = name.and_then(|name| self.cgroups.path(name.cgroup));
                slept_us.add(cgroup.map(str::to_owned), &us);
            }
            let advise = action.is_some() || is_full;
            subject.around = Some(Around {
                io,
                earlier: DeviceIo::default(),
                disks: around.disks(sys, array),
                mapped: around.mapped(sys, array),
                paths: around.paths(sys, array),
                thin_volumes: around.thin_volumes(sys, &array.name),
                sync_action: action,
                suspended: suspended(sys, array),
                full_pools: around.full_pools(sys, &array.name, is_idle, now),
                stripe_cache_full: is_full,
                settings: advise.then(|| md_settings::read(sys, &array.name)),
                openers: openers(array, &around.openers),
                hung: around.sleepers.hung(number, now),
                asleep: around.sleepers.take(number),
                slept_us,
            });
        }
    }
}

/// Those of the disks of `array`.
fn openers(array: &Array, all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let disks = array.members.iter().map(|m| &m.disk_name);
    disks.filter_map(|disk| Some((disk.clone(), all.get(disk)?.clone()))).collect()
}

/// Members that device mapper has suspended, and the array if md holds writes.
fn suspended(sys: &Sys, array: &Array) -> Vec<String> {
    let members = array.members.iter().map(|m| &m.name).filter(|name| sys.is_suspended(name));
    let mut names: Vec<String> = members.cloned().collect();
    if md(sys, array, "suspend_lo") < md(sys, array, "suspend_hi") {
        names.push(array.name.clone());
    }
    names
}

/// A number in the md directory of an array.
fn md(sys: &Sys, array: &Array, file: &str) -> Option<u64> {
    sys.number(&format!("/sys/block/{}/md/{file}", array.name))
}
