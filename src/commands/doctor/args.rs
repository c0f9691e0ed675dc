//! Arguments of `doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::finding::FindingSeverity;
use super::rules;
use crate::ui::completion;
use crate::ui::typed::seconds;

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Array, member, disk, partition or mount point; default: every running md array, or the
    /// disks with a mounted filesystem if there is none
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    /// Print one JSON object (schema raidtrace.doctor/1)
    #[arg(long)]
    pub json: bool,

    /// Report only what raidtrace can and cannot show on this kernel, and why
    #[arg(long)]
    pub kernel: bool,

    /// Also trace writes for S seconds: reports if metadata is written where the layout places it,
    /// if the write-intent bitmap is hot, and if tasks wait for room in a journal
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "kernel")]
    pub live: Option<Duration>,

    /// Like --live, from a recording of this host (raidtrace record). Each interval is evaluated,
    /// and the worst is reported
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "live"])]
    pub load: Option<PathBuf>,

    /// Leave out the findings of this rule; can be given more than once
    #[arg(
        long,
        value_name = "ID",
        conflicts_with = "kernel",
        value_parser = PossibleValuesParser::new(rules::IDS),
        hide_possible_values = true,
    )]
    pub ignore: Vec<String>,

    /// Leave out findings below this severity
    #[arg(long, value_name = "LEVEL", conflicts_with = "kernel")]
    pub min_severity: Option<FindingSeverity>,

    /// Leave out the findings listed in this file, one `ID TARGET` per line (layout-skew md0), #
    /// starts a comment
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub acknowledged: Option<PathBuf>,
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace doctor                every running md array, or the disks with a filesystem
  sudo raidtrace doctor /srv           the array below this mount point, and its filesystems
  sudo raidtrace doctor --live 10      also traces writes for ten seconds
  sudo raidtrace doctor --load day.rtrace   also evaluates the writes in a recording of this host
  sudo raidtrace doctor --kernel       what raidtrace can and cannot show on this kernel
  raidtrace doctor --min-severity warning --acknowledged /etc/raidtrace.known   for cron
  sudo raidtrace doctor --json | jq -r '.findings[] | [.severity, .id, .title] | @tsv'

It reads sysfs, /proc and superblocks, and changes nothing: commands are printed, never run.

Exit status, from the findings shown: 0 none or only info, 3 a warning, 4 critical, 1 an error, 2 \
                            usage.";
