//! Facts about the host for slow operations: devices, members, names, settings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::limits;
use crate::advice::kernel::Kernel;
use crate::advice::slow::{DirtyLimits, IoLimit};
use crate::analysis::slow::advice::HostFacts;
use crate::analysis::slow::event::OperationKind;
use crate::analysis::slow::names::Names;
use crate::analysis::slow::phase::Phase;
use crate::analysis::slow::waterfall::Waterfall;
use crate::machine::topology::Topology;
use crate::machine::{Array, Dev, Mount, Sys};
use crate::probe::slow::TracedDevice;
use crate::session::{Session, md_settings};

/// Facts that advice depends on.
pub(super) fn facts(session: &Session) -> HostFacts {
    let sys = session.sys();
    let kernel = Kernel { release: sys.kernel_release(), ..Kernel::default() };
    let mut facts =
        HostFacts { version: kernel.version(), dirty: dirty_limits(sys), ..HostFacts::default() };
    for array in &session.topology().host.arrays {
        let md = md_settings::read(sys, &array.name);
        facts.arrays.insert(array.name.clone(), md);
        for fs in &array.filesystems {
            if let Some(mount) = fs.mounts.first() {
                let path = mount.path.display().to_string();
                let mut options = mount.options.clone();
                // The default of ext2 and ext3, which the kernel does not print.
                if matches!(mount.fstype.as_str(), "ext2" | "ext3") {
                    options.push_str(",nodelalloc");
                }
                let mount = (path, options);
                facts.mounts.insert(fs.dev.kernel(), mount);
            }
        }
    }
    facts
}

/// Limits of the cgroups of `tasks` on the arrays and on the filesystems' devices.
pub(super) fn io_limits(
    session: &Session,
    tasks: impl Iterator<Item = u32>,
) -> HashMap<u32, IoLimit> {
    let mut devices = Vec::new();
    for array in &session.topology().host.arrays {
        devices.push((array.dev, array.name.as_str()));
        devices.extend(array.filesystems.iter().map(|f| (f.dev, f.name.as_str())));
    }
    let sys = session.sys();
    // Most tasks share a cgroup.
    let mut known: HashMap<String, Option<IoLimit>> = HashMap::new();
    let mut limit = |pid| {
        let cgroup = limits::cgroup(sys, pid)?;
        let found = known
            .entry(cgroup)
            .or_insert_with_key(|cgroup| limits::of_cgroup(sys, cgroup, &devices));
        Some((pid, found.clone()?))
    };
    let tasks: BTreeSet<u32> = tasks.collect();
    tasks.into_iter().filter_map(&mut limit).collect()
}

/// Limits of dirty memory now: /proc/vmstat has those in effect, whether set in bytes or as a
/// ratio.
fn dirty_limits(sys: &Sys) -> DirtyLimits {
    let vmstat = sys.text("/proc/vmstat").unwrap_or_default();
    let bytes = |name: &str| -> Option<u64> {
        let line = vmstat.lines().find_map(|l| l.strip_prefix(name))?;
        let pages = line.strip_prefix(' ')?.parse::<u64>().ok()?;
        pages.checked_mul(rustix::param::page_size() as u64)
    };
    let sysctl = |name: &str| sys.number(&format!("/proc/sys/vm/{name}")).unwrap_or(0);
    DirtyLimits {
        limit: bytes("nr_dirty_threshold"),
        background: bytes("nr_dirty_background_threshold"),
        dirty_bytes: sysctl("dirty_bytes"),
        dirty_background_bytes: sysctl("dirty_background_bytes"),
    }
}

/// The array of a filesystem, and the members below it that are not arrays themselves.
pub(super) struct Place {
    pub array: String,
    pub members: BTreeSet<u32>,
    /// The members without their disks.
    own: BTreeSet<u32>,
    /// Device of an external log of XFS (`logdev=`).
    pub log: Option<u32>,
    /// True if an array is being reshaped.
    pub reshaped: bool,
    /// True for RAID 4/5/6, and if such an array is degraded, in this order.
    pub parity: (bool, bool),
}

