//! Figures over time that only a page shows: latencies of each member, and addresses of each array.
//!
//! Counting a request takes a few additions, at indices computed from its member, time and address.
//! Memory is bounded by the numbers of members, arrays and pieces, not by the number of requests.

use super::cube::Cube;
use super::hist::{BUCKETS, Hist, bucket};
use crate::origin::Origin;

/// Number of equal pieces into which the addresses of an array are divided.
pub const ADDRESSES: usize = 64;

const ORIGINS: usize = Origin::ALL.len();

/// Counts of one period, without zeros.
#[derive(Clone, Debug, Default)]
pub struct DetailCounts {
    /// Requests by [`latency_index`], which combines member number and bucket of [`Hist`].
    latency: Cube<u32, u32>,
    /// Requests by [`Detail::address_index`], which combines array number and piece.
    addresses: Cube<u32, u32>,
}

/// Gathers [`DetailCounts`] while a recording is read.
#[derive(Debug, Default)]
pub struct Detail {
    /// Requests of the current period, by [`latency_index`].
    latency: Vec<u32>,
    addresses: Vec<u32>,
    /// Requests and bytes of the whole time by array number, address and origin.
    totals: Vec<(u64, u64)>,
    /// 512-byte sectors of each array; 0 if unknown.
    sectors: Vec<u64>,
    /// Requests whose address is outside their array, by array number.
    outside: Vec<u64>,
}

/// Requests by address of an array, over the whole time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Sectors of the array; 0 if its size is unknown.
    pub sectors: u64,
    /// Requests and bytes by origin, for each of [`ADDRESSES`] pieces.
    pub pieces: Vec<Vec<(Origin, u64, u64)>>,
    /// Requests whose address is outside the array: it was grown, or its size is unknown.
    pub outside: u64,
}

impl Addresses {
    pub fn requests(&self, piece: usize) -> u64 {
        self.pieces.get(piece).into_iter().flatten().fold(0, |sum, o| sum.saturating_add(o.1))
    }

    /// First sector of a piece.
    pub fn start(&self, piece: usize) -> u64 {
        (u128::from(self.sectors) * piece as u128 / ADDRESSES as u128) as u64
    }
}

/// The properties of a request that are counted.
#[derive(Clone, Copy, Debug)]
pub struct CountedRequest {
    /// Member number.
    pub member: u32,
    /// Array number.
    pub array: u32,
    /// Origin of its first bio.
    pub origin: Origin,
    /// Bytes of that origin.
    pub bytes: u32,
    /// Sector on the array, if it has one.
    pub sector: Option<u64>,
    /// Time in the device, if known, µs.
    pub device_us: Option<u32>,
}

impl Detail {
    /// Sets the size of an array, in bytes.
    pub fn set_size(&mut self, array: u32, bytes: u64) {
        let array = array as usize;
        if array >= self.sectors.len() {
            self.sectors.resize(array + 1, 0);
            self.outside.resize(array + 1, 0);
            self.addresses.resize((array + 1) * ADDRESSES, 0);
            self.totals.resize((array + 1) * ADDRESSES * ORIGINS, (0, 0));
        }
        // Keep the first size: pieces of different sizes cannot be added up.
        if let Some(sectors) = self.sectors.get_mut(array).filter(|s| **s == 0) {
            *sectors = bytes / 512;
        }
    }

    /// Counts a request.
    #[inline]
    pub fn add(&mut self, seen: &CountedRequest) {
        if let Some(us) = seen.device_us {
            let at = latency_index(seen.member, us);
            if at >= self.latency.len() {
                self.latency.resize((seen.member as usize + 1) * BUCKETS, 0);
            }
            if let Some(n) = self.latency.get_mut(at) {
                *n = n.saturating_add(1);
            }
        }
        if let Some(at) = self.add_total(seen)
            && let Some(n) = self.addresses.get_mut(at)
        {
            *n = n.saturating_add(1);
        }
    }

    /// Counts a request that is older than the current period, in `counts`.
    pub fn add_late(&mut self, counts: &mut DetailCounts, seen: &CountedRequest) {
        if let Some(us) = seen.device_us {
            counts.latency.add(latency_index(seen.member, us) as u32, &1);
        }
        if let Some(at) = self.add_total(seen) {
            counts.addresses.add(at as u32, &1);
        }
    }

    /// Counts a request in the totals. Returns the index of its address; `None` if it has none or
    /// is outside the array.
    #[inline]
    fn add_total(&mut self, seen: &CountedRequest) -> Option<usize> {
        let sector = seen.sector?;
        let index = self.address_index(seen.array, sector);
        match index {
            Some(at) => {
                let total = self.totals.get_mut(at * ORIGINS + seen.origin as usize)?;
                total.0 += 1;
                total.1 += u64::from(seen.bytes);
            }
            None => *self.outside.get_mut(seen.array as usize)? += 1,
        }
        index
    }

    /// Index of an address; `None` outside the array.
    #[inline]
    fn address_index(&self, array: u32, sector: u64) -> Option<usize> {
        let sectors = *self.sectors.get(array as usize)?;
        if sector >= sectors {
            return None;
        }
        // Overflows only beyond 2^58 sectors, which no array has.
        let piece = (sector.checked_mul(ADDRESSES as u64)? / sectors) as usize;
        Some(array as usize * ADDRESSES + piece)
    }

