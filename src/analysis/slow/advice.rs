//! Changes that would have shortened slow operations, if the interval has evidence for them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::event::{LockWait, OperationKind};
use super::names::{Names, SlowOperation};
use super::phase::Phase;
use super::sentence::sentence;
use super::waterfall::PhaseTime;
use crate::advice::quote::quote;
use crate::advice::slow::{self, Advice, DirtyLimits, IoLimit, MdSettings};
use crate::machine::topology::device_path;

/// Minimum share of an operation for a phase to get advice.
const MIN_SHARE: f64 = 0.25;
/// A member is slow if its flush takes this many times as long as the other members' flushes.
const MIN_SLOWER_RATIO: u64 = 4;

/// Facts about the host.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Version of the kernel, for locks that cannot be probed; (0, 0) if unknown.
    pub version: (u32, u32),
    /// Settings by array name.
    pub arrays: HashMap<String, MdSettings>,
    /// Limits of dirty memory.
    pub dirty: DirtyLimits,
    /// Limits of the cgroups of tasks, by thread id.
    pub io_limits: HashMap<u32, IoLimit>,
    /// Mount point and mount options by device number of the filesystem.
    pub mounts: HashMap<u32, (String, String)>,
}

/// Advice and the operation that shows the need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PhaseAdvice {
    /// Phase that the advice shortens.
    pub phase: Phase,
    #[serde(flatten)]
    pub advice: Advice,
    /// The longest operation with this phase, in a sentence.
    pub evidence: String,
}

/// Advice for `operations`, which are sorted longest first. Gives each advice once.
pub fn find(operations: &[SlowOperation], names: &Names, facts: &HostFacts) -> Vec<PhaseAdvice> {
    let mut found: Vec<PhaseAdvice> = Vec::new();
    for slow in operations {
        let total = slow.operation.total_ns().max(1) as f64;
        for (phase, part) in &slow.waterfall.parts {
            if (part.ns as f64) < MIN_SHARE * total {
                continue;
            }
            let Some(advice) = one(*phase, part, slow, names, facts) else {
                continue;
            };
            if !found.iter().any(|f| f.advice == advice) {
                found.push(PhaseAdvice { phase: *phase, advice, evidence: sentence(slow, names) });
            }
        }
    }
    found
}

fn one(
    phase: Phase,
    part: &PhaseTime,
    slow: &SlowOperation,
    names: &Names,
    facts: &HostFacts,
) -> Option<Advice> {
    use Phase::*;
    let array = slow.array.as_deref()?;
    let md = facts.arrays.get(array);
    let mount = facts.mounts.get(&slow.operation.dev);
    match phase {
        MdSuperblock => slow::md_superblock(array, md?.safe_mode_delay.as_deref()),
        StripeCache => slow::stripe_cache(array, md?.stripe_cache_size.as_deref()),
        ResyncBarrier => slow::resync(array, md?),
        OrderedData | OrderedSubmit => {
            let (mount, options) = mount?;
            let has = |option: &str| options.split(',').any(|o| o == option);
            if has("nodelalloc") {
                return Some(slow::ordered_data_without_delay(mount));
            }
            if has("dioread_lock") {
                return Some(slow::ordered_data_by_option(&quote(mount)));
            }
            let file = names.file(part.culprit.file.as_ref()?);
            Some(slow::ordered_data(&file, &facts.dirty))
        }
        CommitFlush | OwnFlush | LogIo => {
            let (dev, ns) = part.culprit.member?;
            let several = names.members.get(array).is_some_and(|n| *n > 1);
            let others = part.culprit.other_members_ns.max(1_000_000);
            let name = names.device(dev);
            let disk = quote(device_path(&name));
            (several && ns > MIN_SLOWER_RATIO * others).then(|| slow::slow_member(&disk, &name))
        }
        TransactionLocked if part.culprit.what.as_deref() == Some("truncate handle") => {
            Some(slow::long_truncation())
        }
        LogSpace if slow.operation.flags.xfs => Some(slow::xfs_log_space(&quote(&mount?.0))),
        LogSpace => Some(slow::log_space(&quote(&mount?.0))),
        OwnData => io_limit('w', part, slow, facts),
        DirectIo if slow.operation.kind == OperationKind::Write => io_limit('w', part, slow, facts),
        DirectIo | DataRead => io_limit('r', part, slow, facts),
        IoLimit => {
            let of = if slow.operation.kind == OperationKind::Write { 'w' } else { 'r' };
            let pid = slow.operation.task.pid;
            let files =
                || slow::cgroup_limit("io.max (cgroup v1: blkio.throttle)", "*io*_device", pid);
            io_limit(of, part, slow, facts).or_else(|| Some(files()))
        }
        Throttled => Some(slow::throttled(&facts.dirty)),
        IoCost => Some(slow::cgroup_limit("io.cost", "io.[cw]*", slow.operation.task.pid)),
        IoLatency => Some(slow::cgroup_limit("io.latency", "io.latency", slow.operation.task.pid)),
        InodeLock => lock(&slow.operation.lock, facts),
        _ => None,
    }
}

