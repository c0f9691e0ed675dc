//! Figures and sentences of the output: text, 80 columns wide, or JSON (schema
//! raidtrace.layout-load/1).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::pass::{LoadPass, OPS};
use super::plan::LoadPlan;
use crate::analysis::placement::Target;
use crate::analysis::placement::spread::skew;
use crate::analysis::relocate::MemberLoad;
use crate::analysis::traffic::IoSum;
use crate::analysis::units::{self, percent};
use crate::commands::layout::json::PlacementSizes;
use crate::commands::layout::table::{about, array_words, wrapped};
use crate::origin::{Op, Origin, plural};
use crate::ui::text;

const ASSUMED: [&str; 2] = [
    "each flex group or allocation group keeps its share of the filesystem, each block its offset \
     among those of its kind in its group, and each request its size and device time",
    "md writes as much parity, and reads as much for it, as was recorded; reads of mirrors are \
     spread evenly",
];
const NOT_PREDICTED: &str = "other places that the filesystem would choose: by another hash or \
     alignment, or because a group is full; more or fewer metadata writes, where directories \
     share or no longer share a bitmap, a header or a block of inodes; other merging of requests, \
     latency under the changed load, and reads that a cache would save; parity and the reads for \
     it, if the recorded array has none, and more or less of both with another chunk or number \
     of disks";

/// Result of laying a recording onto a plan.
pub struct Findings<'a> {
    /// Name of the recording.
    pub path: String,
    pub plan: &'a LoadPlan,
    pub pass: &'a LoadPass<'a>,
    /// Losses, and data that a column does not include.
    pub notes: Vec<String>,
}

/// Share of the member with the most, 0 to 1.
fn busiest(members: &[MemberLoad], figure: impl Fn(&MemberLoad) -> u64) -> f64 {
    let most = members.iter().map(&figure).max().unwrap_or(0);
    most as f64 / total(members.iter().map(figure)).max(1) as f64
}

