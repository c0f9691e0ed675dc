//! Renderings of one [`Snapshot`](crate::analysis::snapshot::Snapshot), and what every screen and every line of text needs.
//!
//! * [`state`], [`keys`], [`rows`]: what is shown and what a key does. Pure: no terminal, no I/O.
//! * [`view`]: draws them. [`palette`]: colours and letters.
//! * [`batch`], [`json`]: write one interval to a pipe; [`lines`]: an interval after the other.
//! * [`text`]: text in columns, and made printable; everything goes through it. [`typed`]: times as one types them.
//! * [`term`], [`screen`]: the only parts that touch a terminal.

pub mod batch;
pub mod json;
pub mod keys;
pub mod lines;
pub mod palette;
pub mod rows;
pub mod screen;
pub mod state;
pub mod term;
pub mod text;
pub mod typed;
pub mod view;
