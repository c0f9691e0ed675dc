//! Output of `--search` for XFS: text, 80 columns wide, or JSON (schema raidtrace.layout-search/1).

use std::io::{self, Write};

use serde_json::{Value, json};

use super::comparison::factor;
use super::table::{self, wrapped};
use crate::analysis::placement::report;
use crate::analysis::placement::search::agsizes::{
    AgSizeCandidate, AgSizeOptions, much_better, recommended,
};
use crate::analysis::placement::{Skews, Target, UNEVEN_FROM};
use crate::ui::text;

/// Width of the column with the options.
const OPTIONS: usize = 36;

/// Sizes of allocation groups on an array.
pub struct AgSizes<'a> {
    /// Filesystem and array, for the heading.
    pub target: &'a Target,
    /// Candidates, the best first.
    pub all: &'a [AgSizeCandidate],
    /// Index of the candidate with only the user's options.
    pub base: usize,
    /// All options of mkfs.xfs of a candidate, which may be none.
    pub words: &'a dyn Fn(AgSizeOptions) -> String,
    /// Number of disks after growing, and the skews of each candidate on the grown array.
    pub grown: Option<(u32, Vec<Skews>)>,
}

impl AgSizes<'_> {
    /// Skew that `--check` compares.
    pub fn worst(&self) -> f64 {
        self.all[recommended(self.all, self.base)].skews.worst()
    }

    /// Options of a candidate.
    fn words(&self, candidate: &AgSizeCandidate) -> String {
        (self.words)(candidate.options)
    }

    fn command(&self) -> String {
        let words = self.words(&self.all[recommended(self.all, self.base)]);
        match words.as_str() {
            "" => "mkfs.xfs DEVICE".to_owned(),
            words => format!("mkfs.xfs {words} DEVICE"),
        }
    }

    fn reason(&self) -> String {
        let (at, base) = (recommended(self.all, self.base), &self.all[self.base]);
        let best = &self.all[at];
        if at == self.base {
            let worst = best.skews.worst();
            return if worst < UNEVEN_FROM {
                format!(
                    "no change needed: the worst skew is {}",
                    factor(Some(worst))
                )
            } else {
                "no agsize is better: try another number of disks or another chunk".to_owned()
            };
        }
        let names = self.all[at].fs.figures().names;
        let change = |name: &str, from: Option<f64>, to: Option<f64>| {
            much_better(from, to)
                .then(|| format!("{name} {} instead of {}", factor(to), factor(from)))
        };
        let changes = [
            change(names[0], base.skews.allocation, best.skews.allocation),
            change(names[1], base.skews.inodes, best.skews.inodes),
        ];
        let changes: Vec<String> = changes.into_iter().flatten().collect();
        changes.join(", ")
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
        let mut head = text::left("  options", OPTIONS) + " headers  inodes  groups   chunks";
        if let Some((disks, _)) = &self.grown {
            head.push_str(&format!("{:>10}", format!("{disks} disks")));
        }
        out.push(head);
        let best = recommended(self.all, self.base);
        let chunk = self.target.array.geometry.chunk_sectors().unwrap_or(1);
        for (i, c) in self.all.iter().enumerate() {
            let words = self.words(c);
            let name = match words.as_str() {
                "" => "(defaults)",
                words => words,
            };
            let mark = if i == best { "> " } else { "  " };
            let name = text::clean(&format!("{mark}{name}")).into_owned();
            let mut line = format!(
                "{}{:>8}{:>8}{:>8}{:>9}",
                text::left(text::cut(&name, OPTIONS).as_ref(), OPTIONS),
                factor(c.skews.allocation),
                factor(c.skews.inodes),
                c.count,
                c.sectors / chunk,
            );
            if let Some((_, grown)) = &self.grown {
                let worst = grown.get(i).map(|s| s.worst());
                line.push_str(&format!("{:>10}", factor(worst)));
            }
            out.push(line);
        }
        out.push(String::new());
        let advice = format!("{}: {}", self.command(), self.reason());
        out.extend(wrapped("> ", &advice));
        if best != self.base {
            let warning = "for a new filesystem only: mkfs destroys the content of the device";
            out.extend(wrapped("  ", warning));
        }
        if let Some((disks, _)) = &self.grown {
            let last = format!(
                "last column: worst skew of array and filesystem grown to {disks} disks; agsize stays"
            );
            out.extend(wrapped("  ", &last));
        }
        for note in report::notes(self.target) {
            out.extend(wrapped("note: ", note));
        }
        out
    }

    /// The comparison as a JSON object.
    pub fn object(&self) -> Value {
        let geometry = &self.target.array.geometry;
        let best = recommended(self.all, self.base);
        let keys = self.all[best].fs.figures().keys;
        let skews =
            |s: &Skews| json!({keys[0]: s.allocation, keys[1]: s.inodes, "worst": s.worst()});
        let candidate = |(i, c): (usize, &AgSizeCandidate)| {
            let grown = self.grown.as_ref().and_then(|(_, g)| g.get(i));
            json!({
                "options": self.words(c),
                "recommended": i == best,
                "base": i == self.base,
                "skew": skews(&c.skews),
                "skew_grown": grown.map(skews),
                "allocation_groups": c.count,
                "agsize_bytes": c.sectors * 512,
            })
        };
        json!({
            "schema": "raidtrace.layout-search/1",
            "level": geometry.level().name(),
            "disks": geometry.disks(),
            "chunk_bytes": geometry.chunk_sectors().unwrap_or(0) * 512,
            "bytes": self.target.fs.bytes(),
            "grow_to": self.grown.as_ref().map(|g| g.0),
            "candidates": self.all.iter().enumerate().map(candidate).collect::<Vec<_>>(),
            "command": self.command(),
            "reason": self.reason(),
            "notes": report::notes(self.target).collect::<Vec<_>>(),
        })
    }
}
