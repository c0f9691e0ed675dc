//! A machine described by text, one line per object. `~` stands for a space in values.
//!
//! ```text
//! disk loop1 7:1 209715200 queue/iostats=1
//! part sda1 8:1 1024 disk=sda number=1 start=2048
//! md md127 9:127 4096 level=raid5 chunk_size=65536
//! member md127 loop1 slot=0 state=in_sync offset=2048 size=102400
//! dm dm-0 253:0 1024 name=vg-lv uuid=LVM-x slaves=md127
//! target 253:0 0 1024 linear 9:127 2048
//! pool 253:2 2 13/4096 800/800 - rw discard_passdown queue_if_no_space - 1024
//! status 253:0 raid1 2 AA 1024/1024 idle 0 0 -
//! mount 9:127 /srv ext4 /dev/md127 rw
//! link dev/md/data ../md127
//! file sys/module/raid0/parameters/default_layout 2
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::machine::dm::{DmTables, DmTarget};
use crate::machine::dm_raid::DmRaidStatus;
use crate::machine::pool_status::PoolStatus;
use crate::machine::{Array, Dev, HostError, HostTopology, Segment, Sys, resolve};

pub(crate) struct Tree {
    dir: tempfile::TempDir,
    tables: BTreeMap<Dev, Vec<DmTarget>>,
    raids: BTreeMap<Dev, DmRaidStatus>,
    pools: BTreeMap<Dev, PoolStatus>,
    mountinfo: String,
}

/// Device mapper tables of the text.
struct Tables(BTreeMap<Dev, Vec<DmTarget>>, BTreeMap<Dev, DmRaidStatus>, BTreeMap<Dev, PoolStatus>);

impl DmTables for Tables {
    fn table(&self, dev: Dev) -> io::Result<Vec<DmTarget>> {
        self.0.get(&dev).cloned().ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }

    fn raid_status(&self, dev: Dev) -> io::Result<DmRaidStatus> {
        self.1.get(&dev).cloned().ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }

    fn pool_status(&self, dev: Dev) -> io::Result<PoolStatus> {
        self.2.get(&dev).cloned().ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }
}

impl Tree {
    pub fn new(text: &str) -> Self {
        let mut tree = Self {
            dir: tempfile::tempdir().unwrap(),
            tables: BTreeMap::new(),
            raids: BTreeMap::new(),
            pools: BTreeMap::new(),
            mountinfo: String::new(),
        };
        fs::create_dir_all(tree.path("sys/block")).unwrap();
        tree.add(text);
        tree
    }

