//! Changes that would have shortened slow operations, if the interval has evidence for them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::event::{Kind, LockWait};
use super::names::{Names, Slow};
use super::phase::Phase;
use super::sentence::sentence;
use super::waterfall::Part;
use crate::advice::quote::quote;
use crate::advice::slow::{self, Advice};
use crate::machine::topology::device_path;

/// Minimum share of an operation for a phase to get advice.
const SHARE: f64 = 0.25;
/// A member is slow if its flush takes this many times as long as the other members' flushes.
const SLOWER: u64 = 4;

/// Facts about the host.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of the kernel, for locks that cannot be probed; (0, 0) if unknown.
    pub version: (u32, u32),
    /// md/safe_mode_delay and md/stripe_cache_size by array name.
    pub arrays: HashMap<String, (Option<String>, Option<String>)>,
    /// Mount point and mount options by device number of the filesystem.
    pub mounts: HashMap<u32, (String, String)>,
}

/// Advice and the operation that shows the need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Phase that the advice shortens.
    pub phase: Phase,
    /// Advice.
    #[serde(flatten)]
    pub advice: Advice,
    /// The longest operation with this phase, in a sentence.
    pub evidence: String,
}

/// Advice for `operations`, which are sorted longest first. Gives each advice once.
pub fn find(operations: &[Slow], names: &Names, facts: &Facts) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for slow in operations {
        let total = slow.operation.total_ns().max(1) as f64;
        for (phase, part) in &slow.waterfall.parts {
            if (part.ns as f64) < SHARE * total {
                continue;
            }
            let Some(advice) = one(*phase, part, slow, names, facts) else {
                continue;
            };
            if !found.iter().any(|f| f.advice == advice) {
                found.push(Found {
                    phase: *phase,
                    advice,
                    evidence: sentence(slow, names),
                });
            }
        }
    }
    found
}

fn one(phase: Phase, part: &Part, slow: &Slow, names: &Names, facts: &Facts) -> Option<Advice> {
    let array = slow.array.as_deref()?;
    let md = facts.arrays.get(array);
    let mount = facts.mounts.get(&slow.operation.dev);
    match phase {
        Phase::MdSuperblock => slow::md_superblock(array, md?.0.as_deref()),
        Phase::StripeCache => slow::stripe_cache(array, md?.1.as_deref()),
        Phase::ResyncBarrier => Some(slow::resync(array)),
        Phase::OrderedData | Phase::OrderedSubmit => {
            let (mount, options) = mount?;
            let has = |option: &str| options.split(',').any(|o| o == option);
            if has("nodelalloc") {
                return Some(slow::ordered_data_without_delay(mount));
            }
            if has("dioread_lock") {
                return Some(slow::ordered_data_by_option(&quote(mount)));
            }
            let file = names.file(part.culprit.file.as_ref()?);
            Some(slow::ordered_data(&file))
        }
        Phase::CommitFlush | Phase::OwnFlush | Phase::LogIo => {
            let (dev, ns) = part.culprit.member?;
            let several = names.members.get(array).is_some_and(|n| *n > 1);
            let others = part.culprit.other_members_ns.max(1_000_000);
            let name = names.device(dev);
            let disk = quote(device_path(&name));
            (several && ns > SLOWER * others).then(|| slow::slow_member(&disk, &name))
        }
        Phase::TransactionLocked if part.culprit.what.as_deref() == Some("truncate handle") => {
            Some(slow::long_truncation())
        }
        Phase::LogSpace if slow.operation.flags.xfs => Some(slow::xfs_log_space(&quote(&mount?.0))),
        Phase::LogSpace => Some(slow::log_space(&quote(&mount?.0))),
        Phase::Throttled => Some(slow::throttled()),
        Phase::InodeLock => lock(&slow.operation.lock, facts),
        _ => None,
    }
}

