//! A filesystem on several arrays waits for the slowest of them: the headline of an array names the
//! one that has the cause.

use jiff::Timestamp;

use super::cause::slow_members;
use super::kind::FULL_CERTAINTY;
use super::moment::Moment;
use super::{AccountPart, CauseKind, Severity, Verdict, lead};
use crate::analysis::snapshot::ArraySnapshot;

const HAS_PART: &str = "has another part of this filesystem";

/// Tasks that wait for their filesystem may wait for slow members of another of its arrays, for
/// which only kernel threads wait: the journal may be there. Such a pair of arrays gets one verdict.
/// `known`: the moments of the arrays.
pub fn join(arrays: &mut [ArraySnapshot], known: &[Vec<(Timestamp, &Moment)>]) {
    for waiting in 0..arrays.len() {
        let is_slow = |v: &&Verdict| v.severity == Severity::Slow && !has_cause(v);
        let Some(verdict) = arrays[waiting].verdict.clone().filter(|v| is_slow(&v)) else {
            continue;
        };
        let filesystems = &arrays[waiting].info.filesystems;
        let others = arrays.iter().zip(known).enumerate().filter(|(at, (other, _))| {
            *at != waiting && other.info.filesystems.iter().any(|f| filesystems.contains(f))
        });
        let found = others.into_iter().find_map(|(at, (other, known))| {
            let found = slow_members(other, known, &verdict.waiting)?;
            Some((at, format!("{}; {} {HAS_PART}", found.clause, other.info.name), found))
        });
        let Some((at, clause, found)) = found else { continue };
        let with = |sentence: &str, old: &String| {
            format!("{}{clause}", sentence.strip_suffix(old.as_str()).unwrap_or("tasks wait: "))
        };
        let verdict = Verdict {
            sentence: with(&verdict.sentence, &verdict.clauses[0]),
            anonymous: with(&verdict.anonymous, &verdict.clauses[1]),
            clauses: [clause.clone(), clause.clone()],
            cause: found.cause,
            account: vec![AccountPart { part: "device", us: verdict.waiting.us }],
            actions: found.actions,
            ..verdict
        };
        lead(&mut arrays[at], Verdict { accused: found.accused, ..verdict.clone() });
        lead(&mut arrays[waiting], verdict);
    }
}

/// Names the slow arrays in the sentences of those that have another part of their filesystem.
pub fn refer(arrays: &mut [ArraySnapshot]) {
    let slow: Vec<(String, Vec<String>, String)> = arrays.iter().filter_map(found).collect();
    for array in arrays {
        // The worst verdict of a longer time may name one already.
        let open = |v: &&mut Verdict| !has_cause(v) && !v.sentence.contains(HAS_PART);
        let Some(verdict) = array.verdict.as_mut().filter(open) else { continue };
        let shared = |filesystem| array.info.filesystems.contains(filesystem);
        let Some((name, _, said)) = slow.iter().find(|(_, all, _)| all.iter().any(shared)) else {
            continue;
        };
        let part = format!("{name}, which {HAS_PART}, {said}");
        verdict.sentence = match verdict.severity {
            Severity::None => format!("{part}; here: {}", verdict.sentence),
            _ => format!("{}; {part}", verdict.sentence),
        };
        if verdict.severity > Severity::None {
            verdict.anonymous = format!("{}; {part}", verdict.anonymous);
        }
        if let Some(hotspot) = &mut array.hotspot {
            hotspot.headline.clone_from(&verdict.sentence);
        }
    }
}

/// True if the array waits because of its own disks, of their work, or of what it does with them.
fn has_cause(verdict: &Verdict) -> bool {
    use CauseKind::{Allocator, Filesystem, Journal, Lock, None, Unexplained};
    let elsewhere =
        matches!(verdict.cause.kind, None | Journal | Filesystem | Lock | Allocator | Unexplained);
    verdict.severity > Severity::None && !elsewhere && verdict.certainty() == FULL_CERTAINTY
}

/// An array that has the cause: its name, its filesystems, and what to say of it. Without names of
/// tasks.
fn found(array: &ArraySnapshot) -> Option<(String, Vec<String>, String)> {
    let verdict = array.verdict.as_ref().filter(|v| has_cause(v))?;
    let said = match &verdict.clauses[1] {
        clause if clause.is_empty() => "completes nothing".to_owned(),
        clause => format!("is slow: {clause}"),
    };
    Some((array.info.name.clone(), array.info.filesystems.clone(), said))
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
        let mut arrays = [
            array("md0", "ext4 on /srv (dm-0)", fast.clone()),
            array("md1", "ext4 on /srv (dm-0)", slow),
            array("md2", "ext4 on /srv (dm-0)", commit),
            array("md3", "ext4 on /home (md3)", fast),
            array("md4", "ext4 on /srv (dm-0)", busy),
        ];
        refer(&mut arrays);
        refer(&mut arrays);
        let said = arrays.map(|a| a.verdict.unwrap().sentence);
        let part = "md1, which has another part of this filesystem, is slow: vdd answers in 300ms";
        assert_eq!(said[0], format!("{part}; here: idle"));
        assert_eq!(said[2], format!("jbd2 waits 2s; {part}"));
        assert_eq!(
            [&said[1], &said[3], &said[4]],
            ["writes to md1 take 300ms", "idle", "dd does 100 %"]
        );
    }
}
