//! Resolves the targets of a command to arrays and disks.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::array::ArrayReader;
use super::blocks::{Block, BlockKind, Blocks};
use super::container::container_of;
use super::crowded;
use super::error::HostError;
use super::filesystems::{self, Mounted};
use super::mounts::{self, MountLine};
use super::nested;
use super::not_running::{self, NotRunning};
use super::project::Projector;
use super::state::{ArrayState, is_running};
use super::sys::{Sys, attribute, names, natural};
use super::types::{Array, Dev, DeviceRole, HostTopology};

/// Resolves `targets` to arrays, and to disks as arrays with one member. A target is an array,
/// member, disk, partition, device mapper device or mount point. Without targets: all md arrays
/// with a mounted filesystem, or else all running ones, or else all disks with a mounted
/// filesystem. Includes nested and outer arrays.
///
/// # Errors
/// A target does not exist or has no disk below; without targets, no disk has a mounted filesystem.
pub fn resolve(targets: &[String], sys: &Sys) -> Result<HostTopology, HostError> {
    let machine = Machine::read(sys)?;
    let mut chosen = BTreeSet::new();
    for target in targets {
        chosen.extend(machine.target(target)?);
    }
    if targets.is_empty() {
        chosen = machine.default()?;
    }
    Ok(machine.describe(&chosen, true))
}

/// All running md arrays, or if there are none, the default of [`resolve`].
///
/// # Errors
/// sysfs or mountinfo is unreadable, or there is no array and no disk with a mounted filesystem.
pub fn resolve_all(sys: &Sys) -> Result<HostTopology, HostError> {
    let machine = Machine::read(sys)?;
    let running = machine.blocks.arrays().into_iter();
    let running = running.filter(|array| is_running(&array_state(array)));
    let mut chosen: BTreeSet<Dev> = running.map(|array| array.dev).collect();
    if chosen.is_empty() {
        chosen = machine.default()?;
    }
    Ok(machine.describe(&chosen, true))
}

/// Arrays that are not running. Reads the superblocks of devices that nothing uses.
///
/// # Errors
/// sysfs or mountinfo is unreadable.
pub fn not_running(sys: &Sys) -> Result<NotRunning, HostError> {
    let machine = Machine::read(sys)?;
    let mut found =
        NotRunning { stopped: Vec::new(), refused: not_running::refused(sys, &machine.blocks) };
    for array in machine.blocks.arrays() {
        let state = array_state(array);
        let members: Vec<&Block> = machine.members(array).collect();
        if !is_running(&state) && !state.is_empty() && !members.is_empty() {
            let stopped = not_running::stopped(sys, &machine.blocks, array, state, &members);
            found.stopped.push(stopped);
        }
    }
    Ok(found)
}

/// Resolves `targets` again during a session. Missing targets are left out. Running arrays of
/// `known` are kept even if their mount point is gone. Without targets, arrays with a newly mounted
/// filesystem are added, but no disks: snaps and container images come and go. Arrays without room
/// are left out ([`crowded`]). With `superblocks`,
/// reads the members' superblocks as [`resolve`] does. Without `superblocks`, accesses no disk; the
/// result is for [`super::differences`].
///
/// # Errors
/// sysfs or mountinfo is unreadable.
pub fn resolve_again(
    targets: &[String],
    known: &HostTopology,
    sys: &Sys,
    superblocks: bool,
) -> Result<HostTopology, HostError> {
    let machine = Machine::read(sys)?;
    let mut chosen: BTreeSet<Dev> =
        targets.iter().filter_map(|target| machine.target(target).ok()).flatten().collect();
    if targets.is_empty() {
        chosen.extend(machine.mounted_bases(&|_, b| b.is_array() && is_running(&array_state(b))));
    }
    let still = |array: &&Array| {
        let block = machine.blocks.get(array.dev);
        block.is_some_and(|b| b.name == array.name) && ArrayState::read(sys, array).is_ok()
    };
    let (arrays, disks): (Vec<&Array>, Vec<&Array>) =
        known.arrays.iter().filter(still).partition(|a| a.is_md());
    chosen.extend(arrays.iter().map(|a| a.dev));
    // A disk that became a member is traced as a member.
    let members: BTreeSet<Dev> = chosen
        .iter()
        .filter_map(|dev| machine.blocks.get(*dev))
        .flat_map(|array| machine.members(array).map(|m| m.dev))
        .collect();
    let disks = disks.iter().map(|a| a.dev);
    chosen.extend(disks.filter(|dev| !members.contains(dev)));
    Ok(crowded::leave_out(sys, &known.arrays, machine.describe(&chosen, superblocks)))
}

