//! Headline, cause and advice for a spread, one sentence each.

use super::search::Candidate;
use super::spread::{Of, Spread, skew};
use super::target::Target;
use crate::analysis::units;
use crate::raid::Level;

/// From here on a skew is worth a word.
pub const STANDS_OUT: f64 = 1.5;
/// Of fewer things than this a member, a skew has to be twice what it is at best.
const FEW: u64 = 2;

/// What is uneven, and on which slots it lies.
pub struct Uneven {
    what: &'static str,
    skew: f64,
    slots: Vec<usize>,
    /// Of all of it, on these slots.
    share: f64,
}

/// The figures that decide.
const FIGURES: [(&str, Of); 2] = [("bitmaps", |m| m.bitmaps()), ("inode tables", |m| m.heads)];

/// Lowest skew that is reported for `n` things on so many disks: fewer things than disks cannot be even.
fn stands_out(n: u64, disks: u64) -> f64 {
    if n < disks {
        return f64::INFINITY;
    }
    if n >= FEW * disks {
        return STANDS_OUT;
    }
    STANDS_OUT.max(2.0 * (n.div_ceil(disks) * disks) as f64 / n as f64)
}

/// The figures that stand out.
pub fn uneven(target: &Target, spread: &Spread) -> Vec<Uneven> {
    let disks = spread.members.len();
    // The bitmaps of a flex group lie together, and so do its inodes in use.
    let from = target.fs.groups.map_or(STANDS_OUT, |g| {
        stands_out(u64::from(g.flex_groups()), disks as u64)
    });
    let mut found = Vec::new();
    for (what, of) in FIGURES {
        let values = spread.members.iter().map(of);
        let Some(skew) = skew(values.clone()).filter(|&s| s >= from) else {
            continue;
        };
        let sum: u64 = values.clone().sum();
        let mean = sum as f64 / disks as f64;
        let slots: Vec<usize> = (0..disks)
            .filter(|&slot| of(&spread.members[slot]) as f64 > mean * 1.2)
            .collect();
        let on: u64 = slots.iter().map(|&slot| of(&spread.members[slot])).sum();
        found.push(Uneven {
            what,
            skew,
            slots,
            share: on as f64 / sum as f64,
        });
    }
    found
}

/// `a`, `a and b`, `a, b and c`.
fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// The slots, by name where they have one.
fn members(target: &Target, slots: &[usize]) -> String {
    let disks = target.array.geometry.disks();
    let named: Vec<String> = slots
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
    format!("{kind}{}", list(&named))
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

/// The sentence on what is uneven, or that nothing is.
pub fn headline(target: &Target, spread: &Spread, uneven: &[Uneven]) -> String {
    let geometry = &target.array.geometry;
    if spread.members.len() < 2 {
        return match geometry.level() {
            Level::Single => "one disk: everything is on it".to_owned(),
            level => format!("{level} of one member: everything is on it"),
        };
    }
    if geometry.level() == Level::Raid1 {
        return "raid1: every member has everything".to_owned();
    }
    if uneven.is_empty() {
        let skews = spread.skews();
        let worst = units::factor(Some(skews.worst()));
        return if skews.worst() >= STANDS_OUT {
            format!("so few groups cannot be even: the busiest member has {worst} the mean")
        } else {
            format!("no hot spot: the busiest member has {worst} the mean")
        };
    }
    let mut parts: Vec<String> = Vec::new();
    let mut rest: Vec<&Uneven> = uneven.iter().collect();
    while let Some(first) = rest.first().copied() {
        // Several things on the same slots are one sentence.
        let alike = |u: &&Uneven| u.slots == first.slots && share(u.share) == share(first.share);
        let same: Vec<&Uneven> = rest.iter().copied().filter(alike).collect();
        rest.retain(|u| !alike(u));
        let what: Vec<String> = same.iter().map(|u| u.what.to_owned()).collect();
        let most = same.iter().map(|u| u.skew).fold(0.0, f64::max);
        let hold = if first.slots.len() == 1 {
            "holds"
        } else {
            "hold"
        };
        parts.push(format!(
            "{}: {} {hold} {} of them, {} the mean",
            list(&what),
            members(target, &first.slots),
            share(first.share),
            units::factor(Some(most)),
        ));
    }
    parts.join("; ")
}

/// The arithmetic behind it, where it is simple: flex groups a whole number of chunks apart.
pub fn why(target: &Target, spread: &Spread, uneven: &[Uneven]) -> Option<String> {
    if uneven.is_empty() {
        return None;
    }
    let groups = target.fs.groups?;
    let chunk = target.array.geometry.chunk_sectors()? * 512;
    let block = u64::from(target.fs.block_size);
    let step = groups.step() * block;
    if groups.per_flex < 2 || !step.is_multiple_of(chunk) {
        return None;
    }
    let disks = spread.members.len();
    let apart = step / chunk;
    Some(format!(
        "bitmaps and tables of {} groups lie together, every {} x {} = {apart} chunks, and {apart} modulo {disks} disks is {}",
        groups.per_flex,
        groups.per_flex,
        units::size(u64::from(groups.blocks) * block),
        apart % disks as u64,
    ))
}

/// What to do first: without an array there is nothing to see.
pub fn advice(target: &Target) -> Option<String> {
    let geometry = &target.array.geometry;
    let fs = &target.fs;
    if geometry.level() == Level::Single && target.array.name.is_none() {
        let hint = match (fs.stride, fs.stripe_width) {
            (0, _) => String::new(),
            (stride, width) => {
                let chunk = units::size(u64::from(stride) * u64::from(fs.block_size));
                match width / stride {
                    0 => format!("; its superblock speaks of {chunk} chunks"),
                    n => format!("; its superblock speaks of {n} data disks and {chunk} chunks"),
                }
            }
        };
        return Some(format!(
            "say which array it lies on or will: --level raid0 --disks 12 --chunk 512K{hint}"
        ));
    }
    // What there is to do takes more than this to find out: [`remedy`].
    None
}

/// What would have been even, or that there is a way to find out.
pub fn remedy(target: &Target, exists: bool, found: Option<&Candidate>) -> String {
    let fixed = if exists {
        "nothing moves these later; when it is made anew: "
    } else {
        ""
    };
    match found {
        Some(c) => format!(
            "{fixed}mkfs.ext4 {} is even on {} disks ({}); --search compares, with what it costs",
            c.options.words(),
            target.array.geometry.disks(),
            units::factor(Some(c.skews.worst())),
        ),
        None => format!(
            "{fixed}--search compares options of mke2fs for this array, with what they cost"
        ),
    }
}
