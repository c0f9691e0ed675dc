//! Kernel facts, and commands that fix slow arrays, mounts and filesystems, shared by `doctor`,
//! `alloc` and `slow`.

pub mod fill;
pub mod kernel;
pub mod quote;
pub mod remedy;
pub mod slow;
