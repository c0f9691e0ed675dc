//! Finds the array and the members in one recording that correspond to those in another.

use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot};
use crate::analysis::units;

/// Reason for a pair of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The user asked for it.
    Asked,
    /// They have the same name.
    Name,
    /// They are the only ones of their kind (md arrays, plain disks) that are left.
    Only,
    /// They are in the same place in the order of names.
    Order,
}

/// Pairs of arrays, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Array before, array after, and the reason.
    pub pairs: Vec<(usize, usize, Reason)>,
    /// Arrays of the recording before that have no partner.
    pub before: Vec<usize>,
    /// Arrays of the recording after that have no partner.
    pub after: Vec<usize>,
}

/// Pairs arrays: those in `asked` (name before, name after), then by name, then the rest in order,
/// md arrays and plain disks separately.
///
/// # Errors
///
/// A sentence if `asked` names an array that is not in the recording, or names one twice.
pub fn arrays(
    before: &[&ArrayInfo],
    after: &[&ArrayInfo],
    asked: &[(String, String)],
) -> Result<Pairs, String> {
    let mut pairs = Pairs {
        before: (0..before.len()).collect(),
        after: (0..after.len()).collect(),
        ..Pairs::default()
    };
    let find = |all: &[&ArrayInfo], left: &[usize], name: &str, which: &str| {
        let known = all.iter().position(|a| a.name == name).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
            format!("--pair: {which} has no array {name}; it has {}", units::list(&names))
        })?;
        if left.contains(&known) {
            Ok(known)
        } else {
            Err(format!("--pair names {name} of {which} twice"))
        }
    };
    for (b, a) in asked {
        let b = find(before, &pairs.before, b, "BEFORE")?;
        let a = find(after, &pairs.after, a, "AFTER")?;
        pairs.join(b, a, Reason::Asked);
    }
    for b in pairs.before.clone() {
        let same = |&&a: &&usize| before[b].name == after[a].name;
        if let Some(&a) = pairs.after.iter().find(same) {
            pairs.join(b, a, Reason::Name);
        }
    }
    for single in [false, true] {
        let left = |all: &[&ArrayInfo], left: &[usize]| -> Vec<usize> {
            let alike = |&&i: &&usize| (all[i].level == "single") == single;
            left.iter().filter(alike).copied().collect()
        };
        let (b, a) = (left(before, &pairs.before), left(after, &pairs.after));
        let reason = if b.len() == 1 && a.len() == 1 { Reason::Only } else { Reason::Order };
        for (b, a) in b.into_iter().zip(a) {
            pairs.join(b, a, reason);
        }
    }
    pairs.pairs.sort_by_key(|p| p.1);
    Ok(pairs)
}

impl Pairs {
    fn join(&mut self, before: usize, after: usize, reason: Reason) {
        self.before.retain(|&i| i != before);
        self.after.retain(|&i| i != after);
        self.pairs.push((before, after, reason));
    }
}

/// Pairs members, by index: by slot, and those without a slot by name. Empty if the numbers of
/// members that are present differ: a slot then has another part of the array.
pub fn members(before: &ArraySnapshot, after: &ArraySnapshot) -> Vec<(usize, usize)> {
    let present = |array: &ArraySnapshot| array.members.iter().filter(|m| m.is_present()).count();
    if present(before) != present(after) {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for (b, was) in before.members.iter().enumerate() {
        let same = |now: &crate::analysis::snapshot::MemberSnapshot| match (was.slot, now.slot) {
            (None, None) => was.name == now.name,
            (was, now) => was == now,
        };
        if let Some(a) = after.members.iter().position(same) {
            pairs.push((b, a));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::{Reason, arrays};
    use crate::analysis::snapshot::ArrayInfo;

    fn infos(names: &[&str]) -> Vec<ArrayInfo> {
        let info = |name: &&str| ArrayInfo {
            name: (*name).to_owned(),
            level: if name.starts_with("md") { "raid0" } else { "single" }.to_owned(),
            ..ArrayInfo::default()
        };
        names.iter().map(info).collect()
    }

    fn pair(before: &[&str], after: &[&str], asked: &[(&str, &str)]) -> Result<String, String> {
        let (b, a) = (infos(before), infos(after));
        let (b, a): (Vec<_>, Vec<_>) = (b.iter().collect(), a.iter().collect());
        let asked: Vec<_> = asked.iter().map(|(x, y)| ((*x).to_owned(), (*y).to_owned())).collect();
        let found = arrays(&b, &a, &asked)?;
        let pairs = found.pairs.iter().map(|&(x, y, reason)| {
            let how = match reason {
                Reason::Asked => '!',
                Reason::Name => '=',
                Reason::Only => '~',
                Reason::Order => '?',
            };
            format!("{}{how}{}", before[x], after[y])
        });
        let only = found.before.iter().map(|&i| format!("-{}", before[i]));
        let more = found.after.iter().map(|&i| format!("+{}", after[i]));
        let all: Vec<String> = pairs.chain(only).chain(more).collect();
        Ok(all.join(" "))
    }

    #[test]
    fn arrays_are_paired_by_name_then_in_order() {
        for (before, after, asked, expected) in [
            (&["md0", "sda"][..], &["md0", "sda"][..], &[][..], "md0=md0 sda=sda"),
            (&["md0", "sda"], &["md127", "sdb"], &[], "md0~md127 sda~sdb"),
            (&["md0", "md1"], &["md126", "md127"], &[], "md0?md126 md1?md127"),
            (&["md0", "md1"], &["md1"], &[], "md1=md1 -md0"),
            (&["sda"], &["md0"], &[], "-sda +md0"),
            (&["sda"], &["md0"], &[("sda", "md0")], "sda!md0"),
            (&["md0", "md1"], &["md0", "md1"], &[("md0", "md1")], "md1~md0 md0!md1"),
        ] {
            assert_eq!(pair(before, after, asked).as_deref(), Ok(expected));
        }
        let wrong = pair(&["md0", "md1"], &["md0"], &[("md3", "md0")]);
        assert_eq!(wrong.unwrap_err(), "--pair: BEFORE has no array md3; it has md0 and md1");
        let twice = pair(&["md0", "md1"], &["md0"], &[("md0", "md0"), ("md1", "md0")]);
        assert_eq!(twice.unwrap_err(), "--pair names md0 of AFTER twice");
    }
}
