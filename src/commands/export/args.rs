//! Arguments of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Format of the exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Apache Parquet, zstd
    Parquet,
    /// Comma-separated values, with a header
    Csv,
    /// One JSON object per line, without null fields
    Ndjson,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct Export {
    /// A recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Format,

    /// Output file, written as OUT.new and renamed when it is complete; - is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,

    /// Replace OUT if it exists, once the new file is complete
    #[arg(long)]
    pub force: bool,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  raidtrace export incident.rtrace -f parquet -o incident.parquet
  raidtrace export incident.rtrace -f ndjson -o - | jq -c 'select(.kind == \"request\")'

The columns are those of the recording: docs/recording.md. Exit status: 0 done, 1 failed or the
recording is damaged (all readable rows have been written), 2 usage.";
