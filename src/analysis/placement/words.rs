//! Headline, cause and advice for a spread, one sentence each. `xfs` has the sentences on
//! allocation groups.

mod xfs;

use super::agsize;
use super::filesystem::Groups;
use super::search::Candidate;
use super::spread::MIN_UNEVEN_SKEW;
use super::spread::{PlacementFigure, Spread, skew};
use super::target::Target;
use crate::analysis::units;
use crate::raid::Level;

/// Flex groups per member below which the skew must be twice the best possible one.
const MIN_FLEX_PER_MEMBER: u64 = 2;

/// An uneven figure, and the slots with more than 1.2 times the mean.
pub struct UnevenFigure {
    name: &'static str,
    /// True for the inodes in use, false for the allocation metadata.
    inodes: bool,
    skew: f64,
    slots: Vec<usize>,
    /// Share on these slots.
    share: f64,
}

/// Lowest skew that counts as uneven for `n` flex groups. Infinite with fewer of them than disks,
/// because these cannot be even.
fn threshold(n: u64, disks: u64) -> f64 {
    if n < disks {
        return f64::INFINITY;
    }
    if n >= MIN_FLEX_PER_MEMBER * disks {
        return MIN_UNEVEN_SKEW;
    }
    MIN_UNEVEN_SKEW.max(2.0 * (n.div_ceil(disks) * disks) as f64 / n as f64)
}

/// Uneven figures.
pub fn uneven(target: &Target, spread: &Spread) -> Vec<UnevenFigure> {
    // A linear array has each group on one member, whatever the options of mkfs.
    if target.array.geometry.level() == Level::Linear {
        return Vec::new();
    }
    let disks = spread.members.len();
    let figures = target.fs.figures();
    let here = |groups: u32| (f64::from(groups) * target.share()).round() as u64;
    // The bitmaps of a flex group are adjacent, and so are its inodes in use. The same holds for an
    // allocation group.
    let from = target.fs.groups.map_or(MIN_UNEVEN_SKEW, |g| match g {
        Groups::Block(g) => threshold(here(g.flex_groups()), disks as u64),
        Groups::Allocation(g) => {
            let (geometry, segments) = (&target.array.geometry, &target.segments);
            let ideal = agsize::ideal(geometry, segments, here(g.count));
            ideal.map_or(f64::INFINITY, |ideal| ideal * MIN_UNEVEN_SKEW)
        }
    });
    let uneven = |(inodes, figure): (bool, PlacementFigure)| {
        let values: Vec<u64> = spread.members.iter().map(figure).collect();
        let skew = skew(values.iter().copied()).filter(|&s| s >= from)?;
        let sum: u64 = values.iter().sum();
        let mean = sum as f64 / disks as f64;
        let slots: Vec<usize> =
            (0..disks).filter(|&slot| values[slot] as f64 > mean * 1.2).collect();
        let on_slots: u64 = slots.iter().map(|&slot| values[slot]).sum();
        Some(UnevenFigure {
            name: figures.names[usize::from(inodes)],
            inodes,
            skew,
            slots,
            share: on_slots as f64 / sum as f64,
        })
    };
    [(false, figures.allocation), (true, |m| m.heads)].into_iter().filter_map(uneven).collect()
}

/// Names of members, or slots without names.
fn members(target: &Target, slots: &[usize]) -> String {
    let disks = target.array.geometry.disks();
    let names: Vec<String> = slots
        .iter()
        .map(|&slot| match target.array.member(slot) {
            "" => slot.to_string(),
            name => name.to_owned(),
        })
        .collect();
    let kind = match (target.array.members.is_empty(), slots.len()) {
        (false, _) => "",
        (true, 1) => "slot ",
        (true, _) => "slots ",
    };
    if slots.len() > 8 {
        return format!("{} of {disks} members", slots.len());
    }
    format!("{kind}{}", units::list(&names))
}

/// `all`, `nearly all`, `98 %`.
fn share(share: f64) -> String {
    if share >= 1.0 {
        "all".to_owned()
    } else if share > 0.995 {
        "nearly all".to_owned()
    } else {
        units::percent(share)
    }
}

