//! Requests that the kernel's disk statistics count and raidtrace does not.

/// Compares both counts of one disk. The difference can only be too small, never too large: the
/// kernel's count is read before raidtrace's (`DiskCounters::requests_before`), and a request fires
/// `block_rq_complete` before it is accounted (`blk_update_request()`, then
/// `blk_account_io_done()`). A request that is in the kernel's count but not in raidtrace's was
/// therefore missed. Requests in flight are in neither count.
#[derive(Clone, Copy, Debug)]
pub struct Uncounted {
    /// Kernel count at the start, read after raidtrace's count.
    base: u64,
    /// Requests counted by raidtrace since then.
    counted: u64,
    /// Largest difference so far.
    found: u64,
    /// Kernel count at the last call.
    kernel: u64,
}

impl Uncounted {
    /// Starts counting at the kernel count `requests`.
    pub fn new(requests: u64) -> Self {
        Self { base: requests, counted: 0, found: 0, kernel: requests }
    }

    /// Returns the growth of the difference. `counted` is the number of requests counted by
    /// raidtrace since the last call; `before` is the kernel's count, read just before raidtrace's.
    pub fn grow(&mut self, before: u64, counted: u64) -> u64 {
        if before < self.kernel {
            // A new device has the same name.
            *self = Self::new(before);
            return 0;
        }
        self.kernel = before;
        self.counted = self.counted.saturating_add(counted);
        let growth = (before - self.base).saturating_sub(self.counted).saturating_sub(self.found);
        self.found += growth;
        growth
    }
}

/// Note with the uncounted requests: `the kernel counts 112 more requests than raidtrace: loop1
/// 100, loop5 12`; `None` if there are none.
pub fn note<'a>(members: impl Iterator<Item = (&'a String, &'a u64)>) -> Option<String> {
    let mut members: Vec<_> = members.filter(|(_, n)| **n > 0).collect();
    members.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let total = members.iter().fold(0u64, |sum, (_, n)| sum + **n);
    let mut named: Vec<String> =
        members.iter().take(4).map(|(name, n)| format!("{name} {n}")).collect();
    if members.len() > named.len() {
        named.push("...".to_owned());
    }
    (total > 0).then(|| {
        let named = named.join(", ");
        format!("the kernel counts {total} more requests than raidtrace: {named} (lost.uncounted)")
    })
}

#[cfg(test)]
mod tests {
    use super::{Uncounted, note};

    #[test]
    fn only_growth_beyond_the_largest_difference_is_reported() {
        let mut disk = Uncounted::new(1000);
        // Under load raidtrace's count is a few ahead: it is read later.
        assert_eq!(disk.grow(1100, 104), 0);
        assert_eq!(disk.grow(1200, 100), 0);
        // 14 were missed, of which the load hides 4 at first.
        assert_eq!(disk.grow(1300, 86), 10);
        assert_eq!(disk.grow(1304, 0), 4);
        assert_eq!(disk.grow(1304, 0), 0);
        assert_eq!(disk.grow(1404, 100), 0);
        // Device attached again: its count restarts at 0.
        assert_eq!(disk.grow(3, 3), 0);
        assert_eq!(disk.grow(10, 6), 1);
    }

    #[test]
    fn the_note_names_the_members() {
        let counts = [("a", 1), ("b", 0), ("c", 111)].map(|(n, c)| (n.to_owned(), c));
        let pairs = counts.iter().map(|(n, c)| (n, c));
        assert_eq!(
            note(pairs).as_deref(),
            Some("the kernel counts 112 more requests than raidtrace: c 111, a 1 (lost.uncounted)")
        );
        assert_eq!(note(std::iter::empty()), None);
    }
}
