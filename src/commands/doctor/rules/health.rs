//! Redundancy of an array, and what md has recorded about wrong or unreadable blocks.

use super::{list, plural};
use crate::advice::quote::{path_of, quote};
use crate::analysis::units;
use crate::commands::doctor::facts::ArrayFacts;
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::machine::{Array, Member, RefusedArray, StoppedArray};

const MD: &str = "Linux, Documentation/admin-guide/md.rst; md(4)";

/// Further failures that an array tolerates.
pub(super) enum Redundancy {
    /// The level has no redundancy.
    None,
    /// More members have failed than the level tolerates.
    Exceeded,
    /// This many more members may fail.
    Left(u32),
}

pub(super) fn redundancy_left(array: &Array) -> Redundancy {
    let tolerated = match array.level.as_str() {
        "raid4" | "raid5" => 1,
        "raid6" => 2,
        "raid1" => array.raid_disks.saturating_sub(1),
        // The next member to fail may hold the last copy of a block, so the worst case counts.
        "raid10" => {
            let copies = (array.layout & 0xff).max(1) * (array.layout >> 8 & 0xff).max(1);
            return Redundancy::Left((copies - 1).saturating_sub(array.degraded));
        }
        _ => return Redundancy::None,
    };
    tolerated.checked_sub(array.degraded).map_or(Redundancy::Exceeded, Redundancy::Left)
}

/// `12.3 %`; `None` while md waits.
fn progress(array: &Array) -> Option<String> {
    let (done, total) = array.sync_completed.filter(|(_, total)| *total > 0)?;
    Some(format!("{:.1} %", 100.0 * done as f64 / total as f64))
}

/// Start of a command that adds or removes disks. A name without /dev also removes a disk that has
/// left the machine.
fn manage(of: &ArrayFacts) -> String {
    format!("mdadm --manage {}", of.container().unwrap_or_else(|| of.path()))
}

/// Faulty members of an array that needs them no longer.
fn left_over(of: &ArrayFacts, faulty: &[&str]) -> Vec<Finding> {
    // A failed journal device is not replaced by a spare.
    let journal = |name: &&str| {
        of.array.members.iter().any(|m| m.name == *name && m.state.iter().any(|w| w == "journal"))
    };
    let faulty: Vec<&str> = faulty.iter().copied().filter(|name| !journal(name)).collect();
    if faulty.is_empty() {
        return Vec::new();
    }
    let manage = manage(of);
    vec![
        Finding::info(
            "member-faulty",
            format!("faulty and out of use, but still attached: {}", list(&faulty)),
        )
        .seen(format!("md/dev-*/state is faulty, and md/degraded 0: {}", list(&faulty)))
        .commands(faulty.iter().map(|name| format!("{manage} --remove {}", quote(name))))
        .command(format!("{manage} --add /dev/NEW_DISK"))
        .source(MD),
    ]
}

/// `degraded by 1: the next disk failure loses data`; `left`: failures that it still tolerates.
pub(super) fn degraded(array: &Array, left: Option<u32>) -> String {
    let by = array.degraded;
    match left {
        // On RAID 10 only the failure of a disk with a last copy does.
        Some(0) if array.level == "raid10" => {
            format!("degraded by {by}: the next disk failure can lose data")
        }
        Some(0) => format!("degraded by {by}: the next disk failure loses data"),
        Some(n) => {
            let more = plural(n as usize, "more disk");
            format!("degraded by {by}: {more} may fail without data loss")
        }
        None => format!("failed: {} has lost more members than it tolerates", array.level),
    }
}

