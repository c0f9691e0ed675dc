//! Arguments of `inventory`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::recording::dataset_name::DatasetName;
use crate::ui::completion;
use crate::ui::typed::DatasetParser;

/// Arguments of `inventory`.
#[derive(Args, Debug)]
pub struct InventoryArgs {
    /// Array, member, disk, partition or mount point; default: every running md array, or the
    /// disks with a mounted filesystem if there is none
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    /// Add the rows to the partitioned Parquet dataset in the directory DIR, which is created, or
    /// in s3://BUCKET/PREFIX, instead of printing them
    #[arg(
        long,
        value_name = "DIR|URL",
        value_parser = DatasetParser,
        value_hint = ValueHint::DirPath,
        conflicts_with = "targets",
    )]
    pub dataset: Option<DatasetName>,

    /// Add the lines that `inventory` printed on other hosts, instead of those of this one; - is
    /// standard input
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        requires = "dataset",
    )]
    pub load: Vec<PathBuf>,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace inventory | jq -c 'select(.kind == \"finding\")'
  sudo raidtrace inventory --dataset /mnt/fleet
  ssh db1 sudo raidtrace inventory | raidtrace inventory --load - --dataset fleet
  raidtrace inventory --load hosts/*.jsonl --dataset fleet

One JSON object a line (schema raidtrace.inventory/1) for the host, each array, member, filesystem
and finding of doctor. It reads sysfs, /proc and superblocks, and changes nothing. The same lines
again change nothing in a dataset: docs/dataset.md.

Exit status: 0 done, 1 failed or a line could not be read (the others have been added), 2 usage.";
