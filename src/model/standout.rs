//! The one sentence at the top of the screen: what stands out in this interval.

use crate::origin::{Op, Origin};

/// Something uneven enough to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Standout {
    /// The origin that is uneven.
    pub origin: Origin,
    /// The operation.
    pub op: Op,
    /// Names of the members that carry it, by slot.
    pub members: Vec<String>,
    /// The share of all members' bytes that these carry, 0.0..=1.0.
    pub share: f64,
    /// The busiest member over the mean of all members.
    pub skew: f64,
    /// Complete English sentence.
    pub sentence: String,
}
