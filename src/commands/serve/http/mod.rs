//! The HTTP side of `serve`. Runs without capabilities.
//!
//! * [`guard`]: access control. [`connections`]: accepts connections within limits.
//! * [`routes`]: request handlers; [`app`]: their shared state; [`events`]: streams of intervals;
//!   [`dumps`]: written recordings.

pub mod app;
pub mod connections;
mod dumps;
mod events;
pub mod guard;
pub mod routes;

pub use events::publish as events_publisher;
