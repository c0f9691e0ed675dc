//! Arrays that lost more members than their level tolerates: md gives errors, however fast.

use super::texts::said;
use super::{Cause, CauseKind, Severity, Verdict, actions};
use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot};
use crate::analysis::units;
use crate::raid::Level;

/// Name of the cause.
pub const FAILED: &str = "failed";

/// The verdict on an array that has failed.
pub fn judge(array: &ArraySnapshot) -> Option<Verdict> {
    let info = &array.info;
    let health: Vec<&str> = info.health.as_deref()?.split(", ").collect();
    // `MD_BROKEN` (drivers/md/md.h): a RAID 0 without one of its members, a mirror whose last copy
    // reports errors, on newer kernels also RAID 4, 5 and 6 with too many of them missing.
    let is_broken = health.contains(&"broken");
    let missing = health.iter().find_map(|words| match words.strip_prefix("degraded")? {
        "" => Some(1),
        by => by.strip_prefix(" by ")?.parse().ok(),
    });
    if !is_broken && missing.unwrap_or(0) <= tolerated(info) {
        return None;
    }
    let is_out = |health: &str| matches!(health, "faulty" | "missing" | "removed");
    let out = array.members.iter().filter(|m| m.health.as_deref().is_some_and(is_out));
    let out: Vec<&str> = out.map(|m| m.name.as_str()).collect();
    let (name, level) = (&info.name, &info.level);
    let clause = match &out[..] {
        // raid1_error(), raid10_error(): the last copy stays in the array.
        _ if matches!(level.as_str(), "raid1" | "raid10") => said!("failed_copies"),
        [] => said!("failed", level = level),
        members => said!("failed_members", members = units::list(members), level = level),
    };
    let sentence = said!("has_failed", array = name, clause = clause);
    Some(Verdict {
        severity: Severity::Stalled,
        anonymous: sentence.clone(),
        sentence,
        cause: Cause { kind: CauseKind::Md, name: FAILED.to_owned(), share: 1.0 },
        actions: actions::failed(info),
        ..Verdict::default()
    })
}

/// Number of members that may be missing, if the level alone tells: not of mirrors.
fn tolerated(info: &ArrayInfo) -> u32 {
    let parities = info.level.parse::<Level>().map_or(0, Level::parities);
    if parities > 0 { parities } else { u32::MAX }
}

impl Verdict {
    /// True if the array has lost more members than it tolerates.
    pub fn is_failed(&self) -> bool {
        self.severity == Severity::Stalled && self.cause.name == FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::analysis::fixture;
    use crate::analysis::snapshot::ArraySnapshot;

    fn array(level: &str, health: Option<&str>, out: usize) -> ArraySnapshot {
        let mut array = fixture::array((0..4).map(|n| fixture::member(n, Vec::new())).collect());
        (array.info.level, array.info.health) = (level.to_owned(), health.map(str::to_owned));
        array.members.iter_mut().take(out).for_each(|m| m.health = Some("faulty".to_owned()));
        array
    }

    #[test]
    fn arrays_that_lost_too_many_members() {
        let said = |level, health, out| judge(&array(level, health, out)).map(|v| v.sentence);
        for health in [None, Some("degraded"), Some("degraded, recover 12.3 %"), Some("readonly")] {
            assert_eq!(said("raid5", health, 1), None, "{health:?}");
        }
        assert_eq!(said("raid6", Some("degraded by 2, recover waiting"), 2), None);
        // A slot for each bay of a NAS.
        assert_eq!(said("raid1", Some("degraded by 14"), 0), None);
        let name = array("raid5", None, 0).info.name;
        assert_eq!(
            said("raid5", Some("degraded by 2"), 2),
            Some(format!(
                "{name} has failed: it lost loop1 and loop2, more than raid5 tolerates; reads and \
                 writes give errors"
            ))
        );
        let broken = said("raid0", Some("broken"), 0).unwrap();
        assert!(broken.contains("it lost more members than raid0 tolerates"), "{broken}");
        let copies = said("raid1", Some("broken, degraded"), 1).unwrap();
        assert!(copies.ends_with("so md refuses all writes"), "{copies}");
        let verdict = judge(&array("raid6", Some("degraded by 3"), 3)).unwrap();
        assert!(verdict.is_failed() && verdict.accused.is_empty());
        assert!(verdict.actions[0].text.contains("mdadm --detail /dev/"));
    }
}
