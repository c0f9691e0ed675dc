//! tracefs, the kernel's tracing files.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};

use super::privileges::raised;

/// The list of functions that ftrace can hook, one name a line; `None` without ftrace or tracefs.
pub fn functions() -> Option<File> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .iter()
        .find_map(|dir| raised(|| File::open(format!("{dir}/available_filter_functions"))).ok())
}

/// Those functions of the list whose name is `wanted`; `None` if the list is empty or cannot be
/// read.
pub fn traceable(wanted: impl Fn(&str) -> bool) -> Option<HashSet<String>> {
    let mut lines = BufReader::new(functions()?).lines().map_while(Result::ok).peekable();
    lines.peek()?;
    // A function of a module is followed by the name of the module.
    let names = lines.filter_map(|line| {
        let name = line.split_ascii_whitespace().next()?;
        wanted(name).then(|| name.to_owned())
    });
    Some(names.collect())
}
