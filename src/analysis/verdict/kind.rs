//! A verdict and its parts.

use serde::Serialize;

use crate::printable::show_as_in_json;

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nobody waits long.
    #[default]
    None,
    /// Tasks wait longer than before, or long.
    Slow,
    /// Nothing returns.
    Stalled,
}

/// Kind of the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    #[default]
    None,
    /// Own tasks.
    Load,
    /// The disk itself.
    Member,
    /// Another user of the disk.
    Neighbour,
    Resync,
    CgroupLimit,
    Md,
    Journal,
    /// ext4's search for free blocks.
    Allocator,
    /// A lock of a file or directory.
    Lock,
    Filesystem,
    /// What all disks have in common: adapter, SAN, host.
    Path,
    Unexplained,
}

show_as_in_json!(Severity, CauseKind);

/// The cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cause {
    pub kind: CauseKind,
    /// Name of the member, neighbour, array, task or part of md.
    pub name: String,
    /// Share of the waited time, 0 to 1.
    pub share: f64,
}

/// Who waits, and how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Waiting {
    /// Mean time of a read or write that tasks waited for, seen at the array, µs; or the mean time
    /// that a task sleeps for each of its bios, as the sentence says.
    pub us: u64,
    /// `us` in the calm time before; `None` if it is not known.
    pub before_us: Option<u64>,
    /// Start of the slow time; `None` if it is not known.
    pub since: Option<String>,
    /// Names of tasks that wait.
    pub tasks: Vec<String>,
}

/// A part of the waited time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AccountPart {
    /// `md`, `device`, `device_own`, `device_resync`, `device_neighbour`, `held` or `unexplained`.
    pub part: &'static str,
    pub us: u64,
}

/// Something to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Action {
    /// The change, with its command. Names in it are untrusted bytes.
    pub text: String,
    /// Risk and how to undo it; empty if it changes nothing.
    pub risk: String,
    /// Case in which it should not be done; empty if there is none.
    pub not_when: String,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)?;
        if !self.risk.is_empty() {
            write!(f, " ({})", self.risk)?;
        }
        if !self.not_when.is_empty() {
            write!(f, "; not when {}", self.not_when)?;
        }
        Ok(())
    }
}

/// [`Verdict::certainty`] of a cause that names what is at work.
pub(super) const FULL_CERTAINTY: u8 = 2;

/// Name of a task that ended before its name was read, and start of that of writeback.
pub const ENDED: &str = "an ended task";
pub const WRITEBACK: &str = "writeback of ";

/// True for the name of work whose task is not known.
fn is_unknown(name: &str) -> bool {
    name == ENDED || name.starts_with(WRITEBACK)
}

/// Verdict on an array: how long tasks wait for it, the cause, and what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    pub severity: Severity,
    pub waiting: Waiting,
    pub cause: Cause,
    /// Members that are said to be at fault.
    pub accused: Vec<String>,
    /// One English sentence, without a full stop. Names in it are untrusted bytes.
    pub sentence: String,
    /// Actions, best first; at most three.
    pub actions: Vec<Action>,
    /// Parts that add up to the `us` of `waiting`.
    pub account: Vec<AccountPart>,
    /// True if md or device mapper holds the IO.
    #[serde(skip)]
    pub is_suspended: bool,
    /// The sentence without names of tasks.
    #[serde(skip)]
    pub(super) anonymous: String,
    /// The cause in words, with and without names of tasks.
    #[serde(skip)]
    pub(super) clauses: [String; 2],
}

impl Verdict {
    /// Removes the names of tasks.
    pub fn hide_tasks(&mut self) {
        if self.severity == Severity::None || self.anonymous.is_empty() {
            *self = Self::default(); // the headline has the words
        }
        self.waiting.tasks.clear();
        self.sentence.clone_from(&self.anonymous);
        if self.cause.kind == CauseKind::Load {
            self.cause.name.clear();
            self.actions.clear();
        }
    }

    /// Order of verdicts, the worst last. A cause that was found says more than a longer wait
    /// without one, and a task more than what writes for an unknown one.
    pub(super) fn rank(&self) -> (Severity, u8, u64) {
        (self.severity, self.certainty(), self.waiting.us)
    }

    /// 0 without a cause, 1 for work whose task is not known, else [`FULL_CERTAINTY`].
    pub(super) fn certainty(&self) -> u8 {
        match self.cause.kind {
            CauseKind::Unexplained => 0,
            CauseKind::Load if is_unknown(&self.cause.name) => 1,
            _ => FULL_CERTAINTY,
        }
    }
}