impl Place {
    /// True if the thread of RAID 4/5/6 completes the operation's bios. The interrupt of another
    /// IO may come between, whose member is not the cause.
    pub fn completes_in_thread(&self, kind: OperationKind) -> bool {
        let (parity, degraded) = self.parity;
        parity && (kind == OperationKind::Write || degraded)
    }

    /// Names the member in the longest phase of an operation that has not ended, if it waits for IO
    /// and only this member has IO in flight.
    pub fn name_member(&self, waterfall: &mut Waterfall, kind: OperationKind, sys: &Sys) {
        let Some((phase, _)) = waterfall.longest().first().copied() else { return };
        let Some(part) = waterfall.parts.get_mut(&phase) else { return };
        if !phase.is_io() || part.culprit.member.is_some() || part.culprit.journal.is_some() {
            return;
        }
        // Reads, then writes. RAID 4/5/6 reads for a write.
        let column = match (phase, kind) {
            (Phase::DirectIo, OperationKind::Read) => Some(0),
            (Phase::DirectIo, OperationKind::Write) if !self.parity.0 => Some(1),
            _ => None,
        };
        let is_busy = |dev: &&u32| {
            let inflight = format!("/sys/dev/block/{}:{}/inflight", **dev >> 20, **dev & 0xf_ffff);
            let text = sys.text(&inflight).unwrap_or_default();
            let mut counts = text.split_whitespace().enumerate();
            counts.any(|(i, n)| n != "0" && column.is_none_or(|column| column == i))
        };
        let mut busy = self.own.iter().filter(is_busy);
        if let (Some(dev), None) = (busy.next(), busy.next()) {
            part.culprit.member = Some((*dev, part.ns));
        }
    }
}

pub(super) fn places(topology: &Topology) -> BTreeMap<u32, Place> {
    let arrays = &topology.host.arrays;
    let is_array = |dev| arrays.iter().any(|a| a.is_md() && a.dev == dev);
    let is_nested = |array: &Array| {
        let members = arrays.iter().flat_map(|a| &a.members);
        members.filter(|m| m.dev == array.dev).count() > 0 && array.is_md()
    };
    let mut places: BTreeMap<u32, Place> = BTreeMap::new();
    for array in arrays {
        for fs in &array.filesystems {
            let place = places.entry(fs.dev.kernel()).or_insert_with(|| Place {
                array: array.name.clone(),
                members: BTreeSet::new(),
                own: BTreeSet::new(),
                log: fs.mounts.first().and_then(external_log),
                reshaped: false,
                parity: (false, false),
            });
            place.reshaped |= array.reshape_position.is_some();
            if array.has_parity() {
                place.parity = (true, place.parity.1 || array.rebuilds());
            }
            if !is_nested(array) {
                place.array.clone_from(&array.name);
            }
            let leaves = array.members.iter().filter(|m| !is_array(m.dev));
            place.own.extend(leaves.clone().map(|m| m.dev.kernel()));
            place.members.extend(leaves.flat_map(|m| [m.dev.kernel(), m.disk.kernel()]));
        }
    }
    places
}

/// Device number of `logdev=` in the mount options of an XFS.
fn external_log(mount: &Mount) -> Option<u32> {
    let log = rustix::fs::stat(mount.option("logdev")?).ok()?;
    Some(Dev::from_stat(log.st_rdev).kernel())
}

