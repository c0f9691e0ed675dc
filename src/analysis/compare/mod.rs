//! Compares two recordings: what changed, by how much, and which differences are noise.
//!
//! * [`series`]: sums of each interval of a recording, by subject.
//! * [`bootstrap`]: the estimator: a difference, its confidence interval and its p value.
//! * [`pairs`]: which array and member of one recording corresponds to which of the other.
//! * [`change`]: a difference: subject, figure, estimate. [`differences`]: all of them.
//! * [`comparison`]: the result for an array. [`verdict`]: the sentence. [`words`]: figures as
//!   text.

pub mod bootstrap;
pub mod change;
pub mod comparison;
pub mod differences;
pub mod pairs;
pub mod series;
pub mod verdict;
pub mod words;

#[cfg(test)]
mod tests;