/// Degraded and failed arrays.
pub fn redundancy(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    if !array.is_md() {
        return Vec::new();
    }
    let is = |m: &Member, state: &str| m.state.iter().any(|word| word == state);
    let members = array.members.iter();
    let faulty: Vec<&str> =
        members.clone().filter(|m| is(m, "faulty")).map(|m| m.name.as_str()).collect();
    let spares: Vec<&str> = members
        .filter(|m| m.slot.is_none() && is(m, "spare") && !is(m, "faulty"))
        .map(|m| m.name.as_str())
        .collect();
    let left = match redundancy_left(array) {
        // NAS boxes make a RAID 1 with a slot for each bay.
        Redundancy::Left(copies @ 1..)
            if array.level == "raid1" && faulty.is_empty() && array.degraded > copies + 1 =>
        {
            let title = format!("{} of {} slots have a disk", copies + 1, array.raid_disks);
            let finding = Finding::info("array-slots", title)
                .seen(format!("md/degraded is {}, and no member faulty", array.degraded))
                .source(MD);
            return vec![finding];
        }
        _ if array.array_state == "broken" => None,
        Redundancy::None if faulty.is_empty() => return Vec::new(),
        Redundancy::None => None,
        _ if array.degraded == 0 => return left_over(of, &faulty),
        Redundancy::Exceeded => None,
        Redundancy::Left(n) => Some(n),
    };
    let rebuilding = array.sync_action.as_deref() == Some("recover");
    let mirrors = matches!(array.level.as_str(), "raid1" | "raid10");
    let refuses_writes = mirrors && array.array_state == "broken";
    // raid1_error(), raid10_error(): the last copy stays in the array, and MD_BROKEN refuses
    // writes.
    let mut title = if left.is_none() && refuses_writes {
        "failed: the last copy of some blocks is on a disk that reports errors".to_owned()
    } else {
        degraded(array, left)
    };
    if rebuilding {
        let at = progress(array).unwrap_or_else(|| "waiting".to_owned());
        title.push_str(&format!("; rebuilding, {at}"));
    }
    let finding = match left {
        Some(1..) => Finding::warning("array-degraded", title),
        _ => Finding::critical("array-degraded", title),
    };
    let slots: Vec<String> = array.missing_slots().iter().map(u32::to_string).collect();
    let action = array.sync_action.as_deref().unwrap_or("unknown");
    let finding = finding
        .seen(format!(
            "{} of {} members, md/degraded is {}, md/array_state {}",
            array.level, array.raid_disks, array.degraded, array.array_state
        ))
        .seen_all(
            (!slots.is_empty()).then(|| format!("no working member in slot {}", list(&slots))),
        )
        .seen_all((!faulty.is_empty()).then(|| format!("faulty: {}", list(&faulty))))
        .seen_all((!spares.is_empty() && !rebuilding).then(|| {
            format!(
                "md has a spare ({}) and is not rebuilding: md/sync_action is {action}",
                list(&spares)
            )
        }))
        .figure("degraded", array.degraded)
        .figure("failures_left", left.unwrap_or(0))
        .figure("rebuilding", rebuilding)
        .why(match left {
            None if refuses_writes => {
                "md refuses all writes until the array is assembled again; reads still go to that \
                 disk"
            }
            None => {
                "blocks whose last copy, or too many of whose stripe, were on the missing members \
                 cannot be read"
            }
            Some(_) if mirrors => {
                "until the missing member is rebuilt, its blocks are read from the remaining \
                 copies, and the redundancy of the level is reduced"
            }
            Some(_) => {
                "until the missing member is rebuilt, its blocks are computed from the others, \
                 which costs reads, and the redundancy of the level is reduced"
            }
        })
        .source(MD);
    let dev = of.path();
    if left.is_none() {
        return vec![finding.command(format!("mdadm --detail {dev}")).risk(
            "none: the command only reports. Stop all writers and copy the data that can still be \
             read. A member that lost its cable or power may come back: copy the disks, then \
             mdadm --stop, and mdadm --assemble --force with all members",
        )];
    }
    if rebuilding {
        return vec![finding.risk("no action: wait for the rebuild, see /proc/mdstat")];
    }
    let manage = manage(of);
    let next = if spares.is_empty() {
        Some(format!("{manage} --add /dev/NEW_DISK"))
    } else if array.array_state == "read-auto" {
        Some(format!("mdadm --readwrite {dev}"))
    } else {
        (action == "frozen").then(|| format!("echo idle > {}", of.sysfs("md/sync_action")))
    };
    let remove = faulty.iter().map(quote);
    let copies = if mirrors {
        ". If dmesg shows errors of a remaining member, copy its data before --add: md does not \
         rebuild from it then"
    } else {
        ""
    };
    vec![
        finding
            .commands(remove.map(|name| format!("{manage} --remove {name}")))
            .commands(next)
            .risk(format!(
                "a rebuild reads every sector that it copies or computes from, and where no \
                 redundancy is left, blocks that cannot be read are lost: copy important files \
                 first. The content of the new disk is overwritten{copies}"
            ))
            .not_when(
                "the disk only lost its cable or power and the array has a write-intent bitmap: \
                 --re-add the same disk, which copies only the changes",
            ),
    ]
}

