//! Kernel facts, and commands that fix slow mounts and filesystems, shared by `doctor` and `alloc`.

pub mod kernel;
pub mod quote;
pub mod remedy;
pub mod slow;
