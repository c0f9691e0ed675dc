//! The commands. Each folder holds a command's arguments, its `run()` and its views. No command
//! uses another.

pub mod alloc;
pub mod doctor;
pub mod export;
pub mod layout;
pub mod record;
pub mod report;
pub mod serve;
pub mod slow;
pub mod top;
pub mod why;
