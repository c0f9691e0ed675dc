//! Direct IO that ext4 serializes: the writes that take the inode's lock exclusively differ by
//! kernel. Reported only if a process has a file open for writing with O_DIRECT. The functions are
//! inlined, so the kernel version decides.

use super::{list, plural};
use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::Finding;

/// Serialized direct IO, and `dioread_nolock` without effect.
pub fn check(kernel: &Kernel, _: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if fs.has_option("nodelalloc") && fs.has_option("dioread_nolock") {
        found.push(inert(fs));
    }
    let version = kernel.version();
    if fs.direct.is_empty() || version == (0, 0) || version >= (6, 3) {
        return found;
    }
    let mut comms: Vec<&str> = fs.direct.iter().map(|o| o.comm.as_str()).collect();
    comms.sort_unstable();
    comms.dedup();
    let files = plural(fs.direct.len(), "file");
    let written = format!("{files} written with O_DIRECT by {}", list(&comms));
    let finding = if version < (5, 6) {
        Finding::warning("dio-exclusive", format!("{written}: ext4 serializes reads and writes"))
            .why(
                "ext4 before 5.6 takes the inode's lock exclusively to start an overwrite, and \
                 readers wait: a database loses 10 to 80 % of its throughput",
            )
            .not_when("each file is only read, or only written")
            .source("Linux 5.6, aa9714d0e397 and bc6385dab125; introduced by 16c54688592c in 4.9")
            .risk(
                "the risks of a kernel upgrade. O_DSYNC instead of O_DIRECT was about a third \
                 faster on such kernels",
            )
    } else {
        Finding::info(
            "dio-unwritten",
            format!("{written}: writes to preallocated blocks are serialized"),
        )
        .why(
            "ext4 before 6.3 takes the inode's lock exclusively to write to preallocated blocks \
             (fallocate) for the first time; later writes to them run in parallel",
        )
        .not_when("the files have been written once from start to end, or are appended to")
        .source("Linux 6.3, 240930fb7e6b")
        .risk(
            "the risks of a kernel upgrade. Without an upgrade, write new files once from start \
             to end instead of using fallocate",
        )
    };
    let open = fs.direct.iter();
    found.push(
        finding
            .seen_all(open.map(|o| format!("{} ({}) writes {}", o.comm, o.pid, o.path)))
            .seen(format!(
                "kernel {}: determined by its version, as no interface shows it",
                kernel.release
            ))
            .figure("files", fs.direct.len()),
    );
    found
}

fn inert(fs: &FsFacts) -> Finding {
    Finding::info("dio-nolock-inert", "nodelalloc disables dioread_nolock")
        .seen(fs.option_seen("nodelalloc and dioread_nolock"))
        .why(
            "buffered writes then allocate at once, and not as unwritten extents: with \
             data=ordered each commit of the journal waits for them, and fsync takes longer",
        )
        .commands(fs.mount_again("delalloc"))
        .risk(
            "the filesystem is unavailable for a moment; a crash may lose the last half minute of \
             unsynced data instead of five seconds. To make it permanent, remove nodelalloc from \
             /etc/fstab",
        )
        .not_when("an application relies on data reaching the disk without fsync")
        .source("Linux, fs/ext4/ext4_jbd2.h, ext4_should_dioread_nolock")
}
