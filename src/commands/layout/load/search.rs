//! `--search --load`: options of mkfs by the load of a recording.

use std::path::Path;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::findings::{array_words, busiest, percent};
use super::mkfs::Options;
use super::pass::{Laid, Pass};
use super::plan::Plan;
use super::source::Source;
use crate::address::ArraySector;
use crate::analysis::placement::Filesystem;
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::placement::search::Search;
use crate::analysis::placement::search::agsizes::{self, AgSizeOptions};
use crate::analysis::placement::target::{Target, TargetArray, whole};
use crate::analysis::relocate::{Direction, Figures};
use crate::commands::layout::found::{NEW_ONLY, check_striped};
use crate::commands::layout::table::wrapped;
use crate::mke2fs::Conf;
use crate::recording::reader::Reader;
use crate::ui::text;

/// Number of candidates, taken from the static search, whose load is computed.
const CANDIDATES: usize = 12;
/// Number of candidates to show, apart from the user's options.
const SHOWN: usize = 6;
/// Minimum gain, as a share of the busiest member's time, to recommend other options than the
/// user's.
const MIN_GAIN: f64 = 0.05;

/// A candidate and its load.
struct Row {
    plan: Plan,
    is_base: bool,
    /// Share of the requests on the busiest member: reads, writes.
    shares: [f64; 2],
    /// Share of the bytes on the busiest member.
    bytes: f64,
    /// Estimated device time of the busiest member, seconds.
    seconds: f64,
}

/// Candidates, the best first.
pub struct Found {
    path: String,
    rows: Vec<Row>,
    /// The recording itself: shares of requests and bytes, seconds.
    recorded: ([f64; 2], f64, f64),
    even: f64,
    array: String,
    notes: Vec<String>,
}

/// Computes the load of the candidates in one pass.
///
/// # Errors
/// The recording cannot be laid out, or mkfs would refuse the user's options.
pub fn run(
    array: &ArrayOptions,
    path: &Path,
    reader: Reader,
    source: &Source,
    options: &Options,
    conf: &Conf,
) -> Result<Found> {
    let base = Plan::new(source, array, options, conf).map_err(|e| anyhow!(e))?;
    let geometry = base.geometry.clone();
    check_striped(&geometry)?;
    let options = candidates(source, &base, conf)?;
    let mut plans = vec![base];
    let planned = |options: &Options| Plan::new(source, array, options, conf).ok();
    plans.extend(options.iter().filter_map(planned));
    let mut pass = Pass::new(source, &plans)?;
    let mut notes = pass.read(reader).map_err(|why| anyhow!("{}: {why}", path.display()))?;
    let laid = pass.finish();
    notes.extend(plans.first().into_iter().flat_map(|base| base.notes(source)));
    notes.push(format!(
        "the {} best of the static search are compared; layout --load with the options of one \
         shows its tables and the limits of the model",
        plans.len() - 1
    ));
    let recorded = figures(&laid, &laid.recorded);
    let mut rows: Vec<Row> = plans
        .into_iter()
        .zip(&laid.planned)
        .enumerate()
        .map(|(i, (plan, planned))| {
            let (shares, bytes, seconds) = figures(&laid, planned);
            Row { plan, is_base: i == 0, shares, bytes, seconds }
        })
        .collect();
    // The sort is stable: the static search decides between equals.
    rows.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(Found {
        path: path.display().to_string(),
        rows,
        recorded,
        even: 1.0 / f64::from(geometry.disks()),
        array: array_words(&geometry),
        notes,
    })
}

/// The best candidates by static counts, other than the user's options.
fn candidates(source: &Source, base: &Plan, conf: &Conf) -> Result<Vec<Options>> {
    let target = Target {
        name: source.name.clone(),
        fs: base.fs.clone(),
        segments: whole(ArraySector(base.start)),
        array: TargetArray {
            name: None,
            geometry: base.geometry.clone(),
            members: Vec::new(),
            options: ArrayOptions::default(),
        },
        notes: Vec::new(),
    };
    let bytes = base.fs.bytes();
    let all: Vec<Options> = match &base.options {
        Options::Ext4(options) => {
            let search = Search::on(&target, bytes, options, conf);
            let (all, _) = search.run().map_err(|e| anyhow!(e))?;
            all.into_iter().map(|c| Options::Ext4(c.options)).collect()
        }
        Options::Xfs(options) => {
            let with =
                |choice: AgSizeOptions| Options::Xfs(options.with(choice.agsize, choice.no_align));
            let plan =
                |choice| -> Result<Filesystem, String> { base.made(&with(choice), bytes, conf) };
            let (all, _) = agsizes::compare(&target, &plan).map_err(|e| anyhow!(e))?;
            all.into_iter().map(|c| with(c.options)).collect()
        }
    };
    let others = all.into_iter().filter(|o| *o != base.options);
    Ok(others.take(CANDIDATES).collect())
}

