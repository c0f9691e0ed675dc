//! BPF programs that trace ext4's block allocator, in their own object. Stages as in [`super::Probe`]: facts -> plan -> load ->
//! counters.

mod facts;
mod functions;
mod load;
mod plan;
mod read;

pub use facts::{AllocFacts, Function};
pub(super) use functions::FUNCTIONS;
pub use load::AllocProbe;
pub use plan::{AllocPlan, plan};

skeleton!(skel, "/raidtrace_alloc.skel.rs");

/// Structures of `bpf/shared/alloc.h`.
mod wire {
    pub(super) use crate::probe::wire::{
        rt_alloc, rt_alloc_cpu, rt_alloc_loss, rt_alloc_share, rt_alloc_task, rt_alloc_task_key,
        rt_file_id,
    };

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::analysis::alloc::{CRITERIA, GROUPS_BUCKETS, Refused};

        #[test]
        fn the_structures_have_room_for_the_model() {
            let wire = rt_alloc::default();
            assert!(wire.groups.len() >= GROUPS_BUCKETS);
            assert!(wire.criteria.len() >= CRITERIA && wire.reasons.len() >= Refused::ALL.len());
        }
    }
}
