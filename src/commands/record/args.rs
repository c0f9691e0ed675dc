//! Arguments of `record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::analysis::placement::size;
use crate::ui::completion;
use crate::ui::typed::{short_time, time};

/// Arguments of `record`.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Array, member, disk, partition or mount point; default: every md array that holds a mounted
    /// filesystem, or else every running one, or else every disk that holds one
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// End after this time: 90, 90s, 5m or 2h
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,

    /// End when the file has about this size: 500M, 2G
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "rotate")]
    pub max_size: Option<u64>,

    /// Keep only the last MINUTES
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    pub rotate: Option<Duration>,

    /// Kernel memory for events that raidtrace has not read yet (64K to 1G)
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = buffer)]
    pub buffer: u32,

    /// Record ext4's allocator as well, with kernel stacks (as raidtrace alloc, one interval per
    /// second)
    #[arg(long)]
    pub alloc: bool,

    /// Record slow operations as well, and why they were slow (as raidtrace slow): those of at
    /// least 10 ms, or TIME
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10ms",
        value_parser = short_time,
    )]
    pub slow: Option<Duration>,

    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,

    /// Run COMMAND as root, even if sudo was called by another user
    #[arg(long, requires = "command")]
    pub as_root: bool,

    /// Record while this command runs (as the user who called sudo)
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let number: f64 =
        text.trim_end_matches('m').parse().map_err(|_| "not a number of minutes".to_owned())?;
    if (0.05..=100_000.0).contains(&number) {
        Ok(Duration::from_secs_f64(number * 60.0))
    } else {
        Err("must be 0.05 to 100,000 minutes".to_owned())
    }
}

fn buffer(text: &str) -> Result<u32, String> {
    match size::parse(text)? {
        bytes @ 0x1_0000..=0x4000_0000 => Ok(bytes as u32),
        _ => Err("must be 64K to 1G".to_owned()),
    }
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace record -o incident.rtrace --duration 60s   a minute of all arrays in use
  sudo raidtrace record md127 -o a.rtrace -- ./nightly-job  while a command runs
  sudo raidtrace record -o a.rtrace --rotate 10             the last ten minutes are kept
  sudo raidtrace record /srv -o a.rtrace --alloc            the allocator too, for alloc --replay
  sudo raidtrace record /srv -o a.rtrace --slow=100ms       slow operations too, for slow --replay
  sudo raidtrace record -o - | ssh host 'cat > a.rtrace'    nothing is written locally

The file is an Arrow IPC stream: raidtrace report, and pyarrow, polars or pandas read it.
SIGINT, SIGTERM and SIGHUP end the recording cleanly. With a COMMAND, they are passed on to the
command, and the recording ends with it. After a crash the file is readable up to its last second;
with --rotate, it is FILE.0001.part and so on until the recording has ended.

Exit status: 0 done (also after Ctrl-C and SIGTERM), 1 failed, 2 usage, else that of COMMAND.";

#[cfg(test)]
mod tests {
    use super::{buffer, minutes};

    #[test]
    fn minutes_and_sizes() {
        assert_eq!(minutes("0.5").unwrap().as_secs(), 30);
        assert_eq!(buffer("16M"), Ok(16 << 20));
        for wrong in ["", "x", "-1", "0", "NaN", "inf", "1e300", "1X"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
        assert!(buffer("1K").is_err() && buffer("2G").is_err());
    }
}
