//! Thin pools above an array, and what they have left
//! (Documentation/admin-guide/device-mapper/thin-provisioning.rst).

use std::collections::BTreeSet;

use super::dm::{DmMapping, DmTarget};
use super::pool_status::PoolStatus;
use super::privileges::raised;
use super::sys::{Sys, attribute, names};
use super::types::Dev;

/// Layers of device mapper between an array and a pool.
const MAX_DEPTH: usize = 8;
/// Volumes of a pool that are listed.
const MAX_VOLUMES: usize = 64;

/// A thin pool with blocks on an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinPool {
    /// Name in /dev/mapper; of LVM's pools `vg-pool-tpool`.
    pub mapper_name: String,
    pub dev: Dev,
    /// Kernel names of its volumes, and their names in /dev/mapper.
    pub volumes: Vec<(String, String)>,
}

/// The pools above an array or disk, sorted by kernel name. Asks device mapper about each of its
/// devices there that is on two others; without CAP_SYS_ADMIN there are none.
pub fn pools(sys: &Sys, array: &str) -> Vec<ThinPool> {
    let dir = sys.path("/sys/block").join(array);
    let parts = names(&dir).into_iter().filter(|part| dir.join(part).join("partition").exists());
    let mut below: Vec<String> = parts.chain([array.to_owned()]).collect();
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for _ in 0..MAX_DEPTH {
        let above = below.iter().flat_map(|name| holders(sys, name));
        below = above.filter(|name| seen.insert(name.clone())).collect();
        found.extend(below.iter().filter_map(|name| pool(sys, name)));
    }
    found
}

fn holders(sys: &Sys, name: &str) -> Vec<String> {
    names(sys.path("/sys/class/block").join(name).join("holders"))
}

/// The device, if it is a pool.
fn pool(sys: &Sys, name: &str) -> Option<ThinPool> {
    let dir = sys.path("/sys/class/block").join(name);
    let dev = attribute(dir.join("dev")).and_then(|text| Dev::parse(&text))?;
    let mapper_name = attribute(dir.join("dm/name"))?;
    // Data and metadata.
    if names(dir.join("slaves")).len() != 2 {
        return None;
    }
    is_target(sys, dev, "thin-pool").then(|| ThinPool {
        mapper_name,
        dev,
        volumes: volumes(sys, name),
    })
}

/// LVM has a device of its own on the pool, which is no volume.
fn volumes(sys: &Sys, pool: &str) -> Vec<(String, String)> {
    let volume = |name: String| {
        let dir = sys.path("/sys/class/block").join(&name);
        let dev = attribute(dir.join("dev")).and_then(|text| Dev::parse(&text))?;
        let mapper_name = attribute(dir.join("dm/name"))?;
        is_target(sys, dev, "thin").then_some((name, mapper_name))
    };
    holders(sys, pool).into_iter().filter_map(volume).take(MAX_VOLUMES).collect()
}

/// True if the whole device is one target of this kind.
fn is_target(sys: &Sys, dev: Dev, wanted: &str) -> bool {
    // Not its status, for which a busy pool can take seconds.
    let table = raised(|| sys.dm().table(dev));
    let is_wanted = |map: &DmMapping| matches!(map, DmMapping::Opaque(kind) if kind == wanted);
    table.is_ok_and(|table| matches!(&table[..], [DmTarget { map, .. }] if is_wanted(map)))
}

/// The status of a pool; `None` if it is gone, or not a pool.
pub fn status(sys: &Sys, dev: Dev) -> Option<PoolStatus> {
    raised(|| sys.dm().pool_status(dev)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::tree::Tree;

    #[test]
    fn a_pool_on_two_volumes_of_an_array() {
        let mut tree = Tree::new(
            "md md0 9:0 1000000 level=raid1
            dm dm-0 253:0 8192 name=vg-pool_tmeta uuid=LVM-a slaves=md0
            dm dm-1 253:1 800000 name=vg-pool_tdata uuid=LVM-b slaves=md0
            dm dm-2 253:2 800000 name=vg-pool-tpool uuid=LVM-c slaves=dm-0,dm-1
            dm dm-3 253:3 400000 name=vg-thin uuid=LVM-d slaves=dm-2
            dm dm-4 253:4 800000 name=vg-pool uuid=LVM-e slaves=dm-2
            target 253:2 0 800000 thin-pool 253:0 253:1 128 32
            target 253:3 0 400000 thin 253:2 1
            target 253:4 0 800000 linear 253:2 0
            pool 253:2 2 13/4096 800/800 - out_of_data_space no queue_if_no_space - 1024",
        );
        for (lower, upper) in [
            ("md0", "dm-0"),
            ("md0", "dm-1"),
            ("dm-0", "dm-2"),
            ("dm-1", "dm-2"),
            ("dm-2", "dm-3"),
            ("dm-2", "dm-4"),
        ] {
            tree.write(format!("sys/block/{lower}/holders/{upper}"), "");
        }
        tree.add("link sys/class/block ../block");
        let sys = tree.sys();
        let found = pools(&sys, "md0");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].mapper_name, "vg-pool-tpool");
        assert_eq!(found[0].volumes, [("dm-3".to_owned(), "vg-thin".to_owned())]);
        let status = status(&sys, found[0].dev).unwrap();
        assert!(status.holds_writes() && !status.needs_check);
        assert_eq!((status.data, status.metadata), ((800, 800), (13, 4096)));
        assert_eq!(pools(&sys, "dm-3"), []);
    }
}
