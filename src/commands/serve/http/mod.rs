//! The HTTP side of `serve`. It holds no capability.
//!
//! * [`guard`]: who is answered. [`connections`]: accepts connections within bounds.
//! * [`routes`]: what is answered, from the state in [`app`]; [`events`]: intervals as server-sent events; [`dumps`]: written recordings.

pub mod app;
pub mod connections;
mod dumps;
mod events;
pub mod guard;
pub mod routes;

pub use events::publish as events_publisher;
