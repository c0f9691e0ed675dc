//! Differences between two topologies of the same host, in words. Pure.
//!
//! Compares everything that mappings and names depend on. Degraded state and resync progress do not
//! count as differences, unless reads must rebuild blocks. Removed members and arrays do not count
//! either, because they have no IO.

use super::types::{Array, Dev, DeviceRole, Filesystem, HostTopology, Member};

/// Adds the failed and removed members of `then` to `now`. Such a member may be re-added while its
/// slot is free, and its IO is then attributed from the first request. Leaves out members that
/// another array uses now, and members for which `disk_exists` is false, because a new disk may get
/// the same device number.
pub fn with_lost(
    then: &HostTopology,
    mut now: HostTopology,
    disk_exists: impl Fn(&Member) -> bool,
) -> HostTopology {
    let used: Vec<_> = now
        .arrays
        .iter()
        .flat_map(|a| a.members.iter().map(move |m| (a, m)))
        .map(|(a, m)| (a.dev, m.disk, m.start))
        .collect();
    for array in &mut now.arrays {
        let others: Vec<_> = (used.iter())
            .filter(|(owner, ..)| *owner != array.dev)
            .map(|(_, disk, start)| (*disk, *start))
            .chain((array.members.iter()).filter(|m| m.slot.is_some()).map(|m| (m.disk, m.start)))
            .collect();
        let same = |a: &&Array| a.dev == array.dev && a.name == array.name;
        let Some(was) = then.arrays.iter().find(same) else {
            continue;
        };
        let shape = |a: &Array| (a.level.clone(), a.layout, a.raid_disks, a.metadata.clone());
        if shape(was) != shape(array) || array.level == "raid0" {
            continue;
        }
        for slot in array.missing_slots() {
            let lost = was.members.iter().find(|m| m.slot == Some(slot));
            let Some(lost) =
                lost.filter(|m| !others.contains(&(m.disk, m.start)) && disk_exists(m))
            else {
                continue;
            };
            let mut lost = lost.clone();
            if !lost.state.iter().any(|w| w == "faulty") {
                lost.state.push("faulty".into());
            }
            match array.members.iter_mut().find(|m| m.name == lost.name) {
                // Another disk with this name, or a member re-added with another data offset.
                Some(m)
                    if (m.disk, m.start, m.data_offset)
                        != (lost.disk, lost.start, lost.data_offset) => {}
                Some(listed) => *listed = lost,
                None => array.members.push(lost),
            }
        }
    }
    now
}

/// One line for each array that differs: `md127: 12 -> 13 disks, loop13 joined`. Both arguments are
/// results of [`super::resolve_again`] without superblocks.
pub fn differences(then: &HostTopology, now: &HostTopology) -> Vec<String> {
    now.arrays
        .iter()
        .filter_map(|array| {
            let was = then.arrays.iter().find(|a| a.dev == array.dev && a.name == array.name);
            let changes = match was {
                Some(was) => array_changes(was, array, now),
                None => vec!["is now traced".to_owned()],
            };
            (!changes.is_empty()).then(|| format!("{}: {}", array.name, changes.join(", ")))
        })
        .collect()
}

/// Above this number, changes of one kind are counted instead of listed.
const MAX_NAMED: usize = 3;

fn array_changes(was: &Array, now: &Array, host: &HostTopology) -> Vec<String> {
    let mut changes = Vec::new();
    if was.raid_disks != now.raid_disks {
        changes.push(format!("{} -> {} disks", was.raid_disks, now.raid_disks));
    }
    if was.level != now.level {
        changes.push(format!("{} -> {}", was.level, now.level));
    }
    if was.chunk_sectors != now.chunk_sectors {
        let (a, b) = (was.chunk_sectors / 2, now.chunk_sectors / 2);
        changes.push(format!("chunk {a} -> {b} KiB"));
    }
    if was.layout != now.layout {
        changes.push(format!("layout {} -> {}", was.layout, now.layout));
    }
    let reshaping = |a: &Array| a.reshape_position.is_some() || a.before_reshape.is_some();
    let reshape_unchanged = reshaping(was) == reshaping(now);
    match (reshape_unchanged, reshaping(now)) {
        (true, _) => {}
        (false, true) => changes.push("a reshape has begun".into()),
        (false, false) => changes.push("the reshape has ended".into()),
    }
    if was.sectors != now.sectors {
        let mib = |a: &Array| a.sectors / 2048;
        changes.push(format!("{} -> {} MiB", mib(was), mib(now)));
    } else if was.component_sectors != now.component_sectors {
        changes.push("component size changed".into());
    }
    if was.metadata != now.metadata {
        changes.push("metadata version changed".into());
    }
    member_changes(was, now, reshape_unchanged, &mut changes);
    match (was.rebuilds(), now.rebuilds()) {
        _ if was.raid_disks != now.raid_disks => {}
        (false, true) => changes.push("a member is missing".into()),
        (true, false) => changes.push("no member is missing any more".into()),
        _ => {}
    }
    filesystem_changes(was, now, host, &mut changes);
    changes
}