struct Machine<'a> {
    sys: &'a Sys,
    blocks: Blocks,
    mounts: Vec<MountLine>,
    mounted: Vec<Mounted>,
}

impl<'a> Machine<'a> {
    fn read(sys: &'a Sys) -> Result<Self, HostError> {
        let blocks = Blocks::read(sys).ok_or(HostError::NoSysfs)?;
        let mounts = mounts::read(sys)
            .map_err(|e| HostError::Unreadable("/proc/self/mountinfo".into(), e.to_string()))?;
        Ok(Self { mounted: filesystems::all(sys, &blocks, &mounts), sys, blocks, mounts })
    }

    /// Arrays and disks of one target.
    fn target(&self, target: &str) -> Result<Vec<Dev>, HostError> {
        if let Some(block) = self.by_name(target) {
            return self.arrays_of(block, target);
        }
        if target.is_empty() {
            return Err(not_found("\"\""));
        }
        let path = absolute(Path::new(target));
        // Compare mount points as text first: accessing a dead network mount would block.
        if let Some(line) = mounts::at(&self.mounts, &path) {
            return self.mount(line, target);
        }
        if let Some(dev) = filesystems::device_at(self.sys, &self.blocks, &path) {
            let block = self.blocks.get(dev).ok_or_else(|| not_found(target))?;
            return self.arrays_of(block, target);
        }
        let real = self.sys.path(&path).canonicalize().map_err(|_| not_found(target))?;
        let real = self.sys.without_root(&real);
        if let Some(line) = mounts::at(&self.mounts, &real) {
            return self.mount(line, target);
        }
        // A device node that is not in sysfs: a hidden path of a multipath device, or a removed
        // device.
        if filesystems::node_dev(&self.sys.path(&real)).is_some() {
            return Err(not_found(target));
        }
        let containing =
            mounts::containing(&self.mounts, &real).ok_or_else(|| not_found(target))?;
        let advice = match filesystems::device_of(self.sys, &self.blocks, containing) {
            _ if target.ends_with(".rtrace") => {
                format!("; if it is a recording: --replay {target}")
            }
            Some(_) => format!(
                ": it is on the filesystem mounted at {}: name that mount point",
                containing.mount.path.display()
            ),
            None => format!(
                ", and it is on {}, which has no disk: name a disk, an array or a mount point",
                containing.mount.fstype
            ),
        };
        Err(HostError::Target(format!(
            "{target}: neither a block device nor a mount point{advice}"
        )))
    }

    fn by_name(&self, target: &str) -> Option<&Block> {
        (!target.starts_with(['/', '.']))
            .then(|| self.blocks.named(target).or_else(|| self.blocks.mapped(target)))
            .flatten()
    }

    fn mount(&self, line: &MountLine, target: &str) -> Result<Vec<Dev>, HostError> {
        let dev = filesystems::device_of(self.sys, &self.blocks, line);
        let block = dev
            .and_then(|d| self.blocks.get(d))
            .ok_or_else(|| HostError::NoDisk(target.into(), line.mount.fstype.clone()))?;
        self.arrays_of(block, target)
    }

