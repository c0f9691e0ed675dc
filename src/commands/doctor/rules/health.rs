//! Whether an array still has its redundancy, and whether its members read what was written.

use super::{list, plural};
use crate::advice::quote::path_of;
use crate::analysis::units;
use crate::commands::doctor::facts::ArrayFacts;
use crate::commands::doctor::finding::{Finding, Severity};
use crate::machine::{Array, Member};

const MD: &str = "Linux, Documentation/admin-guide/md.rst; md(4)";

/// What becomes of the array when members fail.
enum Left {
    /// The level has no redundancy.
    NoLevel,
    /// More have failed than it bears.
    Failed,
    /// So many more may fail.
    May(u32),
}

fn left(array: &Array) -> Left {
    let spare = match array.level.as_str() {
        "raid4" | "raid5" => 1,
        "raid6" => 2,
        "raid1" => array.raid_disks.saturating_sub(1),
        // At worst the next one holds the other copy of the same block; others of those gone may not.
        "raid10" => {
            let copies = (array.layout & 0xff).max(1) * (array.layout >> 8 & 0xff).max(1);
            return Left::May((copies - 1).saturating_sub(array.degraded));
        }
        _ => return Left::NoLevel,
    };
    match spare.checked_sub(array.degraded) {
        Some(more) => Left::May(more),
        None => Left::Failed,
    }
}

fn has(member: &Member, word: &str) -> bool {
    member.state.iter().any(|w| w == word)
}

/// `12.3 %`, or nothing while md waits.
fn progress(array: &Array) -> Option<String> {
    let (done, all) = array.sync_completed.filter(|(_, all)| *all > 0)?;
    Some(format!("{:.1} %", 100.0 * done as f64 / all as f64))
}

/// Degraded and broken arrays.
pub fn redundancy(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    if !array.is_md() {
        return Vec::new();
    }
    let faulty: Vec<&str> = array
        .members
        .iter()
        .filter(|m| has(m, "faulty"))
        .map(|m| m.name.as_str())
        .collect();
    let left = match left(array) {
        _ if array.array_state == "broken" => Left::Failed,
        Left::NoLevel if faulty.is_empty() => return Vec::new(),
        Left::NoLevel => Left::Failed,
        left if array.degraded > 0 => left,
        _ => return Vec::new(),
    };
    let slots: Vec<String> = array.missing_slots().iter().map(u32::to_string).collect();
    let rebuilding = array.sync_action.as_deref() == Some("recover");
    let spares: Vec<&str> = array
        .members
        .iter()
        .filter(|m| m.slot.is_none() && has(m, "spare") && !has(m, "faulty"))
        .map(|m| m.name.as_str())
        .collect();
    let severity = match left {
        Left::May(1..) => Severity::Warning,
        _ => Severity::Critical,
    };
    let mut title = match left {
        Left::May(0) => format!(
            "degraded by {}: the next disk to fail takes data with it",
            array.degraded
        ),
        Left::May(n) => format!(
            "degraded by {}: {} may fail",
            array.degraded,
            plural(n as usize, "more disk")
        ),
        _ => format!("failed: more members are gone than {} bears", array.level),
    };
    if rebuilding {
        let at = progress(array).unwrap_or_else(|| "waiting".to_owned());
        title.push_str(&format!("; rebuilding, {at}"));
    }
    let mut finding = Finding::new("array-degraded", severity, title)
        .seen(format!(
            "{} of {} members, md/degraded is {}, md/array_state {}",
            array.level, array.raid_disks, array.degraded, array.array_state
        ))
        .figure("degraded", array.degraded)
        .figure(
            "failures_left",
            match left {
                Left::May(n) => n,
                _ => 0,
            },
        )
        .figure("rebuilding", rebuilding)
        .why("until the missing member is rebuilt its blocks are computed from all others, which costs reads, and what the level promises does not hold")
        .source(MD);
    if !slots.is_empty() {
        finding = finding.seen(format!("no working member in slot {}", list(&slots)));
    }
    if !faulty.is_empty() {
        finding = finding.seen(format!("faulty: {}", list(&faulty)));
    }
    if !spares.is_empty() && !rebuilding {
        let action = array.sync_action.as_deref().unwrap_or("not told");
        finding = finding.seen(format!(
            "a spare is there ({}) and md does not rebuild: md/sync_action is {action}",
            list(&spares)
        ));
    }
    let dev = of.path();
    if !matches!(left, Left::May(_)) {
        return vec![finding.command(format!("mdadm --detail {dev}")).risk(
            "none: it only shows. Stop what writes, copy what can still be read; a member whose cable or power failed \
                 may come back (mdadm --assemble)",
        )];
    }
    if rebuilding {
        return vec![
            finding
                .risk("nothing to do but to wait; see /proc/mdstat")
                .unless("it is rebuilding"),
        ];
    }
    for name in &faulty {
        finding = finding.command(format!("mdadm --manage {dev} --remove {}", path_of(name)));
    }
    if spares.is_empty() {
        finding = finding.command(format!("mdadm --manage {dev} --add /dev/NEW_DISK"));
    } else if array.array_state == "read-auto" {
        finding = finding.command(format!("mdadm --readwrite {dev}"));
    } else if array.sync_action.as_deref() == Some("frozen") {
        finding = finding.command(format!(
            "echo idle > /sys/block/{}/md/sync_action",
            array.name
        ));
    }
    vec![finding
        .risk("a rebuild reads every sector of all other members: what one of them cannot read is lost, so copy first what must not be; \
               the new disk's content is overwritten")
        .unless("the disk only lost its cable or power and the array has a write-intent bitmap: --re-add the same disk, which copies \
                 only what has changed")]
}

