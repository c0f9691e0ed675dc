//! Filesystems without free space.

use crate::advice::kernel::Kernel;
use crate::advice::quote::quote;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::Finding;

/// Less than this, and less than a hundredth of the size, is no free space.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// No free blocks or inodes: writes and creates fail with ENOSPC.
pub fn check(_: &Kernel, _: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let Some(space) = fs.space.filter(|s| s.bytes > 0) else {
        return Vec::new();
    };
    let is_read_only = |options: &str| options.split(',').any(|o| o == "ro");
    let mounts = &fs.fs.mounts;
    let read_only = !mounts.is_empty() && mounts.iter().all(|m| is_read_only(&m.options));
    // XFS computes free inodes from free blocks: without blocks it has no inodes, either.
    let full = space.available < MIN_FREE_BYTES.min(space.bytes / 100);
    if read_only || !full && space.inodes != Some(0) {
        return Vec::new();
    }
    let size = |bytes: u64| units::bytes(bytes as f64);
    let (available, all) = (size(space.available), size(space.bytes));
    let title = if full {
        format!("full: {available} of {all} are available: writes fail with ENOSPC, or soon will")
    } else {
        "no free inode: new files fail with ENOSPC".to_owned()
    };
    let reserved = space.free.saturating_sub(space.available);
    vec![
        Finding::critical("fs-full", title)
            .seen(format!("statfs: {available} of {all} available to users"))
            .seen_all(
                (reserved > 0)
                    .then(|| format!("{} more are free, but reserved for root", size(reserved))),
            )
            .seen_all(space.inodes.map(|n| format!("{n} free inodes")))
            .figure("available_bytes", space.available)
            .figure("bytes", space.bytes)
            .commands(
                fs.fs
                    .mounts
                    .first()
                    .map(|m| format!("du -xh --max-depth=2 {} | sort -h | tail", quote(&m.path))),
            ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{ArrayFacts, FsFacts, Kernel, check};
    use crate::commands::doctor::facts::Space;

    fn found(available: u64, bytes: u64, inodes: u64) -> Vec<String> {
        let fs = FsFacts {
            space: Some(Space {
                bytes,
                free: available + (12 << 20),
                available,
                inodes: Some(inodes),
            }),
            ..FsFacts::default()
        };
        let found = check(&Kernel::default(), &ArrayFacts::default(), &fs);
        found.into_iter().map(|f| f.title).collect()
    }

    #[test]
    fn a_full_filesystem() {
        assert_eq!(
            found(0, 235 << 20, 9),
            ["full: 0 B of 235 MiB are available: writes fail with ENOSPC, or soon will"]
        );
        assert_eq!(found(3 << 20, 688 << 20, 9).len(), 1);
        assert_eq!(found(10 << 20, 688 << 20, 9).len(), 0);
        assert_eq!(found(100 << 20, 27 << 40, 9).len(), 0);
        assert_eq!(found(27 << 39, 27 << 40, 0), ["no free inode: new files fail with ENOSPC"]);
    }
}
