//! The block devices of the machine and how they are stacked, as sysfs tells it (Documentation/ABI/stable/sysfs-block).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use super::sys::{Sys, attribute, names, natural, number};
use super::types::Dev;

/// What a block device is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A disk: nothing that we look beneath.
    Disk,
    /// A partition of the disk `disk`, `start` sectors into it.
    Partition { disk: Dev, number: u32, start: u64 },
    /// An md array, or a container of arrays.
    Md { container: bool },
    /// A device mapper device: its name and uuid, whose prefix says which tool made it.
    Dm { name: String, uuid: String },
}

/// A block device.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub name: String,
    pub dev: Dev,
    pub sectors: u64,
    pub kind: Kind,
    /// Its directory in sysfs, with the root.
    pub dir: PathBuf,
    /// Kernel names of the devices that it is made of (`slaves/`).
    slaves: Vec<String>,
}

impl Block {
    /// An array or disk to be traced as one: we do not go beneath it to find out where a filesystem lies.
    /// A dm-multipath device is several ways to one disk, so it is that disk.
    pub fn is_base(&self) -> bool {
        match &self.kind {
            Kind::Disk | Kind::Md { .. } => true,
            Kind::Partition { .. } => false,
            Kind::Dm { uuid, .. } => uuid.starts_with("mpath-"),
        }
    }

    /// For people: `LVM vg-lv`, `partition 1`; nothing for a base.
    fn describe(&self) -> Option<String> {
        if self.is_base() {
            return None;
        }
        match &self.kind {
            Kind::Partition { number, .. } => Some(format!("partition {number}")),
            // Prefixes by convention of the tools: DM_UUID in LVM2, cryptsetup, kpartx.
            Kind::Dm { name, uuid } => Some(match uuid.split_once('-') {
                Some(("LVM", _)) => format!("LVM {name}"),
                Some(("CRYPT", _)) => format!("dm-crypt {name}"),
                Some((part, _)) if part.starts_with("part") => format!("partition {name}"),
                _ => format!("device mapper {name}"),
            }),
            Kind::Disk | Kind::Md { .. } => None,
        }
    }
}

/// All of them, read once.
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
            // Paths of an NVMe multipath device are hidden: no device number, no IO of their own to open.
            let Some(dev) = attribute(dir.join("dev")).and_then(|t| Dev::parse(&t)) else {
                continue;
            };
            let kind = if dir.join("md").is_dir() {
                // A container (of IMSM, DDF) has metadata but no level: mdadm sets none. The arrays in it say which
                // container is theirs: `external:/md127/0`, or with a dash while it is not to be written.
                let container = attribute(dir.join("md/metadata_version"))
                    .and_then(|v| v.strip_prefix("external:").map(str::to_string))
                    .is_some_and(|v| !v.starts_with(['/', '-']));
                let level = attribute(dir.join("md/level"));
                Kind::Md {
                    container: container || level.as_deref() == Some("container"),
                }
            } else if dir.join("dm").is_dir() {
                Kind::Dm {
                    name: attribute(dir.join("dm/name")).unwrap_or_else(|| name.clone()),
                    uuid: attribute(dir.join("dm/uuid")).unwrap_or_default(),
                }
            } else {
                Kind::Disk
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
                        kind: Kind::Partition {
                            disk: dev,
                            number,
                            start: super::sys::number(dir.join("start")).unwrap_or(0),
                        },
                        dir,
                        slaves: Vec::new(),
                    });
                }
            }
            blocks.add(Block {
                sectors: sys_size(&dir),
                slaves: names(dir.join("slaves")),
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

    /// By kernel name. sysfs writes `!` for a `/` in a name (cciss!c0d0).
    pub fn named(&self, name: &str) -> Option<&Block> {
        let dev = self
            .by_name
            .get(name)
            .or_else(|| self.by_name.get(&name.replace('/', "!")))?;
        self.get(*dev)
    }

    /// By the name that device mapper gives it in /dev/mapper.
    pub fn mapped(&self, mapper_name: &str) -> Option<&Block> {
        self.iter()
            .find(|b| matches!(&b.kind, Kind::Dm { name, .. } if name == mapper_name))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.by_dev.values()
    }

    /// md arrays by name; containers are none.
    pub fn arrays(&self) -> Vec<&Block> {
        let mut arrays: Vec<&Block> = self
            .iter()
            .filter(|b| b.kind == Kind::Md { container: false })
            .collect();
        arrays.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
        arrays
    }

    /// The whole disk of a partition, else the device itself.
    pub fn disk_of<'a>(&'a self, block: &'a Block) -> &'a Block {
        match block.kind {
            Kind::Partition { disk, .. } => self.get(disk).unwrap_or(block),
            _ => block,
        }
    }

    /// What is directly below a device.
    fn below<'a>(&'a self, block: &'a Block) -> Vec<&'a Block> {
        match &block.kind {
            _ if block.is_base() => Vec::new(),
            Kind::Partition { disk, .. } => self.get(*disk).into_iter().collect(),
            _ => block.slaves.iter().filter_map(|s| self.named(s)).collect(),
        }
    }

    /// Devices below other than md members that we do not look beneath: bcache, drbd and the like.
    pub fn slaves_of_disk<'a>(&'a self, block: &'a Block) -> &'a [String] {
        match block.kind {
            Kind::Disk => &block.slaves,
            _ => &[],
        }
    }

    /// The device and everything beneath it down to the bases, from the top. Ends even if sysfs describes a circle.
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

    /// The arrays and disks that a device lies on.
    pub fn bases(&self, dev: Dev) -> Vec<&Block> {
        let mut found = self.beneath(dev);
        found.retain(|b| b.is_base());
        found
    }

    /// What is between a device and its bases, for people, from the top. `encrypts`: whether a block's own table does.
    pub fn describe(&self, dev: Dev, encrypts: impl Fn(&Block) -> bool) -> Vec<String> {
        self.beneath(dev)
            .into_iter()
            .filter_map(|b| match &b.kind {
                // By what it does, not by what the tool that made it called it.
                Kind::Dm { name, .. } if encrypts(b) => Some(format!("dm-crypt {name}")),
                _ => b.describe(),
            })
            .collect()
    }
}

fn sys_size(dir: &std::path::Path) -> u64 {
    number(dir.join("size")).unwrap_or(0)
}
