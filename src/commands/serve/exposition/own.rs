//! Metrics of raidtrace itself: losses, overhead, the flight recorder, the process.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{MetricValues, counter, counters, label};

pub fn encode(figures: &MetricValues, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let mut build = encoder.encode_descriptor(
        "raidtrace_build",
        "Version of raidtrace",
        None,
        MetricType::Info,
    )?;
    build.encode_info(&[
        ("version", env!("CARGO_PKG_VERSION")),
        ("commit", env!("RAIDTRACE_COMMIT")),
    ])?;
    let lost = figures.totals.lost.iter();
    counters(
        encoder,
        ("raidtrace_lost_events", None),
        "Events that were not seen or not counted",
        lost.map(|(loss, count)| ([label("reason", loss.name())], count)),
    )?;
    let overhead = figures.totals.overhead;
    for (name, help, value) in [
        ("raidtrace_bpf_runs", "Runs of raidtrace's BPF programs", overhead.bpf_events),
        ("raidtrace_intervals", "Intervals counted", figures.totals.intervals),
        (
            "raidtrace_dropped_series",
            "Updates of arrays, members, tasks and cgroups left out because there were too many \
             series",
            figures.totals.dropped_series,
        ),
    ] {
        let mut one = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        counter(&mut one, value)?;
    }
    for (name, help, value) in [
        (
            "raidtrace_bpf",
            "Time in raidtrace's BPF programs on all CPUs, extrapolated from a share of the time",
            overhead.bpf_ns as f64 / 1e9,
        ),
        ("process_cpu", "CPU time of raidtrace's process", figures.own.cpu.as_secs_f64()),
    ] {
        let unit = Some(&Unit::Seconds);
        let mut one = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
        counter(&mut one, value)?;
    }
    let mut gauge = |name, help, value: f64| {
        encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    };
    gauge(
        "process_resident_memory_bytes",
        "Memory of raidtrace's process",
        figures.own.resident as f64,
    )?;
    gauge(
        "raidtrace_http_connections",
        "Open connections, including this one",
        figures.connections as f64,
    )?;
    gauge(
        "raidtrace_update_failed",
        "1 if the programs could not be updated for the last change of the host",
        f64::from(u8::from(figures.flight.update_failed)),
    )?;
    let flight = &figures.flight;
    if let Some(bytes) = flight.bytes {
        gauge("raidtrace_flight_recorder_bytes", "Recording in memory", bytes as f64)?;
        gauge(
            "raidtrace_flight_recorder_seconds",
            "Time that the recording in memory covers",
            flight.span.as_secs_f64(),
        )?;
        for (name, help, value) in [
            ("raidtrace_dumps", "Recordings written", flight.written.dumps),
            (
                "raidtrace_dump_errors",
                "Recordings that could not be written",
                flight.written.errors,
            ),
            (
                "raidtrace_flight_recorder_dropped_rows",
                "Rows of the recording in memory that were dropped because its writer was too slow",
                flight.dropped_rows,
            ),
            (
                "raidtrace_slow_lost_operations",
                "Slow operations, commits and their events missing from the recording",
                flight.slow_lost,
            ),
        ] {
            let mut one = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            counter(&mut one, value)?;
        }
    }
    Ok(())
}
