//! `raidtrace doctor`: problems and risks of arrays, filesystems, mounts and the kernel, with
//! evidence and the commands that fix them. Commands are printed, never run.
//!
//! * `finding`: the result of a rule.
//! * `facts`: input of the rules, plain data; `gather`, `ata`, `mounted`, `openers` and `upkeep`
//!   read it from this machine.
//! * `rules`: facts in, findings out; pure.
//! * `kernel`: requirements and features of raidtrace on this kernel.
//! * `live`: compares writes with the layout, from a live trace or (`load`, `parts`) a recording.
//! * `select`: options that leave findings out.
//! * `table`, `json`: output. `inventory`: the same facts as rows.
//! * `command`: runs all of the above.

pub mod args;
mod ata;
pub mod command;
mod facts;
mod finding;
mod gather;
pub mod inventory;
mod json;
mod kernel;
mod live;
mod load;
mod mounted;
mod openers;
mod parts;
mod rules;
mod select;
mod table;
mod upkeep;

#[cfg(test)]
mod tests;
