//! Columns and what rows are sorted by.

/// What a view can be sorted by, and its tables' columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its title")]
pub enum Column {
    Slot,
    Name,
    Reads,
    Writes,
    Flushes,
    Discards,
    Others,
    Bytes,
    Causes,
    InFlight,
    Busy,
    BusyOver,
    Trend,
    P50,
    P99,
    Origin,
    Op,
    Skew,
    Total,
    Pid,
    Comm,
    Role,
    Cgroup,
    Share,
    Filesystem,
    Path,
    Requests,
    QueueP50,
    QueueP99,
    QueueMax,
    DeviceP50,
    DeviceP99,
    DeviceMax,
    Submitted,
    Data,
    Parity,
    PreRead,
    MdBitmap,
    MdJournal,
    Below,
    Factor,
}

impl Column {
    /// As the heading says it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Name => "member",
            Self::Reads => "r/s",
            Self::Writes => "w/s",
            Self::Flushes => "f/s",
            Self::Discards => "d/s",
            Self::Others => "else",
            Self::Bytes => "MiB/s",
            Self::Causes => "causes",
            Self::InFlight => "infl",
            Self::Busy => "util",
            Self::BusyOver => "mean", // with its time, see `table::heading`
            Self::Trend => "util trend",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Origin => "origin",
            Self::Op => "op",
            Self::Skew => "skew",
            Self::Total => "total",
            Self::Pid => "pid",
            Self::Comm => "comm",
            Self::Role => "role",
            Self::Cgroup => "cgroup",
            Self::Share => "share",
            Self::Filesystem => "fs",
            Self::Path => "path",
            Self::Requests => "req/s",
            Self::QueueP50 => "q p50",
            Self::QueueP99 => "q p99",
            Self::QueueMax => "q max",
            Self::DeviceP50 => "d p50",
            Self::DeviceP99 => "d p99",
            Self::DeviceMax => "d max",
            Self::Submitted => "in",
            Self::Data => "data",
            Self::Parity => "parity",
            Self::PreRead => "pre-rd",
            Self::MdBitmap => "bitmap",
            Self::MdJournal => "journl",
            Self::Below => "below",
            Self::Factor => "factor",
        }
    }

    /// Whether it sorts upwards unless reversed: names do, figures show the largest first.
    pub fn is_name(self) -> bool {
        use Column::{Cgroup, Comm, Filesystem, Name, Op, Origin, Path, Pid, Role, Slot};
        matches!(
            self,
            Slot | Name | Origin | Op | Pid | Comm | Role | Cgroup | Filesystem | Path
        )
    }
}

/// What rows are compared by.
#[derive(Clone, Debug, PartialEq)]
pub enum SortKey {
    /// A figure; what was not measured sorts below every one.
    Number(f64),
    /// A name, in the order people expect: `loop2` before `loop10`.
    Text(String),
}

impl SortKey {
    pub(super) fn measured(us: Option<u64>) -> Self {
        Self::Number(us.map_or(-1.0, |us| us as f64))
    }

    pub(super) fn name(name: &str) -> Self {
        let mut out = String::new();
        let mut digits = String::new();
        for c in name.chars().chain(['\0']) {
            if c.is_ascii_digit() {
                digits.push(c);
                continue;
            }
            if !digits.is_empty() {
                out.push_str(&format!("{digits:0>20}"));
                digits.clear();
            }
            out.push(c);
        }
        Self::Text(out)
    }

    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => std::cmp::Ordering::Less,
            (Self::Text(_), Self::Number(_)) => std::cmp::Ordering::Greater,
        }
    }
}

/// A row that can be sorted by a column.
pub trait Row {
    /// What it is compared by.
    fn key(&self, column: Column) -> SortKey;
}

/// Sorts by `column`; rows that are equal keep their order, also in reverse.
pub fn sort<R: Row>(rows: &mut [R], column: Column, reversed: bool) {
    let upwards = column.is_name() != reversed;
    rows.sort_by(|a, b| {
        let order = a.key(column).cmp(&b.key(column));
        if upwards { order } else { order.reverse() }
    });
}
