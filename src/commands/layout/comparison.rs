//! Output of `--search`: text, 80 columns wide, or JSON (schema raidtrace.layout-search/1).

use std::io::{self, Write};

use serde_json::{Value, json};

use super::table::{self, wrapped};
use crate::analysis::placement::report;
use crate::analysis::placement::search::Candidate;
use crate::analysis::placement::{Skews, Target, UNEVEN_FROM};
use crate::analysis::units;
use crate::ui::text;

/// Number of candidates to show.
const SHOWN: usize = 5;
/// Minimum gain in score to recommend other options than the user's.
const MIN_GAIN: f64 = 0.15;

/// Candidates for a filesystem on an array.
pub struct Comparison<'a> {
    /// Filesystem and array, for the heading.
    pub target: &'a Target,
    /// Candidates, the best first.
    pub all: &'a [Candidate],
    /// Index of the candidate with only the user's options.
    pub base: usize,
    /// A note if the skews do not cover the whole filesystem.
    pub counted: Option<&'static str>,
    /// Number of disks after growing, and the skews of each candidate of [`shown`] on the grown array.
    pub grown: Option<(u32, Vec<Skews>)>,
}

/// Indices of the candidates to show: the best, and the base.
pub fn shown(all: &[Candidate], base: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..all.len().min(SHOWN)).collect();
    if !rows.contains(&base) {
        rows.push(base);
    }
    rows
}

impl Comparison<'_> {
    /// Index of the recommended candidate: the base, unless another candidate is much better.
    pub fn recommended(&self) -> usize {
        let gain = self.all[self.base].score() - self.all[0].score();
        if gain < MIN_GAIN { self.base } else { 0 }
    }

    /// Reason for the recommendation.
    fn reason(&self) -> String {
        let (at, base) = (self.recommended(), &self.all[self.base]);
        let best = &self.all[at];
        if at == self.base {
            let worst = best.skews.worst();
            return if worst < UNEVEN_FROM {
                format!(
                    "no change needed: the worst skew is {}",
                    factor(Some(worst))
                )
            } else {
                "no options are better: try another number of disks or another chunk".to_owned()
            };
        }
        let change = |name: &str, from: Option<f64>, to: Option<f64>| {
            let better = from? - to? > 0.1;
            better.then(|| format!("{name} {} instead of {}", factor(to), factor(from)))
        };
        let changes: Vec<String> = [
            change("bitmaps", base.skews.allocation, best.skews.allocation),
            change("inode tables", base.skews.inodes, best.skews.inodes),
        ]
        .into_iter()
        .flatten()
        .collect();
        changes.join(", ")
    }

    /// The mkfs.ext4 command of the recommendation.
    fn command(&self) -> String {
        match self.all[self.recommended()].options.words().as_str() {
            "" => "mkfs.ext4 DEVICE".to_owned(),
            options => format!("mkfs.ext4 {options} DEVICE"),
        }
    }

    /// Writes the table and the recommendation.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in self.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        let mut out: Vec<String> = table::about(self.target)
            .iter()
            .flat_map(|l| wrapped("", l))
            .collect();
        out.push(String::new());
        let mut head = text::left("  options", 29) + "bitmaps  tables aligned    groups    flex";
        if let Some((disks, _)) = &self.grown {
            head.push_str(&format!("  {disks} disks"));
        }
        out.push(head);
        let best = self.recommended();
        for (row, &i) in shown(self.all, self.base).iter().enumerate() {
            let c = &self.all[i];
            let words = c.options.words();
            let name = if i == self.base && words.is_empty() {
                "(defaults)".to_owned()
            } else {
                words
            };
            let mark = if i == best { "> " } else { "  " };
            let mut line = format!(
                "{}{:>7} {:>7} {:>7} {:>9} {:>7}",
                text::left(&format!("{mark}{name}"), 29),
                factor(c.skews.allocation),
                factor(c.skews.inodes),
                units::percent(c.costs.aligned),
                c.costs.groups,
                c.costs.per_flex,
            );
            if let Some((_, grown)) = &self.grown {
                let worst = grown.get(row).map(|s| s.worst());
                line.push_str(&format!("{:>10}", factor(worst)));
            }
            out.push(line);
        }
        out.push(String::new());
        let advice = format!("{}: {}", self.command(), self.reason());
        out.extend(wrapped("> ", &advice));
        for word in &self.all[best].costs.words {
            out.extend(wrapped("  costs: ", word));
        }
        if best != self.base {
            let warning = "for a new filesystem only: mkfs destroys the content of the device";
            out.extend(wrapped("  ", warning));
        }
        if let Some((disks, _)) = &self.grown {
            let last =
                format!("last column: worst skew of array and filesystem grown to {disks} disks");
            out.extend(wrapped("  ", &last));
        }
        for note in self.notes() {
            out.extend(wrapped("note: ", note));
        }
        out
    }

    fn notes(&self) -> impl Iterator<Item = &str> {
        let notes = report::notes(self.target).map(String::as_str);
        notes.chain(self.counted)
    }

    /// The comparison as a JSON object.
    pub fn object(&self) -> Value {
        let geometry = &self.target.array.geometry;
        let best = self.recommended();
        let skews = |s: &Skews| json!({"bitmaps": s.allocation, "inode_table_heads": s.inodes, "worst": s.worst()});
        let rows = shown(self.all, self.base);
        let candidates: Vec<Value> = rows
            .iter()
            .enumerate()
            .map(|(row, &i)| {
                let c = &self.all[i];
                let grown = self.grown.as_ref().and_then(|(_, g)| g.get(row));
                json!({
                    "options": c.options.words(),
                    "recommended": i == best,
                    "base": i == self.base,
                    "skew": skews(&c.skews),
                    "skew_grown": grown.map(skews),
                    "aligned": c.costs.aligned,
                    "groups": c.costs.groups,
                    "groups_per_flex": c.costs.per_flex,
                    "inodes": c.costs.inodes,
                    "grows_to_bytes": c.costs.grows_to,
                    "flex_group_bytes": c.costs.flex_bytes,
                    "costs": c.costs.words,
                    "score": c.score(),
                })
            })
            .collect();
        json!({
            "schema": "raidtrace.layout-search/1",
            "level": geometry.level().name(),
            "disks": geometry.disks(),
            "chunk_bytes": geometry.chunk_sectors().unwrap_or(0) * 512,
            "bytes": self.target.fs.bytes(),
            "grow_to": self.grown.as_ref().map(|g| g.0),
            "candidates": candidates,
            "command": self.command(),
            "reason": self.reason(),
            "notes": self.notes().collect::<Vec<_>>(),
        })
    }
}

/// A skew with two decimals.
pub fn factor(skew: Option<f64>) -> String {
    match skew {
        Some(s) if s < 9.995 => format!("{s:.2}x"),
        other => units::factor(other),
    }
}
