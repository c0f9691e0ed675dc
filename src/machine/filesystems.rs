//! Filesystems on an array or disk, and their mapping to it.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::blocks::{Block, Blocks};
use super::mounts::{self, MountLine};
use super::project::{MappedRun, Projector};
use super::segment::Segment;
use super::sys::{Sys, names, natural};
use super::types::{Dev, DeviceRole, Filesystem, MainDevice, Mount};
use crate::address::{ArraySector, FsSector};

/// A mounted filesystem before it is mapped to arrays.
pub(super) struct Mounted {
    pub dev: Dev,
    pub name: String,
    pub mounts: Vec<Mount>,
    /// Arrays and disks below the filesystem.
    pub bases: Vec<Dev>,
    pub role: DeviceRole,
}

/// Block device of a mount, by its device number, or by its source if the number is anonymous
/// (btrfs).
pub(super) fn device_of(sys: &Sys, blocks: &Blocks, line: &MountLine) -> Option<Dev> {
    if line.dev.major != 0 {
        return blocks.get(line.dev).map(|b| b.dev);
    }
    let source = line.source.as_os_str();
    source
        .as_bytes()
        .starts_with(b"/dev/")
        .then(|| device_at(sys, blocks, Path::new(source)))
        .flatten()
}

/// Block device at a /dev path. Follows symbolic links.
pub(super) fn device_at(sys: &Sys, blocks: &Blocks, path: &Path) -> Option<Dev> {
    let real = sys.path(path).canonicalize().ok();
    if let Some(dev) = real.as_deref().and_then(node_dev) {
        return blocks.get(dev).map(|b| b.dev);
    }
    // Test trees have no device nodes, only names.
    let named = real.map_or_else(|| path.to_path_buf(), |p| sys.without_root(&p));
    if sys.is_live() && named == path {
        return None;
    }
    let name = named.strip_prefix("/dev").ok()?;
    let mapped = name.strip_prefix("mapper").ok().and_then(Path::to_str);
    mapped.and_then(|n| blocks.mapped(n)).or_else(|| blocks.named(name.to_str()?)).map(|b| b.dev)
}

/// Device number of a block device node; `None` for any other file.
pub(super) fn node_dev(path: &Path) -> Option<Dev> {
    let stat = rustix::fs::stat(path).ok()?;
    let is_block = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device();
    is_block.then(|| Dev::from_stat(stat.st_rdev))
}

/// All mounted filesystems on block devices, sorted by name.
pub(super) fn all(sys: &Sys, blocks: &Blocks, lines: &[MountLine]) -> Vec<Mounted> {
    let devices: Vec<Option<Dev>> = lines.iter().map(|l| device_of(sys, blocks, l)).collect();
    let mut found: Vec<Dev> = devices.iter().flatten().copied().collect();
    // These cover all mount namespaces; mountinfo lacks filesystems mounted in containers only.
    for dir in ["/sys/fs/ext4", "/sys/fs/xfs"] {
        let names = names(sys.path(dir));
        found.extend(names.iter().filter_map(|name| Some(blocks.named(name)?.dev)));
    }
    found.sort_unstable();
    found.dedup();
    let mut all: Vec<Mounted> = found
        .into_iter()
        .filter_map(|dev| {
            let mine: Vec<MountLine> = lines
                .iter()
                .zip(&devices)
                .filter(|(_, d)| **d == Some(dev))
                .map(|(l, _)| l.clone())
                .collect();
            Some(Mounted {
                dev,
                name: blocks.get(dev)?.name.clone(),
                mounts: mounts::for_device(&mine, |_| true),
                bases: blocks.bases(dev).iter().map(|b| b.dev).collect(),
                role: DeviceRole::Main,
            })
        })
        .collect();
    let others: Vec<Mounted> =
        all.iter().flat_map(|main| other_devices(sys, blocks, main)).collect();
    all.extend(others);
    all.extend(swaps(sys, blocks));
    all.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
    all
}

