//! Lays recorded requests onto another filesystem and another array. Pure.
//!
//! * `side`: sector of today's filesystem to sector of the planned one.
//! * `lane`: requests on the members of the planned array.

mod lane;
mod side;
#[cfg(test)]
mod tests;

pub use lane::{Lane, MemberLoad, RequestPiece};
pub use side::Side;
