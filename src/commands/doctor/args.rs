//! Arguments of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::finding::Severity;
use super::rules;
use crate::ui::typed::seconds;

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

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace doctor                every md array that runs, else the disks with a filesystem
  sudo raidtrace doctor /srv           the array below this mount point, and what is on it
  sudo raidtrace doctor --live 10      the same, and ten seconds of what is written where
  sudo raidtrace doctor --load day.rtrace   the same, by a recording of this host
  sudo raidtrace doctor --kernel       what raidtrace can and cannot show on this kernel
  raidtrace doctor --min-severity warning --acknowledged /etc/raidtrace.known   for cron
  sudo raidtrace doctor --json | jq -r '.findings[] | [.severity, .id, .title] | @tsv'

It reads sysfs, /proc and superblocks, and changes nothing: commands are printed, never run.

Exit status, by what is shown: 0 nothing or only info, 3 a warning, 4 something critical, 1 it failed, 2 usage.";
