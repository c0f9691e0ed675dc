//! `raidtrace doctor`: what is wrong or risky with this array, filesystem, mount and kernel, with the evidence, and the
//! command that mends it. Commands are printed, never run.
//!
//! * `finding`: what a rule says.
//! * `facts`: what rules judge, plain data; `gather`, `ata`, `mounted`, `openers` and `upkeep` read it from this machine.
//! * `rules`: facts in, findings out; pure.
//! * `kernel`: whether raidtrace can run here.
//! * `live`: what was seen to be written, beside what the layout predicts; `load` takes it from a recording, `parts` judges that interval by interval.
//! * `select`: which findings are shown.
//! * `table`, `json`: renderings.
//! * `command`: all of it together.

pub mod args;
mod ata;
pub mod command;
pub mod facts;
pub mod finding;
pub mod gather;
mod json;
pub mod kernel;
mod live;
mod load;
mod mounted;
mod openers;
mod parts;
pub mod rules;
pub mod select;
mod table;
mod upkeep;

#[cfg(test)]
mod tests;
