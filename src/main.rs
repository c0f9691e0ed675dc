//! The `raidtrace` binary.

fn main() {}
