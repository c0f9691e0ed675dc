//! BPF programs that trace ext4's block allocator, in their own object. Stages as in
//! [`super::Probe`]: facts -> plan -> load -> counters.

mod facts;
mod hooks;
mod load;
mod plan;
mod read;

pub use facts::{AllocFacts, FunctionHooks};
pub(super) use hooks::functions;
pub use load::AllocProbe;
pub use plan::{AllocPlan, plan};

skeleton!(skel, "/raidtrace_alloc.skel.rs");
