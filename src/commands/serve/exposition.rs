//! The totals as metrics: OpenMetrics text, or Prometheus' older text format for clients that do
//! not accept OpenMetrics.
//!
//! Metric names are a stable interface, documented in docs/serve.md.

mod cgroups;
mod own;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::totals::{
    ArrayTotals, DEVICE_EDGES, MemberKey, MemberTotals, QUEUE_EDGES, Times, Totals,
};
use super::tracing::FlightNow;
use crate::analysis::figures::{self, CountedUnit};
use crate::analysis::hotspot;
use crate::machine::own::OwnUse;
use crate::origin::{Op, Origin};
use crate::ui::text::clean;

/// Values that the metrics are computed from.
#[derive(Clone, Debug, Default)]
pub struct MetricValues {
    pub totals: Totals,
    pub flight: FlightNow,
    /// CPU time and memory of this process.
    pub own: OwnUse,
    pub connections: u64,
}

/// The metrics as OpenMetrics text.
///
/// # Errors
/// None: writing to a `String` cannot fail.
pub fn open_metrics(figures: MetricValues) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let cells: usize = figures.totals.members.values().map(|m| m.cells.len()).sum();
    registry.register_collector(Box::new(Arc::new(Families(figures))));
    let mut text = String::with_capacity(4096 + cells * 4096);
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Converts OpenMetrics text to version 0.0.4 of Prometheus' text format: names of counters and
/// infos include their suffix, and UNIT and EOF lines are removed.
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

type Label<'a> = (&'static str, Cow<'a, str>);

/// Label with a value that is safe on a terminal: arrays, members and tasks have names that users
/// choose.
fn label<'a>(name: &'static str, value: impl Into<Cow<'a, str>>) -> Label<'a> {
    let value = value.into();
    if let Cow::Owned(safe) = clean(&value) {
        return (name, safe.into());
    }
    (name, value)
}

/// Labels of a member; the slot of a spare is empty.
fn member_labels<'a>((array, member, slot): &'a MemberKey) -> [Label<'a>; 3] {
    let slot = slot.map_or_else(String::new, |slot| slot.to_string());
    [label("array", array), label("member", member), label("slot", slot)]
}

/// Labels of IO submitted to an array.
fn io<'a>(array: &'a str, origin: Origin, op: Op) -> [Label<'a>; 3] {
    [label("array", array), label("origin", origin.name()), label("op", op.name())]
}

/// Encodes a gauge for each set of labels.
fn gauges<'a, const N: usize, V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = ([Label<'a>; N], V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

