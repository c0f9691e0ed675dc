//! Finds origins that few members carry.

use super::ENOUGH_REQUESTS;
use super::spread::Spread;
use super::words::{and, plural};
use crate::analysis::snapshot::MemberSnapshot;
use crate::analysis::units;
use crate::origin::{Op, Origin, io_name};

/// Less than this is not worth a sentence: bytes of one origin and operation on all members.
const ENOUGH_BYTES: f64 = 64.0 * 1024.0;
/// And this share of all members' requests or bytes.
const ENOUGH_SHARE: f64 = 0.01;
/// Origins whose carriers have this share of each other's load are named in one sentence.
const TOGETHER: f64 = 0.9;

/// An origin and operation that few members carry.
struct Candidate {
    origin: Origin,
    op: Op,
    spread: Spread,
    carriers: Vec<usize>,
    /// The share of the array's whole load that is on the carriers only because of this: what mending it would move.
    excess: f64,
}

impl Candidate {
    /// Blocks that mkfs placed come first: they stay where they are, and mkfs can mend it.
    fn score(&self) -> f64 {
        self.excess
            * match (is_placed(self.origin), self.origin.is_metadata()) {
                (true, _) => 3.0,
                (_, true) => 1.5,
                _ => 1.0,
            }
    }

    /// Whether it can stand in one sentence with `best`: same operation, same members.
    fn goes_with(&self, best: &Self) -> bool {
        self.op == best.op
            && is_placed(self.origin) == is_placed(best.origin)
            && (self.carriers == best.carriers
                || self
                    .spread
                    .share(&best.carriers)
                    .min(best.spread.share(&best.carriers))
                    >= TOGETHER)
    }
}

/// Blocks that mkfs placed stay on their members for ever; a journal or a file moves on with its writer.
fn is_placed(origin: Origin) -> bool {
    use Origin::{BlockBitmap, GroupDescriptors, InodeBitmap, InodeTable, Superblock};
    matches!(
        origin,
        Superblock | GroupDescriptors | BlockBitmap | InodeBitmap | InodeTable
    )
}

/// Origins that the same few members carry.
pub struct Uneven {
    /// Together, in the vocabulary's order.
    pub origins: Vec<Origin>,
    /// Their operation.
    pub op: Op,
    /// Who carries them: indices of present members, ascending.
    pub carriers: Vec<usize>,
    /// The share that the carriers have of them, 0.0..=1.0.
    pub share: f64,
    /// The busiest member over the mean.
    pub skew: f64,
    /// The share of the array's load that is on the carriers only because of this.
    pub excess: f64,
}

impl Uneven {
    /// `block_bitmap and inode_bitmap writes`
    pub fn what(&self) -> String {
        let names: Vec<&str> = self.origins.iter().map(|&o| io_name(o, self.op)).collect();
        format!("{} {}", and(&names), plural(self.op))
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

/// The origins that few members carry, those first that an even layout would help most; `None` when every origin is
/// even. `on`: only those that one of these members carries.
pub fn uneven(
    present: &[&MemberSnapshot],
    total: &Spread,
    chunk_bytes: u64,
    on: Option<&[usize]>,
) -> Option<Uneven> {
    let mut kinds: Vec<(Origin, Op)> = present
        .iter()
        .flat_map(|m| m.io.iter().map(|c| (c.origin, c.op)))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let candidates: Vec<Candidate> = kinds
        .iter()
        .filter_map(|&(origin, op)| candidate(present, total, chunk_bytes, origin, op))
        .filter(|c| on.is_none_or(|on| on.iter().any(|i| c.carriers.contains(i))))
        .collect();
    let best = candidates
        .iter()
        .max_by(|a, b| a.score().total_cmp(&b.score()))?;
    // The others that the same members carry belong into the same sentence.
    let together: Vec<&Candidate> = candidates.iter().filter(|c| c.goes_with(best)).collect();
    let origins: Vec<Origin> = together.iter().map(|c| c.origin).collect();
    let excess = together.iter().map(|c| c.excess).sum();
    let spread = Spread::of(present, |c| c.op == best.op && origins.contains(&c.origin));
    Some(Uneven {
        op: best.op,
        share: spread.share(&best.carriers),
        skew: spread.skew(),
        carriers: best.carriers.clone(),
        origins,
        excess,
    })
}

fn candidate(
    present: &[&MemberSnapshot],
    total: &Spread,
    chunk_bytes: u64,
    origin: Origin,
    op: Op,
) -> Option<Candidate> {
    let spread = Spread::of(present, |c| c.origin == origin && c.op == op);
    let (requests, bytes) = (spread.requests(), spread.bytes());
    let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    if requests < ENOUGH_REQUESTS
        || (bytes > 0.0 && bytes < ENOUGH_BYTES)
        || of(requests, total.requests()).max(of(bytes, total.bytes())) < ENOUGH_SHARE
    {
        return None;
    }
    // What is written in sequence visits one member after the other: wait until it has gone round a few times.
    let round = chunk_bytes as f64 * present.len() as f64;
    if !is_placed(origin) && bytes < 4.0 * round && requests < 64.0 * present.len() as f64 {
        return None;
    }
    let carriers = spread.carriers()?;
    let excess = |whole: &dyn Fn(&(f64, f64)) -> f64| {
        let mean = spread.each.iter().map(whole).sum::<f64>() / present.len() as f64;
        let all: f64 = total.each.iter().map(whole).sum();
        of(
            carriers
                .iter()
                .map(|&i| (whole(&spread.each[i]) - mean).max(0.0))
                .sum(),
            all,
        )
    };
    let excess = excess(&|e| e.0).max(excess(&|e| e.1));
    Some(Candidate {
        origin,
        op,
        spread,
        carriers,
        excess,
    })
}