/// A running resync, check, repair, rebuild or reshape.
pub fn syncing(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    let action = match array.sync_action.as_deref() {
        None | Some("idle") => return Vec::new(),
        Some("recover") if array.degraded > 0 => return Vec::new(),
        Some(action) => action,
    };
    let why = match action {
        "check" => "md compares all copies or parity, and reads every member until it ends",
        "repair" => "md compares all copies or parity and rewrites those that differ",
        "reshape" => {
            "md moves every block: reads and writes on all members, and the location of blocks \
             changes as it proceeds"
        }
        "frozen" => "md neither rebuilds nor resyncs until sync_action is changed",
        "resync" => {
            "copies or parity may be wrong until the resync ends: a disk failure now may lose \
             blocks"
        }
        _ => "md copies a member: reads and writes in addition to the load",
    };
    let done = progress(array).map_or(String::new(), |at| format!(", {at} done"));
    let sectors = array.sync_completed.map_or(String::new(), |(done, total)| {
        format!(", md/sync_completed {done} / {total} sectors")
    });
    let title = match action {
        "frozen" => "resync and rebuild are frozen".to_owned(),
        _ if of.waits_to_sync => format!("{action} waits for another array on the same disks"),
        _ => format!("{action} in progress{done}"),
    };
    // md_do_sync(): arrays whose members are on one disk take turns.
    let waits = "md/sync_completed is delayed: arrays that share a disk are synced one by one";
    let mut finding = Finding::info("array-syncing", title)
        .raise_if(!matches!(action, "check" | "repair"), FindingSeverity::Warning)
        .seen(format!("md/sync_action is {action}{sectors}"))
        .seen_all(of.waits_to_sync.then(|| waits.to_owned()))
        .figure("action", action)
        .why(why)
        .source(MD);
    if let Some((done, total)) = array.sync_completed.filter(|(_, total)| *total > 0) {
        finding = finding.figure("done", done as f64 / total as f64);
    }
    let stop = format!("echo idle > {}", of.sysfs("md/sync_action"));
    vec![match action {
        "check" | "repair" => finding
            .command(stop)
            .risk(format!(
                "none: the next {action} continues where this one stopped. `echo 0 > {}` before \
                 it starts from the beginning",
                of.sysfs("md/sync_min")
            ))
            .not_when("the array has little other load"),
        "frozen" => {
            finding.command(stop).risk("the pending rebuild or resync starts at once").not_when(
                "an administrator froze it to replace a disk, or mdadm froze it for a moment",
            )
        }
        "reshape" => finding.risk(format!(
            "no action: wait until it ends, see /proc/mdstat. If md/sync_completed does not \
             change and no mdadm is running: mdadm --grow --continue {}",
            of.path()
        )),
        _ => finding.risk("no action: wait until it ends, see /proc/mdstat"),
    }]
}

