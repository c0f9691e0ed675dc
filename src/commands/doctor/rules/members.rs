//! Differences between members: a stripe is as slow as its slowest member.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::list;
use crate::advice::quote::quote;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, DiskFacts};
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::machine::Member;

/// Maximum number of unused sectors of a member that is not reported: 1 GiB.
const MAX_UNUSED: u64 = 1 << 21;
const NO_MAJORITY: &str = "no value is on more than half of the members, so none is advised";
const SYSFS: &str = "Linux, Documentation/ABI/stable/sysfs-block";
const UNDONE: &str = "none: takes effect at once, is undone the same way, and is lost at a reboot \
                      unless a udev rule sets it";

type MemberDisk<'a> = (&'a Member, &'a DiskFacts);

/// Limits whose difference costs performance.
const COSTLY: [&str; 3] = ["max_sectors_kb", "nr_requests", "write_cache"];
/// Limits that can be changed in sysfs.
const WRITABLE: [&str; 2] = ["max_sectors_kb", "nr_requests"];

/// Limits of a disk by name, from sysfs `queue/` and `mq/`.
fn limits_of((m, d): &MemberDisk<'_>) -> [(&'static str, String); 7] {
    [
        ("max_sectors_kb", number(d.max_kib)),
        ("nr_requests", number(d.requests)),
        ("write_cache", d.write_cache.clone()),
        ("logical_block_size", number(d.logical_block)),
        ("physical_block_size", number(d.physical_block)),
        ("hardware queues", number(m.queue.nr_hw_queues.into())),
        ("tags", number(m.queue.nr_tags.into())),
    ]
}

/// The number, or an empty string for 0: unknown.
fn number(n: u64) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// A value that differs between members.
struct Differing {
    /// `mq-deadline on 3 (sda, sdb and sdc), none on 1 (sdd)`.
    words: String,
    /// Value of more than half of the members, if any: the one to advise.
    usual: Option<String>,
    /// Kernel names of the disks with other values.
    odd: Vec<String>,
}

/// Compares a value of the members, ignoring those without one. `None` if all are equal.
fn compare(
    pairs: &[MemberDisk<'_>],
    value: impl Fn(&MemberDisk<'_>) -> String,
) -> Option<Differing> {
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pair in pairs {
        names.entry(value(pair)).or_default().push(&pair.0.disk_name);
    }
    names.remove("");
    if names.len() < 2 {
        return None;
    }
    let total: usize = names.values().map(Vec::len).sum();
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|(_, on)| Reverse(on.len()));
    let words = names
        .iter()
        .map(|(value, on)| format!("{value} on {} ({})", on.len(), list(on)))
        .collect::<Vec<_>>()
        .join(", ");
    let usual = Some(&names[0]).filter(|(_, on)| 2 * on.len() > total);
    let mut odd: Vec<String> = names
        .iter()
        .skip(1)
        .flat_map(|(_, on)| on)
        .filter(|_| usual.is_some())
        .map(|n| (*n).to_owned())
        .collect();
    odd.sort();
    Some(Differing { words, usual: usual.map(|(value, _)| value.clone()), odd })
}

/// Members that hold data and are disks, not arrays.
fn data_members(of: &ArrayFacts) -> Vec<MemberDisk<'_>> {
    let disk = |m: &Member| m.slot.is_some() && m.nested_array.is_none() && !m.disk_name.is_empty();
    let faulty = |m: &Member| m.state.iter().any(|w| w == "faulty");
    of.members().filter(|(m, _)| disk(m) && !faulty(m)).collect()
}

/// Differences in kind, scheduler, limits, model and size; missing statistics.
pub fn differences(of: &ArrayFacts) -> Vec<Finding> {
    let pairs = data_members(of);
    let mut found = Vec::new();
    if of.array.is_md() {
        found.extend(rotational(of, &pairs));
        let scheduler = scheduler(&pairs);
        // blk_mq_init_sched() sets nr_requests, so other schedulers mean other numbers.
        let same = scheduler.is_none();
        found.extend(scheduler);
        found.extend(limits(&pairs, same));
        found.extend(model(&pairs));
        found.extend(size(of, &pairs));
    }
    found.extend(iostats(&pairs));
    found
}

