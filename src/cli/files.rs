//! Arguments of the commands that read recordings.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

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

/// What `export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Apache Parquet, zstd
    Parquet,
    /// Comma-separated values, with a header
    Csv,
    /// One JSON object a line, without what is null
    Ndjson,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct Export {
    /// A recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// What to make of it
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Format,

    /// The file to make, as OUT.new until it is whole; - is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,

    /// Replace OUT if it is there, once the new one is whole
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `demo`.
#[derive(Args, Debug)]
pub struct Demo {
    /// Plain text, one block an interval; what a pipe gets
    #[arg(long, conflicts_with = "json")]
    pub batch: bool,

    /// One JSON object an interval and line (schema raidtrace.top/1)
    #[arg(long)]
    pub json: bool,

    /// Seconds an interval lasts (0.1 to 3600)
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = super::seconds)]
    pub interval: Duration,
}

pub(super) const REPORT_EXAMPLES: &str = "Examples:
  raidtrace report incident.rtrace                      all of it, as text
  raidtrace report incident.rtrace --from +10 --to +20  its second ten seconds
  raidtrace report incident.rtrace --from 11:47 --to 11:52   as the clock here showed them
  raidtrace report incident.rtrace --json | jq .arrays

Exit status: 0 done, 1 it failed, or the recording has nothing of that time, 2 usage.";

pub(super) const EXPORT_EXAMPLES: &str = "Examples:
  raidtrace export incident.rtrace -f parquet -o incident.parquet
  raidtrace export incident.rtrace -f ndjson -o - | jq -c 'select(.kind == \"request\")'

The columns are those of the recording: docs/recording.md. Exit status: 0 done, 1 it failed or the
recording is damaged (what was whole has been written), 2 usage.";
