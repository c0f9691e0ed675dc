//! Arguments of `slow`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::ui::completion;
use crate::ui::live_args::LiveArgs;
use crate::ui::typed::{short_time, time};

/// Arguments of `slow`.
#[derive(Args, Debug)]
pub struct SlowArgs {
    /// Mount point, array, member, disk or partition with a mounted ext4 or XFS; none: every md
    /// array that holds one, else every disk that does
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    /// Shortest operation to explain: 500us, 10ms (default), 1s
    #[arg(short, long, value_name = "TIME", value_parser = short_time)]
    pub threshold: Option<Duration>,

    /// Only operations of this task: a name, a thread id or a process id
    #[arg(long, value_name = "NAME|PID")]
    pub task: Option<String>,

    /// Only operations on files whose path begins with this
    #[arg(long, value_name = "PREFIX")]
    pub path: Option<String>,

    #[command(flatten)]
    pub live: LiveArgs,

    /// End after this time: 30s, 5m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,

    /// Show a recording of raidtrace record --slow instead of tracing; needs no root
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "interval", "duration"])]
    pub replay: Option<PathBuf>,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace slow /srv                     why operations under /srv take 10 ms and more
  sudo raidtrace slow /srv -t 1s --task mysqld   operations of mysqld that take 1 s and more
  raidtrace slow --replay a.rtrace             a recording of raidtrace record --slow -o a.rtrace
  sudo raidtrace slow md127 --json | jq -c '.operations[] | [.sentence]'

How to read it: docs/slow.md. Exit status: 0 done (also after Ctrl-C and SIGTERM), 1 failed, 2 \
                            usage.";
