//! Arrays of this host, the layouts of the filesystems on them, and the geometry of each array.
//!
//! Filesystems are read only when the topology is built.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

use crate::fs::ext4::{Ext4Layout, FsKind, identify};
use crate::fs::xfs::{self, XfsLayout};
use crate::fs::{Error, Layout};
use crate::machine::privileges::raised;
use crate::machine::{Array, Dev, DeviceRole, Filesystem, HostTopology, MainDevice};
use crate::raid::{Geometry, Level, Params};

/// Arrays and filesystem layouts to trace.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The arrays, their members and filesystems.
    pub host: HostTopology,
    /// Layouts by the filesystem's device.
    pub layouts: HashMap<Dev, Layout>,
    /// Missing information and its effect on the figures, one line each.
    pub notes: Vec<String>,
}

/// True if `fs` has the same sectors as a mounted filesystem: its device is a volume below that of
/// the mount, such as the origin of an LVM snapshot.
fn is_below_mounted(fs: &Filesystem, array: &Array) -> bool {
    let mut mounted = array.filesystems.iter().filter(|m| !m.mounts.is_empty());
    mounted.any(|m| !m.segments.is_empty() && m.segments == fs.segments)
}

impl Topology {
    /// Reads the layout of every filesystem that lies on one of the arrays.
    pub fn new(host: HostTopology) -> Self {
        Self::after(host, &Self::default())
    }

    /// The same, after a change of `before`: a mounted ext filesystem whose device gives errors,
    /// as on a broken array, keeps its layout. `FS_IOC_GETFSMAP` would read each of its bitmaps.
    pub fn after(mut host: HostTopology, before: &Self) -> Self {
        let mut topology = Self { notes: host.notes.clone(), ..Self::default() };
        let roles = roles(&host);
        for array in &mut host.arrays {
            // fsck, resize2fs and an unmount in progress also cause IO.
            for fs in std::mem::take(&mut array.unmounted) {
                if is_below_mounted(&fs, array) {
                    continue;
                }
                if let Some(layout) = raised(|| topology.read_unmounted(&fs)) {
                    if fs.note.is_none() {
                        topology.keep(&fs, layout, &roles);
                    }
                    array.filesystems.push(fs);
                }
            }
            for fs in &array.filesystems {
                raised(|| topology.read(fs, &roles, before));
            }
        }
        topology.host = host;
        topology
    }

    /// The layout of an ext filesystem that was mounted, and still is.
    fn known(&self, fs: &Filesystem) -> Option<&Layout> {
        let kind = |fs: &Filesystem| fs.mounts.first().map(|mount| mount.fstype.clone());
        let now = kind(fs).filter(|kind| kind.starts_with("ext"))?;
        let is_it = |was: &&Filesystem| (was.dev, &was.name) == (fs.dev, &fs.name);
        let was = self.host.arrays.iter().flat_map(|a| &a.filesystems).find(is_it)?;
        self.layouts.get(&fs.dev).filter(|_| kind(was) == Some(now))
    }

    /// roles: those of all devices on the arrays.
    fn read(&mut self, fs: &Filesystem, roles: &[DeviceRole], before: &Self) {
        if fs.note.is_some() {
            return; // `HostTopology::notes` has the reason
        }
        if self.layouts.contains_key(&fs.dev) {
            return;
        }
        if fs.role == DeviceRole::Swap {
            let sectors = fs.segments.iter().map(|segment| segment.end().0).max().unwrap_or(0);
            self.layouts.insert(fs.dev, Layout::Swap { pages: sectors / 8 });
            return;
        }
        if let Some(main) = fs.role.main() {
            match other_device(fs, main) {
                Some(layout) => {
                    self.layouts.insert(fs.dev, layout);
                }
                None => self.notes.push(format!(
                    "{}: it belongs to the XFS on {}, which cannot be read; its blocks show as raw",
                    fs.name, main.name
                )),
            }
            return;
        }
        let path = device_path(&fs.name);
        let layout = match read_layout(&path) {
            Ok(layout) => Ok(current(fs, layout)),
            Err(Unread { why, of_device: true }) if let Some(layout) = before.known(fs) => {
                let path = path.display();
                self.notes.push(format!("{path}: {why}; its layout is that of before"));
                Ok(layout.clone())
            }
            // Some hosts forbid opening the disk even to root. There, FS_IOC_GETFSMAP (ext4) or
            // XFS_IOC_FSGEOMETRY on the mount point works.
            Err(Unread { why, .. }) => from_mount(fs, &why),
        };
        match layout {
            Ok(layout) => self.keep(fs, layout, roles),
            Err(why) => {
                self.notes.push(format!("{}: {why}; its blocks show as raw", path.display()))
            }
        }
    }

