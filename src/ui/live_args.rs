//! Arguments of the commands that show one interval after another.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;

use super::typed::seconds;

#[derive(Args, Clone, Copy, Debug)]
pub struct LiveArgs {
    /// Length of an interval in seconds (0.1 to 3600)
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub interval: Duration,

    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Plain text, one block per interval; the default in a pipe
    #[arg(long, conflicts_with = "json")]
    pub batch: bool,

    /// One JSON object per line and interval (schema raidtrace.top/1, raidtrace.slow/1,
    /// raidtrace.alloc/1)
    #[arg(long)]
    pub json: bool,
}

impl LiveArgs {
    /// True if the screen shows the intervals.
    pub fn on_screen(&self) -> bool {
        !self.batch && !self.json && io::stdout().is_terminal()
    }
}