/// Shares of the busiest member, and its device time.
fn figures(laid: &Laid, figures: &Figures) -> ([f64; 2], f64, f64) {
    let share = |sums: Vec<u64>| busiest(&sums).map_or(0.0, |b| b.1);
    let sums = Direction::BOTH.map(|d| figures.by_member(d));
    let shares = [0, 1].map(|d: usize| share(sums[d].iter().map(|s| s.requests).collect()));
    let both = sums[0].iter().zip(&sums[1]);
    let bytes = share(both.map(|(r, w)| r.bytes.saturating_add(w.bytes)).collect());
    let seconds = laid.service.seconds(figures);
    (shares, bytes, seconds.into_iter().fold(0.0, f64::max))
}

impl Found {
    /// Index of the recommendation: the user's options, unless others are clearly better.
    fn recommended(&self) -> usize {
        let base = self.rows.iter().position(|r| r.is_base).unwrap_or(0);
        let gain = self.rows[base].seconds - self.rows[0].seconds;
        if gain < MIN_GAIN * self.rows[base].seconds { base } else { 0 }
    }

    fn shown(&self) -> Vec<usize> {
        let shown = |(i, row): &(usize, &Row)| *i < SHOWN || row.is_base;
        self.rows.iter().enumerate().filter(shown).map(|(i, _)| i).collect()
    }

    fn reason(&self) -> String {
        let (best, base) = (&self.rows[self.recommended()], self.rows.iter().find(|r| r.is_base));
        let Some(base) = base.filter(|base| !std::ptr::eq(*base, best)) else {
            return "no other options lower the load of the busiest member".to_owned();
        };
        format!(
            "the busiest member has {} of the writes instead of {}, and {:.1} s of device time \
             instead of {:.1} s",
            percent(best.shares[1]),
            percent(base.shares[1]),
            best.seconds,
            base.seconds
        )
    }

    pub fn lines(&self) -> Vec<String> {
        let about = format!("{}: on the busiest member, planned on {}", self.path, self.array);
        let mut out = wrapped("", &about);
        out.push(String::new());
        out.push(text::left("  options", 33) + "   reads   writes    bytes  device time");
        let line = |name: &str, shares: [f64; 2], bytes: f64, seconds: f64| {
            format!(
                "{}{:>8} {:>8} {:>8} {:>10.1} s",
                text::left(name, 33),
                percent(shares[0]),
                percent(shares[1]),
                percent(bytes),
                seconds
            )
        };
        let (shares, bytes, seconds) = self.recorded;
        out.push(line("  (recorded)", shares, bytes, seconds));
        let best = self.recommended();
        for i in self.shown() {
            let row = &self.rows[i];
            let words = match row.plan.words.as_str() {
                "" => "(defaults)",
                words => words,
            };
            let mark = if i == best { "> " } else { "  " };
            let name = format!("{mark}{words}");
            out.push(line(&name, row.shares, row.bytes, row.seconds));
        }
        let even = percent(self.even);
        out.push(line("  (even)", [self.even; 2], self.even, 0.0).replace("0.0 s", "     "));
        out.push(String::new());
        let advice =
            format!("{} DEVICE: {}", self.rows[best].plan.options.command(), self.reason());
        out.extend(wrapped("> ", &advice));
        if !self.rows[best].is_base {
            out.extend(wrapped("  ", NEW_ONLY));
        }
        let explained = format!(
            "shares of all requests and bytes, even is {even}; device time is estimated from the \
             mean by operation and size in this recording"
        );
        out.extend(wrapped("", &explained));
        for note in &self.notes {
            out.extend(wrapped("note: ", note));
        }
        out
    }

    pub fn object(&self) -> Value {
        let best = self.recommended();
        let busiest = |shares: [f64; 2], bytes: f64, seconds: f64| {
            json!({
                "read_share": shares[0],
                "write_share": shares[1],
                "bytes_share": bytes,
                "device_seconds": seconds,
            })
        };
        let (shares, bytes, seconds) = self.recorded;
        let candidates: Vec<Value> = self
            .shown()
            .into_iter()
            .map(|i| {
                let row = &self.rows[i];
                json!({
                    "options": row.plan.words,
                    "recommended": i == best,
                    "base": row.is_base,
                    "busiest": busiest(row.shares, row.bytes, row.seconds),
                })
            })
            .collect();
        json!({
            "schema": "raidtrace.layout-load-search/1",
            "recording": self.path,
            "array": self.array,
            "even_share": self.even,
            "recorded": busiest(shares, bytes, seconds),
            "candidates": candidates,
            "command": self.rows[best].plan.options.command() + " DEVICE",
            "reason": self.reason(),
            "notes": self.notes,
        })
    }
}
