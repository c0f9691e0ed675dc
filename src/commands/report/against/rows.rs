//! Rows of the comparison's tables, for text and HTML.

use crate::analysis::compare::change::{Change, Figure, Subject};
use crate::analysis::compare::words::{difference_short, value};
use crate::origin::io_name;

pub struct Row {
    /// Subject: `sdc`, `block_bitmap write`. Untrusted.
    pub subject: String,
    /// Figure: `busy`, `read p99`.
    pub figure: String,
    pub before: String,
    pub after: String,
    /// `-51 points (-55 to -47)`, or `noise (-1 to +2)`.
    pub difference: String,
    pub is_significant: bool,
}

impl Row {
    pub fn new(change: &Change) -> Self {
        let unit = change.figure.unit();
        Self {
            subject: subject(&change.subject),
            figure: figure(change),
            before: value(unit, change.estimate.before),
            after: value(unit, change.estimate.after),
            difference: difference_short(change),
            is_significant: change.is_significant(),
        }
    }
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Load | Subject::Array => String::new(),
        Subject::Member { before, after, .. } if before == after => after.clone(),
        Subject::Member { slot: Some(slot), before, after } => {
            format!("{slot}: {before} -> {after}")
        }
        Subject::Member { before, after, .. } => format!("{before} -> {after}"),
        Subject::Origin(origin, op) => format!("{} {op}", io_name(*origin, *op)),
        Subject::Task(name) | Subject::File(name) => name.clone(),
        Subject::Operation(name) => (*name).to_owned(),
    }
}

fn figure(change: &Change) -> String {
    let label = change.figure.label();
    match (change.figure.op(), &change.subject) {
        // The subject has the operation.
        (None, _) | (_, Subject::Origin(..)) => label.to_owned(),
        (Some(op), _) => format!("{op} {label}"),
    }
}

/// A section of the comparison of an array.
pub struct Section {
    pub title: &'static str,
    pub rows: Vec<Row>,
    /// Number of further figures that differ beyond noise, and that do not.
    pub more: (usize, usize),
    /// True if the recordings are too short to tell a difference from noise.
    pub untested: bool,
}

/// Maximum number of rows of a section that is not shown whole, without those of utilisation.
const ROWS: usize = 12;
/// With at most this many members, each has a row for its utilisation, unless more important ones
/// fill the section.
const MEMBERS: usize = 16;

/// Sections of `changes`, which are in the order of importance. Sections without a figure are left
/// out.
pub fn sections(changes: &[Change]) -> Vec<Section> {
    type Keep = fn(&Change) -> bool;
    let all: [(&'static str, bool, Keep); 6] = [
        ("Load, submitted to the array", true, |c| c.subject == Subject::Load),
        ("Array", true, |c| c.subject == Subject::Array),
        ("Members", false, |c| matches!(c.subject, Subject::Member { .. })),
        ("Origins, on all members", false, |c| matches!(c.subject, Subject::Origin(..))),
        ("Tasks, submitted", false, |c| matches!(c.subject, Subject::Task(_))),
        ("Files, submitted", false, |c| matches!(c.subject, Subject::File(_))),
    ];
    let sections = all.into_iter().filter_map(|(title, whole, keep)| {
        let own: Vec<&Change> = changes.iter().filter(|c| keep(c)).collect();
        (!own.is_empty()).then(|| section(title, whole, &own))
    });
    sections.collect()
}

/// A section with all of `changes`, or else with those that differ and the utilisation of the
/// members.
pub fn section(title: &'static str, whole: bool, changes: &[&Change]) -> Section {
    let busy = changes.iter().filter(|c| c.figure == Figure::Utilisation);
    let few_members = busy.count() <= MEMBERS;
    let untested = changes.iter().all(|c| c.estimate.p.is_none());
    let shown = |c: &&&Change| {
        let busy = few_members && c.figure == Figure::Utilisation;
        whole || untested || busy || c.is_significant()
    };
    let mut shown: Vec<&Change> = changes.iter().filter(shown).copied().collect();
    let busy = shown.iter().filter(|c| c.figure == Figure::Utilisation);
    shown.truncate(if whole { usize::MAX } else { ROWS + busy.count() });
    let is_shown = |c: &&&Change| shown.iter().any(|s| std::ptr::eq(*s, **c));
    let rest: Vec<&Change> = changes.iter().filter(|c| !is_shown(c)).copied().collect();
    let different = rest.iter().filter(|c| c.is_significant()).count();
    Section {
        title,
        rows: shown.into_iter().map(Row::new).collect(),
        more: (different, rest.len() - different),
        untested,
    }
}

impl Section {
    /// `and 12 figures without a difference beyond noise`; `None` if everything is shown.
    pub fn rest(&self) -> Option<String> {
        match self.more {
            (0, 0) => None,
            (_, n) if self.untested => Some(format!("and {n} more")),
            (0, 1) => Some("and 1 figure without a difference beyond noise".to_owned()),
            (0, n) => Some(format!("and {n} figures without a difference beyond noise")),
            (d, n) => {
                Some(format!("and {} more, {d} of which differ beyond noise", d.saturating_add(n)))
            }
        }
    }
}