    /// Arrays below a device; else arrays that it is a member of; else its disk.
    fn arrays_of(&self, block: &Block, target: &str) -> Result<Vec<Dev>, HostError> {
        let mut found = Vec::new();
        for base in self.blocks.bases(block.dev) {
            match base.kind {
                BlockKind::Md { container: true } => return Err(self.container(base)),
                _ if base.is_array() => {
                    let state = array_state(base);
                    if !is_running(&state) {
                        let state = if state.is_empty() { "gone" } else { &state };
                        return Err(HostError::Target(format!(
                            "{0} is {state}: md serves no IO on it: start it (mdadm --run \
                             /dev/{0}) or name another array",
                            base.name
                        )));
                    }
                    found.push(base.dev);
                }
                // Only this device, not its whole disk: sda1 and sda2 can be in different arrays.
                _ => match self.arrays_with(block.dev) {
                    arrays if arrays.is_empty() => found.push(base.dev),
                    arrays => found.extend(arrays),
                },
            }
        }
        if found.is_empty() {
            return Err(HostError::Target(format!(
                "{target}: nothing beneath it (its device mapper table names no disk): name a \
                 disk or an array"
            )));
        }
        Ok(found)
    }

    /// Running arrays with a member that is `dev`, a partition of it, or built on it.
    fn arrays_with(&self, dev: Dev) -> Vec<Dev> {
        let has = |array: &&Block| {
            let is_below = |m: &Block| self.blocks.beneath(m.dev).iter().any(|b| b.dev == dev);
            is_running(&array_state(array)) && self.members(array).any(is_below)
        };
        self.blocks.arrays().iter().copied().filter(has).map(|b| b.dev).collect()
    }

    /// Pairs of a running outer array and an array below one of its members.
    fn built_on(&self) -> Vec<(Dev, Dev)> {
        let mut pairs = Vec::new();
        for array in self.blocks.arrays() {
            if !is_running(&array_state(array)) {
                continue;
            }
            for member in self.members(array) {
                let bases = self.blocks.bases(member.dev);
                pairs.extend(bases.iter().filter(|b| b.is_array()).map(|b| (array.dev, b.dev)));
            }
        }
        pairs
    }

    fn members(&self, array: &Block) -> impl Iterator<Item = &Block> {
        let md = array.dir.join("md");
        let of_md = names(&md).into_iter().filter_map(move |entry| {
            self.blocks.member(&md.join(&entry), entry.strip_prefix("dev-")?)
        });
        let slots = array.raid.iter().flat_map(|raid| &raid.slots);
        let data = slots.filter_map(|(_, data)| self.blocks.get((*data)?)).collect::<Vec<_>>();
        of_md.chain(data)
    }

    fn container(&self, container: &Block) -> HostError {
        let inside: Vec<&str> = self
            .blocks
            .arrays()
            .into_iter()
            .filter(|a| {
                let metadata = attribute(a.dir.join("md/metadata_version"));
                metadata.as_deref().and_then(container_of) == Some(&container.name)
            })
            .map(|a| a.name.as_str())
            .collect();
        let arrays = match inside.is_empty() {
            true => "there is none".to_owned(),
            false => inside.join(", "),
        };
        HostError::Target(format!(
            "{} is an md container, which serves no IO: name an array in it: {arrays}",
            container.name
        ))
    }

    /// Arrays with mounted filesystems, or else all running arrays (databases and virtual machines
    /// use some without one), or else disks with mounted filesystems.
    fn default(&self) -> Result<BTreeSet<Dev>, HostError> {
        let arrays = self.mounted_bases(&|_, b| b.is_array());
        // Read-only images: every snap is a loop device with a squashfs.
        let image = |m: &Mounted| {
            ["squashfs", "erofs", "iso9660"]
                .iter()
                .any(|t| m.mounts.first().is_some_and(|f| f.fstype == *t))
        };
        let disks = self.mounted_bases(&|m, b| {
            !b.is_array()
                && !matches!(b.kind, BlockKind::Md { .. })
                && !image(m)
                && m.role != DeviceRole::Swap
        });
        [arrays, self.running_arrays(), disks]
            .into_iter()
            .find(|found| !found.is_empty())
            .ok_or(HostError::Nothing)
    }