/// True if the advice on an operation depends on the limit of its task's cgroup.
pub fn can_be_limited(slow: &SlowOperation) -> bool {
    let phases = [Phase::OwnData, Phase::DirectIo, Phase::IoLimit, Phase::DataRead];
    phases.iter().any(|p| slow.waterfall.parts.contains_key(p))
}

/// The limits of the task's cgroup on reads (`r`) or writes (`w`), if no request of a member took
/// half of the phase.
fn io_limit(of: char, part: &PhaseTime, slow: &SlowOperation, facts: &HostFacts) -> Option<Advice> {
    let limit = facts.io_limits.get(&slow.operation.task.pid)?;
    let words = limit.limits.split(' ').filter(|word| word.starts_with(of));
    let limits = words.collect::<Vec<_>>().join(" ");
    if limits.is_empty() {
        return None;
    }
    let longest = part.culprit.member.map_or(0, |(_, ns)| ns).max(part.culprit.other_members_ns);
    let limit = IoLimit { limits, ..limit.clone() };
    (2 * longest < part.ns).then(|| slow::io_limit(&limit))
}

fn lock(lock: &LockWait, facts: &HostFacts) -> Option<Advice> {
    if lock.flags.xfs {
        return xfs_lock(lock);
    }
    if lock.kind != Some(OperationKind::Write) || !lock.flags.direct {
        return None;
    }
    if lock.flags.extends {
        Some(slow::extending_writes(facts.version))
    } else if lock.flags.unaligned {
        Some(slow::unaligned_writes(facts.version))
    } else if !lock.flags.security {
        Some(slow::first_writes(facts.version))
    } else {
        None
    }
}

