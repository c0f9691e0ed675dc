//! Arguments of `alloc`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::ui::completion;
use crate::ui::live_args::LiveArgs;
use crate::ui::typed::time;

/// Arguments of `alloc`.
#[derive(Args, Debug)]
pub struct AllocArgs {
    /// Mount point, array, member, disk or partition with a mounted ext4; default: every md array
    /// that holds one, or every disk that does if there is none
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    #[command(flatten)]
    pub live: LiveArgs,

    /// End after this time: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,

    /// Record the intervals and their stacks in this file, for --replay, report and export
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Show a recording of --record instead of tracing; needs no root
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "targets", "record", "mb_stats", "groups", "all", "keep_counting", "duration",
        "hertz", "interval"])]
    pub replay: Option<PathBuf>,

    /// Stack samples per second and CPU (0: none)
    #[arg(
        long,
        value_name = "HZ",
        default_value = "99",
        value_parser = clap::value_parser!(u32).range(0..=999),
    )]
    pub hertz: u32,

    /// Keep every kernel stack, not only those in ext4, jbd2, md and the block layer
    #[arg(long)]
    pub all: bool,

    /// At the end, write the stacks to this file in folded form: "comm;function;function count"
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,

    /// At the end, write a flame graph to this file, a page without scripts
    #[arg(long, value_name = "FILE.html")]
    pub flame: Option<PathBuf>,

    /// Replace existing files of --record, --folded and --flame
    #[arg(long)]
    pub force: bool,

    /// Enable ext4's own statistics (/sys/fs/ext4/DEV/mb_stats), and restore the setting at the
    /// end
    #[arg(long)]
    pub mb_stats: bool,

    /// At the start, read the free extents of every group; for this ext4 reads every block bitmap
    /// that is not in memory
    #[arg(long)]
    pub groups: bool,

    /// Keep counting groups even if searches consider more than 5 million a second
    #[arg(long)]
    pub keep_counting: bool,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace alloc /srv                    why the filesystem under /srv burns CPU
  sudo raidtrace alloc --duration 30s --flame alloc.html  half a minute, and a flame graph of it
  sudo raidtrace alloc md127 --json | jq -c '.filesystems[].reason'
  sudo raidtrace alloc --record alloc.rtrace; raidtrace alloc --replay alloc.rtrace

How to read it: docs/alloc.md. Exit status: 0 done (also after Ctrl-C and SIGTERM), 1 failed, 2 \
                            usage.";
