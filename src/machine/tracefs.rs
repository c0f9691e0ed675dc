//! tracefs, the kernel's tracing files.

use std::fs::File;

/// The list of functions that ftrace can hook, one name a line; `None` without ftrace or tracefs.
pub fn functions() -> Option<File> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|dir| File::open(format!("{dir}/available_filter_functions")).ok())
}
