//! `--json`: one object per interval, each on its own line (schema `raidtrace.slow/1`). Names and meaning of fields never change.

use std::io::{self, Write};

use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::recording::slow::Interval;
use crate::ui::json::write_line;

/// Writes `snapshot` as one line and flushes it.
pub fn write(out: &mut impl Write, snapshot: &SlowSnapshot) -> io::Result<()> {
    write_line(out, &Interval::new(snapshot))
}
