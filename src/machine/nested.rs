//! Arrays whose members are arrays: RAID 0 over RAID 1 pairs, say.

use std::collections::{BTreeSet, HashMap};

use super::types::{Array, Dev};

/// Arrays on top of each other that are followed.
const DEEP: usize = crate::contract::ARRAYS_DEEP as usize;

/// `chosen` with everything below and above it; `pairs` are of an array and one that it is built on. The whole tower,
/// because the filesystem that says what IO is for is on the outermost one.
pub(super) fn towers(chosen: &BTreeSet<Dev>, pairs: &[(Dev, Dev)]) -> BTreeSet<Dev> {
    let mut all = chosen.clone();
    for upwards in [true, false] {
        let mut todo: Vec<Dev> = all.iter().copied().collect();
        while let Some(dev) = todo.pop() {
            for &(outer, inner) in pairs {
                let (from, to) = if upwards {
                    (inner, outer)
                } else {
                    (outer, inner)
                };
                if from == dev && all.insert(to) {
                    todo.push(to);
                }
            }
        }
    }
    all
}

/// Sets [`super::Member::inner`]; says what is not followed.
pub(super) fn link(arrays: &mut [Array]) -> Vec<String> {
    let number: HashMap<Dev, usize> = arrays
        .iter()
        .enumerate()
        .filter(|(_, a)| a.is_md())
        .map(|(i, a)| (a.dev, i))
        .collect();
    let mut notes = Vec::new();
    // What each array is a member of; a link that would close a circle or a fourth storey is not made.
    let mut outer: Vec<Option<usize>> = vec![None; arrays.len()];
    let above = |outer: &[Option<usize>], of: usize| -> Vec<usize> {
        std::iter::successors(Some(of), |i| outer[*i]).collect()
    };
    for i in 0..arrays.len() {
        if !arrays[i].is_md() {
            continue;
        }
        for m in 0..arrays[i].members.len() {
            let member = &arrays[i].members[m];
            let Some(&inner) = number.get(&member.disk) else {
                continue;
            };
            let below = (0..arrays.len())
                .map(|a| above(&outer, a))
                .filter_map(|way| way.iter().position(|a| *a == inner))
                .max()
                .unwrap_or(0);
            let why = if above(&outer, i).contains(&inner) {
                "sysfs says that it is built on itself"
            } else if above(&outer, i).len() + below + 1 > DEEP {
                "more arrays on top of each other than raidtrace follows"
            } else if outer[inner].is_some_and(|o| o != i) {
                "another array is built on it, too"
            } else {
                outer[inner] = Some(i);
                arrays[i].members[m].inner = Some(member.disk);
                continue;
            };
            let (name, disk) = (&arrays[i].name, &member.disk_name);
            notes.push(format!(
                "{name}: its IO is not followed down to what {disk} is made of: {why}"
            ));
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
    fn a_tower_is_taken_whole_and_a_circle_ends() {
        let pairs: Vec<_> = [(0, 1), (0, 2), (2, 3), (7, 8)]
            .map(|(a, b)| (dev(a), dev(b)))
            .to_vec();
        for start in [0, 1, 2, 3] {
            assert_eq!(towers(&set(&[start]), &pairs), set(&[0, 1, 2, 3]));
        }
        assert_eq!(towers(&set(&[9]), &pairs), set(&[9]));
        let circle = [(dev(1), dev(2)), (dev(2), dev(1))];
        assert_eq!(towers(&set(&[1]), &circle), set(&[1, 2]));
    }
}
