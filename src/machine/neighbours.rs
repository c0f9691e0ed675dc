//! Devices that share a disk with a member of an array, and who uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::mounts;
use super::nvme;
use super::sys::{Sys, attribute, names};
use super::types::Dev;

/// Time limit of the search for a process: hosts with many containers can have a million open
/// files.
const MAX_TIME: Duration = Duration::from_millis(100);

/// Kernel names of the other partitions of `disk`, or of the other volumes on the same disk or
/// partition if the member is a volume. `own`: the member, or the volumes that are the member.
pub fn others_on(sys: &Sys, disk: &str, own: &[String]) -> Vec<String> {
    let dir = sys.path("/sys/block").join(disk);
    // The kernel counts nothing for partitions of NVMe multipath.
    let has_partitions = nvme::paths_of(sys, disk).is_empty();
    let mut others = names(&dir);
    others.retain(|name| has_partitions && dir.join(name).join("partition").exists());
    // The partition with a volume of the member has all of the member's IO.
    let shared: Vec<String> = others
        .extract_if(.., |name| {
            let holders = names(dir.join(&*name).join("holders"));
            holders.iter().any(|holder| own.contains(holder))
        })
        .collect();
    others.extend(shared.iter().flat_map(|name| names(dir.join(name).join("holders"))));
    if !others.iter().any(|name| own.contains(name)) {
        others.extend(names(dir.join("holders")));
    }
    others.retain(|name| !own.contains(name));
    others
}

/// The disk of a partition; `None` for a whole disk.
pub fn disk_of(sys: &Sys, name: &str) -> Option<String> {
    let path = std::fs::canonicalize(sys.path("/sys/class/block").join(name)).ok()?;
    let parent = path.parent()?.file_name()?.to_str()?.to_owned();
    path.join("partition").exists().then_some(parent)
}

/// User of a device: an array or volume on it with its user (`md1, swap`), a mount point, or
/// `swap`; empty if unknown.
pub fn user_of(sys: &Sys, name: &str) -> String {
    let dir = sys.path("/sys/class/block").join(name);
    if let Some(holder) = names(dir.join("holders")).into_iter().next() {
        return match user_of(sys, &holder) {
            user if user.is_empty() => holder,
            user => format!("{holder}, {user}"),
        };
    }
    let dev = attribute(dir.join("dev")).and_then(|text| Dev::parse(&text));
    let mounts = mounts::read(sys).unwrap_or_default();
    if let Some(line) = mounts.iter().find(|m| Some(m.dev) == dev) {
        return line.mount.path.display().to_string();
    }
    let node = format!("/dev/{name}");
    let swaps = sys.text("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.split_whitespace().next() == Some(&node)) {
        return "swap".to_owned();
    }
    String::new()
}

/// `dd (pid 4711)`: a process that has the device open, for each of `devices` that has one, except
/// this process. Needs CAP_SYS_PTRACE for processes of others.
pub fn openers(sys: &Sys, devices: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let (start, own) = (Instant::now(), std::process::id());
    for dir in sys.names("/proc") {
        let Ok(pid) = dir.parse::<u32>() else { continue };
        if start.elapsed() > MAX_TIME {
            break;
        }
        for fd in sys.names(&format!("/proc/{pid}/fd")) {
            let link = std::fs::read_link(sys.path(format!("/proc/{pid}/fd/{fd}")));
            let name = link.ok().and_then(|to| Some(to.strip_prefix("/dev").ok()?.to_owned()));
            let device = name.and_then(|name| devices.get(name.to_str()?)).filter(|_| pid != own);
            if let Some((device, comm)) = device.zip(sys.text(&format!("/proc/{pid}/comm"))) {
                found.insert(device.clone(), format!("{comm} (pid {pid})"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::others_on;
    use crate::machine::tests::tree::Tree;

    /// The kernel has no statistics of a partition of an NVMe multipath head: those of the disk
    /// would make each of them a neighbour with all of its work.
    #[test]
    fn partitions_of_a_multipath_head_are_no_neighbours() {
        let tree = Tree::new("");
        for number in ["1", "2"] {
            tree.write(format!("sys/block/nvme0n1/nvme0n1p{number}/partition"), number);
        }
        let others = || others_on(&tree.sys(), "nvme0n1", &["nvme0n1p2".to_owned()]);
        assert_eq!(others(), ["nvme0n1p1"]);
        tree.write("sys/block/nvme0c0n1/hidden", "1");
        assert!(others().is_empty(), "{:?}", others());
    }

    /// Volumes of LVM on a partition: the partition is no neighbour of its volumes.
    #[test]
    fn volumes_beside_the_member_are_neighbours() {
        let tree = Tree::new("");
        for (number, holders) in [("1", &[][..]), ("2", &["dm-0", "dm-1", "dm-7"])] {
            tree.write(format!("sys/block/sda/sda{number}/partition"), number);
            for holder in holders {
                tree.write(format!("sys/block/sda/sda{number}/holders/{holder}"), "");
            }
        }
        let others = |own: &[&str]| {
            let own: Vec<String> = own.iter().map(|name| (*name).to_owned()).collect();
            others_on(&tree.sys(), "sda", &own)
        };
        assert_eq!(others(&["dm-0", "dm-1"]), ["sda1", "dm-7"]);
        assert_eq!(others(&["sda1"]), ["sda2"]);
        for holder in ["dm-0", "dm-1", "dm-7"] {
            tree.write(format!("sys/block/sdb/holders/{holder}"), "");
        }
        let own = ["dm-0".to_owned(), "dm-1".to_owned()];
        assert_eq!(others_on(&tree.sys(), "sdb", &own), ["dm-7"]);
    }
}
