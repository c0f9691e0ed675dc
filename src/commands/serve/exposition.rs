//! The totals as metrics: OpenMetrics text, or Prometheus' older text format for clients that do not accept OpenMetrics.
//!
//! Metric names are a stable interface, documented in docs/serve.md.

mod own;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelValue, LabelValueEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::totals::{CellTotals, DEVICE_EDGES, MemberKey, QUEUE_EDGES, Times, Totals};
use crate::analysis::hotspot;
use crate::machine::own::OwnUse;
use crate::origin::{Op, Origin};

/// Values that the metrics are computed from.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Totals of IO.
    pub totals: Totals,
    /// Figures of the flight recorder; `None` without one.
    pub flight: Option<FlightFigures>,
    /// CPU time and memory of this process.
    pub own: OwnUse,
    /// True if the programs could not be updated for the last change of the host.
    pub update_failed: bool,
    /// Number of open HTTP connections.
    pub connections: u64,
}

/// Figures of the flight recorder.
#[derive(Clone, Debug, Default)]
pub struct FlightFigures {
    /// Bytes in memory.
    pub bytes: u64,
    /// Time that the recording in memory covers, in seconds.
    pub seconds: f64,
    /// Dumps written.
    pub dumps: u64,
    /// Dumps that could not be written.
    pub errors: u64,
    /// Rows of the recording that were dropped because the writer was too slow.
    pub dropped_rows: u64,
    /// Slow operations, commits and events missing from the recording.
    pub slow_lost: u64,
}

/// The metrics as OpenMetrics text.
///
/// # Errors
/// None: writing to a `String` cannot fail.
pub fn open_metrics(figures: Figures) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let members = figures.totals.members.values();
    let cells: usize = members.map(|m| m.cells.len()).sum();
    registry.register_collector(Box::new(Arc::new(Families(figures))));
    let mut text = String::with_capacity(4096 + cells * 4096);
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Converts OpenMetrics text to version 0.0.4 of Prometheus' text format: names of counters and infos include their suffix, and
/// UNIT and EOF lines are removed.
pub fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // HELP comes before TYPE, but the type decides the suffix of the name.
    let mut help = "";
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            (Some("#"), Some("HELP"), _, Some(text)) => help = text,
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    other => ("", other),
                };
                let _ = writeln!(text, "# HELP {name}{suffix} {help}");
                let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// A label value. Escapes special characters, because the library does not.
struct Value<'a>(&'a str);

impl EncodeLabelValue for Value<'_> {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), fmt::Error> {
        for c in self.0.chars() {
            match c {
                '\\' => encoder.write_str("\\\\")?,
                '"' => encoder.write_str("\\\"")?,
                '\n' => encoder.write_str("\\n")?,
                c => encoder.write_char(c)?,
            }
        }
        Ok(())
    }
}

type Label<'a> = (&'static str, Value<'a>);

fn label<'a>(name: &'static str, value: &'a str) -> Label<'a> {
    (name, Value(value))
}

#[derive(Debug)]
struct Families(Figures);

/// A slot as a label; empty for a spare.
fn slot_text(slot: Option<u32>) -> String {
    slot.map_or_else(String::new, |s| s.to_string())
}

fn member_labels<'a>((array, member, _): &'a MemberKey, slot: &'a str) -> [Label<'a>; 3] {
    [
        label("array", array),
        label("member", member),
        label("slot", slot),
    ]
}

fn seconds<const N: usize>(
    times: &Times<N>,
    edges: &[u64; N],
    mut encoder: MetricEncoder,
) -> fmt::Result {
    let below: u64 = times.counts.iter().sum();
    let mut buckets = [(f64::INFINITY, 0); 32];
    let used = buckets.get_mut(..=N).ok_or(fmt::Error)?;
    for (to, (edge, count)) in used.iter_mut().zip(edges.iter().zip(times.counts)) {
        *to = (*edge as f64 / 1e6, count);
    }
    if let Some(last) = used.last_mut() {
        *last = (f64::INFINITY, times.count.saturating_sub(below));
    }
    encoder.encode_histogram::<NoLabelSet>(times.sum_us / 1e6, times.count, used, None)
}

