//! Lays a recorded load onto another filesystem and another array. Pure.
//!
//! * `side`: a filesystem, prepared for look-ups.
//! * `translate`: block of today's filesystem to block of the planned one; the path of every
//!   submission. `sharing`: bitmaps that change together in one of them. `groups`: the translation
//!   for XFS. `relocation`: either translation.
//! * `disks`: array sectors to requests on members, with merging and mirrors. `stripes`: parity and
//!   pre-reads of RAID 4, 5 and 6.
//! * `figures`: sums by member, origin and operation, and by interval. `service`: mean device
//!   times.

mod disks;
mod figures;
mod groups;
mod relocation;
mod service;
mod sharing;
mod side;
mod stripes;
mod translate;

#[cfg(test)]
mod tests;

pub use disks::{Bio, Disks};
pub use figures::{Direction, Figures, Sum};
pub use groups::Groups;
pub use relocation::{Prepared, Relocation};
pub use service::Service;
pub use side::Side;
