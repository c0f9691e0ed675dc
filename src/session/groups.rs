//! Allocation groups of the XFS on each array.

use std::collections::BTreeMap;

use crate::analysis::placement::{FsMetadata, TargetArray, agsize};
use crate::analysis::snapshot::UnevenGroups;
use crate::fs::Layout;
use crate::machine;
use crate::machine::topology::Topology;

/// Arrays with an XFS whose allocation groups start on few members, by name.
pub fn uneven_groups(topology: &Topology) -> BTreeMap<String, UnevenGroups> {
    let arrays = topology.host.arrays.iter();
    let found = arrays.filter_map(|array| {
        let on = TargetArray::from_array(array).ok()?;
        let uneven = |fs: &machine::Filesystem| match topology.layouts.get(&fs.dev)? {
            layout @ Layout::Xfs(_) => {
                agsize::uneven(&FsMetadata::from_layout(layout.clone())?, &fs.segments, &on)
            }
            Layout::Ext4(_) | Layout::XfsDevice(_) | Layout::Swap { .. } => None,
        };
        Some((array.name.clone(), array.filesystems.iter().find_map(uneven)?))
    });
    found.collect()
}
