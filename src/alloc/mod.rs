//! `raidtrace alloc`: what the ext4 block allocator does with the CPU, and why.
//!
//! * [`fold`]: counters at two moments -> an interval; intervals -> a longer one. Pure.
//! * [`reason`]: what stands out in one, in a sentence with numbers, and what mends it. Pure.
//! * [`figures`]: what a snapshot has, and in which words. [`text`], [`json`]: write it to a pipe; [`replay`] reads the latter.
//! * [`places`]: what ext4 says of itself. [`sampler`]: that, the hooks and the samples -> snapshots.
//! * [`window`]: the last ten seconds, which the screen shows. Pure.
//! * [`command`]: joins it all. [`state`], [`view`], [`screen`]: the live screen, as [`top`](crate::top)'s.

pub mod command;
pub mod figures;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fold;
pub mod json;
pub mod places;
pub mod reason;
pub mod replay;
pub mod sampler;
pub mod screen;
pub mod state;
pub mod text;
pub mod view;
pub mod window;
mod wire;
