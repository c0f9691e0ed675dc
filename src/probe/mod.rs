//! Loads the BPF programs and reads their results; the only module that uses libbpf. Stages: facts (properties of the kernel) -> plan (programs to load) -> load and attach ->
//! counters and events.

/// A skeleton that build.rs has generated, as a module without lints.
macro_rules! skeleton {
    ($name:ident, $file:literal) => {
        #[allow(
            missing_docs,
            clippy::all,
            clippy::pedantic,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            clippy::wildcard_imports,
            non_camel_case_types
        )]
        mod $name {
            include!(concat!(env!("OUT_DIR"), $file));
        }
    };
}

pub mod alloc;
mod boundaries;
mod btf;
pub mod clock;
mod counters;
mod deltas;
mod drain;
mod entries;
pub mod events;
mod facts;
mod files;
mod journals;
mod load;
mod log;
mod map_state;
mod md;
mod member_ids;
mod overhead;
mod plan;
pub mod samples;
mod shadows;
pub mod slow;
mod stats;
mod symbols;
pub mod tables;
mod tiles;

pub use facts::Facts;
pub use load::Probe;
pub use log::log;
pub use plan::{Dirtied, Need, Plan, plan};

skeleton!(skel, "/raidtrace.skel.rs");
skeleton!(profile_skel, "/raidtrace_profile.skel.rs");

/// Structures of `bpf/shared/` and their bytes.
pub(crate) mod wire {
    use bytemuck::{Pod, bytes_of, try_pod_read_unaligned};

    pub(crate) use crate::contract::*;

    /// Bytes of a key, value or event.
    pub(crate) trait Wire: Pod {
        /// The bytes that the kernel side reads.
        fn bytes(&self) -> &[u8] {
            bytes_of(self)
        }

        /// Reads a value from the first bytes; `None` if there are too few.
        fn read(bytes: &[u8]) -> Option<Self> {
            try_pod_read_unaligned(bytes.get(..size_of::<Self>())?).ok()
        }
    }

    impl<T: Pod> Wire for T {}
}