fn rotational(of: &ArrayFacts, pairs: &[MemberDisk<'_>]) -> Option<Finding> {
    let kind = |(m, _): &MemberDisk<'_>| {
        if m.queue.rotational { "rotational" } else { "solid state" }.to_owned()
    };
    let words = compare(pairs, kind)?.words;
    let finding =
        Finding::warning("members-rotational", "rotational and solid-state disks in one array")
            .seen(format!("queue/rotational: {words}"));
    if of.array.level != "raid1" {
        return Some(finding.risk("the only fix is to replace disks"));
    }
    // In a mirror, exactly the rotational members should be write-mostly.
    let write_mostly = |m: &Member| m.state.iter().any(|w| w == "write_mostly");
    let mut wrong: Vec<&Member> =
        pairs.iter().map(|(m, _)| *m).filter(|m| m.queue.rotational != write_mostly(m)).collect();
    if wrong.is_empty() {
        return None;
    }
    // Rotational members first: md would read from them while no member is write-mostly.
    wrong.sort_by_key(|m| !m.queue.rotational);
    let line = |m: &Member| match m.queue.rotational {
        true => format!("{} is rotational but not write-mostly", m.name),
        false => format!("{} is not rotational, but write-mostly", m.name),
    };
    let command = |m: &Member| {
        let sign = if m.queue.rotational { "" } else { "-" };
        let file = of.sysfs(&format!("md/dev-{}/state", m.name));
        format!("echo {sign}writemostly > {file}")
    };
    Some(
        finding
            .seen_all(wrong.iter().map(|m| line(m)))
            .commands(wrong.iter().map(|m| command(m)))
            .risk(
                "md then reads from the solid-state disks only; undone by writing `-writemostly` \
                 and `writemostly` the other way round",
            ),
    )
}

/// Command that sets an attribute of a disk's queue.
fn set(disk: &str, attribute: &str, value: &str) -> String {
    format!("echo {} > /sys/block/{}/queue/{attribute}", quote(value), quote(disk))
}