    fn running_arrays(&self) -> BTreeSet<Dev> {
        let arrays = self.blocks.arrays().into_iter();
        arrays.filter(|array| is_running(&array_state(array))).map(|array| array.dev).collect()
    }

    /// Arrays and disks below mounted filesystems, filtered by `keep`.
    fn mounted_bases(&self, keep: &dyn Fn(&Mounted, &Block) -> bool) -> BTreeSet<Dev> {
        let pairs = self.mounted.iter().flat_map(|m| m.bases.iter().map(move |b| (m, *b)));
        pairs
            .filter(|(m, dev)| self.blocks.get(*dev).is_some_and(|b| keep(m, b)))
            .map(|(_, dev)| dev)
            .collect()
    }

    fn describe(&self, chosen: &BTreeSet<Dev>, superblocks: bool) -> HostTopology {
        let projector = Projector::new(&self.blocks, self.sys.dm());
        let mut reader = ArrayReader {
            sys: self.sys,
            blocks: &self.blocks,
            projector: &projector,
            superblocks,
            notes: Vec::new(),
        };
        let mut arrays: Vec<Array> = Vec::new();
        let chosen = nested::with_nested(chosen, &self.built_on());
        for block in chosen.iter().filter_map(|dev| self.blocks.get(*dev)) {
            arrays.push(match (&block.raid, &block.kind) {
                (Some(raid), _) => reader.dm_raid(block, raid),
                (None, BlockKind::Md { .. }) => reader.md(block),
                (None, _) => reader.single(block),
            });
        }
        arrays.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        reader.notes.extend(nested::link(&mut arrays));
        let claimed = arrays
            .iter()
            .filter(|a| a.is_md())
            .flat_map(|a| &a.members)
            .flat_map(|m| [Some(m.dev), m.metadata_device.map(|meta| meta.dev)])
            .flatten()
            .collect();
        for array in &mut arrays {
            let Some(block) = self.blocks.get(array.dev) else {
                continue;
            };
            array.filesystems = filesystems::on(block, &self.mounted, &self.blocks, &projector);
            array.unmounted =
                filesystems::unmounted(block, &self.mounted, &claimed, &self.blocks, &projector);
            for fs in &array.filesystems {
                if let Some(why) = &fs.note {
                    reader.notes.push(format!(
                        "{}: filesystem {} cannot be mapped to the array: {why}; its blocks show \
                         as raw",
                        array.name, fs.name
                    ));
                }
            }
        }
        let mut notes = reader.notes;
        notes.extend(self.others(&arrays));
        let mut seen = BTreeSet::new();
        notes.retain(|n| seen.insert(n.clone()));
        HostTopology { arrays, notes }
    }

    /// Notes on filesystems on a member's disk outside the array. Their IO on that disk is shown as
    /// raw.
    fn others(&self, arrays: &[Array]) -> Vec<String> {
        let mut notes = Vec::new();
        for array in arrays.iter().filter(|a| a.is_md()) {
            for m in &self.mounted {
                // A nested array is traced itself.
                let mut members = array.members.iter().filter(|m| m.nested_array.is_none());
                let shared = members
                    .find(|member| member.dev != member.disk && m.bases.contains(&member.disk));
                if let Some(member) = shared {
                    notes.push(format!(
                        "{} also carries {} ({}), which is not on {}",
                        member.disk_name,
                        m.mounts.first().map_or_else(
                            || "a filesystem".into(),
                            |f| f.path.display().to_string()
                        ),
                        m.name,
                        array.name
                    ));
                }
            }
        }
        notes
    }
}

/// md/array_state; empty if the array is gone.
fn array_state(array: &Block) -> String {
    if array.raid.is_some() {
        return "active".to_owned();
    }
    attribute(array.dir.join("md/array_state")).unwrap_or_default()
}

fn not_found(target: &str) -> HostError {
    HostError::Target(format!(
        "{target}: no such device or directory: ls /sys/block lists the devices of this machine"
    ))
}

/// Absolute path without `.`, doubled or trailing slashes. Keeps symbolic links and `..`.
fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    path.components().filter(|c| *c != Component::CurDir).collect()
}
