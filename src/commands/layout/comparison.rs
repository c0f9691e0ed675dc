//! `--search` for ext2, ext3 and ext4.

use super::found::{CandidateFigures, CandidateRow, SearchResults, factor};
use crate::analysis::placement::report;
use crate::analysis::placement::search::Candidate;
use crate::analysis::placement::{Skews, Target};
use crate::analysis::units;

/// Number of candidates to show.
const MAX_SHOWN: usize = 5;
/// Minimum gain in score to recommend other options than the user's.
const MIN_GAIN: f64 = 0.15;

/// Candidates for a filesystem on an array.
pub struct CandidateComparison<'t, 'a> {
    /// Filesystem and array, for the heading.
    pub target: &'t Target,
    /// Candidates, the best first.
    pub all: &'a [Candidate],
    /// Index of the candidate with only the user's options.
    pub base: usize,
    /// A note if the skews do not cover the whole filesystem.
    pub counted: Option<&'static str>,
    /// Number of disks after growing, and the skews of each candidate of [`shown`] on the grown
    /// array.
    pub grown: Option<(u32, Vec<Skews>)>,
}

/// Indices of the candidates to show: the best, and the base.
pub fn shown(all: &[Candidate], base: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..all.len().min(MAX_SHOWN)).collect();
    if !rows.contains(&base) {
        rows.push(base);
    }
    rows
}

impl<'t> CandidateComparison<'t, '_> {
    /// Index of the recommended candidate: the base, unless another candidate is much better.
    pub fn recommended(&self) -> usize {
        let gain = self.all[self.base].score() - self.all[0].score();
        if gain < MIN_GAIN { self.base } else { 0 }
    }

    /// The comparison, ready to print.
    pub fn found(&self) -> SearchResults<'t> {
        let shown = shown(self.all, self.base);
        let position = |wanted| shown.iter().position(|&i| i == wanted).unwrap_or(0);
        let notes = report::notes(self.target).map(String::as_str);
        SearchResults {
            target: self.target,
            program: "mkfs.ext4",
            columns: (29, "bitmaps  tables aligned    groups    flex"),
            rows: (0..).zip(&shown).map(|(i, at)| self.row(i, &self.all[*at])).collect(),
            base: position(self.base),
            best: position(self.recommended()),
            none_better: "no options are better: try another number of disks or another chunk",
            grown: self.grown.as_ref().map(|(disks, _)| (*disks, "")),
            notes: notes.chain(self.counted).map(str::to_owned).collect(),
        }
    }

    fn row(&self, row: usize, c: &Candidate) -> CandidateRow {
        let grown = self.grown.as_ref().and_then(|(_, g)| g.get(row));
        CandidateRow {
            options: c.options.words(),
            skews: c.skews,
            grown: grown.copied(),
            cells: format!(
                "{:>7} {:>7} {:>7} {:>9} {:>7}",
                factor(c.skews.allocation),
                factor(c.skews.inodes),
                units::percent(c.costs.aligned),
                c.costs.groups,
                c.costs.per_flex,
            ),
            costs: c.costs.words.clone(),
            figures: CandidateFigures::Ext4 {
                aligned: c.costs.aligned,
                groups: c.costs.groups,
                groups_per_flex: c.costs.per_flex,
                inodes: c.costs.inodes,
                grows_to_bytes: c.costs.grows_to,
                flex_group_bytes: c.costs.flex_bytes,
                costs: c.costs.words.clone(),
                score: c.score(),
            },
        }
    }
}
