//! Block devices of the machine and how they are stacked, from sysfs
//! (Documentation/ABI/stable/sysfs-block).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::dm::raid_of;
use super::dm_raid::DmRaid;
use super::sys::{Sys, attribute, names, natural, number};
use super::types::Dev;

/// Kind of a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// A disk. Its lower devices, such as those of bcache, are ignored.
    Disk,
    /// A partition of `disk` from sector `start`.
    Partition { disk: Dev, number: u32, start: u64 },
    /// An md array, or a container of arrays.
    Md { container: bool },
    /// A device mapper device. The prefix of the UUID names the tool that created it.
    Dm { name: String, uuid: String },
}

/// A block device.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub name: String,
    pub dev: Dev,
    pub sectors: u64,
    pub kind: BlockKind,
    /// Its table, if it is an array of device mapper's raid target.
    pub raid: Option<DmRaid>,
    /// Directory in sysfs, including the root of [`Sys`].
    pub dir: PathBuf,
    /// Kernel names of the lower devices (`slaves/`).
    slaves: Vec<String>,
}

impl Block {
    /// True for an array or disk at which the mapping of a filesystem ends. A dm-multipath device
    /// has several paths to one disk and counts as that disk.
    pub fn is_base(&self) -> bool {
        match &self.kind {
            BlockKind::Disk | BlockKind::Md { .. } => true,
            BlockKind::Partition { .. } => false,
            BlockKind::Dm { uuid, .. } => self.raid.is_some() || uuid.starts_with("mpath-"),
        }
    }

    /// True for an array that can have filesystems, not for a container of arrays.
    pub fn is_array(&self) -> bool {
        self.raid.is_some() || self.kind == BlockKind::Md { container: false }
    }

    /// Display name: `LVM vg-lv`, `partition 1`; `None` for a base whose kernel name is its name.
    fn describe(&self) -> Option<String> {
        if self.is_base() && self.raid.is_none() {
            return None;
        }
        match &self.kind {
            BlockKind::Partition { number, .. } => Some(format!("partition {number}")),
            // DM_UUID prefixes of LVM2, cryptsetup and kpartx.
            BlockKind::Dm { name, uuid } => Some(match uuid.split_once('-') {
                Some(("LVM", _)) => format!("LVM {name}"),
                Some(("CRYPT", _)) => format!("dm-crypt {name}"),
                Some((part, _)) if part.starts_with("part") => format!("partition {name}"),
                _ => format!("device mapper {name}"),
            }),
            BlockKind::Disk | BlockKind::Md { .. } => None,
        }
    }
}

/// All block devices, read once.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    by_dev: BTreeMap<Dev, Block>,
    by_name: HashMap<String, Dev>,
}

impl Blocks {
    /// Reads /sys/block; `None` when there is no such directory.
    pub fn read(sys: &Sys) -> Option<Self> {
        let top = sys.path("/sys/block");
        if !top.is_dir() {
            return None;
        }
        let mut blocks = Self::default();
        for name in names(&top) {
            let dir = top.join(&name);
            // Paths of an NVMe multipath device are hidden: they have no device number and cannot
            // be opened.
            let Some(dev) = attribute(dir.join("dev")).and_then(|t| Dev::parse(&t)) else {
                continue;
            };
            let kind = if dir.join("md").is_dir() {
                // mdadm sets no level for a container (IMSM, DDF). Arrays in it have
                // `external:/md127/0`, or a dash instead of the slash while read-only.
                let container = attribute(dir.join("md/metadata_version"))
                    .and_then(|v| v.strip_prefix("external:").map(str::to_string))
                    .is_some_and(|v| !v.starts_with(['/', '-']));
                let level = attribute(dir.join("md/level"));
                BlockKind::Md { container: container || level.as_deref() == Some("container") }
            } else if dir.join("dm").is_dir() {
                BlockKind::Dm {
                    name: attribute(dir.join("dm/name")).unwrap_or_else(|| name.clone()),
                    uuid: attribute(dir.join("dm/uuid")).unwrap_or_default(),
                }
            } else {
                BlockKind::Disk
            };
            for part in names(&dir) {
                let dir = dir.join(&part);
                let Some(number) = number(dir.join("partition")) else {
                    continue;
                };
                if let Some(dev_of_part) = attribute(dir.join("dev")).and_then(|t| Dev::parse(&t)) {
                    blocks.add(Block {
                        name: part,
                        dev: dev_of_part,
                        sectors: sys_size(&dir),
                        kind: BlockKind::Partition {
                            disk: dev,
                            number,
                            start: super::sys::number(dir.join("start")).unwrap_or(0),
                        },
                        raid: None,
                        dir,
                        slaves: Vec::new(),
                    });
                }
            }
            let slaves = names(dir.join("slaves"));
            // A table costs a call. An array has two devices or more.
            let is_mapped = matches!(kind, BlockKind::Dm { .. }) && slaves.len() > 1;
            let table = is_mapped.then(|| sys.dm().table(dev).ok()).flatten();
            blocks.add(Block {
                sectors: sys_size(&dir),
                slaves,
                raid: table.as_deref().and_then(raid_of).cloned(),
                name,
                dev,
                kind,
                dir,
            });
        }
        Some(blocks)
    }

