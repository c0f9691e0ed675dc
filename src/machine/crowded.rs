//! Leaves out arrays for which the programs have no room: a disk can carry [`DISK_PARTS`] members
//! of traced arrays, and there can be [`DEVS`] disks and arrays. The busiest arrays stay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::stat::DiskStat;
use super::sys::Sys;
use super::types::{Array, Dev, HostTopology};
use crate::contract::{DEVS, DISK_PARTS};

/// Number of names that a note lists.
const MAX_NAMED: usize = 8;

/// Leaves out arrays until all have room, and adds a note with their names. Arrays in `known` stay
/// before others.
pub fn leave_out(sys: &Sys, known: &[Array], mut host: HostTopology) -> HostTopology {
    let stat = |name: &str| sys.text(&format!("/sys/block/{name}/stat"));
    let work = |array: &Array| {
        let stat = stat(&array.name).and_then(|text| DiskStat::parse(&text));
        stat.map_or(0, |stat| stat.read_sectors.saturating_add(stat.write_sectors))
    };
    let is_known =
        |array: &Array| known.iter().any(|k| (k.dev, &k.name) == (array.dev, &array.name));
    let mut order: Vec<&Array> = host.arrays.iter().collect();
    // Most hosts have room for all, and need no figures.
    if fitting(order.iter().copied()).len() == order.len() {
        return host;
    }
    order.sort_by_cached_key(|array| Reverse((is_known(array), work(array))));
    let fitting = fitting(order.into_iter());
    let is_left_out = |array: &&Array| !fitting.contains(&array.dev);
    let names: Vec<&str> =
        host.arrays.iter().filter(is_left_out).map(|array| array.name.as_str()).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    host.notes.push(format!(
        "not traced: {}{}, which had less IO than the others, because raidtrace has room for \
         {DISK_PARTS} members on a disk and {DEVS} devices: name the arrays to trace",
        names[..names.len() - more].join(", "),
        if more > 0 { format!(" and {more} more") } else { String::new() },
    ));
    host.arrays.retain(|array| fitting.contains(&array.dev));
    host
}

/// The arrays that have room if the first ones are taken first.
fn fitting<'a>(arrays: impl Iterator<Item = &'a Array>) -> BTreeSet<Dev> {
    let mut members: BTreeMap<Dev, u32> = BTreeMap::new();
    let (mut devices, mut found) = (BTreeSet::new(), BTreeSet::new());
    for array in arrays {
        let mut own: BTreeMap<Dev, u32> = BTreeMap::new();
        for m in &array.members {
            let parts = own.entry(m.disk).or_default();
            *parts = parts.saturating_add(u32::try_from(m.pieces().count()).unwrap_or(u32::MAX));
        }
        let of = |disk: &Dev| members.get(disk).copied().unwrap_or(0);
        let has_room = own.iter().all(|(disk, number)| of(disk) + number <= DISK_PARTS);
        let mut all: BTreeSet<Dev> = array.members.iter().flat_map(|m| [m.disk, m.dev]).collect();
        all.insert(array.dev);
        all.extend(array.filesystems.iter().map(|fs| fs.dev));
        all.extend(array.members.iter().flat_map(|m| &m.paths).map(|path| path.dev));
        all.extend(array.members.iter().filter_map(|m| m.metadata_device).map(|meta| meta.dev));
        let new = all.difference(&devices).count();
        if has_room && devices.len() + new <= DEVS as usize {
            devices.extend(all);
            own.into_iter().for_each(|(disk, n)| *members.entry(disk).or_default() += n);
            found.insert(array.dev);
        }
    }
    found
}
