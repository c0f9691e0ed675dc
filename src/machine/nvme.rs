//! NVMe native multipath: a drive with several controllers has a head, `nvme0n1`, which makes no
//! requests, and for each path a hidden disk, `nvme0c1n1`, which gets them
//! (drivers/nvme/host/multipath.c).

use std::collections::HashMap;
use std::path::Path;

use super::sys::{Sys, names, natural};
use super::types::{Dev, NvmePath, QueueFacts};

/// Name of the head of a path: `nvme0n1` of `nvme0c1n1`. `None` for any other name.
pub(super) fn head_of(path: &str) -> Option<String> {
    let (subsystem, rest) = path.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let is_path = [subsystem, controller, namespace].into_iter().all(is_number);
    is_path.then(|| format!("nvme{subsystem}n{namespace}"))
}

/// Names of all paths of this machine. They can come and go without an event: the kernel sends none
/// for hidden disks (block/genhd.c, `add_disk_final()`).
pub fn paths(sys: &Sys) -> Vec<String> {
    let disks = names(sys.path("/sys/block"));
    disks.into_iter().filter(|name| head_of(name).is_some()).collect()
}

/// Names of the paths of a disk, without those that are gone; empty if it is no head.
pub(super) fn paths_of(sys: &Sys, disk: &str) -> Vec<String> {
    if !disk.starts_with("nvme") {
        return Vec::new();
    }
    let mut found = paths(sys);
    found.retain(|path| head_of(path).as_deref() == Some(disk));
    found
}

/// Reads the paths of a disk. `queue` reads the queue of a disk in this directory.
pub(super) fn read(sys: &Sys, disk: &str, queue: fn(&Path) -> QueueFacts) -> Vec<NvmePath> {
    let mut names = paths_of(sys, disk);
    if names.is_empty() {
        return Vec::new();
    }
    names.sort_by(|a, b| natural(a).cmp(&natural(b)));
    let numbers = numbers(&sys.text("/proc/diskstats").unwrap_or_default());
    let one = |name: String| NvmePath {
        dev: numbers.get(&name).copied().unwrap_or_default(),
        queue: queue(&sys.path("/sys/block").join(&name)),
        name,
    };
    names.into_iter().map(one).collect()
}

/// Device numbers in /proc/diskstats. sysfs has none of a hidden disk.
fn numbers(diskstats: &str) -> HashMap<String, Dev> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let (major, minor) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((words.next()?.to_owned(), Dev { major, minor }))
    };
    diskstats.lines().filter_map(one).collect()
}

/// The queue of a head, which has no tags of its own, after that of a path; `None` if no path has a
/// number.
pub(super) fn numbered(paths: &[NvmePath]) -> Option<QueueFacts> {
    let path = paths.iter().find(|path| path.dev != Dev::default())?;
    Some(QueueFacts { nr_hw_queues: 0, nr_tags: 0, ..path.queue.clone() })
}

#[cfg(test)]
mod tests {
    use super::{head_of, numbers};
    use crate::machine::Dev;

    #[test]
    fn only_paths_have_a_head() {
        assert_eq!(head_of("nvme0c12n3").as_deref(), Some("nvme0n3"));
        for other in ["nvme0n1", "nvme0c1n1p1", "nvmec1n1", "nvme0cn1", "nvme0c1", "sdc1n1", ""] {
            assert_eq!(head_of(other), None, "{other}");
        }
    }

    #[test]
    fn hidden_disks_have_numbers_in_diskstats() {
        let text = " 259       0 nvme1c1n1 96 0 4208 11 0\n 259 1 nvme1n1 96\nx y z\n\n";
        let numbers = numbers(text);
        assert_eq!(numbers["nvme1c1n1"], Dev { major: 259, minor: 0 });
        assert_eq!(numbers.len(), 2);
    }
}
