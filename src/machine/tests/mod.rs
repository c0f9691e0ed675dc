//! Tests on machines described by a few lines of text ([`tree::Tree`]).

mod changes;
mod containers;
mod dm_raid;
mod hostile;
mod not_running;
mod stacks;
mod targets;
mod topology;
pub(crate) mod tree;
