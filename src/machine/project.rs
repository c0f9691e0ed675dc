//! Mapping of a block device to the arrays and disks below it, through partitions and device
//! mapper.

use std::cell::RefCell;
use std::collections::HashMap;

use super::blocks::{Block, BlockKind, Blocks};
use super::dm::{DmMapping, DmTables, DmTarget};
use super::segment::Stripe;
use super::types::Dev;

/// Maximum number of layers of devices. LVM on dm-crypt on a partition of md is four.
const MAX_DEPTH: usize = 16;
/// Maximum number of pieces of a device. Enough for the extents of any real LVM volume. A leg of a
/// striped volume is one piece.
const MAX_PIECES: usize = 1 << 16;

/// A run of sectors of a device, mapped to a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedRun {
    /// The array or disk; during the walk, a device above them.
    pub base: Dev,
    /// First sector of the mapped device.
    pub sector: u64,
    pub base_sector: u64,
    /// Number of sectors.
    pub sectors: u64,
    pub stripe: Stripe,
}

/// Maps devices to their bases. Caches tables: the volumes of a volume group can be on the same
/// mapped device.
pub(super) struct Projector<'a> {
    blocks: &'a Blocks,
    dm: &'a dyn DmTables,
    tables: RefCell<HashMap<Dev, Result<Vec<DmTarget>, String>>>,
}

impl<'a> Projector<'a> {
    pub fn new(blocks: &'a Blocks, dm: &'a dyn DmTables) -> Self {
        Self { blocks, dm, tables: RefCell::default() }
    }

    /// Maps a whole device, in the order of first sectors. `Err` is the reason why the mapping is
    /// unknown.
    pub fn project(&self, block: &Block) -> Result<Vec<MappedRun>, String> {
        let mut pieces = Vec::new();
        let mut budget = MAX_PIECES;
        let whole = MappedRun {
            base: block.dev,
            sector: 0,
            base_sector: 0,
            sectors: block.sectors,
            stripe: Stripe::default(),
        };
        self.walk(whole, MAX_DEPTH, &mut budget, &mut pieces)?;
        pieces.sort_by_key(|piece| piece.sector);
        Ok(pieces)
    }

    /// True if the table of this device has a dm-crypt target; false if the table is unreadable.
    pub fn encrypts(&self, block: &Block) -> bool {
        matches!(block.kind, BlockKind::Dm { .. })
            && self.table(block).is_ok_and(|t| t.iter().any(|t| t.encrypts))
    }

    /// Follows `run` down to arrays and disks.
    fn walk(
        &self,
        run: MappedRun,
        depth: usize,
        budget: &mut usize,
        pieces: &mut Vec<MappedRun>,
    ) -> Result<(), String> {
        if run.sectors == 0 {
            return Ok(());
        }
        let block = self
            .blocks
            .get(run.base)
            .ok_or_else(|| format!("device {} beneath it is not in /sys/block", run.base))?;
        if depth == 0 {
            return Err(format!("more than {MAX_DEPTH} layers of devices"));
        }
        *budget = budget.checked_sub(1).ok_or_else(|| format!("more than {MAX_PIECES} pieces"))?;
        match &block.kind {
            _ if block.is_base() => {
                run.base_sector.checked_add(run.sectors).ok_or_else(overflow)?;
                push(pieces, run);
                Ok(())
            }
            BlockKind::Partition { disk, start, .. } => {
                let lower = run.base_sector.checked_add(*start).ok_or_else(overflow)?;
                let to = at(run, 0, (*disk, lower), run.sectors)?;
                self.walk(to, depth - 1, budget, pieces)
            }
            _ => {
                for target in self.table(block)? {
                    self.through(block, &target, run, depth - 1, budget, pieces)?;
                }
                Ok(())
            }
        }
    }

