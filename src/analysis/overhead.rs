//! Cost of raidtrace's own programs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cube::amount;
use super::units::round;

/// Time spent in raidtrace's BPF programs. The kernel measures only part of the time; the rest is
/// extrapolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Nanoseconds spent in raidtrace's BPF programs, all CPUs.
    pub bpf_ns: u64,
    /// Number of program runs.
    pub bpf_events: u64,
    /// Nanoseconds during which the kernel measured the programs.
    pub measured_ns: u64,
    /// Nanoseconds during which the kernel did not measure the programs.
    pub unmeasured_ns: u64,
}

amount!(Overhead { bpf_ns, bpf_events, measured_ns, unmeasured_ns });

impl Overhead {
    /// True if figures are extrapolated from part of the time.
    pub fn is_estimate(&self) -> bool {
        self.unmeasured_ns > 0
    }

    /// Share of the time that was measured, 0 to 1.
    pub fn measured_share(&self) -> f64 {
        let whole = self.measured_ns.saturating_add(self.unmeasured_ns);
        match whole {
            // A recording made when statistics were always enabled.
            0 if self.bpf_events > 0 => 1.0,
            0 => 0.0,
            _ => self.measured_ns as f64 / whole as f64,
        }
    }

    /// Overhead as text: `overhead about 0.8 % of a CPU`.
    pub fn describe(&self, interval: Duration) -> String {
        if !self.is_estimate() && self.measured_share() == 0.0 {
            return "overhead not measured".to_owned();
        }
        // Can exceed 100 % on several CPUs.
        let percent = self.bpf_ns as f64 / interval.as_nanos().max(1) as f64 * 100.0;
        format!(
            "overhead {}{:.1} % of a CPU",
            if self.is_estimate() { "about " } else { "" },
            percent.clamp(0.0, 99_999.0)
        )
    }
}

/// Cost of raidtrace's own programs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OverheadLine {
    bpf_ns: u64,
    bpf_events: u64,
    estimated: bool,
    /// Share of the interval in which the kernel's BPF statistics were enabled, 0 to 1.
    measured_share: f64,
}

impl From<Overhead> for OverheadLine {
    fn from(overhead: Overhead) -> Self {
        Self {
            bpf_ns: overhead.bpf_ns,
            bpf_events: overhead.bpf_events,
            estimated: overhead.is_estimate(),
            measured_share: round(overhead.measured_share()),
        }
    }
}

impl OverheadLine {
    /// The overhead of an interval of this length.
    pub fn read(&self, interval: Duration) -> Overhead {
        let measured = interval.mul_f64(self.measured_share.clamp(0.0, 1.0));
        let unmeasured = interval.saturating_sub(measured).as_nanos() as u64;
        Overhead {
            bpf_ns: self.bpf_ns,
            bpf_events: self.bpf_events,
            measured_ns: measured.as_nanos() as u64,
            unmeasured_ns: if self.estimated { unmeasured } else { 0 },
        }
    }
}