fn scheduler(pairs: &[MemberDisk<'_>]) -> Option<Finding> {
    let found = compare(pairs, |(m, _)| m.queue.scheduler.clone().unwrap_or_default())?;
    let finding = Finding::warning("members-scheduler", "members have different IO schedulers")
        .seen(format!("queue/scheduler: {}", found.words));
    Some(match found.usual {
        None => finding.seen(NO_MAJORITY),
        Some(usual) => finding
            .commands(found.odd.iter().map(|disk| set(disk, "scheduler", &usual)))
            .risk(UNDONE),
    })
}

/// `has_one_scheduler`: false if the members' schedulers differ, so that nr_requests is not
/// compared.
fn limits(pairs: &[MemberDisk<'_>], has_one_scheduler: bool) -> Option<Finding> {
    let mut names = Vec::new();
    let mut finding = Finding::info("members-limits", "").risk(UNDONE).source(SYSFS);
    for (i, (name, _)) in pairs.first().map(limits_of)?.into_iter().enumerate() {
        if name == "nr_requests" && !has_one_scheduler {
            continue;
        }
        let Some(found) = compare(pairs, |pair| limits_of(pair)[i].1.clone()) else {
            continue;
        };
        names.push(name);
        finding = finding
            .raise_if(COSTLY.contains(&name), FindingSeverity::Warning)
            .seen(format!("{name}: {}", found.words));
        finding = match found.usual {
            _ if !WRITABLE.contains(&name) => finding,
            None => finding.seen(format!("{name}: {NO_MAJORITY}")),
            Some(usual) => finding.commands(found.odd.iter().map(|disk| set(disk, name, &usual))),
        };
    }
    finding.title = format!("members differ in {}", names.join(", "));
    (!names.is_empty()).then_some(finding)
}

fn model(pairs: &[MemberDisk<'_>]) -> Option<Finding> {
    let words = compare(pairs, |(_, d)| d.model.clone())?.words;
    Some(
        Finding::info("members-model", "members are of different models")
            .seen(format!("device/model: {words}"))
            .source(SYSFS),
    )
}

/// Unused space on larger members. RAID 0 uses all of it: see [`zones`].
fn size(of: &ArrayFacts, pairs: &[MemberDisk<'_>]) -> Option<Finding> {
    let used = of.array.component_sectors;
    if used == 0 || of.array.before_reshape.is_some() {
        return None;
    }
    let bytes = |sectors: u64| units::size(sectors.saturating_mul(512));
    let unused: Vec<_> = pairs
        .iter()
        .map(|(m, _)| (&m.name, m.data_sectors.saturating_sub(used)))
        .filter(|(_, n)| *n > MAX_UNUSED && *n > used / 100)
        .collect();
    if unused.is_empty() {
        return None;
    }
    let total: u64 = unused.iter().map(|(_, n)| n).sum();
    let finding =
        Finding::info("members-size", format!("{} of larger members are unused", bytes(total)))
            .seen(format!("md/component_size is {}", bytes(used)))
            .seen_all(
                unused
                    .iter()
                    .take(8)
                    .map(|(name, n)| format!("{name} could hold {} more", bytes(*n))),
            )
            .figure("unused_bytes", total.saturating_mul(512));
    // raid10_resize(): not with far copies (bits 8 to 15) unless they are offset copies (bit 16).
    // mdadm: not in a container.
    let layout = of.array.layout;
    let is_far = of.array.level == "raid10" && layout >> 8 & 0xff > 1 && layout >> 16 & 1 == 0;
    // If all members are larger, the array can grow without new disks.
    if unused.len() < of.array.raid_disks as usize || is_far || of.container().is_some() {
        return Some(finding);
    }
    Some(
        finding
            .command(format!("mdadm --grow {} --size=max", of.path()))
            .risk(
                "md syncs the added space, which takes hours; grow the filesystem afterwards \
                 (ext4: resize2fs, XFS: xfs_growfs)",
            )
            .not_when("the rest of the members is unused on purpose"),
    )
}

fn iostats(pairs: &[MemberDisk<'_>]) -> Option<Finding> {
    let off: Vec<&str> = pairs
        .iter()
        .filter(|(m, _)| !m.queue.iostats && !m.queue.bio_based)
        .map(|(m, _)| m.disk_name.as_str())
        .collect();
    let names = list(&off);
    let finding = Finding::info("members-iostats", format!("no IO statistics on {names}"))
        .seen(format!("queue/iostats is 0 on {names}"))
        .commands(off.iter().map(|disk| set(disk, "iostats", "1")));
    (!off.is_empty()).then_some(finding)
}

/// A RAID 0 of unequal members: the end of the array is on fewer of them.
pub fn zones(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    if array.level != "raid0" || array.chunk_sectors == 0 {
        return Vec::new();
    }
    let chunk = u64::from(array.chunk_sectors);
    let data = array.members.iter().filter(|m| m.slot.is_some());
    let rows: Vec<u64> = data.map(|m| m.data_sectors / chunk).collect();
    let (Some(&least), Some(&most)) = (rows.iter().min(), rows.iter().max()) else {
        return Vec::new();
    };
    if least == most || least == 0 {
        return Vec::new();
    }
    let beyond = rows.iter().fold(0_u64, |sum, n| sum.saturating_add(n - least));
    let larger = rows.iter().filter(|n| **n > least).count();
    let bytes = |chunks: u64| chunks.saturating_mul(chunk).saturating_mul(512);
    let size = |chunks: u64| units::size(bytes(chunks));
    let title =
        format!("the last {} of the array are on {larger} of {} members", size(beyond), rows.len());
    vec![
        Finding::info("raid0-zones", title)
            .seen(format!("members hold from {} to {} of data", size(least), size(most)))
            .figure("beyond_bytes", bytes(beyond))
            .figure("members_beyond", larger),
    ]
}