    /// Maps the part of `run` that `target` covers.
    fn through(
        &self,
        block: &Block,
        target: &DmTarget,
        run: MappedRun,
        depth: usize,
        budget: &mut usize,
        pieces: &mut Vec<MappedRun>,
    ) -> Result<(), String> {
        let begin = run.base_sector.max(target.start);
        let end = run
            .base_sector
            .saturating_add(run.sectors)
            .min(target.start.saturating_add(target.sectors));
        if begin >= end {
            return Ok(());
        }
        let skip = begin - run.base_sector;
        let inside = begin - target.start;
        match &target.map {
            DmMapping::To(dev, offset) => {
                let lower = offset.checked_add(inside).ok_or_else(overflow)?;
                let to = at(run, skip, (*dev, lower), end - begin)?;
                self.walk(to, depth, budget, pieces)
            }
            DmMapping::Striped(_, legs) if legs.len() > 1 && run.stripe.gap > 0 => {
                Err(format!("{} is striped below a striped volume", block.name))
            }
            DmMapping::Striped(chunk, legs) => {
                let width = chunk.checked_mul(legs.len() as u64).ok_or_else(overflow)?;
                let leg = Stripe { chunk: *chunk, gap: width - chunk, phase: 0 };
                for (number, &(dev, offset)) in (0..).zip(legs) {
                    let start = number * chunk;
                    let own = |sector: u64| leg.below(sector.saturating_sub(start));
                    let (first, last) = (own(inside), own(end - target.start));
                    let ahead = leg.above(first).saturating_add(start).saturating_sub(inside);
                    let lower = first.checked_add(offset).ok_or_else(overflow)?;
                    let mut to = at(run, skip.saturating_add(ahead), (dev, lower), last - first)?;
                    if leg.gap > 0 {
                        to.stripe = leg.after(first);
                    }
                    self.walk(to, depth, budget, pieces)?;
                }
                Ok(())
            }
            DmMapping::Raid(_) => Err(format!("{} has a raid target beside others", block.name)),
            DmMapping::Opaque(kind) => Err(hidden(&block.name, kind)),
        }
    }

    fn table(&self, block: &Block) -> Result<Vec<DmTarget>, String> {
        self.tables
            .borrow_mut()
            .entry(block.dev)
            .or_insert_with(|| {
                self.dm.table(block.dev).map_err(|e| {
                    let name = &block.name;
                    format!(
                        "the device mapper table of {name} cannot be read (requires root or \
                         cap_sys_admin): {e}"
                    )
                })
            })
            .clone()
    }
}

/// Why the sectors of a target are not known.
fn hidden(name: &str, kind: &str) -> String {
    // Documentation/admin-guide/device-mapper/.
    match kind {
        "thin" => format!("{name} is a thin volume: only its pool knows where its blocks are"),
        "cache" | "writecache" => {
            format!("{name} has a {kind}, which moves blocks between two devices")
        }
        "vdo" => format!("{name} is a VDO volume, which compresses and shares its blocks"),
        // LVM's stand-in for a physical volume that is missing.
        "error" => format!("a disk is missing: {name} is an error target"),
        "integrity" => format!("{name} has checksums between its blocks (dm-integrity)"),
        _ => format!(
            "{name} uses device mapper's {kind} target, whose mapping raidtrace does not know"
        ),
    }
}

fn overflow() -> String {
    "a device mapper table points beyond any disk".into()
}

/// Maps `sectors` sectors of `run`, from `skip` on, to a device and sector one layer down.
fn at(run: MappedRun, skip: u64, lower: (Dev, u64), sectors: u64) -> Result<MappedRun, String> {
    Ok(MappedRun {
        base: lower.0,
        sector: run.sector.checked_add(run.stripe.above(skip)).ok_or_else(overflow)?,
        base_sector: lower.1,
        sectors,
        stripe: run.stripe.after(skip),
    })
}

/// Appends a piece. Merges it with the last one if both are contiguous on the device and on the
/// base.
fn push(pieces: &mut Vec<MappedRun>, next: MappedRun) {
    if let Some(last) = pieces.last_mut()
        && last.base == next.base
        && last.sector.checked_add(last.stripe.above(last.sectors)) == Some(next.sector)
        && last.base_sector.checked_add(last.sectors) == Some(next.base_sector)
        && last.stripe.after(last.sectors) == next.stripe
    {
        last.sectors += next.sectors;
        return;
    }
    pieces.push(next);
}