impl Families {
    /// Encodes one metric for every origin and operation of every member.
    fn cells(
        &self,
        mut encoder: MetricEncoder,
        mut encode: impl FnMut(&CellTotals, MetricEncoder) -> fmt::Result,
    ) -> fmt::Result {
        for (key, member) in &self.0.totals.members {
            let slot = slot_text(key.2);
            for ((origin, op), cell) in &member.cells {
                let [array, member, slot] = member_labels(key, &slot);
                let labels = [
                    array,
                    member,
                    slot,
                    label("origin", origin.name()),
                    label("op", op.name()),
                ];
                encode(cell, encoder.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn members(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let requests = encoder.encode_descriptor(
            "raidtrace_member_requests",
            "Requests completed by a member, by the origin of their first bio",
            None,
            MetricType::Counter,
        )?;
        self.cells(requests, |c, mut e| counter(&mut e, c.requests))?;
        let bytes = encoder.encode_descriptor(
            "raidtrace_member",
            "Bytes of requests completed by a member",
            Some(&Unit::Bytes),
            MetricType::Counter,
        )?;
        self.cells(bytes, |c, mut e| counter(&mut e, c.bytes))?;
        let device = encoder.encode_descriptor(
            "raidtrace_member_device",
            "Time from the issue of a request to its completion; the sum is estimated",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        self.cells(device, |c, e| seconds(&c.device, &DEVICE_EDGES, e))?;
        let queue = encoder.encode_descriptor(
            "raidtrace_member_queue",
            "Time from the allocation of a request to its issue; the sum is estimated",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        self.cells(queue, |c, e| seconds(&c.queue, &QUEUE_EDGES, e))?;
        let mut busy = encoder.encode_descriptor(
            "raidtrace_member_busy",
            "Time with at least one request in flight (io_ticks)",
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?;
        for (key, member) in &self.0.totals.members {
            let slot = slot_text(key.2);
            let labels = member_labels(key, &slot);
            let mut one = busy.encode_family(&labels)?;
            one.encode_counter::<NoLabelSet, _, f64>(&member.busy.as_secs_f64(), None)?;
        }
        let mut in_flight = encoder.encode_descriptor(
            "raidtrace_member_in_flight_requests",
            "Requests in flight at the end of the last interval",
            None,
            MetricType::Gauge,
        )?;
        for (key, member) in &self.0.totals.members {
            if let Some(requests) = member.in_flight {
                let slot = slot_text(key.2);
                let labels = member_labels(key, &slot);
                in_flight.encode_family(&labels)?.encode_gauge(&requests)?;
            }
        }
        let mut up = encoder.encode_descriptor(
            "raidtrace_member_up",
            "1 if the member is in the array and in sync",
            None,
            MetricType::Gauge,
        )?;
        for (key, member) in &self.0.totals.members {
            let slot = slot_text(key.2);
            let labels = member_labels(key, &slot);
            up.encode_family(&labels)?
                .encode_gauge(&u32::from(member.is_up))?;
        }
        Ok(())
    }

    fn arrays(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let arrays = &self.0.totals.arrays;
        let mut info = encoder.encode_descriptor(
            "raidtrace_array",
            "A traced array, or a plain disk as an array of one",
            None,
            MetricType::Info,
        )?;
        for (name, array) in arrays {
            let (chunk, disks) = (
                array.info.chunk_bytes.to_string(),
                array.info.disks.to_string(),
            );
            info.encode_info(&[
                label("array", name),
                label("level", &array.info.level),
                label("chunk_bytes", &chunk),
                label("disks", &disks),
            ])?;
        }
        let states = || {
            arrays
                .iter()
                .filter_map(|(n, a)| Some((n, a.state.as_ref()?)))
        };
        let mut up = encoder.encode_descriptor(
            "raidtrace_array_up",
            "1 if the array is running",
            None,
            MetricType::Gauge,
        )?;
        for (name, array) in arrays {
            up.encode_family(&[label("array", name)])?
                .encode_gauge(&u32::from(array.state.is_some()))?;
        }
        let mut missing = encoder.encode_descriptor(
            "raidtrace_array_missing_members",
            "Number of missing members (md/degraded)",
            None,
            MetricType::Gauge,
        )?;
        for (name, state) in states() {
            missing
                .encode_family(&[label("array", name)])?
                .encode_gauge(&state.degraded)?;
        }
        let mut sync = encoder.encode_descriptor(
            "raidtrace_array_sync_ratio",
            "Progress of the running resync, recovery, check, repair or reshape, 0 to 1",
            None,
            MetricType::Gauge,
        )?;
        for (name, state) in states() {
            if let (Some(action), Some((done, all))) = (&state.sync_action, state.sync_completed)
                && action != "idle"
                && all > 0
            {
                sync.encode_family(&[label("array", name), label("action", action)])?
                    .encode_gauge(&(done as f64 / all as f64))?;
            }
        }
        let mut submitted = encoder.encode_descriptor(
            "raidtrace_array_submitted",
            "Bytes submitted to the array by tasks",
            Some(&Unit::Bytes),
            MetricType::Counter,
        )?;
        for (name, array) in arrays {
            for ((origin, op), bytes) in &array.submitted {
                counter(
                    &mut submitted.encode_family(&io(name, *origin, *op))?,
                    *bytes,
                )?;
            }
        }
        let mut stripe = encoder.encode_descriptor(
            "raidtrace_array_parity",
            "Member IO that RAID 4/5/6 adds to writes, by the origin that caused it",
            Some(&Unit::Bytes),
            MetricType::Counter,
        )?;
        for (name, array) in arrays {
            for (origin, costs) in &array.costs {
                for (kind, bytes) in [("parity", costs.parity), ("rmw_read", costs.rmw_read)] {
                    let labels = [
                        label("array", name),
                        label("origin", origin.name()),
                        label("kind", kind),
                    ];
                    counter(&mut stripe.encode_family(&labels)?, bytes)?;
                }
            }
        }
        Ok(())
    }

    fn findings(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let arrays = &self.0.totals.arrays;
        let mut amplification = encoder.encode_descriptor(
            "raidtrace_amplification_ratio",
            "Bytes moved by the members per byte submitted, over the last 10 s",
            None,
            MetricType::Gauge,
        )?;
        for (name, array) in arrays {
            for (origin, op, factor) in &array.amplification {
                amplification
                    .encode_family(&io(name, *origin, *op))?
                    .encode_gauge(factor)?;
            }
        }
        let mut skew = encoder.encode_descriptor(
            "raidtrace_hotspot_skew",
            "Load of the busiest member over the mean of all, over the last 10 s",
            None,
            MetricType::Gauge,
        )?;
        for (name, array) in arrays {
            for (origin, op, value) in &array.skews {
                skew.encode_family(&io(name, *origin, *op))?
                    .encode_gauge(value)?;
            }
        }
        let mut headline = encoder.encode_descriptor(
            "raidtrace_headline",
            "The hot spot of an array, without its figures",
            None,
            MetricType::Info,
        )?;
        for (name, array) in arrays {
            let Some(hotspot) = &array.hotspot else {
                continue;
            };
            // Each combination of labels is a separate series in Prometheus: include names only for warnings.
            let is_warning = hotspot.severity == hotspot::Severity::Warning;
            let origins = hotspot.origins.iter().filter(|_| is_warning);
            let origins: Vec<&str> = origins.map(|o| o.name()).collect();
            let members = match is_warning {
                true => hotspot.members.join(","),
                false => String::new(),
            };
            headline.encode_info(&[
                label("array", name),
                label("kind", hotspot.kind.name()),
                label("severity", hotspot.severity.name()),
                label("origins", &origins.join(",")),
                label("op", hotspot.op.map_or("", Op::name)),
                label("members", &members),
            ])?;
        }
        Ok(())
    }

    fn tasks(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let tasks = &self.0.totals.tasks;
        if tasks.is_empty() {
            return Ok(());
        }
        let mut bytes = encoder.encode_descriptor(
            "raidtrace_task_submitted",
            "Bytes submitted by tasks, by task name",
            Some(&Unit::Bytes),
            MetricType::Counter,
        )?;
        for ((array, task, origin, op), sum) in tasks {
            let [array, origin, op] = io(array, *origin, *op);
            let labels = [array, label("task", task), origin, op];
            counter(&mut bytes.encode_family(&labels)?, sum.bytes)?;
        }
        Ok(())
    }
}

fn io<'a>(array: &'a str, origin: Origin, op: Op) -> [Label<'a>; 3] {
    [
        label("array", array),
        label("origin", origin.name()),
        label("op", op.name()),
    ]
}

fn counter(encoder: &mut MetricEncoder, value: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.members(&mut encoder)?;
        self.arrays(&mut encoder)?;
        self.findings(&mut encoder)?;
        self.tasks(&mut encoder)?;
        own::encode(&self.0, &mut encoder)
    }
}