    /// Takes the counts of the current period.
    pub fn take(&mut self) -> DetailCounts {
        let take = |all: &mut Vec<u32>| {
            let each = all.iter_mut().map(std::mem::take).enumerate();
            each.filter(|(_, n)| *n > 0).map(|(at, n)| (at as u32, n)).collect()
        };
        DetailCounts { latency: take(&mut self.latency), addresses: take(&mut self.addresses) }
    }

    /// Requests by address of each array, by array number.
    pub fn addresses(&self) -> Vec<Addresses> {
        let arrays = self.totals.chunks(ADDRESSES * ORIGINS).enumerate();
        let piece = |totals: &[(u64, u64)]| {
            let each = Origin::ALL.into_iter().filter_map(|origin| {
                let &(requests, bytes) = totals.get(origin as usize)?;
                (requests > 0).then_some((origin, requests, bytes))
            });
            each.collect()
        };
        let array = |(array, totals): (usize, &[(u64, u64)])| Addresses {
            sectors: self.sectors.get(array).copied().unwrap_or(0),
            pieces: totals.chunks(ORIGINS).map(piece).collect(),
            outside: self.outside.get(array).copied().unwrap_or(0),
        };
        arrays.map(array).collect()
    }
}

#[inline]
fn latency_index(member: u32, us: u32) -> usize {
    member as usize * BUCKETS + bucket(u64::from(us))
}

impl DetailCounts {
    /// Adds the counts of another period.
    pub fn join(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.addresses.merge(&other.addresses);
    }

    /// Times in the device, by member number.
    pub fn latencies(&self, members: usize) -> Vec<Hist> {
        let mut counts = vec![[0; BUCKETS]; members];
        for (&at, &n) in &self.latency {
            let at = at as usize;
            let member = counts.get_mut(at / BUCKETS);
            if let Some(count) = member.and_then(|m| m.get_mut(at % BUCKETS)) {
                *count = n;
            }
        }
        counts.into_iter().map(Hist::from_counts).collect()
    }

    /// Requests by address, for an array.
    pub fn by_address(&self, array: usize) -> [u32; ADDRESSES] {
        let mut counts = [0; ADDRESSES];
        let from = u32::try_from(array * ADDRESSES).unwrap_or(u32::MAX);
        for (count, at) in counts.iter_mut().zip(from..) {
            *count = self.addresses.get(&at).copied().unwrap_or(0);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDRESSES, CountedRequest, Detail, DetailCounts};
    use crate::origin::Origin;
    use proptest::prelude::*;

    fn seen(member: u32, sector: u64, us: u32) -> CountedRequest {
        CountedRequest {
            member,
            array: 0,
            origin: Origin::Journal,
            bytes: 4096,
            sector: Some(sector),
            device_us: Some(us),
        }
    }

    #[test]
    fn a_late_request_counts_in_its_own_time_only() {
        let mut detail = Detail::default();
        detail.set_size(0, 512 * 6400);
        detail.add(&seen(1, 250, 100));
        let mut first = detail.take();
        detail.add_late(&mut first, &seen(1, 250, 100));
        let second = detail.take();
        assert_eq!(first.by_address(0)[2], 2);
        assert_eq!(second.by_address(0), [0; ADDRESSES]);
        let counts =
            |c: &DetailCounts| c.latencies(2).iter().map(|h| h.count()).collect::<Vec<_>>();
        assert_eq!((counts(&first), counts(&second)), (vec![0, 2], vec![0, 0]));
        let addresses = &detail.addresses()[0];
        assert_eq!(addresses.pieces[2], [(Origin::Journal, 2, 8192)]);
    }

    #[test]
    fn the_first_size_stays() {
        let mut detail = Detail::default();
        detail.set_size(1, 0);
        detail.set_size(1, 512 * 640);
        detail.set_size(1, 512 * 6400);
        let mut request = seen(0, 639, 1);
        request.array = 1;
        detail.add(&request);
        request.sector = Some(640);
        detail.add(&request);
        let all = detail.addresses();
        assert_eq!((all.len(), all[1].sectors, all[1].outside), (2, 640, 1));
        assert_eq!((all[1].requests(63), all[1].start(63)), (1, 630));
    }

    proptest! {
        #[test]
        fn every_request_is_counted_once(
            bytes in any::<u64>(),
            requests in prop::collection::vec((0u32..9, any::<u64>(), any::<u32>()), 0..50),
        ) {
            let mut detail = Detail::default();
            detail.set_size(0, bytes);
            let mut all = DetailCounts::default();
            for (n, &(member, sector, us)) in requests.iter().enumerate() {
                detail.add(&seen(member, sector, us));
                if n % 7 == 0 {
                    all.join(&detail.take());
                }
            }
            all.join(&detail.take());
            let latencies: u64 = all.latencies(9).iter().map(|h| h.count()).sum();
            prop_assert_eq!(latencies, requests.len() as u64);
            let addresses = &detail.addresses()[0];
            let inside: u64 = (0..ADDRESSES).map(|p| addresses.requests(p)).sum();
            prop_assert_eq!(inside + addresses.outside, requests.len() as u64);
            let over_time: u64 = all.by_address(0).iter().map(|&n| u64::from(n)).sum();
            prop_assert_eq!(over_time, inside);
        }
    }
}