    fn add(&mut self, block: Block) {
        self.by_name.insert(block.name.clone(), block.dev);
        self.by_dev.insert(block.dev, block);
    }

    pub fn get(&self, dev: Dev) -> Option<&Block> {
        self.by_dev.get(&dev)
    }

    /// The device of a member, whose directory is md/dev-`name`.
    pub fn member(&self, dir: &Path, name: &str) -> Option<&Block> {
        // Prefer the device number: the directory keeps the name that the device had when it was
        // added.
        attribute(dir.join("block/dev"))
            .and_then(|t| self.get(Dev::parse(&t)?))
            .or_else(|| self.named(name))
    }

    /// Device by kernel name. sysfs replaces `/` in a name by `!` (cciss!c0d0).
    pub fn named(&self, name: &str) -> Option<&Block> {
        let dev = self.by_name.get(name).or_else(|| self.by_name.get(&name.replace('/', "!")))?;
        self.get(*dev)
    }

    /// Device by its name in /dev/mapper.
    pub fn mapped(&self, mapper_name: &str) -> Option<&Block> {
        self.iter().find(|b| matches!(&b.kind, BlockKind::Dm { name, .. } if name == mapper_name))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.by_dev.values()
    }

    /// md arrays sorted by name, with those of device mapper, without containers.
    pub fn arrays(&self) -> Vec<&Block> {
        let mut arrays: Vec<&Block> = self.iter().filter(|b| b.is_array()).collect();
        arrays.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        arrays
    }

    /// The whole disk of a partition, or the device itself if it is not a partition.
    pub fn disk_of<'a>(&'a self, block: &'a Block) -> &'a Block {
        match block.kind {
            BlockKind::Partition { disk, .. } => self.get(disk).unwrap_or(block),
            _ => block,
        }
    }

    /// Lower devices, one level down.
    fn below<'a>(&'a self, block: &'a Block) -> Vec<&'a Block> {
        match &block.kind {
            _ if block.is_base() => Vec::new(),
            BlockKind::Partition { disk, .. } => self.get(*disk).into_iter().collect(),
            _ => block.slaves.iter().filter_map(|s| self.named(s)).collect(),
        }
    }

    /// Lower devices that raidtrace ignores, such as those of bcache and drbd.
    pub fn slaves_of_disk<'a>(&'a self, block: &'a Block) -> &'a [String] {
        match block.kind {
            BlockKind::Disk => &block.slaves,
            _ => &[],
        }
    }

    /// The device and all lower devices down to the bases, top first. Terminates on cycles in
    /// sysfs.
    pub fn beneath(&self, dev: Dev) -> Vec<&Block> {
        let mut seen = BTreeSet::new();
        let mut order = Vec::new();
        let mut todo: Vec<&Block> = self.get(dev).into_iter().collect();
        while let Some(block) = todo.pop() {
            if seen.insert(block.dev) {
                order.push(block);
                todo.extend(self.below(block).into_iter().rev());
            }
        }
        order
    }

    /// Arrays and disks that a device is built on.
    pub fn bases(&self, dev: Dev) -> Vec<&Block> {
        let mut found = self.beneath(dev);
        found.retain(|b| b.is_base());
        found
    }

    /// Display names of the layers between a device and its bases, top first. `encrypts` is true
    /// for dm-crypt tables.
    pub fn describe(&self, dev: Dev, encrypts: impl Fn(&Block) -> bool) -> Vec<String> {
        self.beneath(dev)
            .into_iter()
            .filter_map(|b| match &b.kind {
                // The table decides, not the UUID prefix.
                BlockKind::Dm { name, .. } if encrypts(b) => Some(format!("dm-crypt {name}")),
                _ => b.describe(),
            })
            .collect()
    }
}

fn sys_size(dir: &std::path::Path) -> u64 {
    number(dir.join("size")).unwrap_or(0)
}
