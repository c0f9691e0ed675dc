//! The only part that knows libbpf: facts (what this kernel offers) -> plan (which programs, and
//! why not) -> load and attach -> counters.

/// A skeleton that build.rs has made, as a module: nobody has written it, so that no lint is of use.
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
mod counters;
pub mod events;
mod facts;
mod files;
mod journals;
mod ledger;
mod load;
mod log;
mod md;
mod numbers;
mod overhead;
mod plan;
mod refit;
pub mod samples;
pub mod tables;
mod tiles;

pub use facts::{Facts, modules};
pub use load::Probe;
pub use log::log;
pub use plan::{Dirtied, Need, Plan, plan};

skeleton!(skel, "/raidtrace.skel.rs");
skeleton!(profile_skel, "/raidtrace_profile.skel.rs");

/// The wire structures, as the skeleton has them from `bpf/shared/wire.h`.
pub(crate) mod wire {
    pub use super::skel::types::{
        rt_array, rt_cost, rt_dev, rt_dev_entry, rt_event_request, rt_event_submission, rt_extent,
        rt_file, rt_file_id, rt_file_key, rt_file_pending, rt_inflight, rt_io, rt_journal, rt_loss,
        rt_member, rt_member_rows, rt_part, rt_row, rt_slot, rt_task, rt_task_id, rt_task_key,
        rt_task_pending, rt_tiles,
    };

    pub use super::profile_skel::types::{rt_sample, rt_sample_ticks};
    pub use super::skel::types::rt_geometry;
    use crate::raid::Geometry;

    /// The skeleton's spelling of what `raid::wire` computes: one C header, two readers.
    pub(crate) fn geometry(g: &Geometry) -> rt_geometry {
        rt_geometry::read(bytemuck::bytes_of(&g.wire().geometry)).unwrap_or_default()
    }

    /// The same for a member; `None` when the geometry has no such slot.
    pub(crate) fn slot(g: &Geometry, slot: u32) -> Option<rt_slot> {
        rt_slot::read(bytemuck::bytes_of(g.wire().slots.get(slot as usize)?))
    }

    /// Wire structures are plain old data: integers, explicitly padded.
    pub(crate) trait Wire: Copy + Default + 'static {
        /// The bytes that the kernel sees.
        fn bytes(&self) -> &[u8] {
            // SAFETY: implemented only for the #[repr(C)] structures below, which consist of
            // integers without implicit padding (asserted in the tests of this module).
            unsafe {
                std::slice::from_raw_parts(
                    std::ptr::from_ref(self).cast::<u8>(),
                    std::mem::size_of::<Self>(),
                )
            }
        }

        /// From the kernel's bytes; `None` when there are too few.
        fn read(bytes: &[u8]) -> Option<Self> {
            if bytes.len() < std::mem::size_of::<Self>() {
                return None;
            }
            // SAFETY: enough bytes, any bit pattern is valid for integers, unaligned read.
            Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<Self>()) })
        }
    }

    macro_rules! wire {
        ($($t:ty),* $(,)?) => { $(impl Wire for $t {})* };
    }
    wire!(
        rt_array,
        rt_cost,
        rt_dev,
        rt_dev_entry,
        rt_event_request,
        rt_event_submission,
        rt_file,
        rt_file_id,
        rt_file_key,
        rt_file_pending,
        rt_inflight,
        rt_journal,
        rt_loss,
        rt_member,
        rt_member_rows,
        rt_row,
        rt_sample,
        rt_sample_ticks,
        rt_task,
        rt_io,
        rt_task_id,
        rt_task_key,
        rt_task_pending,
        rt_tiles,
        rt_geometry,
        rt_slot,
        u32,
        u64,
    );
}