    /// Adds a layout and its notes.
    fn keep(&mut self, fs: &Filesystem, mut layout: Layout, roles: &[DeviceRole]) {
        if let Layout::Xfs(layout) = &mut layout {
            let log = roles.iter().any(|r| is_log_of(r, fs.dev));
            let realtime = roles.iter().any(|r| is_realtime_of(r, fs.dev));
            layout.drop_notes_on_devices(log, realtime);
        }
        // Roots have no fixed place, so tracing does not need them.
        let notes = layout.notes().iter();
        for note in notes.filter(|note| *note != xfs::ROOTS_AT_MKFS) {
            self.notes.push(format!("{}: {note}", fs.name));
        }
        self.layouts.insert(fs.dev, layout);
    }

    /// The layout if the device holds an ext filesystem or XFS. Adds a note for one that cannot be
    /// read. The device is read only once: these reads count, too, and without a mount they are not
    /// in the cache of the kernel.
    fn read_unmounted(&mut self, fs: &Filesystem) -> Option<Layout> {
        let path = device_path(&fs.name);
        // No note: the device may hold no filesystem at all.
        let file = File::open(&path).ok()?;
        let kind = identify(&file).ok()??;
        if kind == FsKind::JournalDevice {
            return Ext4Layout::read_journal_device(&file).ok().map(Layout::from);
        }
        let known = [FsKind::Ext2, FsKind::Ext3, FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs];
        if !known.contains(&kind) {
            return None;
        }
        let layout = layout_of(&file, kind);
        let failed = |why| format!("{}: {why}; its blocks show as raw", path.display());
        layout.map_err(|why| self.notes.push(failed(why))).ok()
    }

    /// One-line description of a filesystem for the screen header.
    pub fn describe(&self, fs: &Filesystem) -> String {
        let part = match &fs.role {
            DeviceRole::Main => "",
            DeviceRole::Swap => return described(format!("swap on {}", fs.name), fs),
            DeviceRole::Log(_) => "log of ",
            DeviceRole::Realtime(_) => "realtime device of ",
        };
        let mounted = match fs.mounts.first() {
            Some(m) if fs.role.main().is_some() => format!("on {}", m.path.display()),
            Some(m) => format!("on {} ({})", m.path.display(), fs.name),
            None => format!("on {}, not mounted", fs.name),
        };
        let kind = fs.mounts.first().map_or("", |m| m.fstype.as_str());
        let line = match self.layouts.get(&fs.dev) {
            Some(layout) => {
                let mut line = format!(
                    "{part}{} {mounted}, {} KiB blocks",
                    layout.name(),
                    layout.block_size() / 1024
                );
                match layout {
                    Layout::Ext4(layout) => {
                        if let Some(groups) = layout.groups {
                            line.push_str(&format!(", {groups} groups"));
                        }
                    }
                    Layout::Xfs(layout) => {
                        line.push_str(&format!(", {} AGs", layout.geometry.ag_count));
                    }
                    Layout::XfsDevice(_) | Layout::Swap { .. } => {}
                }
                line
            }
            None => format!("{part}{kind} {mounted}, layout not known"),
        };
        described(line, fs)
    }
}

/// Adds the layers below a filesystem.
fn described(mut line: String, fs: &Filesystem) -> String {
    for step in &fs.stack {
        line.push_str(", ");
        line.push_str(step);
    }
    line
}

/// Device node `/dev/NAME`. sysfs replaces the `/` in names such as `cciss/c0d0` by `!`.
pub fn device_path(name: &str) -> PathBuf {
    PathBuf::from("/dev").join(name.replace('!', "/"))
}