/// Resync, check, repair and reshape.
pub fn syncing(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    let action = match array.sync_action.as_deref() {
        None | Some("idle") => return Vec::new(),
        Some("recover") if array.degraded > 0 => return Vec::new(),
        Some(action) => action,
    };
    let at = progress(array);
    let (severity, means) = match action {
        "check" => (
            Severity::Info,
            "md compares all copies or parity: reads on every member until it is done",
        ),
        "repair" => (Severity::Info, "md compares and rewrites what differs"),
        "reshape" => (
            Severity::Warning,
            "every block moves: reads and writes on all members, and where blocks lie changes as it goes on",
        ),
        "frozen" => (
            Severity::Warning,
            "md neither rebuilds nor resyncs until it is told to go on",
        ),
        "resync" => (
            Severity::Warning,
            "copies or parity are not known to be right until it is done: a disk that fails now may take blocks with it",
        ),
        _ => (
            Severity::Warning,
            "md copies a member: reads and writes beside those of users",
        ),
    };
    let shown = at
        .clone()
        .map_or(String::new(), |at| format!(", {at} done"));
    let mut finding = Finding::new(
        "array-syncing",
        severity,
        format!("{action} under way{shown}"),
    )
    .seen(format!(
        "md/sync_action is {action}{}",
        array
            .sync_completed
            .map_or(String::new(), |(done, all)| format!(
                ", md/sync_completed {done} / {all} sectors"
            ))
    ))
    .figure("action", action)
    .why(means)
    .source(MD);
    if let Some((done, all)) = array.sync_completed.filter(|(_, all)| *all > 0) {
        finding = finding.figure("done", done as f64 / all as f64);
    }
    let file = format!("/sys/block/{}/md/sync_action", array.name);
    vec![match action {
        "check" | "repair" => finding
            .command(format!("echo idle > {file}"))
            .risk("none: it can be begun again, from the start")
            .unless("it is night and nobody minds"),
        "frozen" => finding
            .command(format!("echo idle > {file}"))
            .risk("what was waiting begins at once")
            .unless("someone froze it to replace a disk: mdadm does so for a moment"),
        _ => finding.risk("nothing to do but to wait; see /proc/mdstat"),
    }]
}

/// A resync that is due and has not begun: md waits for the first write (`read-auto`), or for somebody (`readonly`).
/// sync_action says `idle` all the while.
pub fn pending(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    let idle = matches!(array.sync_action.as_deref(), None | Some("idle"));
    let (Some(from), true) = (of.resync_from, idle && array.is_md()) else {
        return Vec::new();
    };
    if matches!(left(array), Left::NoLevel)
        || matches!(array.array_state.as_str(), "clear" | "inactive")
    {
        return Vec::new();
    }
    let finding = Finding::new(
        "array-resync-pending",
        Severity::Warning,
        format!("a resync is due and has not begun: md/array_state is {}", array.array_state),
    )
    .seen(format!(
        "md/resync_start is {from}, md/sync_action {}: from sector {from} of each member on copies or parity are not known to be right",
        array.sync_action.as_deref().unwrap_or("not told")
    ))
    .figure("resync_from_sector", from)
    .why("the array was not stopped cleanly or never synced. Until the resync is done a disk that fails can take blocks with it that \
          nobody has touched, and a mirror can read two versions of one")
    .source("Linux, Documentation/admin-guide/md.rst, resync_start and array_state; mdadm(8), --readwrite");
    vec![match array.array_state.as_str() {
        "read-auto" => finding
            .command(format!("mdadm --readwrite {}", of.path()))
            .risk("the resync begins at once, as the first write would have it: it reads all members, and writes where they differ")
            .unless("members are suspected of being wrong: then copy what can be read first, for a resync takes the data, or one copy, for right"),
        "readonly" => finding
            .risk("somebody made it read-only. `mdadm --readwrite` begins the resync, which writes where members differ")
            .unless("it is kept from writing on purpose, to copy data off it"),
        _ => finding.risk("nothing to do if it begins within seconds; see /proc/mdstat"),
    }]
}

