//! The comparison as text, 80 columns, and as JSON (schema raidtrace.layout-search/1).

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::analysis::placement::report;
use crate::analysis::placement::search::Candidate;
use crate::analysis::placement::target::Target;
use crate::analysis::placement::words::STANDS_OUT;
use crate::analysis::units;
use crate::commands::layout::table;
use crate::commands::layout::table::wrapped;
use crate::ui::text;

/// That many are shown.
const SHOWN: usize = 5;
/// Less than this is no reason to type anything.
const WORTH_IT: f64 = 0.15;

/// What was found, for a filesystem on an array.
pub struct Found<'a> {
    /// The filesystem without further options, for the header.
    pub target: &'a Target,
    /// The best first.
    pub all: &'a [Candidate],
    /// Which one has nothing but what was typed.
    pub base: usize,
    /// One line on what the skews leave out, if anything.
    pub counted: Option<&'static str>,
    /// Disks after growing, and the skews of each of `shown` then.
    pub grown: Option<(u32, Vec<crate::analysis::placement::Skews>)>,
}

/// Those that are shown: the best, and what was typed.
pub fn shown(all: &[Candidate], base: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..all.len().min(SHOWN)).collect();
    if !rows.contains(&base) {
        rows.push(base);
    }
    rows
}

impl Found<'_> {
    /// The one to take: what was typed, if nothing is much better.
    pub fn recommended(&self) -> usize {
        let gain = self.all[self.base].score() - self.all[0].score();
        if gain < WORTH_IT { self.base } else { 0 }
    }

    /// Why that one.
    fn reason(&self) -> String {
        let (at, base) = (self.recommended(), &self.all[self.base]);
        let best = &self.all[at];
        if at == self.base {
            return if best.skews.worst() < STANDS_OUT {
                format!(
                    "nothing to gain: the worst skew is {}",
                    factor(Some(best.skews.worst()))
                )
            } else {
                "nothing that was tried is better: another number of disks or another chunk may be"
                    .to_owned()
            };
        }
        let change = |name: &str, from: Option<f64>, to: Option<f64>| {
            let moved = from? - to? > 0.1;
            moved.then(|| format!("{name} {} instead of {}", factor(to), factor(from)))
        };
        let changes: Vec<String> = [
            change("bitmaps", base.skews.bitmaps, best.skews.bitmaps),
            change("inode tables", base.skews.tables, best.skews.tables),
        ]
        .into_iter()
        .flatten()
        .collect();
        changes.join(", ")
    }

    /// The command.
    fn command(&self) -> String {
        let words = self.all[self.recommended()].options.words();
        format!(
            "mkfs.ext4 {words}{}DEVICE",
            if words.is_empty() { "" } else { " " }
        )
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
                factor(c.skews.bitmaps),
                factor(c.skews.tables),
                units::percent(c.costs.aligned),
                c.costs.groups,
                c.costs.per_flex,
            );
            if let Some((_, grown)) = &self.grown {
                line.push_str(&format!(
                    "{:>10}",
                    factor(grown.get(row).map(|s| s.worst()))
                ));
            }
            out.push(line);
        }
        out.push(String::new());
        out.extend(wrapped(
            "> ",
            &format!("{}: {}", self.command(), self.reason()),
        ));
        for word in &self.all[best].costs.words {
            out.extend(wrapped("  costs: ", word));
        }
        if best != self.base {
            out.extend(wrapped(
                "  ",
                "only for a filesystem that is yet to be made: mkfs destroys what is on the device",
            ));
        }
        if let Some((disks, _)) = &self.grown {
            out.extend(wrapped(
                "  ",
                &format!("last column: the worst skew after growing to {disks} disks, the filesystem with them"),
            ));
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

    /// The object.
    pub fn object(&self) -> Value {
        let geometry = &self.target.array.geometry;
        let best = self.recommended();
        let skews = |s: &crate::analysis::placement::Skews| json!({"bitmaps": s.bitmaps, "inode_table_heads": s.tables, "worst": s.worst()});
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
                    "typed": i == self.base,
                    "skew": skews(&c.skews),
                    "skew_grown": grown.map(skews),
                    "aligned": c.costs.aligned,
                    "groups": c.costs.groups,
                    "groups_per_flex": c.costs.per_flex,
                    "inodes": c.costs.inodes,
                    "grows_to_bytes": c.costs.grows_to,
                    "together_bytes": c.costs.together,
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

fn factor(skew: Option<f64>) -> String {
    match skew {
        Some(s) if s < 9.995 => format!("{s:.2}x"),
        other => units::factor(other),
    }
}
