//! Disk counters of /sys/block/X/stat (Documentation/block/stat.rst). The file stays open between
//! reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::HostError;
use super::sys::Sys;

/// Counters since the disk was added, except [`DiskStat::in_flight`]. A sector is 512 bytes.
/// Discards need Linux 4.18 and flushes 5.5; both are 0 on older kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStat {
    /// Reads completed.
    pub reads: u64,
    pub read_sectors: u64,
    /// Sum of the times of the reads, ms.
    pub read_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Sectors written.
    pub write_sectors: u64,
    /// Sum of the times of the writes, ms.
    pub write_ms: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Milliseconds with at least one request in flight.
    pub io_ticks_ms: u64,
    /// Discards completed.
    pub discards: u64,
    pub discard_sectors: u64,
    /// Completed flushes that the block layer sent to the disk.
    pub flushes: u64,
}

impl DiskStat {
    /// Parses the file; `None` if it has fewer than the eleven fields that every kernel prints.
    pub fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|w| w.parse().ok()).collect();
        let at = |i: usize| fields.get(i).copied().unwrap_or(0);
        (fields.len() >= 11).then(|| Self {
            reads: at(0),
            read_sectors: at(2),
            read_ms: at(3),
            writes: at(4),
            write_sectors: at(6),
            write_ms: at(7),
            in_flight: at(8),
            io_ticks_ms: at(9),
            discards: at(11),
            discard_sectors: at(13),
            flushes: at(15),
        })
    }

    /// Completed requests of all operations. raidtrace's own counts must add up to this sum.
    pub fn requests(&self) -> u64 {
        [self.reads, self.writes, self.discards, self.flushes]
            .iter()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// Open stat file of a disk or partition.
#[derive(Debug)]
pub struct StatFile {
    name: String,
    file: File,
}

impl StatFile {
    /// Opens the file of `partition` on `disk` (kernel names), or of the whole disk.
    ///
    /// # Errors
    /// [`HostError::Removed`] if the disk does not exist.
    pub fn open(sys: &Sys, disk: &str, partition: Option<&str>) -> Result<Self, HostError> {
        let name = partition.unwrap_or(disk);
        let mut path = sys.path("/sys/block").join(disk);
        path.extend(partition);
        Ok(Self {
            file: File::open(path.join("stat")).map_err(|e| failed(name, &e))?,
            name: name.to_string(),
        })
    }

    /// Current counters.
    ///
    /// # Errors
    /// [`HostError::Removed`] if the disk was removed.
    pub fn read(&self) -> Result<DiskStat, HostError> {
        // 17 numbers of at most 20 digits.
        let mut buffer = [0u8; 512];
        let n = self.file.read_at(&mut buffer, 0).map_err(|e| failed(&self.name, &e))?;
        let text = std::str::from_utf8(&buffer[..n]).ok();
        let why = "not the counters of Documentation/block/stat.rst";
        text.and_then(DiskStat::parse).ok_or_else(|| unreadable(&self.name, why))
    }
}

fn failed(name: &str, e: &io::Error) -> HostError {
    // kernfs returns ENODEV for an open file of a removed device.
    let gone = e.kind() == io::ErrorKind::NotFound
        || e.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error());
    if gone { HostError::Removed(name.into()) } else { unreadable(name, &e.to_string()) }
}

fn unreadable(name: &str, why: &str) -> HostError {
    HostError::Unreadable(format!("{name}: its stat file in sysfs"), why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_of_three_kernel_generations() {
        let text = "  150456    27676  7839098    43559    19034    47577 12303560    49923        0    \
             27628    94053     6803       49   405368      518     1314       52\n";
        let s = DiskStat::parse(text).unwrap();
        assert_eq!((s.reads, s.write_sectors, s.io_ticks_ms), (150_456, 12_303_560, 27_628));
        assert_eq!((s.discards, s.discard_sectors, s.flushes), (6_803, 405_368, 1_314));
        assert_eq!(s.requests(), 150_456 + 19_034 + 6_803 + 1_314);
        let eleven = DiskStat::parse("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((eleven.io_ticks_ms, eleven.discards), (10, 0));
        let fifteen = DiskStat::parse("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").unwrap();
        assert_eq!((fifteen.discard_sectors, fifteen.flushes), (14, 0));
        assert_eq!(DiskStat::parse("1 2 3 4 5 6 7 8 9 10"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9 x\n]{0,400}") {
            let _ = DiskStat::parse(&text).map(|s| s.requests());
        }
    }
}
