//! Runs of a device's sectors on an array or a disk.

use crate::address::{ArraySector, FsSector};

/// How a run that is contiguous below lies on the device above, as `dm-stripe` maps it
/// (`drivers/md/dm-stripe.c`, `stripe_map_sector()`): after each `chunk` sectors, the next `gap`
/// sectors of the device are on the other legs. The default is a run without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stripe {
    /// Sectors of a chunk, more than 0 if there is a gap.
    pub chunk: u64,
    /// Sectors of the other legs; 0: no gaps.
    pub gap: u64,
    /// Sectors by which the run begins after the start of a chunk.
    pub phase: u64,
}

impl Stripe {
    /// Distance on the device between the first sector of the run and the sector after `sectors`
    /// of its sectors. Saturates.
    pub fn above(&self, sectors: u64) -> u64 {
        match self.gap {
            0 => sectors,
            gap => (self.phase.saturating_add(sectors) / self.chunk)
                .saturating_mul(gap)
                .saturating_add(sectors),
        }
    }

    /// Number of sectors of the run among the first `distance` sectors of the device from its
    /// first one on.
    pub fn below(&self, distance: u64) -> u64 {
        if self.gap == 0 {
            return distance;
        }
        let (at, width) = (self.phase.saturating_add(distance), self.chunk + self.gap);
        at / width * self.chunk + (at % width).min(self.chunk) - self.phase
    }

    /// The stripe of the rest of a run, without its first `sectors`.
    pub fn after(&self, sectors: u64) -> Self {
        match self.gap {
            0 => *self,
            _ => Self { phase: self.phase.saturating_add(sectors) % self.chunk, ..*self },
        }
    }
}

/// A run of filesystem sectors that are contiguous on the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First sector.
    pub fs_sector: FsSector,
    /// Array sector of `fs_sector`.
    pub array_sector: ArraySector,
    /// Number of sectors.
    pub sectors: u64,
    /// The gaps of a volume that is striped over several arrays.
    pub stripe: Stripe,
}

impl Segment {
    /// A segment without gaps.
    pub fn new(fs_sector: FsSector, array_sector: ArraySector, sectors: u64) -> Self {
        Self { fs_sector, array_sector, sectors, stripe: Stripe::default() }
    }

    /// First filesystem sector after the segment. Saturates at the largest sector.
    pub fn end(&self) -> FsSector {
        let distance = match self.sectors.checked_sub(1) {
            None => 0,
            Some(last) => self.stripe.above(last).saturating_add(1),
        };
        self.fs_sector.saturating_add(distance)
    }

    /// Number of sectors of the segment before a filesystem sector.
    pub fn before(&self, end: FsSector) -> u64 {
        match end > self.fs_sector {
            true => self.map(end.min(self.end())) - self.array_sector,
            false => 0,
        }
    }

    /// Array sector of a sector between the segment's first one and its end; in a gap, that of the
    /// next sector of the segment.
    pub fn map(&self, sector: FsSector) -> ArraySector {
        self.array_sector + self.stripe.below(sector - self.fs_sector)
    }
}

#[cfg(test)]
mod tests {
    use super::{Segment, Stripe};
    use crate::address::{ArraySector, FsSector};
    use proptest::prelude::*;

    proptest! {
        /// Compared with the table of all sectors that `stripe_map_sector()` gives.
        #[test]
        fn a_leg_of_a_striped_volume(
            chunk in 1u64..6, legs in 1u64..5, leg in 0u64..5,
            begin in 0u64..60, sectors in 1u64..60,
        ) {
            let leg = leg % legs;
            // (sector of the device, sector of the leg)
            let own: Vec<(u64, u64)> = (begin..500)
                .filter(|sector| sector / chunk % legs == leg)
                .map(|sector| (sector, sector / chunk / legs * chunk + sector % chunk))
                .take(sectors as usize)
                .collect();
            let (first, below) = own[0];
            let phase = if legs == 1 { 0 } else { below % chunk };
            let stripe = Stripe { chunk, gap: chunk * (legs - 1), phase };
            let segment = Segment {
                fs_sector: FsSector(first), array_sector: ArraySector(below), sectors, stripe,
            };
            prop_assert_eq!(segment.end(), FsSector(own[own.len() - 1].0 + 1));
            for (n, &(sector, below)) in own.iter().enumerate() {
                prop_assert_eq!(segment.map(FsSector(sector)), ArraySector(below));
                prop_assert_eq!(stripe.above(n as u64), sector - first);
                let rest = stripe.after(n as u64);
                let last = own[own.len() - 1].0;
                prop_assert_eq!(rest.below(last - sector), own.len() as u64 - 1 - n as u64);
            }
            for gap in first..segment.end().0 {
                let next = own.iter().find(|(sector, _)| *sector >= gap).unwrap();
                prop_assert_eq!(segment.map(FsSector(gap)), ArraySector(next.1));
            }
        }
    }

    #[test]
    fn extreme_runs_saturate() {
        let whole = Segment::new(FsSector(0), ArraySector(63), u64::MAX - 63);
        assert_eq!(whole.end(), FsSector(u64::MAX - 63));
        let stripe = Stripe { chunk: 8, gap: 8, phase: 0 };
        let wide = Segment { stripe, ..whole };
        assert_eq!(wide.end(), FsSector(u64::MAX));
        assert_eq!(Segment { sectors: 0, ..wide }.end(), FsSector(0));
    }
}
