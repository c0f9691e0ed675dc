//! Screens, text and JSON: everything that shows figures.
//!
//! * [`screen`]: the loop of every screen, over an `App` (state and drawing) and a `Source` (snapshots). `player` is the source of a
//!   replay; [`term`] holds the terminal.
//! * `tabs`, `table`, `pen`: what screens are made of: views, columns, lines. [`keys`], [`palette`], [`text`].
//! * [`state`], [`rows`], [`view`]: the screen of `top`, with one file per view.
//! * [`batch`], [`json`], [`lines`]: one interval after the other as text or JSON. [`typed`]: parses times.

pub mod batch;
pub mod completion;
pub mod json;
pub mod keys;
pub mod lines;
pub mod palette;
pub(crate) mod pen;
pub(crate) mod player;
pub mod rows;
pub mod screen;
pub mod state;
pub(crate) mod table;
pub(crate) mod tabs;
pub mod term;
pub mod text;
pub mod typed;
pub mod view;
