//! What is known of kernels, mounts and filesystems that costs time, and the commands that mend it.

pub mod kernel;
pub mod quote;
pub mod remedy;
