//! Turns counters and topology into one snapshot per interval: rates, histograms, hot spots.
//!
//! Pure functions, without BPF or a terminal. Live tracing and replay use the same code. Only
//! `placement::target` and [`time::local`] access this machine.

pub mod alloc;
pub mod amplification;
pub mod around;
pub mod compare;
pub mod counters;
pub mod cube;
pub mod detail;
pub mod events;
pub mod fail_slow;
pub mod figures;
pub mod file_id;
pub mod files;
#[cfg(test)]
pub(crate) mod fixture;
pub mod fold;
pub mod hist;
pub mod history;
pub mod hotspot;
pub mod item;
pub mod lanes;
pub mod lost;
pub(crate) mod nested;
pub mod overhead;
mod pending;
pub mod placement;
pub mod profile;
pub mod rates;
pub mod recent;
pub mod relocate;
pub mod reorder;
pub mod slow;
pub mod snapshot;
pub mod time;
pub mod timeline;
pub mod traffic;
pub mod uncounted;
pub mod units;
pub mod verdict;
pub mod window;