    pub fn add(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            self.line(line);
        }
        self.write("proc/self/mountinfo", &self.mountinfo);
    }

    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // ext4 flushes a file that is truncated and rewritten (auto_da_alloc). A new file is much
        // faster.
        let _ = fs::remove_file(&path);
        fs::write(path, text).unwrap();
    }

    pub fn sys(&self) -> Sys {
        Sys::at(
            self.dir.path(),
            Box::new(Tables(self.tables.clone(), self.raids.clone(), self.pools.clone())),
        )
    }

    pub fn resolve(&self, targets: &[&str]) -> Result<HostTopology, HostError> {
        let targets: Vec<String> = targets.iter().map(|t| t.to_string()).collect();
        resolve(&targets, &self.sys())
    }

    /// Names of the arrays that targets resolve to, or the error.
    pub fn names(&self, targets: &[&str]) -> Result<String, String> {
        let topology = self.resolve(targets).map_err(|e| e.to_string())?;
        let names: Vec<String> = topology.arrays.into_iter().map(|a| a.name).collect();
        Ok(names.join(" "))
    }

    /// The only array.
    pub fn array(&self) -> Array {
        let mut arrays = self.resolve(&[]).unwrap().arrays;
        assert_eq!(arrays.len(), 1);
        arrays.remove(0)
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let values: BTreeMap<&str, String> = words
            .iter()
            .filter_map(|w| w.split_once('='))
            .map(|(k, v)| (k, v.replace('~', " ")))
            .collect();
        match words[0] {
            "disk" => {
                let dir = self.device("sys/block", &words);
                self.attributes(&dir, &values);
                for q in 0..values.get("queues").map_or(1, |n| n.parse().unwrap()) {
                    self.write(dir.join(format!("mq/{q}/nr_tags")), "128\n");
                }
            }
            "part" => {
                let dir = self.device(&format!("sys/block/{}", values["disk"]), &words);
                self.write(dir.join("partition"), &values["number"]);
                self.write(dir.join("start"), &values["start"]);
            }
            "md" => {
                let dir = self.device("sys/block", &words).join("md");
                fs::create_dir_all(self.path(&dir)).unwrap();
                self.attributes(&dir, &values);
            }
            "member" => {
                let dir = format!("sys/block/{}/md/dev-{}", words[1], words[2]);
                self.attributes(Path::new(&dir), &values);
            }
            "dm" => {
                let dir = self.device("sys/block", &words);
                self.write(dir.join("dm/name"), &values["name"]);
                self.write(dir.join("dm/uuid"), &values["uuid"]);
                for slave in values["slaves"].split(',').filter(|s| !s.is_empty()) {
                    self.write(dir.join("slaves").join(slave), "");
                }
            }
            "target" => {
                let number = |i: usize| words[i].parse().unwrap();
                let target = DmTarget::parse(number(2), number(3), words[4], &words[5..].join(" "));
                let dev = Dev::parse(words[1]).unwrap();
                self.tables.entry(dev).or_default().push(target);
            }
            "status" => {
                let status = DmRaidStatus::parse(&words[2..].join(" ")).unwrap();
                self.raids.insert(Dev::parse(words[1]).unwrap(), status);
            }
            "pool" => {
                let status = PoolStatus::parse(&words[2..].join(" ")).unwrap();
                self.pools.insert(Dev::parse(words[1]).unwrap(), status);
            }
            "mount" => {
                let [_, dev, path, fstype, source, options] = words[..] else { panic!("{line}") };
                self.mountinfo.push_str(&format!(
                    "30 1 {dev} / {path} {options} shared:1 - {fstype} {source} {options}\n"
                ));
            }
            "link" => {
                let path = self.path(words[1]);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(words[2], path).unwrap();
            }
            "file" => self.write(words[1], words[2..].join(" ")),
            other => panic!("{other}: {line}"),
        }
    }

    /// Creates the directory of a device `<kind> <name> <major:minor> <sectors>`, and a node in
    /// /dev.
    fn device(&self, parent: &str, words: &[&str]) -> PathBuf {
        let dir = Path::new(parent).join(words[1]);
        self.write(dir.join("dev"), format!("{}\n", words[2]));
        self.write(dir.join("size"), format!("{}\n", words[3]));
        self.write(Path::new("dev").join(words[1]), "");
        dir
    }

    fn attributes(&self, dir: &Path, values: &BTreeMap<&str, String>) {
        for (name, value) in values {
            self.write(dir.join(name), format!("{value}\n"));
        }
    }
}

/// Segments as tuples: filesystem sector, array sector, length.
pub(super) fn segments(of: &[Segment]) -> Vec<(u64, u64, u64)> {
    of.iter().map(|s| (s.fs_sector.0, s.array_sector.0, s.sectors)).collect()
}

/// Chunk, gap and phase of each segment.
pub(super) fn stripes(of: &[Segment]) -> Vec<(u64, u64, u64)> {
    of.iter().map(|s| (s.stripe.chunk, s.stripe.gap, s.stripe.phase)).collect()
}

/// Twelve loop devices of 100 GiB in a RAID 0 with ext4, as in the lab.
pub(crate) fn raid0_of_12() -> Tree {
    raid0(12)
}

/// A RAID 0 of `members` such loop devices.
pub(crate) fn raid0(members: u32) -> Tree {
    let mut tree = Tree::new(&format!(
        "md md127 9:127 2514812928 level=raid0 layout=-1 chunk_size=524288 raid_disks={members} \
         component_size=0 metadata_version=1.2 array_state=clean reshape_position=none \
         consistency_policy=none
        mount 9:127 /srv ext4 /dev/md127 rw,stripe=1536
        disk vda 254:0 83886080 queue/iostats=1
        mount 254:0 / ext4 /dev/vda rw
        mount 0:23 /dev/shm tmpfs tmpfs rw
        link dev/md/lab:0 ../md127"
    ));
    for i in 0..members {
        tree.add(&format!(
            "disk loop{n} 7:{n} 209715200 queue/iostats=1 queue/scheduler=none~[mq-deadline]
            member md127 loop{n} slot={i} state=in_sync offset=133120 new_offset=133120 \
             size=104790016 ppl_sector=0 ppl_size=0",
            n = i + 1
        ));
    }
    tree
}
