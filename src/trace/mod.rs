//! The recording: [`item`] is what it is made of.

pub mod item;