/// `report_layouts`: also report changed layouts of members; false if a reshape has begun or ended,
/// which implies them.
fn member_changes(was: &Array, now: &Array, report_layouts: bool, changes: &mut Vec<String>) {
    let is = |m: &Member, word: &str| m.state.iter().any(|w| w == word);
    let (mut joined, mut moved, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for m in &now.members {
        // Removed from the machine, or failed.
        if m.dev == Dev::default() || is(m, "faulty") {
            continue;
        }
        let name = m.name.as_str();
        let Some(before) = was.members.iter().find(|b| b.name == m.name) else {
            joined.push(name);
            continue;
        };
        if m.slot.is_none() && before.slot.is_some() && !is(m, "journal") {
            continue; // re-added, and not yet in use
        }
        if m.slot != before.slot || is(m, "journal") != is(before, "journal") {
            moved.push(name);
        } else if report_layouts && mapping(&now.level, m) != mapping(&now.level, before) {
            changed.push(name);
        }
    }
    for (names, what) in
        [(joined, "joined"), (moved, "in another slot"), (changed, "with another layout or queue")]
    {
        match names.len() {
            0 => {}
            1..=MAX_NAMED => changes.push(format!("{} {what}", names.join(" and "))),
            n => changes.push(format!("{n} members {what}")),
        }
    }
}

/// Properties of a member that the BPF tables depend on.
fn mapping(level: &str, m: &Member) -> impl PartialEq + use<> {
    let sizes_may_differ = matches!(level, "raid0" | "linear" | "single");
    (
        (m.dev, m.disk, m.pieces().collect::<Vec<_>>(), m.nested_array, m.other_volumes),
        (m.data_offset, m.new_data_offset, m.data_sectors * u64::from(sizes_may_differ)),
        (m.sb_offset, m.bitmap, m.ppl),
        (m.queue.nr_hw_queues, m.queue.nr_tags, m.queue.iostats, m.queue.bio_based),
        m.paths.clone(),
    )
}

fn filesystem_changes(
    was: &Array,
    now: &Array,
    host: &HostTopology,
    all_changes: &mut Vec<String>,
) {
    let all = |a: &'_ Array| -> Vec<Filesystem> {
        a.filesystems.iter().chain(&a.unmounted).cloned().collect()
    };
    let (resized, now_dev) = (was.sectors != now.sectors, now.dev);
    let (was, now) = (all(was), all(now));
    let find = |list: &[Filesystem], dev| list.iter().find(|f| f.dev == dev).cloned();
    let mut changes = Vec::new();
    for fs in &now {
        match find(&was, fs.dev) {
            None => changes.push(format!("{} appeared", fs.name)),
            Some(before) if (&before.segments, &before.note) != (&fs.segments, &fs.note) => {
                // The size of the array itself is reported above.
                if resized && fs.dev == now_dev {
                    continue;
                }
                changes.push(format!("{} was moved or resized", fs.name));
            }
            Some(before) if (before.role == DeviceRole::Swap) != (fs.role == DeviceRole::Swap) => {
                let is = if fs.role == DeviceRole::Swap { "is" } else { "is no longer" };
                changes.push(format!("{} {is} swap", fs.name));
            }
            // The main device's array reports the mount.
            Some(before) if role_is_reported(&before, fs, host) => {}
            Some(before) => changes.extend(mount_change(&before, fs)),
        }
    }
    let gone = was.iter().filter(|fs| find(&now, fs.dev).is_none());
    changes.extend(gone.map(|fs| format!("{} was removed", fs.name)));
    if changes.len() > 2 * MAX_NAMED {
        changes = vec![format!("{} changes of devices and mounts on it", changes.len())];
    }
    all_changes.extend(changes);
}

/// True for the log or realtime device of a filesystem whose main device is on an array of `host`.
fn role_is_reported(was: &Filesystem, now: &Filesystem, host: &HostTopology) -> bool {
    let Some(main) = was.role.main().or(now.role.main()) else {
        return false;
    };
    let mut all = (host.arrays.iter()).flat_map(|a| a.filesystems.iter().chain(&a.unmounted));
    all.any(|fs| fs.dev == main.dev)
}

fn mount_change(was: &Filesystem, now: &Filesystem) -> Option<String> {
    let paths = |fs: &Filesystem| -> Vec<String> {
        fs.mounts.iter().map(|m| m.path.display().to_string()).collect()
    };
    let (before, after) = (paths(was), paths(now));
    match (before.first(), after.first()) {
        (None, Some(path)) => Some(format!("{} mounted on {path}", now.name)),
        (Some(path), None) => Some(format!("{} unmounted from {path}", now.name)),
        (Some(_), Some(path)) if before != after => Some(format!("{} is now on {path}", now.name)),
        _ => None,
    }
}