/// Encodes a counter for each set of labels.
fn counters<'a, const N: usize, V: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder,
    (name, unit): (&str, Option<Unit>),
    help: &str,
    values: impl IntoIterator<Item = ([Label<'a>; N], V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
    for (labels, value) in values {
        counter(&mut family.encode_family(&labels)?, value)?;
    }
    Ok(())
}

/// The text with a capital letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn counter(encoder: &mut MetricEncoder, value: impl EncodeCounterValue) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

/// Encodes a histogram of times for each set of labels.
fn histograms<'a, const N: usize, const M: usize>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    edges: &[u64; N],
    values: impl IntoIterator<Item = ([Label<'a>; M], &'a Times<N>)>,
) -> fmt::Result {
    let unit = Some(&Unit::Seconds);
    let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    for (labels, times) in values {
        let below: u64 = times.counts.iter().sum();
        let edges = edges.iter().map(|edge| *edge as f64 / 1e6);
        let last = (f64::INFINITY, times.count.saturating_sub(below));
        let buckets: Vec<(f64, u64)> = edges.zip(times.counts).chain([last]).collect();
        let mut family = family.encode_family(&labels)?;
        family.encode_histogram::<NoLabelSet>(times.sum_us / 1e6, times.count, &buckets, None)?;
    }
    Ok(())
}

#[derive(Debug)]
struct Families(MetricValues);

impl Families {
    fn members(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let members = || self.0.totals.members.iter();
        let of_member = |(key, member)| (member_labels(key), member);
        let cells = || {
            members().flat_map(|(key, member): (_, &MemberTotals)| {
                member.cells.iter().map(move |((origin, op), cell)| {
                    let [array, member, slot] = member_labels(key);
                    let [_, origin, op] = io("", *origin, *op);
                    ([array, member, slot, origin, op], cell)
                })
            })
        };
        counters(
            encoder,
            ("raidtrace_member_requests", None),
            "Requests completed by a member, by the origin of their first bio",
            cells().map(|(labels, cell)| (labels, cell.requests)),
        )?;
        counters(
            encoder,
            ("raidtrace_member", Some(Unit::Bytes)),
            "Bytes of requests completed by a member",
            cells().map(|(labels, cell)| (labels, cell.bytes)),
        )?;
        histograms(
            encoder,
            "raidtrace_member_device",
            "Time from the issue of a request to its completion; the sum is estimated",
            &DEVICE_EDGES,
            cells().map(|(labels, cell)| (labels, &cell.device)),
        )?;
        histograms(
            encoder,
            "raidtrace_member_queue",
            "Time from the allocation of a request to its issue; the sum is estimated",
            &QUEUE_EDGES,
            cells().map(|(labels, cell)| (labels, &cell.queue)),
        )?;
        for (at, figure) in figures::COUNTED.iter().enumerate() {
            let each = members().flat_map(|(key, member)| {
                member.counted.iter().map(move |(op, counted)| {
                    let [array, member, slot] = member_labels(key);
                    ([array, member, slot, label("op", op.name())], counted.0[at])
                })
            });
            let (name, help) = (format!("raidtrace_member_{}", figure.name), capital(figure.help));
            let seconds = |(labels, ns)| (labels, ns as f64 / 1e9);
            match figure.unit {
                CountedUnit::Events => counters(encoder, (&name, None), &help, each)?,
                CountedUnit::TimeOf(_) => {
                    counters(encoder, (&name, Some(Unit::Seconds)), &help, each.map(seconds))?;
                }
            }
        }
        counters(
            encoder,
            ("raidtrace_member_busy", Some(Unit::Seconds)),
            "Time with at least one request in flight (io_ticks)",
            members().map(of_member).map(|(labels, m)| (labels, m.busy.as_secs_f64())),
        )?;
        gauges(
            encoder,
            "raidtrace_member_in_flight_requests",
            "Requests in flight at the end of the last interval",
            members().map(of_member).filter_map(|(labels, m)| Some((labels, m.in_flight?))),
        )?;
        gauges(
            encoder,
            "raidtrace_member_up",
            "1 if the member is in the array and in sync",
            members().map(of_member).map(|(labels, m)| (labels, u32::from(m.is_up))),
        )
    }

    fn arrays(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let arrays = &self.0.totals.arrays;
        let mut info = encoder.encode_descriptor(
            "raidtrace_array",
            "A traced array, or a plain disk as an array of one",
            None,
            MetricType::Info,
        )?;
        for (name, ArrayTotals { info: array, .. }) in arrays {
            info.encode_info(&[
                label("array", name),
                label("level", &array.level),
                label("chunk_bytes", array.chunk_bytes.to_string()),
                label("disks", array.disks.to_string()),
            ])?;
        }
        let states = || {
            let states = arrays.iter();
            states.filter_map(|(name, array)| Some((label("array", name), array.state.as_ref()?)))
        };
        gauges(
            encoder,
            "raidtrace_array_up",
            "1 if the array is running",
            arrays.iter().map(|(name, a)| ([label("array", name)], u32::from(a.state.is_some()))),
        )?;
        gauges(
            encoder,
            "raidtrace_array_missing_members",
            "Number of missing members (md/degraded)",
            states().map(|(array, state)| ([array], state.degraded)),
        )?;
        gauges(
            encoder,
            "raidtrace_array_sync_ratio",
            "Progress of the running resync, recovery, check, repair or reshape, 0 to 1",
            states().filter_map(|(array, state)| {
                let action = state.sync_action.as_deref().filter(|a| *a != "idle")?;
                let (done, all) = state.sync_completed.filter(|(_, all)| *all > 0)?;
                Some(([array, label("action", action)], done as f64 / all as f64))
            }),
        )?;
        counters(
            encoder,
            ("raidtrace_array_submitted", Some(Unit::Bytes)),
            "Bytes submitted to the array by tasks",
            arrays.iter().flat_map(|(name, array)| {
                let each = array.submitted.iter();
                each.map(move |((origin, op), bytes)| (io(name, *origin, *op), *bytes))
            }),
        )?;
        counters(
            encoder,
            ("raidtrace_array_parity", Some(Unit::Bytes)),
            "Member IO that RAID 4/5/6 adds to writes, by the origin that caused it",
            arrays.iter().flat_map(|(name, array)| {
                array.costs.iter().flat_map(move |(origin, costs)| {
                    [("parity", costs.parity), ("rmw_read", costs.rmw_read)].map(|(kind, bytes)| {
                        let [array, origin, _] = io(name, *origin, Op::Write);
                        ([array, origin, label("kind", kind)], bytes)
                    })
                })
            }),
        )
    }

    fn findings(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let arrays = &self.0.totals.arrays;
        let ratios = |of: fn(&ArrayTotals) -> &[(Origin, Op, f64)]| {
            arrays.iter().flat_map(move |(name, array)| {
                let each = of(array).iter();
                each.map(move |(origin, op, ratio)| (io(name, *origin, *op), *ratio))
            })
        };
        gauges(
            encoder,
            "raidtrace_amplification_ratio",
            "Bytes moved by the members per byte submitted, over the last 10 s",
            ratios(|array| &array.amplification),
        )?;
        gauges(
            encoder,
            "raidtrace_hotspot_skew",
            "Load of the busiest member over the mean of all, over the last 10 s",
            ratios(|array| &array.skews),
        )?;
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
            // Each combination of labels is a separate series in Prometheus: include names only for
            // warnings.
            let is_warning = hotspot.severity == hotspot::HotspotSeverity::Warning;
            let origins: Vec<&str> =
                hotspot.origins.iter().filter(|_| is_warning).map(|o| o.name()).collect();
            let members = match is_warning {
                true => hotspot.members.join(","),
                false => String::new(),
            };
            headline.encode_info(&[
                label("array", name),
                label("kind", hotspot.kind.to_string()),
                label("severity", hotspot.severity.to_string()),
                label("origins", origins.join(",")),
                label("op", hotspot.op.map_or("", Op::name)),
                label("members", members),
            ])?;
        }
        let mut info = encoder.encode_descriptor(
            "raidtrace_verdict",
            "Severity and cause of what tasks wait for",
            None,
            MetricType::Info,
        )?;
        let verdicts = || arrays.iter().filter_map(|(name, a)| Some((name, a.verdict.as_ref()?)));
        for (name, verdict) in verdicts() {
            info.encode_info(&[
                label("array", name),
                label("severity", verdict.severity.to_string()),
                label("cause", verdict.cause.kind.to_string()),
            ])?;
        }
        gauges(
            encoder,
            "raidtrace_wait_seconds",
            "Mean time of a read or write that tasks waited for, over the last 3 s",
            verdicts().map(|(name, v)| ([label("array", name)], v.waiting.us as f64 / 1e6)),
        )?;
        let hung = arrays.iter().filter_map(|(name, a)| Some((name, a.hung_ms?)));
        gauges(
            encoder,
            "raidtrace_hung_task_seconds",
            "Time for which a task that used the array has not run, asleep in the kernel: the \
             longest",
            hung.map(|(name, ms)| ([label("array", name)], ms as f64 / 1e3)),
        )?;
        let slow = self.0.totals.fail_slow.iter();
        gauges(
            encoder,
            "raidtrace_member_fail_slow_ratio",
            "Time of a member over that of its peers at the same throughput, of one that is slower",
            slow.map(|(array, of)| {
                ([label("array", array), label("member", &of.member)], of.ratio)
            }),
        )
    }

    fn tasks(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let tasks = &self.0.totals.tasks;
        if tasks.is_empty() {
            return Ok(());
        }
        counters(
            encoder,
            ("raidtrace_task_submitted", Some(Unit::Bytes)),
            "Bytes submitted by tasks, by task name",
            tasks.iter().map(|((array, task, origin, op), sum)| {
                let [array, origin, op] = io(array, *origin, *op);
                ([array, label("task", task), origin, op], sum.bytes)
            }),
        )
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.members(&mut encoder)?;
        self.arrays(&mut encoder)?;
        self.findings(&mut encoder)?;
        self.tasks(&mut encoder)?;
        cgroups::encode(&self.0.totals.cgroups, &mut encoder)?;
        own::encode(&self.0, &mut encoder)
    }
}
