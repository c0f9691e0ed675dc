//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// A recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// From this moment: 11:47 (local time), 11:47:30Z (UTC), "2026-11-20 11:47", 2026-11-20T12:00:30Z,
    /// +30 (seconds from its start), -30 (before its end)
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub from: Option<String>,

    /// Up to this moment
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub to: Option<String>,

    /// One JSON object (schema raidtrace.report/1)
    #[arg(long)]
    pub json: bool,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  raidtrace report incident.rtrace                      all of it, as text
  raidtrace report incident.rtrace --from +10 --to +20  its second ten seconds
  raidtrace report incident.rtrace --from 11:47 --to 11:52   as the clock here showed them
  raidtrace report incident.rtrace --json | jq .arrays

Exit status: 0 done, 1 it failed, or the recording has nothing of that time, 2 usage.";
