//! Finds origins that few members carry.

use std::collections::BTreeSet;

use super::ENOUGH_REQUESTS;
use super::spread::LoadSpread;
use crate::analysis::snapshot::MemberSnapshot;
use crate::analysis::units;
use crate::origin::plural;
use crate::origin::{Op, Origin, io_name};

/// Minimum bytes of an origin and operation on all members to be reported.
const MIN_BYTES: f64 = 64.0 * 1024.0;
/// Minimum share of all members' requests or bytes to be reported.
const MIN_SHARE: f64 = 0.01;
/// Origins with at least this share of their load on the carriers of the best candidate are named
/// together with it.
const MIN_CARRIED_SHARE: f64 = 0.9;

/// An origin and operation that few members carry.
struct UnevenCandidate {
    origin: Origin,
    op: Op,
    spread: LoadSpread,
    carriers: Vec<usize>,
    /// Share of the array's load that is on the carriers only because of the unevenness. An even
    /// layout would move it.
    excess: f64,
}

impl UnevenCandidate {
    /// Weighted excess. Prefers blocks placed by mkfs, because they do not move and mkfs options
    /// can fix their layout.
    fn score(&self) -> f64 {
        self.excess
            * match (is_placed(self.origin), self.origin.is_metadata()) {
                (true, _) => 3.0,
                (_, true) => 1.5,
                _ => 1.0,
            }
    }

    /// True if the candidate can be named together with `best`: same operation, same members.
    fn goes_with(&self, best: &Self) -> bool {
        self.op == best.op
            && is_placed(self.origin) == is_placed(best.origin)
            && (self.carriers == best.carriers
                || self.spread.share(&best.carriers).min(best.spread.share(&best.carriers))
                    >= MIN_CARRIED_SHARE)
    }
}

/// True for blocks that mkfs places on fixed members, and for those of XFS that start out beside
/// them. A journal or a file moves to other members as it is written.
fn is_placed(origin: Origin) -> bool {
    use Origin::{BlockBitmap, GroupDescriptors, InodeBitmap, InodeTable, Superblock};
    is_of_allocation_group(origin)
        || matches!(origin, Superblock | GroupDescriptors | BlockBitmap | InodeBitmap | InodeTable)
}

/// True for metadata of an XFS that a young allocation group has at its start.
pub fn is_of_allocation_group(origin: Origin) -> bool {
    use Origin::{AgHeader, FreeSpaceBtree, InodeBtree, InodeCluster, RefcountBtree, RmapBtree};
    matches!(
        origin,
        AgHeader | FreeSpaceBtree | InodeBtree | InodeCluster | RmapBtree | RefcountBtree
    )
}

/// Origins that the same few members carry.
pub struct UnevenOrigins {
    /// Origins, in the order of [`Origin::ALL`].
    pub origins: Vec<Origin>,
    /// Operation of these origins.
    pub op: Op,
    /// Ascending indices of the present members that carry these origins.
    pub carriers: Vec<usize>,
    /// Share of `origins` on the carriers, 0.0..=1.0.
    pub share: f64,
    /// Load of the busiest member over the mean.
    pub skew: f64,
    /// Share of the array's load that is on the carriers only because of the unevenness.
    pub excess: f64,
}

impl UnevenOrigins {
    /// `block_bitmap and inode_bitmap writes`
    pub fn what(&self) -> String {
        let names: Vec<&str> = self.origins.iter().map(|&o| io_name(o, self.op)).collect();
        format!("{} {}", units::list(&names), plural(self.op))
    }

    /// `97 % of` or `all`.
    pub fn part(&self) -> String {
        if self.share >= 1.0 {
            "all".to_owned()
        } else {
            format!("{} of", units::percent(self.share))
        }
    }
}

/// Finds the origins on few members that an even layout would help most; `None` if every origin is
/// even. With `on`, considers only origins that one of these members carries.
pub fn uneven(
    present: &[&MemberSnapshot],
    total: &LoadSpread,
    chunk_bytes: u64,
    on: Option<&[usize]>,
) -> Option<UnevenOrigins> {
    let cells = present.iter().flat_map(|m| &m.io);
    let kinds: BTreeSet<(Origin, Op)> = cells.map(|c| (c.origin, c.op)).collect();
    let candidates: Vec<UnevenCandidate> = kinds
        .into_iter()
        .filter_map(|(origin, op)| candidate(present, total, chunk_bytes, origin, op))
        .filter(|c| on.is_none_or(|on| on.iter().any(|i| c.carriers.contains(i))))
        .collect();
    let best = candidates.iter().max_by(|a, b| a.score().total_cmp(&b.score()))?;
    // Name other origins on the same members together with the best candidate.
    let together: Vec<&UnevenCandidate> = candidates.iter().filter(|c| c.goes_with(best)).collect();
    let mut origins: Vec<Origin> = together.iter().map(|c| c.origin).collect();
    let excess = together.iter().map(|c| c.excess).sum();
    let spread = LoadSpread::new(present, |c| c.op == best.op && origins.contains(&c.origin));
    name_header(present, best.op, &mut origins);
    Some(UnevenOrigins {
        op: best.op,
        share: spread.share(&best.carriers),
        skew: spread.skew(),
        carriers: best.carriers.clone(),
        origins,
        excess,
    })
}

/// Replaces `superblock` by `ag_header` if no request begins with the latter. On RAID 4, 5 and 6,
/// md writes pages of 4 KiB: an XFS with sectors of 512 bytes writes an AG header, and the request
/// begins with the superblock's copy in front of it.
fn name_header(present: &[&MemberSnapshot], op: Op, origins: &mut [Origin]) {
    let header = LoadSpread::new(present, |c| (c.origin, c.op) == (Origin::AgHeader, op));
    if header.bytes() > 0.0
        && header.requests() == 0.0
        && let Some(superblock) = origins.iter_mut().find(|o| **o == Origin::Superblock)
    {
        *superblock = Origin::AgHeader;
        origins.sort_unstable();
    }
}

fn candidate(
    present: &[&MemberSnapshot],
    total: &LoadSpread,
    chunk_bytes: u64,
    origin: Origin,
    op: Op,
) -> Option<UnevenCandidate> {
    let spread = LoadSpread::new(present, |c| c.origin == origin && c.op == op);
    let (requests, bytes) = (spread.requests(), spread.bytes());
    let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    if requests < ENOUGH_REQUESTS
        || (bytes > 0.0 && bytes < MIN_BYTES)
        || of(requests, total.requests()).max(of(bytes, total.bytes())) < MIN_SHARE
    {
        return None;
    }
    // Sequential writes visit one member after the other: require a few rounds over all members.
    let round = chunk_bytes as f64 * present.len() as f64;
    let is_fixed = is_placed(origin) && origin != Origin::InodeCluster;
    if !is_fixed && bytes < 4.0 * round && requests < 64.0 * present.len() as f64 {
        return None;
    }
    let carriers = spread.carriers()?;
    let excess = |whole: &dyn Fn(&(f64, f64)) -> f64| {
        let mean = spread.each.iter().map(whole).sum::<f64>() / present.len() as f64;
        let all: f64 = total.each.iter().map(whole).sum();
        of(carriers.iter().map(|&i| (whole(&spread.each[i]) - mean).max(0.0)).sum(), all)
    };
    let excess = excess(&|e| e.0).max(excess(&|e| e.1));
    Some(UnevenCandidate { origin, op, spread, carriers, excess })
}
