//! CPU time and memory of this process.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time and memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnUse {
    /// CPU time of all threads since the start.
    pub cpu: Duration,
    /// Resident memory in bytes; 0 if /proc cannot be read.
    pub resident: u64,
}

impl OwnUse {
    /// Reads the current figures.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        // proc(5): the second number of statm is the resident set in pages.
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
        Self {
            cpu: Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds),
            resident: pages.unwrap_or(0) * rustix::param::page_size() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OwnUse;

    #[test]
    fn a_process_takes_memory() {
        assert!(OwnUse::now().resident > 1 << 20);
    }
}
