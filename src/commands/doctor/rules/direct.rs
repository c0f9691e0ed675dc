//! Direct IO that takes turns: which writes hold the inode's lock alone, by kernel. Only where a process is seen to write
//! with O_DIRECT. No probe can tell these kernels apart (the functions are inlined), so it is by version.

use super::{list, plural};
use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};

/// D1, D2 and D4.
pub fn check(kernel: &Kernel, _: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if fs.has_option("nodelalloc") && fs.has_option("dioread_nolock") {
        found.push(inert(fs));
    }
    let version = kernel.version();
    if fs.direct.is_empty() || version == (0, 0) || version >= (6, 3) {
        return found;
    }
    let who: Vec<String> = fs
        .direct
        .iter()
        .map(|o| format!("{} ({}) writes {}", o.comm, o.pid, o.path))
        .collect();
    let mut comms: Vec<&str> = fs.direct.iter().map(|o| o.comm.as_str()).collect();
    comms.sort_unstable();
    comms.dedup();
    let files = plural(fs.direct.len(), "file");
    let finding = if version < (5, 6) {
        Finding::new(
            "dio-exclusive",
            Severity::Warning,
            format!("{files} written with O_DIRECT by {}: reads and writes take turns", list(&comms)),
        )
        .why("ext4 before 5.6 holds the inode's lock alone while an overwrite begins, and readers wait: a database loses 10 to 80 % of its throughput")
        .unless("each file is only read, or only written")
        .source("Linux 5.6, aa9714d0e397 and bc6385dab125; introduced by 16c54688592c in 4.9")
        .risk("the usual ones of a new kernel. O_DSYNC instead of O_DIRECT was about a third faster on such kernels")
    } else {
        Finding::new(
            "dio-unwritten",
            Severity::Info,
            format!("{files} written with O_DIRECT by {}: preallocated blocks are written one at a time", list(&comms)),
        )
        .why("ext4 before 6.3 writes into blocks that were only preallocated (fallocate) with the inode's lock held alone; blocks that have been written once are written in parallel")
        .unless("the files have been written once from end to end, or are appended to")
        .source("Linux 6.3, 240930fb7e6b")
        .risk("the usual ones of a new kernel. Else write new files from end to end once instead of fallocate")
    };
    found.push(
        who.iter()
            .fold(finding, |f, line| f.seen(line.clone()))
            .seen(format!(
                "kernel {}: by its version, no probe can tell",
                kernel.release
            ))
            .figure("files", fs.direct.len()),
    );
    found
}

fn inert(fs: &FsFacts) -> Finding {
    Finding::new(
        "dio-nolock-inert",
        Severity::Info,
        "nodelalloc makes dioread_nolock do nothing",
    )
    .seen(format!(
        "/proc/fs/ext4/{}/options has both nodelalloc and dioread_nolock",
        fs.fs.name
    ))
    .why("buffered writes then allocate at once and not as unwritten blocks: they are part of what the journal waits for at each commit, and fsync takes longer")
    .command(format!("umount {}", fs.mount_point()))
    .command(format!("mount -o delalloc {} {}", fs.path(), fs.mount_point()))
    .risk("the filesystem is away for a moment; data that nobody has synced may be lost for half a minute instead of five seconds in a crash. To keep it, take nodelalloc out of /etc/fstab")
    .unless("an application relies on being on the disk without fsync")
    .source("Linux, fs/ext4/ext4_jbd2.h, ext4_should_dioread_nolock")
}