fn total(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

impl Findings<'_> {
    /// Members, recorded and planned.
    fn columns(&self) -> [&[MemberLoad]; 2] {
        [&self.pass.recorded, &self.pass.lane.members]
    }

    /// The operation whose recorded requests are most uneven.
    fn op(&self) -> Op {
        let requests = |op| self.pass.recorded.iter().map(move |member| member.requests(op));
        let mean = |op| total(requests(op)) / self.pass.recorded.len().max(1) as u64;
        let excess = |op: &Op| requests(*op).max().unwrap_or(0) - mean(*op);
        OPS.into_iter().max_by_key(excess).unwrap_or(Op::Write)
    }

    /// The finding in one sentence.
    fn headline(&self) -> String {
        let op = self.op();
        let share = |members| percent(busiest(members, |member| member.requests(op)));
        let even = |members: &[MemberLoad]| {
            let n = members.len();
            format!("{n} members, even is {}", percent(1.0 / n.max(1) as f64))
        };
        let ([recorded, planned], target) = (self.columns(), &self.plan.target);
        let mut with = match self.plan.options.command() {
            (program, words) if words.is_empty() => format!("the defaults of {program}"),
            (_, words) => words,
        };
        if self.plan.is_other_array {
            with.push_str(&format!(" on {}", array_words(&target.array.geometry)));
        }
        let mut what = even(planned);
        if recorded.len() != planned.len() {
            what.push_str(&format!("; recorded on {}", even(recorded)));
        }
        let parities = |target: &Target| target.array.geometry.level().parities();
        if parities(target) > 0 && parities(&self.pass.source.target) == 0 {
            what.push_str("; without parity");
        }
        let (op, planned, recorded) = (plural(op), share(planned), share(recorded));
        format!(
            "With {with} the busiest member would have had {planned} of the {op} instead of \
             {recorded} ({what})"
        )
    }

    /// Origins and operations in any column.
    fn origins(&self) -> BTreeSet<(Origin, Op)> {
        let members = self.columns().into_iter().flatten();
        members.flat_map(|member| member.io.keys().copied()).collect()
    }

    pub fn lines(&self) -> Vec<String> {
        let (columns, op) = (self.columns(), self.op());
        let mut out = vec![format!("{}: {:.1} s", self.path, self.pass.seconds())];
        for (name, target) in
            [("recorded", &self.pass.source.target), ("planned", &self.plan.target)]
        {
            out.push(format!("{name}: {}", about(target).join(" ")));
        }
        out = out.iter().flat_map(|line| wrapped("", line)).collect();
        out.push(String::new());
        out.extend(wrapped("> ", &self.headline()));
        let line = |name: &str, cells: [String; 4]| {
            text::left(name, 26) + &cells.map(|cell| text::right(&cell, 12)).concat()
        };
        let head = |name, figures: [&str; 2]| {
            let titles = figures.map(|figure| text::right(figure, 24)).concat();
            let columns = ["recorded", "planned", "recorded", "planned"].map(str::to_owned);
            [String::new(), text::left("", 26) + &titles, line(name, columns)]
        };
        let share = format!("share of {}", plural(op));
        out.extend(head("slot member", [&share, "share of bytes"]));
        let [a, b] = columns.map(|c| c.iter().map(|m| m.requests(op)).collect::<Vec<_>>());
        let [c, d] = columns.map(|c| c.iter().map(MemberLoad::bytes).collect::<Vec<_>>());
        let figures = [a, b, c, d];
        for slot in 0..columns[0].len().max(columns[1].len()) {
            let name = self.pass.source.target.array.member(slot);
            let shares = figures.each_ref().map(|figure| match figure.get(slot) {
                Some(n) => percent(*n as f64 / total(figure.iter().copied()).max(1) as f64),
                None => "-".to_owned(),
            });
            out.push(line(&format!("{slot:>4} {}", text::clean(name)), shares));
        }
        let [a, b, c, d] = figures.each_ref().map(|figure| total(figure.iter().copied()) as f64);
        let totals =
            [units::count(a), units::count(b), units::bytes_short(c), units::bytes_short(d)];
        out.push(line("     total", totals));
        out.push(line("     skew", figures.map(|f| units::factor(skew(f.into_iter())))));
        out.extend(head("origin", ["requests", "skew of bytes"]));
        for io in self.origins() {
            let sums = columns.map(|members| members.iter().map(move |member| member.sum(io)));
            let requests = |sum: IoSum| sum.requests;
            let [a, b] = sums.clone().map(|s| units::count(total(s.map(requests)) as f64));
            let [c, d] = sums.map(|s| units::factor(skew(s.map(|sum| sum.bytes))));
            out.push(line(&format!("{} {}", io.0, io.1), [a, b, c, d]));
        }
        out.push(String::new());
        out.extend(ASSUMED.iter().flat_map(|word| wrapped("assumed: ", word)));
        out.extend(wrapped("not predicted: ", NOT_PREDICTED));
        out.extend(self.notes.iter().flat_map(|note| wrapped("note: ", note)));
        out
    }

    pub fn object(&self) -> Value {
        let io = |slot: usize, (origin, op): (Origin, Op)| {
            let sum = |members: &[MemberLoad]| {
                members.get(slot).map(|m| m.sum((origin, op))).unwrap_or_default()
            };
            LoadIo { origin, op, sums: BothColumns::new(self.columns().map(sum)) }
        };
        let seconds = |slot| {
            self.columns().map(|members: &[_]| {
                members.get(slot).map(|m: &MemberLoad| m.device_us as f64 / 1e6)
            })
        };
        let member = |slot: usize| LoadMember {
            slot,
            name: self.pass.source.target.array.members.get(slot).map(String::as_str),
            device_seconds: BothColumns::new(seconds(slot)),
            io: self.origins().into_iter().map(|key| io(slot, key)).collect(),
        };
        let skews = |members: &[MemberLoad]| {
            let [read, write] = OPS.map(|op| skew(members.iter().map(|m| m.requests(op))));
            LoadSkews { read, write, bytes: skew(members.iter().map(MemberLoad::bytes)) }
        };
        let (target, columns) = (&self.pass.source.target, self.columns());
        json!(LoadJson {
            schema: "raidtrace.layout-load/1",
            recording: &self.path,
            array: target.array.name.as_deref(),
            filesystem: &target.name,
            seconds: self.pass.seconds(),
            recorded: PlacementSizes::new(target),
            planned: LoadPlanned {
                sizes: PlacementSizes::new(&self.plan.target),
                options: self.plan.options.command().1,
            },
            members: (0..columns.map(<[_]>::len).into_iter().max().unwrap_or(0))
                .map(member)
                .collect(),
            skew: BothColumns::new(columns.map(skews)),
            headline: self.headline(),
            assumptions: ASSUMED,
            not_predicted: [NOT_PREDICTED],
            notes: &self.notes,
        })
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LoadJson<'a> {
    schema: &'a str,
    recording: &'a str,
    array: Option<&'a str>,
    filesystem: &'a str,
    seconds: f64,
    recorded: PlacementSizes,
    planned: LoadPlanned,
    members: Vec<LoadMember<'a>>,
    skew: BothColumns<LoadSkews>,
    headline: String,
    assumptions: [&'a str; 2],
    not_predicted: [&'a str; 1],
    notes: &'a [String],
}

/// A figure as recorded, and on the planned filesystem.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BothColumns<T> {
    recorded: T,
    planned: T,
}

impl<T> BothColumns<T> {
    fn new([recorded, planned]: [T; 2]) -> Self {
        Self { recorded, planned }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LoadPlanned {
    #[serde(flatten)]
    sizes: PlacementSizes,
    /// Options of mkfs.
    options: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LoadMember<'a> {
    slot: usize,
    name: Option<&'a str>,
    /// `null`: the array has no such slot.
    device_seconds: BothColumns<Option<f64>>,
    io: Vec<LoadIo>,
}

/// Requests and bytes of an origin and operation, recorded and planned.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LoadIo {
    origin: Origin,
    op: Op,
    #[serde(flatten)]
    sums: BothColumns<IoSum>,
}

/// Busiest member over the mean, of requests and of bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LoadSkews {
    read: Option<f64>,
    write: Option<f64>,
    bytes: Option<f64>,
}

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<super::LoadJson<'_>>("raidtrace.layout-load/1");
    }
}
