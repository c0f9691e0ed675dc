//! Nested arrays, for example the RAID 1 pairs below a RAID 0.

use std::collections::{BTreeSet, HashMap};

use super::types::{Array, Dev};

/// Maximum depth of nested arrays.
const MAX_NESTING: usize = crate::contract::NESTING_MAX as usize;

/// Adds all nested and outer arrays to `chosen`, because the filesystem that IO is attributed to is
/// on the outermost array. Each of `pairs` is an outer array and an array nested in it.
pub(super) fn with_nested(chosen: &BTreeSet<Dev>, pairs: &[(Dev, Dev)]) -> BTreeSet<Dev> {
    let mut all = chosen.clone();
    for upwards in [true, false] {
        let mut todo: Vec<Dev> = all.iter().copied().collect();
        while let Some(dev) = todo.pop() {
            for &(outer, nested) in pairs {
                let (from, to) = if upwards { (nested, outer) } else { (outer, nested) };
                if from == dev && all.insert(to) {
                    todo.push(to);
                }
            }
        }
    }
    all
}

/// Sets [`super::Member::nested_array`]; returns a note for each link that is not traced.
pub(super) fn link(arrays: &mut [Array]) -> Vec<String> {
    let number: HashMap<Dev, usize> =
        arrays.iter().enumerate().filter(|(_, a)| a.is_md()).map(|(i, a)| (a.dev, i)).collect();
    let mut notes = Vec::new();
    // Outer array of each array. Links that would form a cycle or exceed `MAX_NESTING` are left
    // out.
    let mut outer: Vec<Option<usize>> = vec![None; arrays.len()];
    let chain = |outer: &[Option<usize>], array: usize| -> Vec<usize> {
        std::iter::successors(Some(array), |i| outer[*i]).collect()
    };
    for i in 0..arrays.len() {
        if !arrays[i].is_md() {
            continue;
        }
        for m in 0..arrays[i].members.len() {
            let member = &arrays[i].members[m];
            let Some(&nested) = number.get(&member.disk) else {
                continue;
            };
            let below = (0..arrays.len())
                .map(|a| chain(&outer, a))
                .filter_map(|chain| chain.iter().position(|a| *a == nested))
                .max()
                .unwrap_or(0);
            let why = if chain(&outer, i).contains(&nested) {
                "sysfs shows it as built on itself"
            } else if chain(&outer, i).len() + below + 1 > MAX_NESTING {
                "too many levels of nested arrays"
            } else if outer[nested].is_some_and(|o| o != i) {
                "another array is also built on it"
            } else {
                outer[nested] = Some(i);
                arrays[i].members[m].nested_array = Some(member.disk);
                continue;
            };
            let (name, disk) = (&arrays[i].name, &member.disk_name);
            notes.push(format!("{name}: IO is not traced to the members of {disk}: {why}"));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(minor: u32) -> Dev {
        Dev { major: 9, minor }
    }

    fn set(minors: &[u32]) -> BTreeSet<Dev> {
        minors.iter().map(|n| dev(*n)).collect()
    }

    #[test]
    fn nested_and_outer_arrays_are_included_and_cycles_end() {
        let pairs: Vec<_> =
            [(0, 1), (0, 2), (2, 3), (7, 8)].map(|(a, b)| (dev(a), dev(b))).to_vec();
        for start in [0, 1, 2, 3] {
            assert_eq!(with_nested(&set(&[start]), &pairs), set(&[0, 1, 2, 3]));
        }
        assert_eq!(with_nested(&set(&[9]), &pairs), set(&[9]));
        let circle = [(dev(1), dev(2)), (dev(2), dev(1))];
        assert_eq!(with_nested(&set(&[1]), &circle), set(&[1, 2]));
    }
}
