//! Counters and topology -> one snapshot an interval: rates, histograms, what stands out.
//!
//! Pure: knows neither BPF nor this machine nor a terminal. Live tracing and replay feed it alike.

pub mod alloc;
pub mod counters;
pub mod events;
pub mod files;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fold;
pub mod hist;
pub mod item;
pub mod ledger;
mod nested;
mod owed;
pub mod placement;
pub mod profile;
pub mod recent;
pub mod snapshot;
pub mod standout;
pub mod time;
pub mod timeline;
pub mod traffic;
pub mod uncounted;
pub mod units;
pub mod waited;
pub mod window;
