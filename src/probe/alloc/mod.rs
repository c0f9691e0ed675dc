//! The programs that watch ext4's block allocator, an object of their own: as for [`super::Probe`], facts -> plan -> load ->
//! counters.

mod facts;
mod load;
mod plan;
mod read;

pub use facts::{AllocFacts, Function};
pub use load::AllocProbe;
pub use plan::{AllocPlan, plan};

skeleton!(skel, "/raidtrace_alloc.skel.rs");

/// The wire structures, from `bpf/shared/alloc.h`.
mod wire {
    pub(super) use super::skel::types::{
        rt_alloc, rt_alloc_cpu, rt_alloc_loss, rt_alloc_share, rt_alloc_task, rt_alloc_task_key,
        rt_file_id,
    };
    use crate::probe::wire::Wire;

    // Integers, explicitly padded: asserted below.
    impl Wire for rt_alloc {}
    impl Wire for rt_alloc_cpu {}
    impl Wire for rt_alloc_loss {}
    impl Wire for rt_alloc_share {}
    impl Wire for rt_alloc_task {}
    impl Wire for rt_alloc_task_key {}
    impl Wire for rt_file_id {}

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::analysis::alloc::{CRITERIA, GROUPS_BUCKETS, Refused};
        use crate::analysis::hist::BUCKETS;

        #[test]
        fn sizes_are_those_of_the_fields() {
            assert_eq!(
                size_of::<rt_alloc>(),
                8 * (10 + 8 + 32 + 8 + 5) + 2 * 4 * BUCKETS
            );
            assert_eq!(size_of::<rt_alloc_cpu>(), 64 + 32 * 128);
            assert_eq!(size_of::<rt_alloc_task>(), 32 + 6 * 8 + 16 + 16);
            assert_eq!(size_of::<rt_alloc_share>(), 32);
            assert_eq!(size_of::<rt_file_id>(), 16);
        }

        #[test]
        fn there_is_room_for_what_the_model_has() {
            let wire = rt_alloc::default();
            assert!(wire.groups.len() >= GROUPS_BUCKETS);
            assert!(wire.criteria.len() >= CRITERIA && wire.reasons.len() >= Refused::ALL.len());
        }
    }
}
