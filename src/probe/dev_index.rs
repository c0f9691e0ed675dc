//! Places devices in the index that the programs look them up in (`bpf/dev_index.bpf.h`).

use std::ops::Range;

use super::wire::{DEV_HASH_BITS, DEV_WAYS, rt_dev_entry};

/// A multiplier of the hash, and each device's slot.
pub(super) type DeviceSlots = (u64, Vec<(u32, rt_dev_entry)>);

/// Multipliers to try. Of 1,024 random numbers, three or more share one of 8,192 buckets with 93 %
/// of the multipliers, so that all of these fail once in 10^300 times.
const MAX_TRIES: u32 = 10_000;

/// Slots that a device can have: those of its bucket.
pub(super) fn slots(dev: u32, mult: u64) -> Range<u32> {
    let bucket = (u64::from(dev).wrapping_mul(mult) >> (64 - DEV_HASH_BITS)) as u32;
    bucket * DEV_WAYS..(bucket + 1) * DEV_WAYS
}

/// Finds a multiplier for which every device has a slot.
pub(super) fn place(entries: &[rt_dev_entry]) -> Option<DeviceSlots> {
    // Knuth's multiplicative method; the sequence of multipliers is fixed, so that a run can be
    // repeated.
    let mut mult = 0x9e37_79b9_7f4a_7c15_u64;
    let mut taken = vec![0u8; 1 << DEV_HASH_BITS];
    for _ in 0..MAX_TRIES {
        taken.fill(0);
        let placed: Option<Vec<_>> = entries
            .iter()
            .map(|entry| {
                let mut slots = slots(entry.dev, mult);
                let way = taken.get_mut((slots.start / DEV_WAYS) as usize)?;
                let slot = slots.nth(usize::from(*way))?;
                *way += 1;
                Some((slot, *entry))
            })
            .collect();
        if let Some(placed) = placed {
            return Some((mult, placed));
        }
        mult = mult.wrapping_mul(0xd129_42ab_5ed5_58c5) | 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{DEV_HASH_BITS, DEV_WAYS, place};
    use crate::machine::Dev;
    use crate::probe::wire::{DEVS, rt_dev_bucket, rt_dev_entry};

    #[link(name = "raidtrace_native", kind = "static")]
    unsafe extern "C" {
        fn rt_native_dev(buckets: *mut rt_dev_bucket, mult: u64, dev: u32) -> u32;
    }

    /// Asserts that an index with the first [`DEVS`] of `numbers` holds each of them, and that the
    /// programs find no other device in it.
    fn all_are_found(name: &str, numbers: impl Iterator<Item = u32>) {
        let numbers: BTreeSet<u32> = numbers.filter(|n| *n != 0).take(DEVS as usize).collect();
        assert_eq!(numbers.len(), DEVS as usize, "{name}");
        let entries: Vec<_> = (0..)
            .zip(&numbers)
            .map(|(index, &dev)| rt_dev_entry { dev, index, ..rt_dev_entry::default() })
            .collect();
        let (mult, placed) = place(&entries).expect(name);
        let mut buckets = vec![rt_dev_bucket::default(); 1 << DEV_HASH_BITS];
        for (slot, entry) in placed {
            buckets[(slot / DEV_WAYS) as usize].way[(slot % DEV_WAYS) as usize] = entry;
        }
        // SAFETY: the hash has DEV_HASH_BITS bits, and there are as many buckets.
        let mut find = |dev| unsafe { rt_native_dev(buckets.as_mut_ptr(), mult, dev) };
        for entry in entries {
            assert_eq!(find(entry.dev), u32::from(entry.index), "{name} {}", entry.dev);
            for other in [entry.dev + 1, entry.dev ^ 1 << 20] {
                assert!(numbers.contains(&other) || find(other) == u32::MAX, "{name} {other}");
            }
        }
        // A request without a disk.
        assert_eq!(find(0), u32::MAX, "{name}");
    }

    #[test]
    fn as_many_devices_as_promised_have_a_place() {
        let dev = |major, minor| Dev { major, minor }.kernel();
        // SCSI disks: 16 minors each, 16 disks for each major number, then extended numbers.
        let majors = || [8].into_iter().chain(65..=71).chain(128..=135);
        let scsi = || majors().flat_map(move |m| (0..16).map(move |n| dev(m, 16 * n)));
        let extended = || (0..).map(move |n| dev(259, n));
        all_are_found("SCSI", scsi().chain(extended()));
        all_are_found("NVMe", extended());
        all_are_found("loop", (0..).map(|n| dev(7, n)));
        all_are_found("loop with partitions", (0..).map(|n| dev(7, 16 * n)));
        let stacked = (0..200).flat_map(move |n| [dev(253, n), dev(9, n), dev(259, 5 * n)]);
        all_are_found("LVM on md on NVMe", stacked.chain(scsi()).chain((0..).map(|n| dev(7, n))));
        for seed in 1..=20u64 {
            let mut state = seed;
            let random = std::iter::repeat_with(move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                (state >> 32) as u32
            });
            all_are_found("random", random);
        }
    }
}
