//! The commands: one folder each, with its arguments, its `run()` and its own views. None uses another.

pub mod alloc;
pub mod doctor;
pub mod export;
pub mod layout;
pub mod record;
pub mod report;
pub mod serve;
pub mod slow;
pub mod top;
