//! Block bitmap reads on the members of an array.

use crate::analysis::hist::Hist;
use crate::analysis::snapshot::Snapshot;
use crate::machine::topology::Topology;
use crate::origin::{Op, Origin};

/// Block bitmap reads on each member of the array that holds filesystem `dev`: name, requests,
/// bytes, device time.
pub(super) fn bitmap_reads(
    topology: &Topology,
    dev: u32,
    disks: &Snapshot,
) -> Vec<(String, u64, u64, Hist)> {
    let arrays = topology.host.arrays.iter();
    let below: Vec<&str> = arrays
        .filter(|a| a.filesystems.iter().any(|fs| fs.dev.kernel() == dev))
        .map(|a| a.name.as_str())
        .collect();
    let arrays = disks.arrays.iter().filter(|a| below.contains(&a.info.name.as_str()));
    let members = arrays.flat_map(|a| &a.members);
    members
        .filter_map(|m| {
            let cell = m.io.iter().find(|c| (c.origin, c.op) == (Origin::BlockBitmap, Op::Read))?;
            Some((m.name.clone(), cell.requests, cell.bytes, cell.device.clone()))
        })
        .collect()
}
