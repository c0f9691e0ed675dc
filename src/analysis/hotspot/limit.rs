//! IO that a cgroup's limit (io.max, blkio.throttle) holds back. The IO waits before it enters the
//! array, so the members' figures do not show it.

use super::words::io_of;
use crate::analysis::snapshot::{ArraySnapshot, TaskSnapshot};
use crate::analysis::units;
use crate::origin::plural;

/// Minimum share of all submitted bytes to be reported.
const MIN_SHARE: f64 = 0.25;
/// Minimum number of bios to be reported.
const MIN_BIOS: u64 = 8;

/// `cgroup /limited is held back by its I/O limit on md127 (io.max, blkio.throttle): 95 % of the
/// bytes submitted, mostly file_data writes, from dd (pid 7)`; `None` if blk-throttle held back
/// little or nothing.
pub fn limited(array: &ArraySnapshot) -> Option<String> {
    let sum = |task: &TaskSnapshot| task.io.iter().map(|i| i.bytes as f64).sum::<f64>();
    let throttled: Vec<&TaskSnapshot> = array.tasks.iter().filter(|t| t.is_throttled()).collect();
    let bios = throttled.iter().flat_map(|t| &t.io).map(|i| i.bios);
    let bytes: f64 = throttled.iter().map(|t| sum(t)).sum();
    // Flushes alone have no bytes.
    let share = bytes / array.tasks.iter().map(sum).sum::<f64>().max(1.0);
    if bios.fold(0, u64::saturating_add) < MIN_BIOS || share < MIN_SHARE {
        return None;
    }
    let most = throttled.iter().max_by(|a, b| sum(a).total_cmp(&sum(b)))?;
    // The root cgroup of v2 has no limit: if the task is in it, the limit is from cgroup v1.
    let cgroup = most
        .cgroup
        .as_ref()
        .filter(|path| *path != "/")
        .map_or("a cgroup".to_owned(), |path| format!("cgroup {path}"));
    let what = io_of(&most.io)
        .map_or(String::new(), |(name, op)| format!(", mostly {name} {}", plural(op)));
    let task = if most.pid == 0 {
        String::new()
    } else {
        let comm = String::from_utf8_lossy(&most.comm);
        format!(", from {comm} (pid {})", most.pid)
    };
    Some(format!(
        "{cgroup} is held back by its I/O limit on {} (io.max, blkio.throttle): {} of the bytes \
         submitted{what}{task}",
        array.info.name,
        units::percent(share)
    ))
}
