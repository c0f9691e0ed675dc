//! raidtrace: which disk of this md array is busy, with which kind of filesystem block or md write,
//! on whose behalf.
//!
//! The parts, and what each may know:
//!
//! * [`origin`]: the vocabulary. Knows nothing else.
//! * [`raid`]: array address <-> member address, pure arithmetic.
//! * [`ext4`]: superblock, descriptors, layout ranges; reads devices and images.
//! * [`host`]: what this machine has: devices, arrays, members, mounts.
//! * [`model`]: counters + topology -> snapshot; pure.
//! * [`top`]: the screen, `--batch` and `--json`: renderings of one snapshot.

pub mod ext4;
pub mod model;
pub mod origin;
