//! Members that are not alike: a stripe is as slow as its slowest member.

use super::list;
use crate::advice::quote::quote;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, Disk, tally};
use crate::commands::doctor::finding::{Finding, Severity};
use crate::machine::Member;

/// Sectors that members may have beyond what the array uses before it is worth a word: 1 GiB.
const SPARE: u64 = 1 << 21;

/// Why nothing is advised.
const NO_MAJORITY: &str =
    "none of these is on more than half of the members, so none is advised for the others";

/// A figure of a disk, and the file that changes it.
type Limit = (&'static str, Option<&'static str>, fn(&Pair<'_>) -> String);
type Pair<'a> = (&'a Member, &'a Disk);

const LIMITS: [Limit; 7] = [
    ("queue/max_sectors_kb", Some("max_sectors_kb"), |(_, d)| {
        number(d.max_kib)
    }),
    ("queue/nr_requests", Some("nr_requests"), |(_, d)| {
        number(d.requests)
    }),
    ("queue/write_cache", None, |(_, d)| d.write_cache.clone()),
    ("queue/logical_block_size", None, |(_, d)| {
        number(d.logical_block)
    }),
    ("queue/physical_block_size", None, |(_, d)| {
        number(d.physical_block)
    }),
    ("hardware queues", None, |(m, _)| {
        number(m.queue.nr_hw_queues.into())
    }),
    ("tags", None, |(m, _)| number(m.queue.nr_tags.into())),
];

/// Empty where the kernel does not say.
fn number(n: u64) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// Members that carry data and are disks themselves.
fn data(of: &ArrayFacts) -> Vec<Pair<'_>> {
    let pairs = of.array.members.iter().zip(&of.disks);
    pairs
        .filter(|(m, _)| m.slot.is_some() && m.nested_array.is_none() && !m.disk_name.is_empty())
        .filter(|(m, _)| !m.state.iter().any(|w| w == "faulty"))
        .collect()
}

/// How the members' values differ.
struct Differ {
    /// `mq-deadline on 3 (sda, sdb and sdc), none on 1 (sdd)`.
    words: String,
    /// What more than half of them have: the reason to advise it for the others. `None` on a tie.
    usual: Option<String>,
}

/// `None` when they do not differ.
fn differs(pairs: &[Pair<'_>], of: impl Fn(&Pair<'_>) -> String) -> Option<Differ> {
    let values = || pairs.iter().map(&of).filter(|v| !v.is_empty());
    let counts = tally(values());
    if counts.len() < 2 {
        return None;
    }
    let words: Vec<String> = counts
        .iter()
        .map(|(value, n)| {
            let names: Vec<&str> = pairs
                .iter()
                .filter(|p| of(p) == *value)
                .map(|(m, _)| m.disk_name.as_str())
                .collect();
            format!("{value} on {} ({})", n, list(&names))
        })
        .collect();
    let all: usize = counts.iter().map(|(_, n)| n).sum();
    Some(Differ {
        words: words.join(", "),
        usual: counts
            .into_iter()
            .find_map(|(value, n)| (2 * n > all).then_some(value)),
    })
}

/// Kind, scheduler, limits, model, statistics.
pub fn differ(of: &ArrayFacts) -> Vec<Finding> {
    let pairs = data(of);
    let mut found = Vec::new();
    if of.array.is_md() {
        found.extend(rotational(of, &pairs));
        found.extend(scheduler(&pairs));
        found.extend(limits(&pairs));
        found.extend(model(&pairs));
        found.extend(size(of, &pairs));
    }
    found.extend(iostats(&pairs));
    found
}

fn rotational(of: &ArrayFacts, pairs: &[Pair<'_>]) -> Option<Finding> {
    let kind = |(m, _): &Pair<'_>| {
        if m.queue.rotational {
            "spinning"
        } else {
            "solid state"
        }
        .to_owned()
    };
    let words = differs(pairs, kind)?.words;
    // Whoever keeps the slow one for writes has made it write-mostly, and only that one.
    let flagged = |m: &Member| m.state.iter().any(|w| w == "write_mostly");
    let wrong: Vec<&Member> = pairs
        .iter()
        .map(|(m, _)| *m)
        .filter(|m| m.queue.rotational != flagged(m))
        .collect();
    let mirror = of.array.level == "raid1";
    if mirror && wrong.is_empty() {
        return None;
    }
    let mut finding = Finding::new(
        "members-rotational",
        Severity::Warning,
        "disks that spin and disks that do not in one array",
    )
    .seen(format!("queue/rotational: {words}"))
    .why("each write waits for the slowest member, and so does each read that a spinning one has to serve")
    .unless("the flag is wrong and all disks are of one kind (virtual machines, some controllers)")
    .source("md(4), WRITE-MOSTLY; Linux, Documentation/ABI/stable/sysfs-block");
    if !mirror {
        return Some(finding.risk("only other disks mend it"));
    }
    // First the spinning ones: without a flag on them, md would read from them in between.
    for (spins, word) in [(true, "writemostly"), (false, "-writemostly")] {
        for m in wrong.iter().filter(|m| m.queue.rotational == spins) {
            finding = finding
                .seen(format!(
                    "{} {}: {}",
                    m.name,
                    if spins { "spins" } else { "does not spin" },
                    if spins {
                        "not write-mostly"
                    } else {
                        "write-mostly all the same"
                    }
                ))
                .command(format!(
                    "echo {word} > /sys/block/{}/md/dev-{}/state",
                    quote(&of.array.name),
                    quote(&m.name)
                ));
        }
    }
    Some(finding.risk("reads come from the disks that do not spin only; undone by writing `-writemostly` and `writemostly` the other way round"))
}

fn scheduler(pairs: &[Pair<'_>]) -> Option<Finding> {
    let of = |(m, _): &Pair<'_>| m.queue.scheduler.clone().unwrap_or_default();
    let Differ { words, usual } = differs(pairs, of)?;
    let finding = Finding::new(
        "members-scheduler",
        Severity::Warning,
        "members have different IO schedulers",
    )
    .seen(format!("queue/scheduler: {words}"))
    .why("members then answer the same load at different times, and a stripe waits for the last of them")
    .unless("the disks are of different kinds and each has what suits it")
    .source("Linux, Documentation/block/switching-sched.rst");
    let Some(usual) = usual else {
        return Some(finding.seen(NO_MAJORITY));
    };
    let finding = finding.risk("none: takes effect at once, is undone the same way, and does not outlive a reboot (a udev rule does)");
    let odd = pairs.iter().filter(|p| of(p) != usual && !of(p).is_empty());
    Some(odd.fold(finding, |f, (m, _)| {
        f.command(format!(
            "echo {} > /sys/block/{}/queue/scheduler",
            quote(&usual),
            quote(&m.disk_name)
        ))
    }))
}

fn limits(pairs: &[Pair<'_>]) -> Option<Finding> {
    let mut finding: Option<Finding> = None;
    for (name, file, of) in LIMITS {
        let Some(Differ { words, usual }) = differs(pairs, of) else {
            continue;
        };
        let severity = match name {
            "queue/max_sectors_kb" | "queue/nr_requests" | "queue/write_cache" => Severity::Warning,
            _ => Severity::Info,
        };
        let mut f = finding.take().unwrap_or_else(|| {
            Finding::new("members-limits", severity, "")
                .why("the array takes the smallest limit of its members, and a member that works otherwise than the others answers at other times")
                .risk("none: takes effect at once, is undone the same way, and does not outlive a reboot")
                .unless("the disks are of different kinds, and the limit is the controller's")
                .source("Linux, Documentation/ABI/stable/sysfs-block")
        });
        f.severity = f.severity.max(severity);
        let short = name.trim_start_matches("queue/");
        f.title = if f.title.is_empty() {
            format!("members differ in {short}")
        } else {
            format!("{}, {short}", f.title)
        };
        f = f.seen(format!("{name}: {words}"));
        if let (Some(file), None) = (file, &usual) {
            f = f.seen(format!("{file}: {NO_MAJORITY}"));
        }
        if let (Some(file), Some(usual)) = (file, usual) {
            let odd = pairs.iter().filter(|p| of(p) != usual && !of(p).is_empty());
            for (m, _) in odd {
                f = f.command(format!(
                    "echo {usual} > /sys/block/{}/queue/{file}",
                    quote(&m.disk_name)
                ));
            }
        }
        finding = Some(f);
    }
    finding
}

fn model(pairs: &[Pair<'_>]) -> Option<Finding> {
    let words = differs(pairs, |(_, d)| d.model.clone())?.words;
    Some(
        Finding::new("members-model", Severity::Info, "members are of different models")
            .seen(format!("device/model: {words}"))
            .why("the array is as fast and as large as the least of them. That they do not all age alike is a good thing")
            .source("Linux, Documentation/ABI/stable/sysfs-block"),
    )
}

/// What the array leaves unused of larger members. RAID 0 uses all: see [`zones`].
fn size(of: &ArrayFacts, pairs: &[Pair<'_>]) -> Option<Finding> {
    let used = of.array.component_sectors;
    if used == 0 || of.array.before_reshape.is_some() {
        return None;
    }
    let unused: Vec<(&str, u64)> = pairs
        .iter()
        .map(|(m, _)| (m.name.as_str(), m.data_sectors.saturating_sub(used)))
        .filter(|(_, n)| *n > SPARE && *n > used / 100)
        .collect();
    if unused.is_empty() {
        return None;
    }
    let all: u64 = unused.iter().map(|(_, n)| n).sum();
    let finding = Finding::new(
        "members-size",
        Severity::Info,
        format!(
            "{} of larger members are not used",
            units::size(all.saturating_mul(512))
        ),
    )
    .seen(format!(
        "md/component_size is {}",
        units::size(used.saturating_mul(512))
    ))
    .figure("unused_bytes", all.saturating_mul(512))
    .why("the smallest member decides what is used of each")
    .source("mdadm(8), --size");
    let finding = unused.iter().take(8).fold(finding, |f, (name, n)| {
        f.seen(format!(
            "{name} could hold {} more",
            units::size(n.saturating_mul(512))
        ))
    });
    // Where every member is larger, growing needs no other disk.
    Some(if unused.len() == of.array.raid_disks as usize {
        finding
            .command(format!("mdadm --grow {} --size=max", of.path()))
            .risk("what is added is synced, which takes hours; the filesystem grows with resize2fs afterwards")
            .unless("the rest of the members is kept free on purpose")
    } else {
        finding
    })
}

fn iostats(pairs: &[Pair<'_>]) -> Option<Finding> {
    let off: Vec<&str> = pairs
        .iter()
        .filter(|(m, _)| !m.queue.iostats && !m.queue.bio_based)
        .map(|(m, _)| m.disk_name.as_str())
        .collect();
    if off.is_empty() {
        return None;
    }
    let finding = Finding::new(
        "members-iostats",
        Severity::Info,
        format!("{} keep no statistics", list(&off)),
    )
    .seen(format!("queue/iostats is 0 on {}", list(&off)))
    .why("iostat shows nothing of them, and raidtrace no time in queue")
    .risk("a few ns a request; undone the same way")
    .source("Linux, Documentation/ABI/stable/sysfs-block, queue/iostats");
    Some(off.iter().fold(finding, |f, name| {
        f.command(format!("echo 1 > /sys/block/{}/queue/iostats", quote(name)))
    }))
}

/// A RAID 0 of unequal members: its end lies on fewer of them.
pub fn zones(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    if array.level != "raid0" || array.chunk_sectors == 0 {
        return Vec::new();
    }
    let chunk = u64::from(array.chunk_sectors);
    let rows: Vec<u64> = array
        .members
        .iter()
        .filter(|m| m.slot.is_some())
        .map(|m| m.data_sectors / chunk)
        .collect();
    let (Some(&least), Some(&most)) = (rows.iter().min(), rows.iter().max()) else {
        return Vec::new();
    };
    let all: u64 = rows.iter().fold(0, |a, n| a.saturating_add(*n));
    if least == most || least == 0 {
        return Vec::new();
    }
    let even = least.saturating_mul(rows.len() as u64);
    let beyond = all.saturating_sub(even);
    let larger = rows.iter().filter(|n| **n > least).count();
    let bytes = |chunks: u64| units::size(chunks.saturating_mul(chunk).saturating_mul(512));
    vec![
        Finding::new(
            "raid0-zones",
            Severity::Info,
            format!(
                "the last {} of the array lie on {larger} of {} members",
                bytes(beyond),
                rows.len()
            ),
        )
        .seen(format!("members hold from {} to {} of data", bytes(least), bytes(most)))
        .figure("beyond_bytes", beyond.saturating_mul(chunk).saturating_mul(512))
        .figure("members_beyond", larger)
        .why("md stripes that part over the larger members only: what lies there is as slow as these few")
        .risk("never change raid0.default_layout on an array with data: another layout reads its end from the wrong places")
        .source("Linux, drivers/md/raid0.c, create_strip_zones; md(4), RAID0"),
    ]
}
