//! Output of `--search`: text, 80 columns wide, or JSON (schema raidtrace.layout-search/1).

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Value, json};

use super::json::{SkewsByFigure, main_skews};
use super::table::{self, wrapped};
use crate::analysis::placement::search::agsizes::much_better;
use crate::analysis::placement::{MIN_UNEVEN_SKEW, Skews, Target};
use crate::analysis::units;
use crate::raid::Geometry;
use crate::ui::text;

/// Options of mkfs on an array, as `--search` prints them.
pub struct SearchResults<'a> {
    /// Filesystem and array, for the heading.
    pub target: &'a Target,
    /// `mkfs.ext4` or `mkfs.xfs`.
    pub program: &'static str,
    /// Width of the column with the options, and the headings of the columns with figures.
    pub columns: (usize, &'static str),
    /// Candidates to show, the best first.
    pub rows: Vec<CandidateRow>,
    /// Index of the row with only the user's options.
    pub base: usize,
    pub best: usize,
    /// Reason to keep the user's options although they are uneven.
    pub none_better: &'static str,
    /// Number of disks after growing, and a remark on the skews of the grown filesystem.
    pub grown: Option<(u32, &'static str)>,
    /// Limits of the figures.
    pub notes: Vec<String>,
}

pub struct CandidateRow {
    /// Options of mkfs; empty for its defaults.
    pub options: String,
    pub skews: Skews,
    /// Skews on the grown array.
    pub grown: Option<Skews>,
    /// Columns with figures.
    pub cells: String,
    /// Costs of the options, in words.
    pub costs: Vec<String>,
    pub figures: CandidateFigures,
}

impl SearchResults<'_> {
    /// Skew that `--check` compares.
    pub fn worst(&self) -> f64 {
        self.rows[self.best].skews.worst()
    }

    fn command(&self) -> String {
        match self.rows[self.best].options.as_str() {
            "" => format!("{} DEVICE", self.program),
            options => format!("{} {options} DEVICE", self.program),
        }
    }

    /// Reason for the recommendation.
    fn reason(&self) -> String {
        let (base, best) = (&self.rows[self.base].skews, &self.rows[self.best].skews);
        if self.best == self.base {
            let worst = best.worst();
            return if worst < MIN_UNEVEN_SKEW {
                let worst = factor(Some(worst));
                format!("no change needed: the worst skew is {worst}")
            } else {
                self.none_better.to_owned()
            };
        }
        let [allocation, inodes] = self.target.fs.figures().names;
        let changes =
            [(allocation, base.allocation, best.allocation), (inodes, base.inodes, best.inodes)];
        let changes = changes.into_iter().filter(|c| much_better(c.1, c.2));
        let words = changes
            .map(|(name, from, to)| format!("{name} {} instead of {}", factor(to), factor(from)));
        words.collect::<Vec<_>>().join(", ")
    }

    pub fn lines(&self) -> Vec<String> {
        let about = table::about(self.target);
        let mut out: Vec<String> = about.iter().flat_map(|l| wrapped("", l)).collect();
        out.push(String::new());
        let (width, head) = self.columns;
        let mut head = text::left("  options", width) + head;
        if let Some((disks, _)) = self.grown {
            head.push_str(&format!("{:>10}", format!("{disks} disks")));
        }
        out.push(head);
        for (i, row) in self.rows.iter().enumerate() {
            let name = match row.options.as_str() {
                "" => "(defaults)",
                options => options,
            };
            let mark = if i == self.best { "> " } else { "  " };
            let name = format!("{mark}{}", text::clean(name));
            let mut line = text::left(&name, width) + &row.cells;
            if self.grown.is_some() {
                let worst = row.grown.map(|s| s.worst());
                line.push_str(&format!("{:>10}", factor(worst)));
            }
            out.push(line);
        }
        out.push(String::new());
        let advice = format!("{}: {}", self.command(), self.reason());
        out.extend(wrapped("> ", &advice));
        for word in &self.rows[self.best].costs {
            out.extend(wrapped("  costs: ", word));
        }
        if self.best != self.base {
            out.extend(wrapped("  ", NEW_ONLY));
        }
        if let Some((disks, remark)) = self.grown {
            let last = format!(
                "last column: worst skew of array and filesystem grown to {disks} disks{remark}"
            );
            out.extend(wrapped("  ", &last));
        }
        out.extend(self.notes.iter().flat_map(|n| wrapped("note: ", n)));
        out
    }

    /// The comparison as a JSON object.
    pub fn object(&self) -> Value {
        let geometry = &self.target.array.geometry;
        let skews = |skews: &Skews| main_skews(&self.target.fs, skews);
        let candidate = |(i, row): (usize, &CandidateRow)| CandidateJson {
            options: row.options.clone(),
            recommended: i == self.best,
            base: i == self.base,
            skew: skews(&row.skews),
            skew_grown: row.grown.as_ref().map(skews),
            figures: row.figures.clone(),
        };
        json!(SearchJson {
            schema: "raidtrace.layout-search/1",
            level: geometry.level().name(),
            disks: geometry.disks(),
            chunk_bytes: geometry.chunk_sectors().unwrap_or(0) * 512,
            bytes: self.target.fs.bytes(),
            grow_to: self.grown.map(|g| g.0),
            candidates: self.rows.iter().enumerate().map(candidate).collect(),
            command: self.command(),
            reason: self.reason(),
            notes: &self.notes,
        })
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SearchJson<'a> {
    schema: &'a str,
    level: &'a str,
    disks: u32,
    chunk_bytes: u64,
    bytes: u64,
    grow_to: Option<u32>,
    candidates: Vec<CandidateJson>,
    command: String,
    reason: String,
    notes: &'a [String],
}

/// Options of mkfs, with their skews and other figures.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CandidateJson {
    options: String,
    recommended: bool,
    /// True for the user's own options.
    base: bool,
    skew: SkewsByFigure,
    skew_grown: Option<SkewsByFigure>,
    #[serde(flatten)]
    figures: CandidateFigures,
}

// No doc comment: schemars would make it that of the candidate.
#[derive(Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum CandidateFigures {
    /// mkfs.ext4.
    Ext4 {
        /// Share of the groups that start on a chunk, 0 to 1.
        aligned: f64,
        groups: u32,
        groups_per_flex: u32,
        inodes: u64,
        /// Size to which the filesystem can grow while mounted; 0 if it cannot.
        grows_to_bytes: u64,
        flex_group_bytes: u64,
        costs: Vec<String>,
        score: f64,
    },
    /// mkfs.xfs.
    Xfs { allocation_groups: u64, agsize_bytes: u64 },
}

/// Refuses a search on an array without chunks.
pub fn check_striped(geometry: &Geometry) -> Result<()> {
    if geometry.disks() < 2 || geometry.chunk_sectors().is_none() {
        bail!(
            "--search requires a striped array: {} has no chunks (--level, --disks)",
            geometry.level()
        );
    }
    Ok(())
}

/// Remark on a recommended command.
pub const NEW_ONLY: &str = "for a new filesystem only: mkfs destroys the content of the device";

/// A skew with two decimals.
pub fn factor(skew: Option<f64>) -> String {
    match skew {
        Some(s) if s < 9.995 => format!("{s:.2}x"),
        other => units::factor(other),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<super::SearchJson<'_>>("raidtrace.layout-search/1");
    }
}
