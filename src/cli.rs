//! What was typed.

mod alloc;
mod files;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use alloc::Alloc;
pub use files::{Demo, Export, Format, Report};

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};

use crate::doctor::finding::Severity;
use crate::doctor::rules;
use crate::layout::geometry::Typed;
use crate::layout::plan::Options;
use crate::layout::size;

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
    /// Record every request and submission into a file, to be looked at anywhere, without root
    #[command(after_help = RECORD_EXAMPLES)]
    Record(Record),
    /// What a recording says: members, origins, latencies, processes, files, and what stands out
    #[command(after_help = files::REPORT_EXAMPLES)]
    Report(Report),
    /// A recording as Parquet, CSV or JSON, for other tools
    #[command(after_help = files::EXPORT_EXAMPLES)]
    Export(Export),
    /// Where a filesystem's metadata falls on the members of an array, and how evenly
    #[command(after_help = LAYOUT_EXAMPLES)]
    Layout(Box<Layout>),
    /// What is wrong or risky with arrays, filesystems, mounts and this kernel, and the command that mends it
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// What the ext4 block allocator spends its time on, and why
    #[command(after_help = alloc::EXAMPLES)]
    Alloc(Alloc),
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

const LAYOUT_EXAMPLES: &str = "Examples:
  sudo raidtrace layout /srv                          a mounted filesystem, on the array below it
  raidtrace layout disk.img --level 0 --disks 12      an image or e2image, as if on this array
  dumpe2fs /dev/md0 | raidtrace layout - --level 5 --disks 4 --chunk 64K
  sudo raidtrace layout md0 --check --max-skew 1.5    for scripts: status 3 when it is worse
  raidtrace layout --plan 27T --level 5 --disks 4 -g 32744   what mkfs.ext4 -g 32744 would make there
  raidtrace layout --plan 27T --level 5 --disks 4 --search   which options would be better

Exit status: 0 done, 1 it failed, 2 usage, 3 (with --check) more skew than --max-skew.";

const DOCTOR_EXAMPLES: &str = "Examples:
  sudo raidtrace doctor                every md array that runs, else the disks with a filesystem
  sudo raidtrace doctor /srv           the array below this mount point, and what is on it
  sudo raidtrace doctor --live 10      the same, and ten seconds of what is written where
  sudo raidtrace doctor --load day.rtrace   the same, by a recording of this host
  sudo raidtrace doctor --kernel       what raidtrace can and cannot show on this kernel
  raidtrace doctor --min-severity warning --acknowledged /etc/raidtrace.known   for cron
  sudo raidtrace doctor --json | jq -r '.findings[] | [.severity, .id, .title] | @tsv'

It reads sysfs, /proc and superblocks, and changes nothing: commands are printed, never run.

Exit status, by what is shown: 0 nothing or only info, 3 a warning, 4 something critical, 1 it failed, 2 usage.";

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Array, member, disk, partition or mount point; none: every md array that runs, else the disks with a mounted
    /// filesystem
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,

    /// One JSON object (schema raidtrace.doctor/1)
    #[arg(long)]
    pub json: bool,

    /// Only what raidtrace can and cannot show on this kernel, and why
    #[arg(long)]
    pub kernel: bool,

    /// Look at the writes for so many seconds too: whether metadata goes where the layout says, whether the write-intent
    /// bitmap is hot, and whether tasks wait for room in a journal
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "kernel")]
    pub live: Option<Duration>,

    /// The same by a recording of this host (raidtrace record), judged interval by interval: the worst part of it speaks
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "live"])]
    pub load: Option<PathBuf>,

    /// Leave the findings of this rule out; can be given more than once
    #[arg(long, value_name = "ID", conflicts_with = "kernel", value_parser = PossibleValuesParser::new(rules::IDS), hide_possible_values = true)]
    pub ignore: Vec<String>,

    /// Leave out what is less than this
    #[arg(long, value_name = "LEVEL", conflicts_with = "kernel")]
    pub min_severity: Option<Severity>,

    /// Leave out what this file has, a line `ID TARGET` each (layout-skew md0), # before a comment
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub acknowledged: Option<PathBuf>,
}

/// Arguments of `layout`.
#[derive(Args, Debug)]
pub struct Layout {
    /// Array, disk, partition, mount point, image or e2image; - for the text of dumpe2fs on standard input
    #[arg(value_name = "DEVICE|IMAGE|MOUNT|-", required_unless_present = "plan")]
    pub target: Option<String>,

    /// What mkfs.ext4 would make on an array of this size, computed: 27T, 1257492480K
    #[arg(long, value_name = "SIZE", conflicts_with = "target", value_parser = size::parse)]
    pub plan: Option<u64>,

