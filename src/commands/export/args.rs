//! Arguments of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::recording::dataset_name::DatasetName;
use crate::ui::typed::DatasetParser;

/// Format of the exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Apache Parquet, zstd
    Parquet,
    /// Comma-separated values, with a header
    Csv,
    /// One JSON object per line, without null fields
    Ndjson,
    /// A trace for ui.perfetto.dev: requests, counters, tasks, slow operations
    Perfetto,
    /// An I/O log that fio replays: what was submitted to one array
    Fio,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// A recording; several with --dataset
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Format of the output
    #[arg(short, long, value_name = "FORMAT")]
    pub format: Format,

    /// Output file, written as OUT.new and renamed when it is complete; - is standard output
    #[arg(short, long, value_name = "OUT", required_unless_present = "dataset")]
    pub output: Option<PathBuf>,

    /// Add the recordings to the partitioned Parquet dataset in the directory DIR, which is
    /// created, or in s3://BUCKET/PREFIX; a longer copy of a recording replaces a shorter one. Only
    /// with -f parquet
    #[arg(
        long,
        value_name = "DIR|URL",
        value_parser = DatasetParser,
        value_hint = ValueHint::DirPath,
        conflicts_with_all = ["output", "force"],
    )]
    pub dataset: Option<DatasetName>,

    /// Array to export with -f fio; needed if the recording has several
    #[arg(long, value_name = "NAME")]
    pub array: Option<String>,

    /// Start of the exported period, with -f perfetto or fio: 11:47, +10, -30, or a full time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,

    /// End of the exported period
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,

    /// Replace OUT if it exists, once the new file is complete
    #[arg(long)]
    pub force: bool,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  raidtrace export incident.rtrace -f parquet -o incident.parquet
  raidtrace export *.rtrace -f parquet --dataset fleet   tables for DuckDB, Spark: docs/dataset.md
  raidtrace export *.rtrace -f parquet --dataset s3://BUCKET/fleet   keys: AWS_ACCESS_KEY_ID ...
  raidtrace export incident.rtrace -f ndjson -o - | jq -c 'select(.kind == \"request\")'
  raidtrace export incident.rtrace -f perfetto --from 11:47 --to 11:49 -o a.pftrace
  raidtrace export incident.rtrace -f fio --array md127 -o load.iolog  for fio --read_iolog

The rows of parquet, csv and ndjson are those of the recording: docs/recording.md. The other
formats: docs/export.md. Exit status: 0 done, 1 failed or the recording is damaged (everything
readable has been written), 2 usage.";