/// Bad blocks, corrected errors, mismatches.
pub fn bad_sectors(of: &ArrayFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let dev = of.path();
    let members = of.array.members.iter().zip(&of.disks);
    for (member, disk) in members.clone().filter(|(_, d)| !d.bad_blocks.is_empty()) {
        let sectors: u64 = disk
            .bad_blocks
            .iter()
            .map(|(_, n)| n)
            .fold(0, |a, n| a.saturating_add(*n));
        let severity = if of.array.degraded > 0 {
            Severity::Critical
        } else {
            Severity::Warning
        };
        found.push(
            Finding::new(
                "member-bad-blocks",
                severity,
                format!("{} has {sectors} sectors that md has given up on", member.name),
            )
            .seen(format!(
                "md/dev-{}/bad_blocks: {}, the first at sector {}, {} in all",
                member.name,
                plural(disk.bad_blocks.len(), "run"),
                disk.bad_blocks.first().map_or(0, |b| b.0),
                units::size(sectors.saturating_mul(512)),
            ))
            .figure("member", member.name.clone())
            .figure("sectors", sectors)
            .why("md no longer reads these from this member: a block has one copy less, and where the others fail too, reads give EIO")
            .command(format!("mdadm --examine-badblocks {}", path_of(&member.name)))
            // One command: mdadm marks the member even where the disk that is to take its place does not exist.
            .command(format!(
                "mdadm --manage {dev} --add /dev/NEW_DISK && mdadm --manage {dev} --replace {} --with /dev/NEW_DISK",
                path_of(&member.name)
            ))
            .risk("the new disk's content is overwritten; the array keeps its redundancy meanwhile")
            .unless("the cause was a cable or a controller that has been mended: then a write to these blocks clears the log")
            .source("md(4), BAD BLOCK LIST; mdadm(8), --replace"),
        );
    }
    for (member, disk) in members.filter(|(_, d)| d.read_errors > 0) {
        found.push(
            Finding::new(
                "member-read-errors",
                Severity::Warning,
                format!("{}: {} read errors that md has mended", member.name, disk.read_errors),
            )
            .seen(format!("md/dev-{}/errors is {}", member.name, disk.read_errors))
            .figure("member", member.name.clone())
            .figure("errors", disk.read_errors)
            .why("the disk gave no data and md took them from the others and wrote them anew: disks that do so often fail soon")
            .command(format!("smartctl -x {}", path_of(&member.disk_name)))
            .risk("none: it only shows")
            .unless("the number is old and does not grow")
            .source("Linux, Documentation/admin-guide/md.rst, dev-XXX/errors"),
        );
    }
    found.extend(mismatch(of));
    found
}

/// What the last check or repair counted. A resync and a recovery count too (raid5.c, `handle_parity_checks6`), but what they
/// count was not known to be right before: of a new array that is everything.
fn mismatch(of: &ArrayFacts) -> Option<Finding> {
    if of.mismatches == 0 || matches!(left(&of.array), Left::NoLevel) {
        return None;
    }
    let n = of.mismatches;
    let file = format!("/sys/block/{}/md/sync_action", of.array.name);
    let running = of.array.sync_action == of.last_sync;
    let finding = match of.last_sync.as_deref()? {
        "check" => Finding::new(
            "array-mismatch",
            if of.has_parity() { Severity::Warning } else { Severity::Info },
            if running {
                format!("the check under way has found {n} sectors so far that do not agree")
            } else {
                format!("the last check found {n} sectors that do not agree")
            },
        )
        .why("parity or copies differ from the data: md cannot tell which of them is right")
        .risk("a check reads everything and changes nothing. `repair` instead takes the data for right and rewrites the rest, which cannot be undone")
        .unless("level 1 or 10 with swap or memory-mapped files on it: a page that changed while it was written differs for a while"),
        "repair" => Finding::new(
            "array-repaired",
            Severity::Info,
            if running {
                format!("the repair under way has rewritten {n} sectors so far")
            } else {
                format!("the last repair rewrote {n} sectors that did not agree")
            },
        )
        .why("copies or parity agree again there; whether the data were right is unknown. Sectors that a check finds now differ since then")
        .risk("a check reads everything and changes nothing")
        .unless("a check has been made since: then md shows that one's count"),
        _ => return None,
    };
    let finding = finding
        .seen(format!(
            "md/mismatch_cnt is {n}, md/last_sync_action {}",
            of.last_sync.as_deref().unwrap_or_default()
        ))
        .figure("sectors", n)
        .source("md(4), SCRUBBING AND MISMATCHES; Linux, Documentation/admin-guide/md.rst, last_sync_action");
    Some(if running {
        finding
    } else {
        finding.command(format!("echo check > {file}"))
    })
}

/// An array that md does not run.
pub fn stopped(name: &str, state: &str) -> Finding {
    let dev = path_of(name);
    Finding {
        array: Some(name.to_owned()),
        ..Finding::new(
            "array-stopped",
            Severity::Warning,
            format!("not running: md/array_state is {state}"),
        )
        .seen("it has members, and serves no IO")
        .figure("state", state)
        .why("often one member more is missing than the level allows, or an old superblock on a disk that was used elsewhere")
        .command(format!("mdadm --detail {dev}"))
        .command(format!("mdadm --run {dev}"))
        .risk("--run starts it degraded; the first command only shows")
        .unless("--detail lists a disk that is meant for something else: mdadm --stop it instead")
        .source("mdadm(8), MISC MODE")
    }
}
