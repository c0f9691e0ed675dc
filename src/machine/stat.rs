//! Disk counters of /sys/block/X/stat (Documentation/block/stat.rst). The file stays open between
//! reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::HostError;
use super::nvme;
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
        Self::of(&fields(text))
    }

    fn of(fields: &[u64]) -> Option<Self> {
        let at = |i: usize| fields.get(i).copied().unwrap_or(0);
        (fields.len() >= 11).then(|| Self {
            reads: at(0),
            read_sectors: at(2),
            read_ms: at(3),
            writes: at(4),
            write_sectors: at(6),
            write_ms: at(7),
            in_flight: at(8),
            io_ticks_ms: at(IO_TICKS),
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

/// Open stat file of a disk or partition, or those of the paths of an NVMe multipath head: it
/// counts nothing up to 6.1, and nothing for its partitions, which therefore have the disk's
/// counters.
#[derive(Debug)]
pub struct StatFile {
    name: String,
    files: Vec<File>,
}

impl StatFile {
    /// Opens the file of `partition` on `disk` (kernel names), or of the whole disk.
    ///
    /// # Errors
    /// [`HostError::Removed`] if the disk does not exist.
    pub fn open(sys: &Sys, disk: &str, partition: Option<&str>) -> Result<Self, HostError> {
        let name = partition.unwrap_or(disk);
        let top = sys.path("/sys/block");
        let paths = nvme::paths_of(sys, disk);
        let files: Vec<File> =
            paths.iter().filter_map(|path| File::open(top.join(path).join("stat")).ok()).collect();
        if !files.is_empty() {
            return Ok(Self { name: name.to_owned(), files });
        }
        let mut path = top.join(disk);
        path.extend(partition);
        let file = File::open(path.join("stat")).map_err(|e| failed(name, &e))?;
        Ok(Self { name: name.to_owned(), files: vec![file] })
    }

    /// Current counters.
    ///
    /// # Errors
    /// [`HostError::Removed`] if the disk was removed.
    pub fn read(&self) -> Result<DiskStat, HostError> {
        let (mut sum, mut error) = (Vec::new(), None);
        for file in &self.files {
            // 17 numbers of at most 20 digits.
            let mut buffer = [0u8; 512];
            match file.read_at(&mut buffer, 0) {
                Ok(n) => {
                    add(&mut sum, &fields(std::str::from_utf8(&buffer[..n]).unwrap_or_default()))
                }
                // A path may have been removed.
                Err(e) => error = Some(failed(&self.name, &e)),
            }
        }
        let why = "not the counters of Documentation/block/stat.rst";
        DiskStat::of(&sum).ok_or_else(|| error.unwrap_or_else(|| unreadable(&self.name, why)))
    }
}

/// Position of the time with requests in flight.
const IO_TICKS: usize = 9;

fn fields(text: &str) -> Vec<u64> {
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

/// Adds the fields of another path to a disk, which is busy for at least as long as either path.
fn add(sum: &mut Vec<u64>, fields: &[u64]) {
    sum.resize(sum.len().max(fields.len()), 0);
    for (at, (sum, field)) in sum.iter_mut().zip(fields).enumerate() {
        *sum = if at == IO_TICKS { (*sum).max(*field) } else { sum.saturating_add(*field) };
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
        let text = "  150456    27676  7839098    43559    19034    47577 12303560    49923       \
                     0    \
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
