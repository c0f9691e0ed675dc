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
    } else {
        Finding::info(
            "dio-unwritten",
            format!("{written}: writes to preallocated blocks are serialized"),
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
        .commands(fs.mount_again("delalloc"))
}
