//! Arguments of `top` and `demo`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::replay::demo::names;

use crate::ui::completion;
use crate::ui::live_args::LiveArgs;
use crate::ui::typed::{short_time, time};

/// Arguments of `top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Array, member, disk, partition or mount point; default: every md array that holds a mounted
    /// filesystem, or else every running one, or else every disk that holds one
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    #[command(flatten)]
    pub live: LiveArgs,

    /// End after this time: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,

    /// Show this recording instead of tracing; needs no root
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["targets", "duration", "no_overhead", "dirtied_origins", "slow"],
    )]
    pub replay: Option<PathBuf>,

    /// Start of the period of the recording: 11:47, 2026-11-22T11:47:30Z, +90 (from the start), -5m
    /// (before the end)
    #[arg(long, value_name = "TIME", requires = "replay", allow_hyphen_values = true)]
    pub from: Option<String>,

    /// End of the period
    #[arg(long, value_name = "TIME", requires = "replay", allow_hyphen_values = true)]
    pub to: Option<String>,

    /// Also name the longest file operation of at least 100 ms, or TIME, and its cause; for
    /// details see raidtrace slow
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100ms",
        value_parser = short_time,
    )]
    pub slow: Option<Duration>,

    /// Do not estimate the time spent in raidtrace's own programs
    #[arg(long)]
    pub no_overhead: bool,

    /// Also show the origins of the metadata that tasks dirty, if functions of the kernel can be
    /// hooked. Creating files costs 3 % more instructions
    #[arg(long)]
    pub dirtied_origins: bool,
}

/// Arguments of `demo`.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// The incident
    #[arg(
        value_name = "NAME",
        default_value = names()[0],
        hide_possible_values = true,
        value_parser = names(),
    )]
    pub incident: String,

    /// List the incidents
    #[arg(long, conflicts_with_all = ["incident", "batch", "json", "interval", "count"])]
    pub list: bool,

    #[command(flatten)]
    pub live: LiveArgs,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace top                       all md arrays in use, or all disks if there is none
  sudo raidtrace top /srv                  the array or disk under the mount point /srv
  sudo raidtrace top md127 --batch -n 5    five intervals as text
  sudo raidtrace top md127 --json | jq -c  one JSON object per interval
  raidtrace top --replay incident.rtrace   a recording, on the same screen
  ssh -t db1 sudo raidtrace top            the screen of another machine

Exit status: 0 done (also after Ctrl-C and SIGTERM), 1 failed, 2 usage.";
