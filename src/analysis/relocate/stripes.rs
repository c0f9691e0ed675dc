//! Parity and pre-reads of RAID 4, 5 and 6: md's stripe cache.
//!
//! A stripe is one page (4 KiB) of each member at the same offset. md delays a stripe that is not
//! written completely until its submitter unplugs, then reads what it lacks for the cheaper of
//! read-modify-write and reconstruct-write (`handle_stripe_dirtying`, with the default `rmw_level`
//! of 1), and keeps the pages in a cache of 256 stripes (`stripe_cache_size`), so that the next
//! write of the same stripe may read nothing.
//!
//! Assumed: writes of a stripe that follow each other within [`WINDOW_US`] are handled together,
//! because the stripe still waits for its pre-reads.

/// Writes of a stripe within this time are handled together, µs: about a read of a rotational disk.
const WINDOW_US: i64 = 10_000;
/// Sets of the cache; a stripe is kept in one of them.
const SETS: usize = 32;
/// Stripes of a set: 256 in all sets.
const WAYS: usize = 8;
/// Maximum number of data members: a bit each.
pub(super) const DATA: u32 = 64;

/// A stripe in the cache. Masks have a bit for each data member of the row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stripe {
    /// Number of the stripe plus 1; 0 for an empty slot.
    key: u64,
    used: u64,
    /// Written and not handled.
    pending: u64,
    /// Written completely, and not handled.
    full: u64,
    cached: u64,
    parity_cached: bool,
    /// Time of the last write.
    last_us: i64,
}

/// Work that md does for a stripe besides writing the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// Number of the stripe.
    pub stripe: u64,
    /// Data members to read.
    pub reads: u64,
    /// True if parity is read, too.
    pub reads_parity: bool,
    /// Time of the last write.
    pub time_us: i64,
}

/// The stripe cache.
#[derive(Clone, Debug)]
pub(super) struct Stripes {
    sets: Vec<[Stripe; WAYS]>,
    clock: u64,
    all: u64,
    parities: u32,
}

impl Stripes {
    /// An empty cache for `data` data members, at most [`DATA`], and `parities` parities.
    pub(super) fn new(data: u32, parities: u32) -> Self {
        Self {
            sets: vec![Default::default(); SETS],
            clock: 0,
            all: u64::MAX >> (64 - data.clamp(1, DATA)),
            parities,
        }
    }

    /// Writes to a data member of a stripe. Returns the work that it completes: of earlier writes
    /// to the stripe, if they are too old to be joined, or of the stripe that leaves the cache.
    #[inline]
    pub(super) fn write(
        &mut self,
        stripe: u64,
        member: u32,
        is_full: bool,
        time_us: i64,
    ) -> Option<Work> {
        self.clock += 1;
        let parities = self.parities;
        let set = &mut self.sets[stripe as usize % SETS];
        let key = stripe.saturating_add(1);
        let found = set.iter().position(|s| s.key == key);
        let at = found.unwrap_or_else(|| {
            set.iter().enumerate().min_by_key(|(_, s)| s.used).map_or(0, |(i, _)| i)
        });
        let slot = &mut set[at];
        let mut done = None;
        if found.is_none() {
            done = settle(slot, self.all, parities);
            *slot = Stripe { key, ..Stripe::default() };
        } else if time_us.saturating_sub(slot.last_us) > WINDOW_US {
            done = settle(slot, self.all, parities);
        }
        let bit = 1_u64 << (member % DATA);
        slot.pending |= bit;
        if is_full {
            slot.full |= bit;
        }
        (slot.last_us, slot.used) = (time_us, self.clock);
        done
    }

    /// Work for all writes that have not been handled.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = Work> + '_ {
        let (all, parities) = (self.all, self.parities);
        self.sets.iter_mut().flatten().filter_map(move |stripe| settle(stripe, all, parities))
    }
}

/// Handles the pending writes of a stripe.
fn settle(stripe: &mut Stripe, all: u64, parities: u32) -> Option<Work> {
    if stripe.pending == 0 {
        return None;
    }
    let reconstruct = all & !(stripe.full | stripe.cached);
    let modify = stripe.pending & !stripe.cached;
    let parity = if stripe.parity_cached { 0 } else { parities };
    let (rcw, rmw) = (reconstruct.count_ones(), modify.count_ones() + parity);
    let (reads, reads_parity) = if rcw == 0 || rmw == 0 {
        (0, false)
    } else if rmw < rcw {
        (modify, parity > 0)
    } else {
        (reconstruct, false)
    };
    let work = Work { stripe: stripe.key - 1, reads, reads_parity, time_us: stripe.last_us };
    stripe.cached |= stripe.pending | reads;
    stripe.parity_cached = true;
    (stripe.pending, stripe.full) = (0, 0);
    Some(work)
}
