//! Submitted bytes of nested arrays, which are members of another array.

use super::snapshot::ArraySnapshot;

/// Fills in `submitted` for nested arrays. Only the outer array submits to a nested array, and not
/// as a task, so the submitted bytes are those that the nested array, or a partition of it,
/// completed as a member.
pub fn fill_submitted(arrays: &mut [ArraySnapshot]) {
    for nested in 0..arrays.len() {
        let name = &arrays[nested].info.name;
        // A disk without md is an array whose only member is the disk itself.
        let own = arrays[nested].members.iter().any(|m| is_part(&m.name, name));
        if own || !arrays[nested].submitted.is_empty() {
            continue;
        }
        let cells = arrays
            .iter()
            .flat_map(|a| &a.members)
            .filter(|m| is_part(&m.name, name))
            .flat_map(|m| &m.io);
        arrays[nested].submitted = cells.map(|c| ((c.origin, c.op), c.bytes)).collect();
    }
}

/// True if `device` is `array` or a partition of it: `md1p2` of `md1`, not `md12`.
pub fn is_part(device: &str, array: &str) -> bool {
    device.strip_prefix(array).is_some_and(|rest| {
        let number = rest.strip_prefix('p').unwrap_or("");
        rest.is_empty() || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::fill_submitted;
    use crate::analysis::fixture;
    use crate::analysis::snapshot::ArraySnapshot;
    use crate::origin::{Op, Origin};

    fn array(name: &str, members: &[(&str, u64)]) -> ArraySnapshot {
        let member = |&(name, bytes): &(&str, u64)| {
            let cell = fixture::cell(Origin::FileData, Op::Write, 1, bytes, 100);
            let mut member = fixture::member(0, vec![cell]);
            member.name = name.to_owned();
            member
        };
        let mut array = fixture::array(members.iter().map(member).collect());
        array.info.name = name.to_owned();
        array
    }

    #[test]
    fn member_io_of_the_outer_array_is_submitted_to_nested_arrays() {
        let mut arrays = [
            array("md0", &[("md1", 1), ("md2p1", 2), ("md2p2", 4), ("md11", 8)]),
            array("md1", &[("sda", 16)]),
            array("md2", &[("sdb", 32)]),
            array("sdc", &[("sdc", 64)]),
        ];
        fill_submitted(&mut arrays);
        let submitted = |i: usize| arrays[i].submitted.values().sum::<u64>();
        assert_eq!([0, 1, 2, 3].map(submitted), [0, 1, 6, 0]);
    }

    #[test]
    fn submitted_bytes_are_not_overwritten() {
        let mut arrays = [array("md0", &[("md1", 1)]), array("md1", &[("sda", 16)])];
        arrays[1].submitted = [((Origin::Journal, Op::Write), 512)].into();
        fill_submitted(&mut arrays);
        assert_eq!(arrays[1].submitted.values().sum::<u64>(), 512);
    }
}