fn lock(lock: &LockWait, facts: &Facts) -> Option<Advice> {
    if lock.flags.xfs {
        return xfs_lock(lock);
    }
    if lock.kind != Some(Kind::Write) || !lock.flags.direct {
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
        (Kind::Write, true) if flags.extends => Some(slow::xfs_writes_after_end()),
        (Kind::Write, true) if flags.unaligned => Some(slow::xfs_unaligned_writes()),
        (Kind::Write, false) => Some(slow::xfs_buffered_writes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Facts, Found, Phase, find};
    use crate::analysis::slow::event::{Flags, Kind, LockWait};
    use crate::analysis::slow::fixture::{FS, MS, interval};
    use crate::analysis::slow::names::Slow;
    use crate::analysis::slow::snapshot::SlowSnapshot;

    fn facts(options: &str) -> Facts {
        let mut facts = Facts {
            version: (6, 1),
            ..Facts::default()
        };
        let mount = ("/srv/it's".to_owned(), options.to_owned());
        facts.mounts.insert(FS, mount);
        facts
            .arrays
            .insert("md127".to_owned(), (Some("0.204".to_owned()), None));
        facts
    }

    /// The fixture's operation with one phase, which takes all of its time.
    fn only(phase: Phase) -> SlowSnapshot {
        let mut s = interval();
        let slow = &mut s.operations[0];
        let mut part = slow.waterfall.parts[&Phase::CommitFlush].clone();
        part.ns = slow.operation.total_ns();
        part.culprit.clone_from(
            &slow
                .waterfall
                .parts
                .get(&phase)
                .cloned()
                .unwrap_or(part.clone())
                .culprit,
        );
        slow.waterfall.parts = [(phase, part)].into();
        s
    }

    fn advised(s: &SlowSnapshot, options: &str) -> Vec<Found> {
        find(&s.operations, &s.names, &facts(options))
    }

    fn text(s: &SlowSnapshot) -> String {
        let found = advised(s, "rw");
        let texts: Vec<String> = found.into_iter().map(|f| f.advice.text).collect();
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
        assert_eq!(
            commands[0],
            r"mount -o remount,dioread_nolock '/srv/it'\''s'"
        );
        let found = advised(&s, "rw,dioread_nolock");
        assert!(found[0].advice.text.contains("dump.sql"), "{found:?}");
        assert!(found[0].evidence.starts_with("fsync of /srv/db/redo.log"));
    }

    #[test]
    fn a_lock_has_the_advice_for_its_holder() {
        let mut s = only(Phase::InodeLock);
        let mut with = |flags| {
            let op: &mut Slow = &mut s.operations[0];
            op.operation.lock = LockWait {
                kind: Some(Kind::Write),
                flags,
                ..LockWait::default()
            };
            text(&s)
        };
        let direct = Flags {
            direct: true,
            ..Flags::default()
        };
        assert_eq!(with(Flags::default()), "");
        let extends = true;
        assert!(with(Flags { extends, ..direct }).contains("allocate the file ahead"));
        let unaligned = true;
        assert!(
            with(Flags {
                unaligned,
                ..direct
            })
            .contains("align direct writes")
        );
        let security = true;
        assert_eq!(with(Flags { security, ..direct }), "");
        assert!(with(direct).contains("write new files once"));
        let xfs = true;
        assert!(
            with(Flags {
                xfs,
                ..Flags::default()
            })
            .contains("write the file in smaller pieces")
        );
        let direct = Flags { xfs, ..direct };
        assert!(with(Flags { extends, ..direct }).contains("without gaps"));
        assert!(
            with(Flags {
                unaligned,
                ..direct
            })
            .contains("that are not written yet or at the end")
        );
        assert_eq!(with(direct), "");
    }

    #[test]
    fn a_setting_is_never_reduced() {
        let (safe, cache) = (
            crate::advice::slow::md_superblock,
            crate::advice::slow::stripe_cache,
        );
        assert!(safe("md0", Some("0.204")).is_some() && safe("md0", Some("10.0")).is_none());
        for (now, wanted) in [("256", "4096"), ("8192", "16384"), ("20000", "32768")] {
            let command = cache("md0", Some(now)).unwrap().commands.remove(0);
            assert_eq!(
                command,
                format!("echo {wanted} > /sys/block/md0/md/stripe_cache_size")
            );
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
        let part = s.operations[0]
            .waterfall
            .parts
            .get_mut(&Phase::MdSuperblock);
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

    #[test]
    fn the_same_advice_is_given_once() {
        let mut s = only(Phase::LogSpace);
        s.operations.push(s.operations[0].clone());
        assert_eq!(advised(&s, "rw").len(), 1);
    }
}
