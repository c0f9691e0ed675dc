//! Paths of a drive (NVMe multipath) that are slower than its other paths: the drive is not at
//! fault. The other paths are the measure, so the time before is not needed.

use super::moment::Load;

/// Least multiple of the other paths' time.
const MIN_RATIO: f64 = 3.0;
/// Shortest mean time of a slow path, µs.
const MIN_SLOW_US: f64 = 5_000.0;
/// Least number of requests of a path whose mean counts.
const MIN_REQUESTS: u64 = 3;

/// A path that is slower than all others of its drive.
pub struct SlowPath<'a> {
    pub member: &'a Load,
    /// Kernel name.
    pub name: &'a str,
    /// Mean times of its requests, and of those of the slowest other path, µs.
    pub us: f64,
    pub others_us: f64,
}

/// The slow path of each member that has one, slowest first.
pub fn slow_paths(members: &[Load]) -> Vec<SlowPath<'_>> {
    let mut found: Vec<_> = members.iter().filter_map(slow_path).collect();
    found.sort_by(|a, b| b.us.total_cmp(&a.us));
    found
}

fn slow_path(member: &Load) -> Option<SlowPath<'_>> {
    let known = member.paths.iter().filter(|(_, waited)| waited.requests >= MIN_REQUESTS);
    let mut each: Vec<(f64, &str)> =
        known.filter_map(|(name, waited)| Some((waited.mean_us()?, name.as_str()))).collect();
    each.sort_by(|a, b| b.0.total_cmp(&a.0));
    match each[..] {
        [(us, name), (others_us, _), ..] if us >= MIN_SLOW_US.max(MIN_RATIO * others_us) => {
            Some(SlowPath { member, name, us, others_us })
        }
        _ => None,
    }
}
