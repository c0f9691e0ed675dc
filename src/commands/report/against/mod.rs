//! `raidtrace report AFTER --against BEFORE`: what changed. [`compare`](crate::analysis::compare)
//! computes it; [`text`], [`json`] and [`html`] print it, with the [`notes`] on what limits the
//! comparison.

pub mod command;
mod compared;
mod html;
mod json;
mod notes;
mod text;

#[cfg(test)]
mod tests;
