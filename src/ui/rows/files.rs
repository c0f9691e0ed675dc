//! The rows of the files view.

use super::{Measure, RowFilter, measured};
use crate::analysis::around::DeviceIo;
use crate::analysis::counters::TaskCounters;
use crate::analysis::files::{FileLocation, FileSnapshot};
use crate::analysis::snapshot::ArraySnapshot;
use crate::analysis::units;
use crate::origin::{Op, Origin};
use crate::ui::text::{clean, escape};

/// A file. Figures are bios per second, for the operations that the filter keeps.
#[derive(Debug)]
pub struct FileRow<'a> {
    pub file: &'a FileSnapshot,
    /// Path, or the inode number and name if the path is unknown; printable.
    pub path: String,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// Bytes per second.
    pub bytes: f64,
    /// Share of the array's file data, in bios or bytes.
    pub share: f64,
}

/// `thin volume vg-data: 12 r/s 40 w/s 3.1 MiB/s`: the thin volumes whose pool has blocks on the
/// array and that were read or written, most bytes first.
pub fn thin_volumes(array: &ArraySnapshot, secs: f64) -> Vec<String> {
    let volumes = array.around.iter().flat_map(|around| &around.thin_volumes);
    let mut busy: Vec<_> = volumes.filter(|(_, io)| io.requests != [0, 0]).collect();
    busy.sort_by_key(|(_, io)| std::cmp::Reverse(io.bytes[0].saturating_add(io.bytes[1])));
    let line = |(name, io): (&String, &DeviceIo)| {
        let [reads, writes] = io.requests.map(|n| units::count(n as f64 / secs));
        let bytes = io.bytes.iter().map(|n| *n as f64).sum::<f64>();
        let rate = units::mib(bytes / secs);
        format!("thin volume {}: {reads} r/s {writes} w/s {rate} MiB/s", clean(name))
    };
    busy.into_iter().map(line).collect()
}

/// The files, in the order of the snapshot.
pub fn files(
    array: &ArraySnapshot,
    secs: f64,
    filter: RowFilter,
    measure: Measure,
) -> Vec<FileRow<'_>> {
    let kept = |file: &'_ FileSnapshot| {
        let io = file.io.iter();
        io.filter(|io| filter.keeps(Origin::FileData, io.op))
            .fold((0, 0), |(bios, bytes), io| (bios + io.bios, bytes + io.bytes))
    };
    let amount = |sum: TaskCounters| measured(measure, sum.bios, sum.bytes);
    let files = &array.files;
    // Files without a row have no counts by operation.
    let mut all =
        if filter.op.is_none() { amount(files.rest) + amount(files.unattributed) } else { 0.0 };
    for file in &files.busiest {
        let (bios, bytes) = kept(file);
        all += measured(measure, bios, bytes);
    }
    let row = |file| {
        let (bios, bytes) = kept(file);
        let rate = |op: Op| {
            let io = file.io.iter().filter(|io| io.op == op);
            io.filter(|io| filter.keeps(Origin::FileData, io.op))
                .map(|io| io.bios as f64 / secs)
                .sum()
        };
        FileRow {
            file,
            path: label(file.id.inode, &file.location),
            reads: rate(Op::Read),
            writes: rate(Op::Write),
            bytes: bytes as f64 / secs,
            share: measured(measure, bios, bytes) / all.max(1.0),
        }
    };
    files.busiest.iter().filter(|file| kept(file).0 > 0).map(row).collect()
}

/// `/srv/db/a`, `/srv/db/a (deleted)`, `inode 12 a (deleted)`, `inode 12`.
pub fn label(inode: u64, location: &FileLocation) -> String {
    let mut text = match (&location.path, &location.name) {
        (Some(path), _) => escape(path),
        (None, Some(name)) => format!("inode {inode} {}", escape(name)),
        (None, None) => format!("inode {inode}"),
    };
    if location.deleted {
        text.push_str(" (deleted)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Measure, RowFilter, files};
    use crate::analysis::fixture;
    use crate::origin::{Op, Origin};

    #[test]
    fn shares_include_files_without_a_row_and_labels_use_known_names() {
        let snapshot = fixture::raid0(12);
        let array = &snapshot.arrays[0];
        let rows = files(array, 1.0, RowFilter::default(), Measure::Bytes);
        let sum: f64 = rows.iter().map(|r| r.share).sum();
        assert!(sum > 0.9 && sum < 1.0, "{sum}");
        let labels: Vec<_> = rows.iter().map(|r| r.path.as_str()).collect();
        assert!(labels.contains(&"/disk/tmp/sort.4242 (deleted)"));
        assert!(labels.contains(&"inode 1835021 a\\x0ab\\xff (deleted)"));
        assert!(labels.contains(&"inode 77"));
    }

    #[test]
    fn a_filter_leaves_the_rest_out() {
        let snapshot = fixture::raid0(12);
        let array = &snapshot.arrays[0];
        let only = |op, origin| RowFilter { op, origin };
        let reads = files(array, 1.0, only(Some(Op::Read), None), Measure::Requests);
        assert!(!reads.is_empty() && reads.iter().all(|r| r.writes == 0.0 && r.reads > 0.0));
        let shares: f64 = reads.iter().map(|r| r.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        let journal = only(None, Some(Origin::Journal));
        assert!(files(array, 1.0, journal, Measure::Bytes).is_empty());
    }
}