/// Asks the kernel for the layout of a mounted filesystem whose device cannot be read, for the
/// reason `why`.
fn from_mount(fs: &Filesystem, why: &str) -> Result<Layout, String> {
    let mount = |name| fs.mounts.iter().find(|m| m.fstype.starts_with(name));
    let device = (fs.dev.major, fs.dev.minor);
    if let Some(mount) = mount("ext") {
        let asked = Ext4Layout::from_mount(&mount.path, device);
        let mut layout = asked.map_err(|e| format!("{why}; {e}"))?;
        explain(&mut layout.notes, why);
        Ok(layout.into())
    } else if let Some(mount) = mount("xfs") {
        let asked = XfsLayout::from_mount(&mount.path, device);
        let mut layout = asked.map_err(|e| format!("{why}; {e}"))?;
        explain(&mut layout.notes, why);
        Ok(layout.into())
    } else {
        Err(why.to_owned())
    }
}

/// The layout of a mounted filesystem. XFS does not write through the page cache of its device, so
/// a superblock that was read before the filesystem grew stays there.
fn current(fs: &Filesystem, layout: Layout) -> Layout {
    let Layout::Xfs(read) = &layout else {
        return layout;
    };
    let mount = fs.mounts.iter().find(|m| m.fstype == "xfs");
    let asked = mount
        .and_then(|mount| XfsLayout::from_mount(&mount.path, (fs.dev.major, fs.dev.minor)).ok());
    match asked {
        Some(asked) if asked.geometry.identity() != read.geometry.identity() => asked.into(),
        _ => layout,
    }
}

/// Roles of the devices on the arrays, except for main devices.
fn roles(host: &HostTopology) -> Vec<DeviceRole> {
    let all = host.arrays.iter().flat_map(|a| &a.filesystems);
    let others = all.filter(|fs| fs.role.main().is_some() && !fs.segments.is_empty());
    others.map(|fs| fs.role.clone()).collect()
}

fn is_log_of(role: &DeviceRole, dev: Dev) -> bool {
    matches!(role, DeviceRole::Log(main) if main.dev == dev)
}

fn is_realtime_of(role: &DeviceRole, dev: Dev) -> bool {
    matches!(role, DeviceRole::Realtime(main) if main.dev == dev)
}

/// The layout of a log or realtime device: from the mounted filesystem, or else from the superblock
/// on its main device.
fn other_device(fs: &Filesystem, main: &MainDevice) -> Option<Layout> {
    let mount = fs.mounts.iter().find(|m| m.fstype == "xfs")?;
    let asked = XfsLayout::from_mount(&mount.path, (main.dev.major, main.dev.minor)).ok();
    let read = || XfsLayout::read(&File::open(device_path(&main.name)).ok()?).ok();
    let geometry = asked.or_else(read)?.geometry;
    let device = match fs.role {
        DeviceRole::Main | DeviceRole::Swap => None,
        DeviceRole::Log(_) => geometry.log_device(),
        DeviceRole::Realtime(_) => geometry.realtime_device(),
    };
    device.map(Layout::XfsDevice)
}

/// Puts the reason before the note of a layout that was read through a mount point.
fn explain(notes: &mut [String], why: &str) {
    if let Some(note) = notes.first_mut() {
        *note = format!("{why}; {note}");
    }
}

/// Why a layout was not read.
struct Unread {
    why: String,
    /// An error of the device, not of what it holds or of a permission.
    of_device: bool,
}

fn read_layout(path: &Path) -> Result<Layout, Unread> {
    let unread = |what, e: &io::Error| Unread {
        why: format!("cannot be {what} ({e})"),
        of_device: e.kind() != io::ErrorKind::PermissionDenied,
    };
    let file = File::open(path).map_err(|e| unread("opened", &e))?;
    let kind = identify(&file).map_err(|e| unread("read", &e))?;
    let found = kind.ok_or_else(|| anyhow!("no known filesystem"));
    found.and_then(|kind| layout_of(&file, kind)).map_err(|e| Unread {
        why: e.to_string(),
        of_device: matches!(e.downcast_ref(), Some(Error::Read { .. })),
    })
}

fn layout_of(file: &File, kind: FsKind) -> anyhow::Result<Layout> {
    Ok(match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => Ext4Layout::read(file)?.into(),
        FsKind::JournalDevice => Ext4Layout::read_journal_device(file)?.into(),
        FsKind::Xfs => XfsLayout::read(file)?.into(),
        other => bail!("{other} is not supported"),
    })
}

