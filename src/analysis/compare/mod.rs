//! Compares two recordings: what changed, by how much, and which differences are noise.
//!
//! * [`series`]: figures of each interval of a recording, collected in the same pass as its report.
//! * [`fine`]: histograms of device times. [`resample`]: moving-block bootstrap.
//!   [`significance`]: p values, and control of the false discovery rate.
//! * [`pairs`]: which array and member of one recording corresponds to which of the other.
//! * [`estimate`], [`latency`]: one difference with its confidence interval. [`change`]: its
//!   subject and unit.
//! * [`figures`], [`traffic`]: all differences of an array. [`evaluate`]: the whole comparison, a
//!   [`comparison`]. [`verdict`]: the sentence. [`words`]: figures as text.

pub mod change;
pub mod comparison;
pub mod estimate;
pub mod evaluate;
mod figures;
pub mod fine;
mod latency;
pub mod pairs;
pub mod resample;
pub mod series;
pub mod significance;
mod traffic;
pub mod verdict;
pub mod words;

#[cfg(test)]
mod simulation;
