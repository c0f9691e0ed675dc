//! The write-intent bitmap: none, in a file, too fine.

use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, Bitmap};
use crate::commands::doctor::finding::{Finding, Severity};

/// Below this mdadm makes no bitmap chunk (super1.c, add_internal_bitmap1).
const LEAST_CHUNK: u64 = 64 << 20;
/// Larger members got a bitmap without being asked for, up to mdadm 4.3.
const LARGE: u64 = 100 << 30;
/// What a resync is reckoned with: what a hard disk reads on average, bytes a second.
const RESYNC_RATE: u64 = 150 << 20;

/// All three; nothing while the array is busy with itself, for mdadm refuses then.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    let array = &of.array;
    let redundant = matches!(
        array.level.as_str(),
        "raid1" | "raid4" | "raid5" | "raid6" | "raid10"
    );
    if !redundant {
        return Vec::new();
    }
    let whole = array.degraded == 0 && matches!(array.sync_action.as_deref(), None | Some("idle"));
    let bytes = array.component_sectors.saturating_mul(512);
    let found = match &of.bitmap {
        Bitmap::File { path } => Some(in_a_file(of, path)),
        Bitmap::Internal { chunk, time_base } if *chunk > 0 && *chunk < LEAST_CHUNK => {
            fine(of, *chunk, *time_base)
        }
        Bitmap::None if bytes > LARGE && array.consistency_policy.as_deref() == Some("resync") => {
            Some(none(of, bytes))
        }
        _ => None,
    };
    found
        .into_iter()
        .map(|mut f| {
            if !whole {
                f.commands.clear();
                f.unless =
                    "now: the array is degraded or syncing, and mdadm refuses until that is over"
                        .to_owned();
            }
            f
        })
        .collect()
}

fn in_a_file(of: &ArrayFacts, path: &str) -> Finding {
    let dev = of.path();
    let finding = Finding::new(
        "bitmap-file",
        Severity::Warning,
        "its write-intent bitmap is in a file of another filesystem",
    )
    .seen(match path {
        "" => "md/bitmap/location is file".to_owned(),
        path => format!("md/bitmap/location is file, /proc/mdstat says {path}"),
    })
    .why(
        "mdadm 4.4 and later refuse such files, so the array may not be assembled after an upgrade; the kernel calls them \
         deprecated, and only on ext2 and ext3 were they known to work",
    );
    finding
        .command(format!("mdadm --grow --bitmap=none {dev}"))
        .command(format!("mdadm --grow --bitmap=internal --bitmap-chunk=1G {dev}"))
        .risk("a crash between the two commands means a full resync; an internal bitmap costs a write and a flush on every member where a clean chunk is first written")
        .unless("the array is read from an old system that stays as it is")
        .source("mdadm 4.4, commit 581ba134; mdadm(8), --bitmap")
}

fn fine(of: &ArrayFacts, chunk: u64, time_base: u64) -> Option<Finding> {
    let covered = match of.array.level.as_str() {
        "raid10" => of.array.sectors,
        _ => of.array.component_sectors,
    };
    // Of a small array mdadm makes as fine a bitmap itself.
    let covered = covered.saturating_mul(512);
    if covered < 128 * LEAST_CHUNK {
        return None;
    }
    let dev = of.path();
    let bits = covered.div_ceil(chunk);
    Some(
        Finding::new(
            "bitmap-chunk",
            Severity::Info,
            format!("a bit of the write-intent bitmap stands for {} only", units::size(chunk)),
        )
        .seen(format!(
            "md/bitmap/chunksize is {}, so {bits} bits; mdadm would take {} or more today",
            units::size(chunk),
            units::size(LEAST_CHUNK)
        ))
        .seen(format!("md/bitmap/time_base is {time_base} s"))
        .figure("chunk_bytes", chunk)
        .figure("bits", bits)
        .why(
            "the first write to each clean chunk waits until the bit is on every member, flushed: the finer the chunks, the \
             more of the random writes do. 1000 random writes to a RAID 5 of 256 GiB members cost 923 bitmap writes a member \
             at 64 MiB and 346 at 1 GiB",
        )
        .command(format!("mdadm --grow --bitmap=none {dev}"))
        .command(format!("mdadm --grow --bitmap=internal --bitmap-chunk=1G {dev}"))
        .risk("a crash between the two commands means a full resync; afterwards a crash costs a longer resync. Nothing changes where a disk is replaced")
        .unless("it writes in long runs: then nobody notices. `--bitmap=none` alone is for those who accept a resync of everything after each crash")
        .source("mdadm, super1.c add_internal_bitmap1; measured, see docs/doctor.md"),
    )
}

fn none(of: &ArrayFacts, bytes: u64) -> Finding {
    let hours = bytes as f64 / RESYNC_RATE as f64 / 3600.0;
    Finding::new(
        "bitmap-none",
        Severity::Info,
        format!("no write-intent bitmap: after a crash all {} of each member are resynced", units::size(bytes)),
    )
    .seen(format!(
        "md/consistency_policy is resync, md/component_size {}: {hours:.0} h at 150 MiB/s",
        units::size(bytes)
    ))
    .figure("resync_hours", hours)
    .why("until that is done a second fault loses data, and every disk is busy. mdadm 4.4 and later make no bitmap unless asked; earlier ones did, on members over 100 GiB")
    .command(format!("mdadm --grow --bitmap=internal --bitmap-chunk=1G {}", of.path()))
    .risk("a write and a flush on every member where a clean chunk is first written; undone with --bitmap=none")
    .unless("random writes matter more than a short resync (databases), or the power never fails")
    .source("mdadm 4.4 changelog; md(4), BITMAP WRITE-INTENT LOGGING")
}
