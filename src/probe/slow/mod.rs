//! BPF programs of `raidtrace slow`, in their own object. Stages as in [`super::Probe`]: facts ->
//! plan -> load -> events and sums.

mod events;
mod facts;
mod hooks;
mod load;
mod plan;
mod read;
mod unended;

pub use facts::{Filesystems, SlowFacts};
pub use load::{SlowProbe, TracedDevice};
pub use plan::{SlowPlan, plan};
pub use unended::{MAX_DESCRIBED, Unended, asleep};

skeleton!(skel, "/raidtrace_slow.skel.rs");