/// Devices with swap space in use. Compressed memory (zram) is no storage.
fn swaps(sys: &Sys, blocks: &Blocks) -> Vec<Mounted> {
    let table = sys.text("/proc/swaps").unwrap_or_default();
    let device = |line: &str| {
        let mut words = line.split_whitespace();
        let path = words.next().filter(|_| words.next() == Some("partition"))?;
        let block = blocks.get(device_at(sys, blocks, Path::new(path))?)?;
        (!block.name.starts_with("zram")).then(|| Mounted {
            dev: block.dev,
            name: block.name.clone(),
            mounts: Vec::new(),
            bases: blocks.bases(block.dev).iter().map(|b| b.dev).collect(),
            role: DeviceRole::Swap,
        })
    };
    table.lines().filter_map(device).collect()
}

/// The log and realtime devices of a mounted XFS, which its mount options name.
fn other_devices(sys: &Sys, blocks: &Blocks, main: &Mounted) -> Vec<Mounted> {
    let Some(mount) = main.mounts.iter().find(|m| m.fstype == "xfs") else {
        return Vec::new();
    };
    let device = |option: &str| {
        let path = mount.option(option)?;
        let dev = device_at(sys, blocks, Path::new(path))?;
        (dev != main.dev).then_some(dev)
    };
    let owner = || MainDevice { name: main.name.clone(), dev: main.dev };
    let found = [
        (device("logdev"), DeviceRole::Log(owner())),
        (device("rtdev"), DeviceRole::Realtime(owner())),
    ];
    let found = found.into_iter().filter_map(|(dev, role)| Some((dev?, role)));
    found
        .filter_map(|(dev, role)| {
            Some(Mounted {
                dev,
                name: blocks.get(dev)?.name.clone(),
                mounts: main.mounts.clone(),
                bases: blocks.bases(dev).iter().map(|b| b.dev).collect(),
                role,
            })
        })
        .collect()
}

/// Filesystems of `mounted` that lie on `base`.
pub(super) fn on(
    base: &Block,
    mounted: &[Mounted],
    blocks: &Blocks,
    projector: &Projector<'_>,
) -> Vec<Filesystem> {
    mounted
        .iter()
        .filter(|m| m.bases.contains(&base.dev))
        .filter_map(|m| {
            let pieces = projector.project(blocks.get(m.dev)?);
            let (segments, note) = match pieces {
                Ok(pieces) => (on_base(&pieces, base.dev), None),
                Err(why) => (Vec::new(), Some(why)),
            };
            // A lower device in sysfs that the dm table maps no sectors to, such as a log device.
            if segments.is_empty() && note.is_none() {
                return None;
            }
            Some(Filesystem {
                name: m.name.clone(),
                dev: m.dev,
                segments,
                mounts: m.mounts.clone(),
                stack: blocks.describe(m.dev, |b| projector.encrypts(b)),
                note,
                role: m.role.clone(),
            })
        })
        .collect()
}

/// Unmounted devices on `base`, including `base` itself. Leaves out `claimed` array members and
/// their partitions, because with metadata 0.90 and 1.0 the filesystem on the array also seems to
/// be on the member.
pub(super) fn unmounted(
    base: &Block,
    mounted: &[Mounted],
    claimed: &BTreeSet<Dev>,
    blocks: &Blocks,
    projector: &Projector<'_>,
) -> Vec<Filesystem> {
    blocks
        .iter()
        .filter(|b| !mounted.iter().any(|m| m.dev == b.dev))
        .filter(|b| {
            let beneath = blocks.beneath(b.dev);
            beneath.iter().any(|on| on.dev == base.dev)
                && !beneath.iter().any(|on| claimed.contains(&on.dev))
        })
        .filter_map(|b| {
            let segments = on_base(&projector.project(b).ok()?, base.dev);
            (!segments.is_empty()).then(|| Filesystem {
                name: b.name.clone(),
                dev: b.dev,
                segments,
                stack: blocks.describe(b.dev, |b| projector.encrypts(b)),
                ..Filesystem::default()
            })
        })
        .collect()
}

fn on_base(pieces: &[MappedRun], base: Dev) -> Vec<Segment> {
    pieces
        .iter()
        .filter(|p| p.base == base)
        .map(|p| Segment {
            fs_sector: FsSector(p.sector),
            array_sector: ArraySector(p.base_sector),
            sectors: p.sectors,
            stripe: p.stripe,
        })
        .collect()
}
