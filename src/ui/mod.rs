//! Output of figures: screens, text, JSON and HTML.
//!
//! * [`screen`]: event loop of all screens, for a `ScreenApp` (state and drawing) and a
//!   `SnapshotSource` (snapshots). `player`: source of a replay. [`term`]: setup and restore of the
//!   terminal.
//! * `tabs`, `table`, `pen`: views, columns and lines of screens. [`keys`]: decoded keys.
//!   [`palette`]: colours and letters. [`text`]: text fitted into columns.
//! * [`state`], [`rows`], [`view`]: the screen of `top`, with one file per view. `figures`: the
//!   figures of a member, for every output.
//! * `dataset`: rows of a dataset's tables.
//! * [`batch`], [`json`], [`lines`]: successive intervals as text or JSON. `intervals`: those of a
//!   recording. [`typed`]: parsers of times. [`completion`]: shell completion of targets. [`html`]:
//!   building blocks of HTML pages.

pub mod batch;
pub mod completion;
#[cfg(feature = "export")]
pub(crate) mod dataset;
pub(crate) mod figures;
pub mod html;
pub(crate) mod intervals;
pub mod json;
pub mod keys;
pub mod lines;
pub(crate) mod live_args;
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
