//! The clock of the BPF programs.

/// CLOCK_MONOTONIC in ns, the clock of bpf_ktime_get_ns() and of events.
pub fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}