/// A resync that is due and has not started: md waits for the first write (`read-auto`) or for
/// `mdadm --readwrite` (`readonly`). sync_action is `idle` meanwhile.
pub fn pending(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    let state = array.array_state.as_str();
    let (Some(from), true) = (of.resync_from, of.is_idle() && array.is_md()) else {
        return Vec::new();
    };
    let redundant = !matches!(redundancy_left(array), Redundancy::None);
    if !redundant || matches!(state, "clear" | "inactive") {
        return Vec::new();
    }
    let finding = Finding::warning(
        "array-resync-pending",
        format!("a resync is due and has not started: md/array_state is {state}"),
    )
    .seen(format!(
        "md/resync_start is {from}, md/sync_action {}: copies or parity may be wrong from sector \
         {from} of {}",
        array.sync_action.as_deref().unwrap_or("unknown"),
        // md_do_sync(): a resync of RAID 10 counts sectors of the array (resync_max_sectors).
        if array.level == "raid10" { "the array" } else { "each member" }
    ))
    .figure("resync_from_sector", from);
    // raid1_sync_request(): only check and repair read all copies.
    let effect = match array.level.as_str() {
        "raid1" => {
            "reads one member and overwrites all others with it (with a bitmap, only marked chunks)"
        }
        _ => "reads all members, and writes where they differ",
    };
    vec![match state {
        "read-auto" => finding
            .command(format!("mdadm --readwrite {}", of.path()))
            .risk(format!("the resync starts at once, as it would at the first write: it {effect}"))
            .not_when(
                "a member may hold wrong data: copy the array first, as a resync trusts the data \
                 blocks, or one of the copies",
            ),
        "readonly" => finding
            .risk(format!(
                "an administrator made the array read-only. `mdadm --readwrite` starts the \
                 resync: it {effect}"
            ))
            .not_when("the array is read-only on purpose, to copy data off it"),
        _ => finding.risk("no action if the resync starts within seconds; see /proc/mdstat"),
    }]
}

/// Bad blocks, corrected read errors and mismatches.
pub fn bad_sectors(of: &ArrayFacts) -> Vec<Finding> {
    let dev = of.path();
    // md gives a new disk to a missing member first, and mdadm replaces members of native metadata
    // only.
    let replaceable = of.array.degraded == 0 && of.container().is_none();
    let bad = of.members().filter(|(_, d)| !d.bad_blocks.is_empty());
    let mut found: Vec<Finding> = bad
        .map(|(member, disk)| {
            let sectors = disk.bad_blocks.iter().fold(0_u64, |a, (_, n)| a.saturating_add(*n));
            let path = path_of(&member.name);
            let title = format!("md no longer reads {sectors} sectors of {}", member.name);
            Finding::warning("member-bad-blocks", title)
                .raise_if(of.array.degraded > 0, FindingSeverity::Critical)
                .seen(format!(
                    "md/dev-{}/bad_blocks: {}, the first at sector {}, {} total",
                    member.name,
                    plural(disk.bad_blocks.len(), "run"),
                    disk.bad_blocks.first().map_or(0, |b| b.0),
                    units::size(sectors.saturating_mul(512)),
                ))
                .figure("member", member.name.clone())
                .figure("sectors", sectors)
                .command(format!("mdadm --examine-badblocks {path}"))
                .commands(replaceable.then(|| {
                    // One command line: mdadm marks the member for replacement even if the new disk
                    // does not exist.
                    format!(
                        "mdadm --manage {dev} --add /dev/NEW_DISK && mdadm --manage {dev} \
                         --replace {path} --with /dev/NEW_DISK"
                    )
                }))
                .risk(match of.array.degraded {
                    0 if !replaceable => "none: the command only reports",
                    0 => {
                        "the content of the new disk is overwritten; the array stays redundant \
                         meanwhile"
                    }
                    _ => {
                        "none: the command only reports. Rebuild the missing member first: md \
                         gives any new disk to the empty slot"
                    }
                })
        })
        .collect();
    let corrected = of.members().filter(|(_, d)| d.read_errors > 0);
    found.extend(corrected.map(|(member, disk)| {
        let (name, n) = (&member.name, disk.read_errors);
        Finding::warning(
            "member-read-errors",
            format!("{name}: md has counted about {n} sectors with read errors"),
        )
        .seen(format!("md/dev-{name}/errors is {n}"))
        .figure("member", name.clone())
        .figure("errors", n)
        .command(format!("smartctl -x {}", path_of(&member.disk_name)))
    }));
    found.extend(mismatch(of));
    found
}