/// The conditions of fs/xfs/xfs_file.c.
fn xfs_lock(lock: &LockWait) -> Option<Advice> {
    let flags = lock.flags;
    match (lock.kind?, flags.direct) {
        (OperationKind::Write, true) if flags.extends => Some(slow::xfs_writes_after_end()),
        (OperationKind::Write, true) if flags.unaligned => Some(slow::xfs_unaligned_writes()),
        (OperationKind::Write, false) => Some(slow::xfs_buffered_writes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{DirtyLimits, HostFacts, IoLimit, MdSettings, Phase, PhaseAdvice, find};
    use crate::analysis::slow::event::{LockWait, OperationFlags, OperationKind};
    use crate::analysis::slow::fixture::{FS, MS, SDC, interval};
    use crate::analysis::slow::names::SlowOperation;
    use crate::analysis::slow::snapshot::SlowSnapshot;

    fn facts(options: &str) -> HostFacts {
        let mut facts = HostFacts { version: (6, 1), ..HostFacts::default() };
        let mount = ("/srv/it's".to_owned(), options.to_owned());
        facts.mounts.insert(FS, mount);
        let md = MdSettings {
            safe_mode_delay: Some("0.204".to_owned()),
            stripe_cache_size: Some("8192".to_owned()),
            sync_speed_max: Some("1500 (local)".to_owned()),
            sync_speed_min: Some("1000 (system)".to_owned()),
            sync_speed: Some("1400".to_owned()),
        };
        facts.arrays.insert("md127".to_owned(), md);
        facts
    }

    /// The fixture's operation with one phase, which takes all of its time.
    fn only(phase: Phase) -> SlowSnapshot {
        let mut s = interval();
        let slow = &mut s.operations[0];
        let mut part = slow.waterfall.parts[&Phase::CommitFlush].clone();
        part.ns = slow.operation.total_ns();
        part.culprit
            .clone_from(&slow.waterfall.parts.get(&phase).cloned().unwrap_or(part.clone()).culprit);
        slow.waterfall.parts = [(phase, part)].into();
        s
    }

    fn advised(s: &SlowSnapshot, options: &str) -> Vec<PhaseAdvice> {
        find(&s.operations, &s.names, &facts(options))
    }

    fn text(s: &SlowSnapshot) -> String {
        let texts: Vec<String> = advised(s, "rw").into_iter().map(|f| f.advice.text).collect();
        texts.join("\n")
    }

    #[test]
    fn a_slow_member_is_named_if_the_others_are_faster() {
        let mut s = only(Phase::CommitFlush);
        assert!(text(&s).contains("longer on sdc"), "{}", text(&s));
        let part = s.operations[0].waterfall.parts.get_mut(&Phase::CommitFlush);
        part.unwrap().culprit.other_members_ns = 900 * MS;
        assert_eq!(text(&s), "");
    }

    #[test]
    fn ordered_data_depends_on_the_mount() {
        let s = only(Phase::OrderedData);
        let found = advised(&s, "rw,dioread_lock");
        let commands = &found[0].advice.commands;
        assert_eq!(commands[0], r"mount -o remount,dioread_nolock '/srv/it'\''s'");
        let found = advised(&s, "rw,dioread_nolock");
        assert!(found[0].advice.text.contains("dump.sql"), "{found:?}");
        assert!(found[0].evidence.starts_with("fsync of /srv/db/redo.log"));
    }

    #[test]
    fn a_lock_has_the_advice_for_its_holder() {
        let mut s = only(Phase::InodeLock);
        let mut with = |flags| {
            let op: &mut SlowOperation = &mut s.operations[0];
            op.operation.lock =
                LockWait { kind: Some(OperationKind::Write), flags, ..LockWait::default() };
            text(&s)
        };
        let direct = OperationFlags { direct: true, ..OperationFlags::default() };
        assert_eq!(with(OperationFlags::default()), "");
        let extends = true;
        assert!(with(OperationFlags { extends, ..direct }).contains("allocate the file ahead"));
        let unaligned = true;
        assert!(with(OperationFlags { unaligned, ..direct }).contains("align direct writes"));
        let security = true;
        assert_eq!(with(OperationFlags { security, ..direct }), "");
        assert!(with(direct).contains("write new files once"));
        let xfs = true;
        assert!(
            with(OperationFlags { xfs, ..OperationFlags::default() })
                .contains("write the file in smaller pieces")
        );
        let direct = OperationFlags { xfs, ..direct };
        assert!(with(OperationFlags { extends, ..direct }).contains("without gaps"));
        assert!(
            with(OperationFlags { unaligned, ..direct })
                .contains("that are not written yet or at the end")
        );
        assert_eq!(with(direct), "");
    }

    #[test]
    fn a_setting_is_never_reduced() {
        let (safe, cache) = (crate::advice::slow::md_superblock, crate::advice::slow::stripe_cache);
        assert!(safe("md0", Some("0.204")).is_some() && safe("md0", Some("10.0")).is_none());
        for (now, wanted) in [("256", "4096"), ("8192", "16384"), ("20000", "32768")] {
            let command = cache("md0", Some(now)).unwrap().commands.remove(0);
            assert_eq!(command, format!("echo {wanted} > /sys/block/md0/md/stripe_cache_size"));
        }
        assert!(cache("md0", Some("32768")).is_none() && cache("md0", None).is_none());
    }

    #[test]
    fn short_phases_and_unknown_arrays_get_no_advice() {
        let mut s = only(Phase::MdSuperblock);
        assert!(text(&s).contains("(now 0.204 s)"), "{}", text(&s));
        s.operations[0].array = None;
        assert_eq!(text(&s), "");
        let mut s = only(Phase::MdSuperblock);
        let part = s.operations[0].waterfall.parts.get_mut(&Phase::MdSuperblock);
        part.unwrap().ns /= 5;
        assert_eq!(text(&s), "");
    }

    #[test]
    fn the_log_of_xfs_keeps_its_size() {
        let mut s = only(Phase::LogSpace);
        assert!(text(&s).contains("doctor"), "{}", text(&s));
        s.operations[0].operation.flags.xfs = true;
        assert!(text(&s).contains("-l size="), "{}", text(&s));
        assert!(text(&only(Phase::LogIo)).contains("longer on sdc"));
    }

    /// Values that are already beyond the advised ones: the advice must not reverse them.
    #[test]
    fn advice_begins_at_the_current_settings() {
        let commands = |s: &SlowSnapshot, facts: &HostFacts| -> Vec<String> {
            let found = find(&s.operations, &s.names, facts);
            found.into_iter().flat_map(|f| f.advice.commands).collect()
        };
        let mut facts = facts("rw");
        let resync = only(Phase::ResyncBarrier);
        assert_eq!(
            commands(&resync, &facts),
            [
                "echo 700 > /sys/block/md127/md/sync_speed_min",
                "echo 700 > /sys/block/md127/md/sync_speed_max"
            ]
        );
        let found = find(&resync.operations, &resync.names, &facts);
        assert!(
            found[0].advice.risk.ends_with(
                "echo 1500 > /sys/block/md127/md/sync_speed_max; echo system > \
                 /sys/block/md127/md/sync_speed_min"
            ),
            "{found:?}"
        );
        facts.arrays.get_mut("md127").unwrap().sync_speed = Some("none".to_owned());
        assert_eq!(commands(&resync, &facts), [""; 0]);
        let cache = only(Phase::StripeCache);
        assert_eq!(
            commands(&cache, &facts),
            ["echo 16384 > /sys/block/md127/md/stripe_cache_size"]
        );
        let md = facts.arrays.get_mut("md127").unwrap();
        (md.sync_speed_max, md.sync_speed) =
            (Some("200000 (system)".to_owned()), Some("90000".to_owned()));
        md.stripe_cache_size = Some("32768".to_owned());
        assert_eq!(commands(&resync, &facts), ["echo 10000 > /sys/block/md127/md/sync_speed_max"]);
        assert_eq!(commands(&cache, &facts), [""; 0]);

        let (throttled, ordered) = (only(Phase::Throttled), only(Phase::OrderedData));
        let limits = |limit: u64, background: u64, dirty_bytes: u64| DirtyLimits {
            limit: Some(limit),
            background: Some(background),
            dirty_bytes,
            dirty_background_bytes: dirty_bytes / 4,
        };
        facts.dirty = limits(4 << 20, 1 << 20, 4 << 20);
        assert_eq!(
            commands(&throttled, &facts),
            ["sysctl vm.dirty_bytes=268435456 vm.dirty_background_bytes=67108864"]
        );
        assert_eq!(commands(&ordered, &facts), [""; 0]);
        let found = find(&throttled.operations, &throttled.names, &facts);
        assert!(found[0].advice.text.contains("limit is 4.0 MiB"), "{found:?}");
        assert!(
            found[0].advice.risk.ends_with(
                "Undone with vm.dirty_bytes=4194304 and vm.dirty_background_bytes=1048576"
            ),
            "{found:?}"
        );
        // 20 % of little memory.
        facts.dirty = limits(40 << 20, 20 << 20, 0);
        assert_eq!(commands(&throttled, &facts), [""; 0]);
        // A lower limit would not shorten the pauses.
        facts.dirty = limits(20 << 30, 10 << 30, 0);
        assert_eq!(commands(&throttled, &facts), [""; 0]);
        assert_eq!(commands(&ordered, &facts), ["sysctl vm.dirty_background_bytes=67108864"]);
    }

    #[test]
    fn a_cgroup_limit_is_named_if_no_member_was_slow() {
        let mut facts = facts("rw");
        let limit = IoLimit {
            cgroup: "/db's".to_owned(),
            device: "md127".to_owned(),
            number: "9:127".to_owned(),
            limits: "wbps=300000 wiops=6".to_owned(),
        };
        let mut s = only(Phase::OwnData);
        let pid = s.operations[0].operation.task.pid;
        facts.io_limits.insert(pid, limit);
        let part = s.operations[0].waterfall.parts.get_mut(&Phase::OwnData).unwrap();
        part.culprit.member = Some((SDC, part.ns));
        assert!(find(&s.operations, &s.names, &facts).is_empty());
        let part = s.operations[0].waterfall.parts.get_mut(&Phase::OwnData).unwrap();
        (part.culprit.member, part.culprit.other_members_ns) = (None, 0);
        assert!(find(&s.operations, &s.names, &HostFacts::default()).is_empty());
        let found = find(&s.operations, &s.names, &facts);
        assert_eq!(
            found[0].advice.commands,
            [r"echo '9:127 wbps=max wiops=max' > '/sys/fs/cgroup/db'\''s/io.max'"]
        );
        assert!(found[0].advice.text.contains("wbps=300000"), "{found:?}");
        // A limit of reads does not delay writes.
        facts.io_limits.get_mut(&pid).unwrap().limits = "rbps=300000".to_owned();
        assert!(find(&s.operations, &s.names, &facts).is_empty());
        // cgroup v1, whose files are not read
        let s = only(Phase::IoLimit);
        let found = find(&s.operations, &s.names, &HostFacts::default());
        assert!(found[0].advice.text.contains("blkio.throttle"), "{found:?}");
    }

    #[test]
    fn the_same_advice_is_given_once() {
        let mut s = only(Phase::LogSpace);
        s.operations.push(s.operations[0].clone());
        assert_eq!(advised(&s, "rw").len(), 1);
    }
}
