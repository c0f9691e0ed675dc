//! What was typed.

mod files;

use std::path::PathBuf;
use std::time::Duration;

pub use files::{Demo, Export, Format, Report};

use clap::{Args, Parser, Subcommand};

/// Which disk of this md array is busy, with which kind of filesystem block or md write, and on
/// whose behalf.
#[derive(Debug, Parser)]
#[command(name = "raidtrace", version, max_term_width = 100)]
pub struct Cli {
    /// Print at the end what libbpf and the kernel's verifier said, and how long the programs are
    #[arg(short, long, global = true)]
    pub verbose: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The live screen: members, origins, processes, latencies
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// What a recording says: members, origins, latencies, processes, files, and what stands out
    #[command(after_help = files::REPORT_EXAMPLES)]
    Report(Report),
    /// A recording as Parquet, CSV or JSON, for other tools
    #[command(after_help = files::EXPORT_EXAMPLES)]
    Export(Export),
    /// The screen with a real incident in it: 20,000 touch on a RAID 0 of 12 disks; no root, no array
    Demo(Demo),
}

const TOP_EXAMPLES: &str = "Examples:
  sudo raidtrace top                       all md arrays in use, else all disks
  sudo raidtrace top /srv                  what is under the mount point /srv
  sudo raidtrace top md127 --batch -n 5    five intervals as text
  sudo raidtrace top md127 --json | jq -c  one JSON object an interval
  raidtrace top --replay incident.rtrace   a recording, in the same screen

Exit status: 0 done (also after Ctrl-C and SIGTERM), 1 it failed, 2 usage.";

/// Arguments of `top`.
#[derive(Args, Debug)]
pub struct Top {
    /// Array, member, disk, partition or mount point; none: every md array that holds a mounted
    /// filesystem, else every disk that does
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,

    /// Seconds an interval lasts (0.1 to 3600)
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = seconds)]
    pub interval: Duration,

    /// End after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Plain text, one block an interval; what a pipe gets
    #[arg(long, conflicts_with = "json")]
    pub batch: bool,

    /// One JSON object an interval and line (schema raidtrace.top/1)
    #[arg(long)]
    pub json: bool,

    /// Show this recording instead of what happens now; needs no root
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "no_overhead"])]
    pub replay: Option<PathBuf>,

    /// Do not have the kernel measure what raidtrace's own programs cost (saves some 30 ns a run)
    #[arg(long)]
    pub no_overhead: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .trim_end_matches('s')
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&number) {
        Ok(Duration::from_secs_f64(number))
    } else {
        Err("must be 0.1 to 3600 seconds".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Cli, seconds};
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn intervals() {
        assert_eq!(seconds("2").unwrap().as_millis(), 2000);
        assert_eq!(seconds("0.5s").unwrap().as_millis(), 500);
        for wrong in ["0", "-1", "NaN", "inf", "1e9", "", "1m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