/// Mismatches counted by a check or repair. A resync and a rebuild count too (raid5.c,
/// `handle_parity_checks6`), but those blocks were not known to match before: on a new array that
/// applies to all blocks.
fn mismatch(of: &ArrayFacts) -> Option<Finding> {
    let n = of.mismatches;
    if n == 0 || matches!(redundancy_left(&of.array), Redundancy::None) {
        return None;
    }
    let running = of.array.sync_action == of.last_sync;
    let last_sync = of.last_sync.as_deref()?;
    let finding = match last_sync {
        "check" => Finding::info(
            "array-mismatch",
            if running {
                format!("the running check has found {n} mismatched sectors so far")
            } else {
                format!("the last check found {n} mismatched sectors")
            },
        )
        .raise_if(of.has_parity(), FindingSeverity::Warning),
        "repair" => Finding::info(
            "array-repaired",
            if running {
                format!("the running repair has rewritten {n} sectors so far")
            } else {
                format!("the last repair rewrote {n} mismatched sectors")
            },
        ),
        _ => return None,
    };
    let again = format!("echo check > {}", of.sysfs("md/sync_action"));
    // process_checks() of raid1.c and sync_request_write() of raid10.c add the whole piece in which
    // they found a difference.
    let pieces = match of.has_parity() {
        true => "",
        false => ", counted in pieces of up to 64 KiB",
    };
    Some(
        finding
            .seen(format!("md/mismatch_cnt is {n}{pieces}, md/last_sync_action {last_sync}"))
            .figure("sectors", n)
            .commands((!running).then_some(again))
            .source(
                "md(4), SCRUBBING AND MISMATCHES; Linux, Documentation/admin-guide/md.rst, \
                 last_sync_action",
            ),
    )
}

/// An array that is assembled but not running.
pub fn stopped(array: &StoppedArray) -> Finding {
    let StoppedArray { name, state, members, slots } = array;
    let dev = path_of(name);
    let names: Vec<&str> = members.iter().map(String::as_str).collect();
    let of = slots.map_or(String::new(), |slots| format!(" of {slots}"));
    let title = match slots {
        Some(slots) if (members.len() as u64) < u64::from(*slots) => {
            format!(
                "not running: {} of {} are here",
                members.len(),
                plural(*slots as usize, "member")
            )
        }
        _ => format!("not running: md/array_state is {state}"),
    };
    Finding::warning("array-stopped", title)
        .on_array(name)
        .seen(format!(
            "md/array_state is {state}: the array has {}{of} members ({}) and serves no IO",
            members.len(),
            list(&names)
        ))
        .figure("state", state.clone())
        .command(format!("mdadm --detail {dev}"))
        .command(format!("mdadm --run {dev}"))
}

/// An array whose superblocks this kernel does not accept.
pub fn refused(array: &RefusedArray) -> Finding {
    let members: Vec<&str> = array.members.iter().map(String::as_str).collect();
    let members = list(&members);
    let name = if array.name.is_empty() { "without a name" } else { &array.name };
    Finding::warning(
        "array-refused",
        format!("array {name} is not assembled: a newer kernel made it ({members})"),
    )
    .seen(format!(
        "the superblock of {members} has a logical block size ({} bytes, at byte 224), which this \
         kernel's md does not know",
        array.logical_block
    ))
    .figure("members", array.members.len())
    .figure("logical_block_bytes", array.logical_block)
}
