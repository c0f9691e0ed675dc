//! Two recordings and their comparison.

use std::path::Path;

use crate::analysis::compare::differences::Comparison;
use crate::analysis::compare::series::Series;
use crate::recording::gather::Report;

pub struct ComparedRecording<'a> {
    /// As typed by the user.
    pub path: &'a Path,
    pub report: Report,
    pub series: Series,
}

pub struct Compared<'a> {
    /// The recordings before and after.
    pub recordings: [ComparedRecording<'a>; 2],
    pub comparison: Comparison,
    /// Facts that limit the comparison, one sentence each.
    pub notes: Vec<String>,
}
