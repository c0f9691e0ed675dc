//! Finds the array and the members in one recording that correspond to those in another.

use serde::Serialize;

use super::change::Subject;
use crate::analysis::snapshot::{ArrayInfo, ArraySnapshot, MemberSnapshot};
use crate::analysis::units;

/// Reason for a pair of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PairReason {
    /// The user asked for it.
    Option,
    /// They have the same name.
    Name,
    /// They are the only ones of their kind (md arrays, plain disks) that are left.
    OnlyOne,
}

/// Pairs of arrays, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Array before and after, and the reason.
    pub pairs: Vec<([usize; 2], PairReason)>,
    /// Arrays of the recordings before and after that have no partner.
    pub left: [Vec<usize>; 2],
}

/// Pairs arrays, before and after: those in `asked` (name before, name after), then by name. If one
/// md array, or one plain disk, is left in each recording, these two are a pair.
///
/// # Errors
///
/// A sentence if `asked` names an array that is not in the recording, or names one twice.
pub fn arrays(all: [&[&ArrayInfo]; 2], asked: &[(String, String)]) -> Result<Pairs, String> {
    let left = all.map(|infos| (0..infos.len()).collect());
    let mut pairs = Pairs { left, pairs: Vec::new() };
    let find = |pairs: &Pairs, side: usize, name: &str| {
        let which = ["BEFORE", "AFTER"][side];
        let known = all[side].iter().position(|a| a.name == name).ok_or_else(|| {
            let names: Vec<&str> = all[side].iter().map(|a| a.name.as_str()).collect();
            format!("--pair: {which} has no array {name}; it has {}", units::list(&names))
        })?;
        let is_left = pairs.left[side].contains(&known);
        is_left.then_some(known).ok_or_else(|| format!("--pair names {name} of {which} twice"))
    };
    for (b, a) in asked {
        let both = [find(&pairs, 0, b)?, find(&pairs, 1, a)?];
        pairs.join(both, PairReason::Option);
    }
    for b in pairs.left[0].clone() {
        let same = |&&a: &&usize| all[0][b].name == all[1][a].name;
        if let Some(&a) = pairs.left[1].iter().find(same) {
            pairs.join([b, a], PairReason::Name);
        }
    }
    for single in [false, true] {
        let alike = [0, 1].map(|side| -> Vec<usize> {
            let left = pairs.left[side].iter().copied();
            left.filter(|&i| (all[side][i].level == "single") == single).collect()
        });
        if let [[b], [a]] = alike.each_ref().map(Vec::as_slice) {
            pairs.join([*b, *a], PairReason::OnlyOne);
        }
    }
    pairs.pairs.sort_by_key(|p| p.0[1]);
    Ok(pairs)
}

impl Pairs {
    fn join(&mut self, both: [usize; 2], reason: PairReason) {
        for (left, joined) in self.left.iter_mut().zip(both) {
            left.retain(|&i| i != joined);
        }
        self.pairs.push((both, reason));
    }
}

/// Pairs members by slot, and those without a slot by name. Empty if the numbers of members that
/// are present differ: a slot then has another part of the array.
pub fn members([before, after]: [&ArraySnapshot; 2]) -> Vec<Subject> {
    let present = |array: &ArraySnapshot| array.members.iter().filter(|m| m.is_present()).count();
    if present(before) != present(after) {
        return Vec::new();
    }
    let pairs = before.members.iter().filter_map(|was| {
        let same = |now: &&MemberSnapshot| match (was.slot, now.slot) {
            (None, None) => was.name == now.name,
            (was, now) => was == now,
        };
        let now = after.members.iter().find(same)?;
        let (member_before, member_after) = (was.name.clone(), now.name.clone());
        Some(Subject::Member { slot: was.slot, member_before, member_after })
    });
    pairs.collect()
}
