//! The members on which the allocation groups of XFS start, and the size of a group (agsize) for
//! which they start on all members equally.
//!
//! mkfs.xfs makes agsize a multiple of the chunk, so the member of each group follows from agsize
//! in chunks modulo the period of the array. mkfs.xfs avoids only an agsize that is a multiple of
//! the stripe width (mkfs/xfs_mkfs.c, `align_ag_geometry`), which is not the period of RAID 4, 5
//! and 6, and which leaves common factors.

use super::allocation_groups::{MIN_AG_SECTORS, count};
use super::filesystem::FsMetadata;
use super::spread::{MIN_UNEVEN_SKEW, Projection, skew};
use super::target::TargetArray;
use crate::address::{ArraySector, FsSector};
use crate::analysis::snapshot::UnevenGroups;
use crate::machine::Segment;
use crate::raid::Geometry;

/// Number of values of agsize to try, from mkfs.xfs's own downwards in chunks. Over RAID 0, 4 and 5
/// of up to 24 disks, and RAID 10 of an even number of disks, the result is at most 3 chunks below
/// mkfs.xfs's own. RAID 6 has no simple rule.
const MAX_TRIES: u64 = 64;
/// Skew relative to the best possible one up to which an agsize is as good as the best.
const MAX_EQUAL_SKEW: f64 = 1.05;

/// Skew relative to the best possible one up to which an agsize is worth a new filesystem.
const MAX_EVEN_SKEW: f64 = 1.2;

/// An agsize, and the skew of the starts of its groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgSize {
    /// Sectors per group, a multiple of the chunk.
    pub sectors: u64,
    /// Busiest member over the mean.
    pub skew: f64,
    /// The lowest skew that this number of groups can have on the array.
    pub ideal: f64,
}

impl AgSize {
    /// True if no agsize could be much more even.
    pub fn is_even(&self) -> bool {
        self.skew <= self.ideal * MAX_EVEN_SKEW
    }
}

/// Number of groups that start on each member. `total` is the size of the filesystem in sectors.
fn starts(projection: &Projection<'_>, disks: usize, agsize: u64, total: u64) -> Vec<u64> {
    let mut hits = vec![0; disks];
    for group in 0..count(agsize, total) {
        projection.add(FsSector(group * agsize), 1, &mut hits);
    }
    hits
}

/// The agsize to use instead of `agsize` on an array: the largest multiple of the chunk up to it
/// for which the groups of a filesystem of `total` sectors start on all members equally, or most
/// equally. `None` without chunks, or if the filesystem is too small.
pub fn best(geometry: &Geometry, segments: &[Segment], agsize: u64, total: u64) -> Option<AgSize> {
    let chunk = geometry.chunk_sectors()?;
    let projection = Projection::new(geometry, segments);
    let disks = geometry.disks() as usize;
    let holders = holders(geometry, &projection)?;
    let own = agsize / chunk;
    let mut best: Option<AgSize> = None;
    for chunks in (0..=own).rev().take(MAX_TRIES as usize) {
        let sectors = chunks * chunk;
        if sectors < MIN_AG_SECTORS || total < sectors {
            break;
        }
        let hits = starts(&projection, disks, sectors, total);
        let copies: u64 = hits.iter().sum();
        let Some(skew) = skew(hits.iter().copied()) else {
            break;
        };
        let ideal = lowest_skew(copies, holders, disks);
        if best.is_none_or(|b| skew < b.skew - 1e-9) {
            best = Some(AgSize { sectors, skew, ideal });
        }
        if skew <= ideal * MAX_EQUAL_SKEW {
            break;
        }
    }
    best
}

/// The lowest skew that `groups` allocation groups can have. `None` without chunks.
pub fn ideal(geometry: &Geometry, segments: &[Segment], groups: u64) -> Option<f64> {
    let projection = Projection::new(geometry, segments);
    let copies = groups * geometry.copies(ArraySector(0)).len() as u64;
    let holders = holders(geometry, &projection)?;
    (copies > 0).then(|| lowest_skew(copies, holders, geometry.disks() as usize))
}

/// The allocation groups of an XFS on `array` if they start on few members; `None` also for other
/// filesystems.
pub fn uneven(fs: &FsMetadata, segments: &[Segment], array: &TargetArray) -> Option<UnevenGroups> {
    let groups = fs.allocation_groups()?;
    let geometry = &array.geometry;
    let total = fs.blocks.saturating_mul(fs.block_sectors());
    let projection = Projection::new(geometry, segments);
    let disks = geometry.disks() as usize;
    let hits = starts(&projection, disks, groups.sectors, total);
    let ideal = ideal(geometry, segments, groups.count.into())?;
    if skew(hits.iter().copied())? < ideal * MIN_UNEVEN_SKEW {
        return None;
    }
    let mean = hits.iter().sum::<u64>() as f64 / disks as f64;
    let most: Vec<usize> =
        (0..disks).filter(|&slot| hits[slot] as f64 >= mean * MIN_UNEVEN_SKEW).collect();
    let better = best(geometry, segments, groups.sectors, total).filter(AgSize::is_even);
    let copies = geometry.copies(ArraySector(0)).len().max(1) as u64;
    Some(UnevenGroups {
        groups: hits.iter().sum::<u64>() / copies,
        on_members: most.iter().map(|&slot| hits[slot]).sum::<u64>() / copies,
        members: most.iter().map(|&slot| array.member(slot).to_owned()).collect(),
        agsize_bytes: better.map(|b| b.sectors * 512),
    })
}

/// Number of members that hold data: the parity disk of a RAID 4 cannot have a group.
fn holders(geometry: &Geometry, projection: &Projection<'_>) -> Option<u64> {
    let mut holds = vec![0; geometry.disks() as usize];
    let sectors = geometry.chunk_sectors()?.checked_mul(geometry.period()?)?;
    projection.add(FsSector(0), projection.distance(sectors), &mut holds);
    let holders = holds.iter().filter(|&&n| n > 0).count() as u64;
    (holders > 0).then_some(holders)
}

fn lowest_skew(copies: u64, holders: u64, disks: usize) -> f64 {
    (copies.div_ceil(holders) * disks as u64) as f64 / copies as f64
}

/// Number of chunks after which the order of members repeats: the number of disks on RAID 0 and on
/// RAID 5 in md's default layout. `None` without chunks, and for a RAID 0 of unequal members.
pub fn member_period(geometry: &Geometry) -> Option<u64> {
    let chunk = geometry.chunk_sectors()?;
    let period = geometry.period()?;
    let slots: Vec<Vec<u32>> = (0..period)
        .map(|c| {
            let copies = geometry.copies(ArraySector(c * chunk));
            let mut slots: Vec<u32> = copies.into_iter().map(|(slot, _)| slot).collect();
            slots.sort_unstable();
            slots
        })
        .collect();
    (1..=period).find(|p| {
        period.is_multiple_of(*p)
            && (0..period - p).all(|c| slots[c as usize] == slots[(c + p) as usize])
    })
}

#[cfg(test)]
mod tests;
