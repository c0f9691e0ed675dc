//! The recordings that are part of raidtrace: the telling seconds of incidents in tests/incidents.
//! `tools/incidents --demos` makes the files.

use anyhow::{Context as _, Result};

/// An incident that is part of raidtrace.
pub struct Incident {
    /// Its name in tests/incidents.
    pub name: &'static str,
    /// What happens, in one line.
    pub what: &'static str,
    compressed: &'static [u8],
}

macro_rules! incident {
    ($name:literal, $what:literal) => {
        Incident {
            name: $name,
            what: $what,
            compressed: include_bytes!(concat!("demo/", $name, ".rtrace.zst")),
        }
    };
}

/// The incidents, the default first.
pub const INCIDENTS: [Incident; 10] = [
    incident!("bitmaps-3-of-12", "a database waits: three of twelve disks have every bitmap"),
    incident!("slow-raid1", "one disk of a mirror answers slowly"),
    incident!("hang-raid1", "one disk of a mirror returns nothing"),
    incident!("rebuild-raid10", "a rebuild takes most of the disks' time"),
    incident!("check-raid1", "so does a check"),
    incident!("neighbour-partition", "a process writes to another partition of one of the disks"),
    incident!("swap-array", "a process swaps on the same disks"),
    incident!("io-max-bytes", "a cgroup's own limit holds its writes"),
    incident!("ordered-data", "an fsync waits for the data of another task"),
    incident!("frozen", "the filesystem is frozen"),
];

/// Names of all incidents.
pub fn names() -> Vec<&'static str> {
    INCIDENTS.iter().map(|incident| incident.name).collect()
}

impl Incident {
    /// The recording. It is compressed as a whole, because the header of a recording, which has the
    /// layout, is not.
    ///
    /// # Errors
    /// It cannot be decompressed.
    pub fn recording(&self) -> Result<Vec<u8>> {
        zstd::decode_all(self.compressed).context("decompressing the recording")
    }
}
