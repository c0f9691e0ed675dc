//! Requests by size.

/// Requests by size, in powers of two; the first bucket has requests without data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Requests, by [`Sizes::bucket`].
    pub requests: [u64; Sizes::BUCKETS],
    /// Bytes of the requests, by [`Sizes::bucket`].
    pub bytes: [u64; Sizes::BUCKETS],
}

impl Sizes {
    /// 0; 1 to 511; 512 to 1023; ... ; 2 GiB and more.
    pub const BUCKETS: usize = 25;

    pub fn bucket(length: u32) -> usize {
        match length.checked_ilog2() {
            None => 0,
            Some(log) => (log as usize).saturating_sub(7).max(1),
        }
    }

    /// Smallest length in `bucket`.
    pub fn from(bucket: usize) -> u64 {
        match bucket {
            0 | 1 => bucket as u64,
            n => 1 << (n + 7),
        }
    }

    pub(super) fn add(&mut self, length: u32) {
        let bucket = Self::bucket(length);
        if let (Some(n), Some(b)) = (self.requests.get_mut(bucket), self.bytes.get_mut(bucket)) {
            *n += 1;
            *b += u64::from(length);
        }
    }
}
