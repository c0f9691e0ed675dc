//! The write-intent bitmap: missing, in a file, or with small chunks.

use crate::advice::slow::larger_bitmap_chunks;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, BitmapFacts};
use crate::commands::doctor::finding::Finding;

/// Bytes of a chunk in the commands of [`larger_bitmap_chunks`].
pub const CHUNK: u64 = 1 << 30;
/// Smallest bitmap chunk that mdadm chooses, bytes (super1.c, add_internal_bitmap1).
const MIN_CHUNK: u64 = 64 << 20;
/// Member size from which mdadm up to 4.3 adds a bitmap by default, bytes.
const MIN_LARGE_MEMBER: u64 = 100 << 30;
/// Assumed resync rate: the average sequential rate of a hard disk, bytes per second.
const RESYNC_RATE: u64 = 150 << 20;

/// Findings on the bitmap. They have no commands while md is syncing (md refuses), while the array
/// is degraded, or with external metadata (mdadm refuses to add a bitmap).
pub fn check(array: &ArrayFacts) -> Vec<Finding> {
    if !array.is_redundant() {
        return Vec::new();
    }
    let bytes = array.array.component_sectors.saturating_mul(512);
    let policy = array.array.consistency_policy.as_deref();
    let found = match &array.bitmap {
        BitmapFacts::File { path } => Some(in_file(array, path)),
        BitmapFacts::Internal { chunk, time_base } if (1..MIN_CHUNK).contains(chunk) => {
            small_chunks(array, *chunk, *time_base)
        }
        BitmapFacts::None if bytes > MIN_LARGE_MEMBER && policy == Some("resync") => {
            Some(none(array, bytes))
        }
        _ => None,
    };
    let blocked = if array.array.degraded > 0 {
        Some(
            "now: the array is degraded, and without its bitmap a member that comes back has to \
             be rebuilt",
        )
    } else if !array.is_idle() {
        Some("now: md is syncing, and refuses until that has ended")
    } else {
        let container = array.container();
        container.map(|_| "the array has external metadata: mdadm cannot add a bitmap to it")
    };
    let mut found: Vec<Finding> = found.into_iter().collect();
    for (f, why) in found.iter_mut().zip(blocked) {
        f.commands.clear();
        f.not_when = why.to_owned();
    }
    found
}

fn in_file(array: &ArrayFacts, path: &str) -> Finding {
    Finding::warning("bitmap-file", "the write-intent bitmap is in a file on another filesystem")
        .seen(match path {
            "" => "md/bitmap/location is file".to_owned(),
            path => format!("md/bitmap/location is file, /proc/mdstat: {path}"),
        })
        // mdadm 4.4 finds no bitmap in a file. location_store(), md-bitmap.c, removes it.
        .command(format!("echo none > {}", array.sysfs("md/bitmap/location")))
        .command(larger_bitmap_chunks(&array.path())[1].clone())
}

fn small_chunks(array: &ArrayFacts, chunk: u64, time_base: u64) -> Option<Finding> {
    let covered = match array.array.level.as_str() {
        "raid10" => array.array.sectors,
        _ => array.array.component_sectors,
    };
    // Below 8 GiB, chunks of MIN_CHUNK would be fewer than 128.
    let covered = covered.saturating_mul(512);
    if covered < 128 * MIN_CHUNK {
        return None;
    }
    let bits = covered.div_ceil(chunk);
    let title = format!("a bit of the write-intent bitmap covers only {}", units::size(chunk));
    Some(
        Finding::info("bitmap-chunk", title)
            .seen(format!(
                "md/bitmap/chunksize is {}, so {bits} bits; mdadm's own choice would be {} or more",
                units::size(chunk),
                units::size(MIN_CHUNK)
            ))
            .seen(format!("md/bitmap/time_base is {time_base} s"))
            .figure("chunk_bytes", chunk)
            .figure("bits", bits)
            .commands(larger_bitmap_chunks(&array.path())),
    )
}

fn none(array: &ArrayFacts, bytes: u64) -> Finding {
    let hours = bytes as f64 / RESYNC_RATE as f64 / 3600.0;
    let size = units::size(bytes);
    let title =
        format!("no write-intent bitmap: after a crash all {size} of each member are resynced");
    Finding::info("bitmap-none", title)
        .seen(format!(
            "md/consistency_policy is resync, md/component_size {size}: {hours:.1} h at 150 MiB/s"
        ))
        .figure("resync_hours", hours)
        .command(larger_bitmap_chunks(&array.path())[1].clone())
}