/// One sentence on the uneven figures, or stating that there are none.
pub fn headline(target: &Target, spread: &Spread, uneven: &[UnevenFigure]) -> String {
    let geometry = &target.array.geometry;
    if spread.members.len() < 2 {
        return match geometry.level() {
            Level::Single => "one disk, which holds everything".to_owned(),
            level => format!("{level} of one member, which holds everything"),
        };
    }
    match geometry.level() {
        Level::Raid1 => return "raid1: every member holds everything".to_owned(),
        Level::Linear => {
            return "linear: every member holds its part of the groups, and the load is where the \
                    files are"
                .to_owned();
        }
        _ => {}
    }
    if uneven.is_empty() {
        let skews = spread.skews(target.fs.figures());
        let worst = units::factor(Some(skews.worst()));
        return if skews.worst() >= MIN_UNEVEN_SKEW {
            format!("too few groups to be even: the busiest member has {worst} the mean")
        } else {
            format!("no hot spot: the busiest member has {worst} the mean")
        };
    }
    // One clause for both figures if they are on the same slots.
    let groups = target.fs.allocation_groups();
    let same = matches!(uneven, [a, b] if a.slots == b.slots
        && (groups.is_some() || share(a.share) == share(b.share)));
    let clauses = uneven.chunks(if same { uneven.len() } else { 1 }).filter_map(|figures| {
        if let Some(groups) = groups {
            return xfs::clause(target, groups.count, figures);
        }
        let (slots, on_slots) = figures.first().map(|u| (&u.slots, u.share))?;
        let names: Vec<&str> = figures.iter().map(|u| u.name).collect();
        let most = figures.iter().map(|u| u.skew).fold(0.0, f64::max);
        let hold = if slots.len() == 1 { "holds" } else { "hold" };
        Some(format!(
            "{}: {} {hold} {} of them, {} the mean",
            units::list(&names),
            members(target, slots),
            share(on_slots),
            units::factor(Some(most)),
        ))
    });
    clauses.collect::<Vec<_>>().join("; ")
}

/// The reason why the layout is uneven, if groups are a whole number of chunks apart.
pub fn why(target: &Target, spread: &Spread, uneven: &[UnevenFigure]) -> Option<String> {
    if uneven.is_empty() {
        return None;
    }
    let groups = match target.fs.groups? {
        Groups::Block(groups) => groups,
        Groups::Allocation(groups) => return xfs::why(target, spread, &groups),
    };
    let chunk = target.array.geometry.chunk_sectors()? * 512;
    let block = u64::from(target.fs.block_size);
    let step = groups.step() * block;
    if groups.per_flex < 2 || !step.is_multiple_of(chunk) {
        return None;
    }
    let disks = spread.members.len();
    let apart = step / chunk;
    Some(format!(
        "bitmaps and tables of {} groups are adjacent, every {} x {} = {apart} chunks, and \
         {apart} modulo {disks} disks is {}",
        groups.per_flex,
        groups.per_flex,
        units::size(u64::from(groups.blocks) * block),
        apart % disks as u64,
    ))
}

/// Advice for a filesystem without an array: describe one.
pub fn advice(target: &Target) -> Option<String> {
    let geometry = &target.array.geometry;
    let fs = &target.fs;
    if geometry.level() == Level::Single && target.array.name.is_none() {
        let hint = match (fs.stride, fs.stripe_width) {
            (0, _) => String::new(),
            (stride, width) => {
                let chunk = units::size(u64::from(stride) * u64::from(fs.block_size));
                match width / stride {
                    0 => format!("; its superblock has {chunk} chunks"),
                    n => format!("; its superblock has {n} data disks and {chunk} chunks"),
                }
            }
        };
        return Some(format!("describe its array: --level raid0 --disks 12 --chunk 512K{hint}"));
    }
    None
}

pub use xfs::{remedy as xfs_remedy, warning as xfs_warning};

/// Advice for an uneven layout of ext2, ext3 or ext4: options with an even layout, or how to find
/// them.
pub fn remedy(target: &Target, exists: bool, found: Option<&Candidate>) -> String {
    let fixed =
        if exists { "existing metadata cannot be moved; for a new filesystem: " } else { "" };
    match found {
        Some(c) => format!(
            "{fixed}mkfs.ext4 {} is even on {} disks ({}); --search compares options and their \
             costs",
            c.options.words(),
            target.array.geometry.disks(),
            units::factor(Some(c.skews.worst())),
        ),
        None => {
            format!("{fixed}--search compares options of mke2fs for this array, and their costs")
        }
    }
}