/// Array geometry from md's sysfs attributes. `Err` names the impossible or unsupported parameter.
pub fn geometry(array: &Array) -> Result<Geometry, String> {
    let level: Level = array.level.parse().map_err(|e| format!("{e}"))?;
    let member_sectors = match level {
        Level::Single => vec![array.sectors],
        Level::Raid0 | Level::Linear => (0..array.raid_disks)
            .map(|slot| {
                array.members.iter().find(|m| m.slot == Some(slot)).map_or(0, |m| m.data_sectors)
            })
            .collect(),
        _ if array.component_sectors > 0 => vec![array.component_sectors],
        // The smallest member counts. A replacement shares its slot with another member, and a slot
        // can be empty.
        _ => vec![
            array
                .members
                .iter()
                .filter(|m| m.slot.is_some())
                .map(|m| m.data_sectors)
                .filter(|n| *n > 0)
                .min()
                .unwrap_or(0),
        ],
    };
    Geometry::new(&Params {
        level,
        layout: array.layout,
        disks: array.raid_disks,
        chunk_sectors: array.chunk_sectors,
        member_sectors,
    })
    .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Array, Filesystem, HostTopology, Layout, Topology, is_below_mounted};
    use crate::address::{ArraySector, FsSector};
    use crate::machine::{Dev, Mount, Segment};

    /// A read of /proc/self/mem at a low address fails with EIO.
    #[test]
    fn a_mounted_filesystem_that_cannot_be_read_any_more_keeps_its_layout() {
        let dev = Dev { major: 1, minor: 3 };
        let mounted = |fstype: &str| Filesystem {
            name: "!proc!self!mem".to_owned(),
            dev,
            segments: vec![Segment::new(FsSector(0), ArraySector(0), 4096)],
            mounts: vec![Mount { path: "/".into(), fstype: fstype.into(), ..Mount::default() }],
            ..Filesystem::default()
        };
        let host = |fs| HostTopology {
            arrays: vec![Array { filesystems: vec![fs], ..Array::default() }],
            ..HostTopology::default()
        };
        let now = Topology::new(host(mounted("ext2")));
        assert!(now.layouts.is_empty());
        assert!(now.notes[0].ends_with("; its blocks show as raw"), "{:?}", now.notes);
        let before = Topology {
            host: host(mounted("ext2")),
            layouts: [(dev, Layout::Swap { pages: 7 })].into(),
            ..Topology::default()
        };
        let now = Topology::after(host(mounted("ext2")), &before);
        assert!(matches!(now.layouts[&dev], Layout::Swap { pages: 7 }));
        assert!(now.notes[0].ends_with("; its layout is that of before"), "{:?}", now.notes);
        for other in [
            Filesystem { name: "zero".to_owned(), ..mounted("ext2") },
            Filesystem { mounts: Vec::new(), ..mounted("ext2") },
            // /dev/null has no filesystem, and no read error.
            Filesystem { name: "null".to_owned(), ..mounted("ext2") },
            mounted("ext4"),
        ] {
            assert!(Topology::after(host(other), &before).layouts.is_empty());
        }
        let mut of_null = before.clone();
        of_null.host.arrays[0].filesystems[0].name = "null".to_owned();
        let null = Filesystem { name: "null".to_owned(), ..mounted("ext2") };
        assert!(Topology::after(host(null), &of_null).layouts.is_empty());
    }

    #[test]
    fn a_volume_below_a_mounted_one_is_no_second_filesystem() {
        let at = |sector: u64| Filesystem {
            segments: vec![Segment::new(FsSector(0), ArraySector(sector), 4096)],
            ..Filesystem::default()
        };
        let mut array = Array { filesystems: vec![at(2048)], ..Array::default() };
        assert!(!is_below_mounted(&at(2048), &array), "not mounted");
        array.filesystems[0].mounts.push(Mount::default());
        assert!(is_below_mounted(&at(2048), &array));
        assert!(!is_below_mounted(&at(8192), &array));
        array.filesystems[0].segments.clear();
        assert!(!is_below_mounted(&Filesystem::default(), &array));
    }
}
