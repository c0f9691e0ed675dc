//! Arguments of `why`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::ui::completion;
use crate::ui::typed::time;

/// Arguments of `why`.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// Array, member, disk, partition or mount point; default: every md array that holds a mounted
    /// filesystem, or else every running one, or else every disk that holds one
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    /// Watch for this time
    #[arg(short, long, value_name = "TIME", default_value = "15s", value_parser = time)]
    pub duration: Duration,

    /// Read this recording instead of watching; needs no root
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "duration"])]
    pub replay: Option<PathBuf>,

    /// Start of the period of the recording: 11:47, 2026-11-22T11:47:30Z, -5m (before the end)
    #[arg(long, value_name = "TIME", requires = "replay", allow_hyphen_values = true)]
    pub from: Option<String>,

    /// End of the period
    #[arg(long, value_name = "TIME", requires = "replay", allow_hyphen_values = true)]
    pub to: Option<String>,

    /// One JSON object (schema raidtrace.why/1)
    #[arg(long)]
    pub json: bool,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace why                     all md arrays in use, or all disks if there is none
  sudo raidtrace why /srv                the array or disk under the mount point /srv
  sudo raidtrace why /srv -d 60s         watch for a minute
  raidtrace why --replay night.rtrace --from 02:00 --to 02:15

It compares with the calm time that it has seen itself: without one (an incident that began
earlier), only waits of 100 ms and more are slow.

Exit status: 0 fast, 1 failed, 2 usage, 3 slow, 4 stalled.";
