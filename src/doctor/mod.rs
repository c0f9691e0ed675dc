//! `raidtrace doctor`: what is wrong or risky with this array, filesystem, mount and kernel, with the evidence, and the
//! command that mends it. Commands are printed, never run.
//!
//! * `finding`: what a rule says.
//! * `facts`: what rules judge, plain data; `gather` and `openers` read it from this machine.
//! * `rules`: facts in, findings out; pure.
//! * `kernel`: whether raidtrace can run here.
//! * `live`: what was seen to be written, beside what the layout predicts.
//! * `table`, `json`: renderings.
//! * `command`: all of it together.

pub mod command;
pub mod facts;
pub mod finding;
pub mod gather;
mod json;
pub mod kernel;
mod live;
mod openers;
pub mod remedy;
pub mod rules;
mod table;

#[cfg(test)]
mod tests;