/// Traced devices: ext filesystems, XFS, and all members.
pub(super) fn devices(topology: &Topology) -> BTreeMap<u32, TracedDevice> {
    let mut devices: BTreeMap<u32, TracedDevice> = BTreeMap::new();
    for array in &topology.host.arrays {
        for fs in &array.filesystems {
            let is = |kind: &str| fs.mounts.iter().any(|m| m.fstype.starts_with(kind));
            let layout = topology.layouts.get(&fs.dev);
            let ext4 = is("ext") || layout.is_some_and(|l| l.ext4().is_some());
            let xfs = is("xfs") || layout.is_some_and(|l| l.xfs().is_some());
            if ext4 || xfs {
                let device = devices.entry(fs.dev.kernel()).or_default();
                device.ext4 |= ext4;
                device.xfs |= xfs;
            }
        }
        for member in &array.members {
            let device = devices.entry(member.dev.kernel()).or_default();
            device.member = true;
            device.bio_based |= member.queue.bio_based;
            if !member.queue.bio_based {
                devices.entry(member.disk.kernel()).or_default().disk = true;
            }
            for path in member.paths.iter().filter(|path| path.dev.kernel() != 0) {
                devices.entry(path.dev.kernel()).or_default().disk = true;
            }
        }
    }
    devices
}

pub(super) fn names(topology: &Topology) -> Names {
    let mut names = Names::default();
    for array in &topology.host.arrays {
        names.members.insert(array.name.clone(), array.members.len());
        let filesystems = array.filesystems.iter().map(|fs| (fs.dev, &fs.name));
        let members = array.members.iter().map(|m| (m.dev, &m.name));
        let disks = array.members.iter().map(|m| (m.disk, &m.disk_name));
        let paths =
            array.members.iter().flat_map(|m| m.paths.iter().map(|p| (p.dev, &m.disk_name)));
        for (dev, name) in paths.chain(disks).chain(filesystems).chain(members) {
            names.devices.insert(dev.kernel(), name.clone());
        }
    }
    names
}

/// Adds the names of external journals' devices, which need not be members.
pub(super) fn add_journals(names: &mut Names, journals: impl Iterator<Item = u32>, sys: &Sys) {
    for dev in journals {
        if names.devices.contains_key(&dev) {
            continue;
        }
        let uevent = format!("/sys/dev/block/{}:{}/uevent", dev >> 20, dev & 0xf_ffff);
        let text = sys.text(&uevent).unwrap_or_default();
        let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        if let Some(name) = name {
            names.devices.insert(dev, name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, Place};
    use crate::analysis::slow::event::{Operation, OperationKind};
    use crate::analysis::slow::fixture::{SDA, SDC, fsync, sleep};
    use crate::analysis::slow::phase::Phase;
    use crate::analysis::slow::waterfall::Waterfall;
    use crate::machine::tests::tree::Tree;

    #[test]
    fn the_only_member_with_io_in_flight_is_named() {
        let tree = Tree::new("");
        let members = BTreeSet::from([SDA, SDC]);
        let own = members.clone();
        let place = Place {
            array: String::new(),
            own,
            members,
            log: None,
            reshaped: false,
            parity: (false, false),
        };
        let dio = "iomap_dio_rw";
        for (kind, function, sda, sdc, named) in [
            (OperationKind::Write, dio, "0 0", "       0        3", Some(SDC)),
            (OperationKind::Write, dio, "1 0", "0 3", Some(SDC)),
            (OperationKind::Read, dio, "0 0", "0 3", None),
            (OperationKind::Fsync, dio, "1 0", "0 3", None),
            (OperationKind::Write, dio, "0 0", "0 0", None),
            (OperationKind::Write, "rwsem_down_write_slowpath", "0 0", "0 3", None),
        ] {
            tree.write("sys/dev/block/8:0/inflight", sda);
            tree.write("sys/dev/block/8:32/inflight", sdc);
            let sleeps = vec![sleep(&["schedule", function], 0, 100)];
            let operation = Operation { kind, ..fsync(100, sleeps) };
            let mut waterfall = Waterfall::new(&operation, &[], &[]);
            place.name_member(&mut waterfall, kind, &tree.sys());
            let part = waterfall.parts.get(&Phase::DirectIo);
            let member = part.and_then(|p| p.culprit.member);
            assert_eq!(member.map(|(dev, _)| dev), named, "{function} {sda} {sdc}");
        }
    }
}