    /// Compare options of mke2fs for this array and size, and recommend some
    #[arg(long, conflicts_with_all = ["svg", "all"])]
    pub search: bool,

    /// Show the skew after the array has grown to N disks too
    #[arg(long, value_name = "N")]
    pub grow_to: Option<u32>,

    /// One JSON object (schema raidtrace.layout/1, with --search raidtrace.layout-search/1)
    #[arg(long)]
    pub json: bool,

    /// Every origin member by member too
    #[arg(long, conflicts_with = "json")]
    pub all: bool,

    /// Write a picture there too
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Replace an existing file of --svg
    #[arg(long)]
    pub force: bool,

    /// End with status 3 when the worst skew is above --max-skew
    #[arg(long)]
    pub check: bool,

    /// Busiest member over the mean that --check allows
    #[arg(long, value_name = "X", default_value = "1.5", requires = "check", value_parser = skew)]
    pub max_skew: f64,

    /// The array: of an image, or to see a filesystem on another one.
    #[command(flatten)]
    pub array: Typed,

    /// Of mke2fs.
    #[command(flatten)]
    pub mke2fs: Options,
}

fn skew(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse() {
        Ok(skew) if (1.0..=1e6).contains(&skew) => Ok(skew),
        _ => Err("a factor from 1 (even) up".to_owned()),
    }
}

const RECORD_EXAMPLES: &str = "Examples:
  sudo raidtrace record -o incident.rtrace --duration 60s   a minute of all arrays in use
  sudo raidtrace record md127 -o a.rtrace -- ./nightly-job  while a command runs
  sudo raidtrace record -o a.rtrace --rotate 10             the last ten minutes are kept
  sudo raidtrace record -o - | ssh host 'cat > a.rtrace'    nothing is written here

The file is an Arrow IPC stream: raidtrace report, and pyarrow, polars or pandas read it.
SIGINT, SIGTERM and SIGHUP end it cleanly; with a COMMAND they are passed on to it, and its end
ends the recording. After a crash the file is readable up to its last second; with --rotate,
until the recording has ended, it is FILE.0001.part and so on.

Exit status: 0 done (also after Ctrl-C and SIGTERM), that of COMMAND, 1 it failed, 2 usage.";

/// Arguments of `record`.
#[derive(Args, Debug)]
pub struct Record {
    /// Array, member, disk, partition or mount point; none: every md array that holds a mounted
    /// filesystem, else every disk that does
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,

    /// The file to make; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// End after this time: 90, 90s, 5m or 2h
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,

    /// End when the file has about this size: 500M, 2G
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "rotate")]
    pub max_size: Option<u64>,

    /// Keep the last so many minutes only
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    pub rotate: Option<Duration>,

    /// Kernel memory for events that have not been fetched yet (64K to 1G)
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = buffer)]
    pub buffer: u32,

    /// Replace FILE if it is there
    #[arg(long)]
    pub force: bool,

    /// Record while this command runs
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "no_overhead", "dirtied_origins"])]
    pub replay: Option<PathBuf>,

    /// Do not estimate the time spent in raidtrace's own programs
    #[arg(long)]
    pub no_overhead: bool,

    /// Give the origins of the metadata that tasks dirty too, where the kernel permits to hook functions. Creating
    /// files costs 3 % more instructions
    #[arg(long)]
    pub dirtied_origins: bool,
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

fn time(text: &str) -> Result<Duration, String> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0)];
    let (digits, unit) = units
        .iter()
        .find_map(|(c, unit)| Some((text.strip_suffix(*c)?, *unit)))
        .unwrap_or((text, 1.0));
    let number: f64 = digits
        .parse()
        .map_err(|_| "not a time such as 90s, 5m or 2h".to_owned())?;
    let seconds = number * unit;
    if (0.1..=1e9).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be at least 0.1 seconds".to_owned())
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .trim_end_matches('m')
        .parse()
        .map_err(|_| "not a number of minutes".to_owned())?;
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

#[cfg(test)]
mod tests {
    use super::{Cli, buffer, minutes, seconds, time};
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_and_sizes() {
        for (text, ms) in [
            ("60s", 60_000),
            ("1.5", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(time(text).unwrap().as_millis(), ms, "{text}");
        }
        assert_eq!(minutes("0.5").unwrap().as_secs(), 30);
        assert_eq!(buffer("16M"), Ok(16 << 20));
        for wrong in ["", "x", "-1", "0", "NaN", "inf", "1e300", "1X"] {
            assert!(time(wrong).is_err(), "{wrong}");
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
        assert!(buffer("1K").is_err() && buffer("2G").is_err());
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
