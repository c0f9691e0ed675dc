//! `raidtrace serve`: metrics, a page, and the last minutes before it went wrong.
//!
//! * [`command`]: runs the command. [`tracing`]: the session, on a thread of its own.
//! * [`totals`]: sums since the start; [`exposition`]: the metrics made of them. [`timeline`]: the last hour for the page.
//! * [`flight`]: the last minutes of a recording, in memory; [`rules`]: when they are written; [`dump`]: writes them.
//! * [`http`]: the HTTP side. `page`: the page's files, as they are served.

pub mod args;
pub mod command;
mod dump;
mod exposition;
mod flight;
mod http;
mod rules;
mod timeline;
mod totals;
mod tracing;
