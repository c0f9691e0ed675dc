//! The module on machines that are described in a few lines of text ([`tree::Tree`]).

mod changes;
mod hostile;
mod stacks;
mod targets;
mod topology;
pub(crate) mod tree;
