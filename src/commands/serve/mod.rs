//! `raidtrace serve`: Prometheus metrics, a web page, and a flight recorder.
//!
//! * [`command`]: runs the command. [`tracing`]: the session, on a separate thread.
//! * [`totals`]: sums since the start; [`exposition`]: metrics of the totals. [`timeline`]: the
//!   last hour for the page. [`cgroups`]: figures and sums by cgroup.
//! * [`flight`]: flight recorder, keeps the last minutes of a recording in memory; [`rules`]:
//!   conditions for dumps; [`dump`]: writes dumps.
//! * `dataset`: intervals and verdicts in a dataset; `cgroup_rows`: rows of cgroups.
//! * [`http`]: the HTTP side. [`token`]: the bearer token. `page`: static files of the page.

pub mod args;
#[cfg(feature = "export")]
mod cgroup_rows;
mod cgroups;
pub mod command;
#[cfg(feature = "export")]
mod dataset;
mod dump;
mod exposition;
mod flight;
pub mod http;
mod rules;
mod timeline;
mod token;
mod totals;
pub mod tracing;
