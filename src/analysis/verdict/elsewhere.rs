//! A filesystem on several arrays waits for the slowest of them: the headline of an array names the
//! one that has the cause.

use jiff::Timestamp;

use super::cause::judge_for;
use super::kind::FULL_CERTAINTY;
use super::moment::Moment;
use super::{CauseKind, Severity, Verdict, lead};
use crate::analysis::snapshot::ArraySnapshot;

const HAS_PART: &str = "has another part of this filesystem";

/// Tasks that wait for their filesystem may wait for the disks of another of its arrays, for which
/// only kernel threads wait: the journal may be there. Such a pair of arrays gets one verdict.
/// `known`: the moments of the arrays.
pub fn join(arrays: &mut [ArraySnapshot], known: &[Vec<(Timestamp, &Moment)>]) {
    for waiting in 0..arrays.len() {
        let is_slow = |v: &Verdict| v.severity == Severity::Slow && !has_cause(v);
        let Some(verdict) = arrays[waiting].verdict.clone().filter(is_slow) else { continue };
        let mut others = (0..arrays.len()).filter(|at| share(&arrays[*at], &arrays[waiting]));
        let found =
            others.find_map(|at| Some((at, judge_for(&arrays[at], &known[at], &verdict.waiting)?)));
        let Some((at, found)) = found else { continue };
        let name = &arrays[at].info.name;
        let clauses = found.clauses.map(|clause| format!("{clause}; {name} {HAS_PART}"));
        let with = |sentence: &str, names: usize| {
            let who = sentence.strip_suffix(verdict.clauses[names].as_str());
            format!("{}{}", who.unwrap_or("tasks wait: "), clauses[names])
        };
        let verdict = Verdict {
            sentence: with(&verdict.sentence, 0),
            anonymous: with(&verdict.anonymous, 1),
            cause: found.cause,
            account: found.account,
            actions: found.actions,
            clauses,
            ..verdict
        };
        lead(&mut arrays[at], Verdict { accused: found.accused, ..verdict.clone() });
        lead(&mut arrays[waiting], verdict);
    }
}

/// Names the slow arrays in the sentences of those that have another part of their filesystem.
pub fn refer(arrays: &mut [ArraySnapshot]) {
    for at in 0..arrays.len() {
        // The worst verdict of a longer time may name one already. A stalled array says so first.
        let is_open = |v: &Verdict| {
            v.severity < Severity::Stalled && !has_cause(v) && !v.sentence.contains(HAS_PART)
        };
        let Some(mut verdict) = arrays[at].verdict.clone().filter(is_open) else { continue };
        let mut others = arrays.iter().filter(|other| share(other, &arrays[at]));
        let Some((name, clause)) = others.find_map(|other| {
            let found = other.verdict.as_ref().filter(|v| has_cause(v))?;
            // The limit of a cgroup has none.
            Some((&other.info.name, &found.clauses[1])).filter(|found| !found.1.is_empty())
        }) else {
            continue;
        };
        for sentence in [&mut verdict.sentence, &mut verdict.anonymous] {
            *sentence = format!("{name}, which {HAS_PART}, is slow: {clause}; here: {sentence}");
        }
        if let Some(hotspot) = &mut arrays[at].hotspot {
            hotspot.headline.clone_from(&verdict.sentence);
        }
        arrays[at].verdict = Some(verdict);
    }
}

/// True if two arrays have parts of the same filesystem.
fn share(one: &ArraySnapshot, other: &ArraySnapshot) -> bool {
    let shared = |filesystem| other.info.filesystems.contains(filesystem);
    one.info.name != other.info.name && one.info.filesystems.iter().any(shared)
}

/// True if the array waits because of its own disks, of their work, or of what it does with them.
fn has_cause(verdict: &Verdict) -> bool {
    use CauseKind::{Allocator, Filesystem, Journal, Lock, None, Unexplained};
    let elsewhere = [None, Journal, Filesystem, Lock, Allocator, Unexplained];
    verdict.severity == Severity::Slow
        && !elsewhere.contains(&verdict.cause.kind)
        && verdict.certainty() == FULL_CERTAINTY
}

#[cfg(test)]
mod tests {
    use super::refer;
    use crate::analysis::fixture;
    use crate::analysis::snapshot::ArraySnapshot;
    use crate::analysis::verdict::{Cause, CauseKind, Severity, Verdict};

    fn array(name: &str, filesystem: &str, verdict: Verdict) -> ArraySnapshot {
        let mut array = fixture::array(vec![fixture::member(0, Vec::new())]);
        array.info.name = name.to_owned();
        array.info.filesystems = vec![filesystem.to_owned()];
        array.verdict = Some(verdict);
        array
    }

    fn verdict(severity: Severity, kind: CauseKind, sentence: &str) -> Verdict {
        let clauses = ["dd and vdd".to_owned(), "vdd answers in 300ms".to_owned()];
        let (cause, sentence) = (Cause { kind, ..Cause::default() }, sentence.to_owned());
        Verdict { severity, cause, sentence, clauses, ..Verdict::default() }
    }

    #[test]
    fn the_array_with_the_cause_is_named_where_its_filesystem_is() {
        let slow = verdict(Severity::Slow, CauseKind::Member, "writes to md1 take 300ms");
        let fast = verdict(Severity::None, CauseKind::None, "idle");
        let commit = verdict(Severity::Slow, CauseKind::Journal, "jbd2 waits 2s");
        let busy = verdict(Severity::Slow, CauseKind::Load, "dd does 100 %");
        let stalled = verdict(Severity::Stalled, CauseKind::Lock, "dd has waited 9 s");
        let mut arrays = [
            array("md0", "ext4 on /srv (dm-0)", fast.clone()),
            array("md1", "ext4 on /srv (dm-0)", slow),
            array("md2", "ext4 on /srv (dm-0)", commit),
            array("md3", "ext4 on /home (md3)", fast),
            array("md4", "ext4 on /srv (dm-0)", busy),
            array("md5", "ext4 on /srv (dm-0)", stalled),
        ];
        refer(&mut arrays);
        refer(&mut arrays);
        let said = arrays.map(|a| a.verdict.unwrap().sentence);
        let part = "md1, which has another part of this filesystem, is slow: vdd answers in 300ms";
        assert_eq!(said[0], format!("{part}; here: idle"));
        assert_eq!(said[2], format!("{part}; here: jbd2 waits 2s"));
        let others = ["writes to md1 take 300ms", "idle", "dd does 100 %", "dd has waited 9 s"];
        assert_eq!([&said[1], &said[3], &said[4], &said[5]], others);
    }
}
