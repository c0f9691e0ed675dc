//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// A recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// From this moment: 11:47 (local time), 11:47:30Z (UTC), "2026-11-20 11:47",
    /// 2026-11-20T12:00:30Z, +30 (seconds after the start), -30 (seconds before the end)
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub from: Option<String>,

    /// Up to this moment
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub to: Option<String>,

    /// Compare with an earlier recording: which differences are beyond noise, per array, member,
    /// origin and task
    #[arg(long, value_name = "BEFORE")]
    pub against: Option<PathBuf>,

    /// Start of the period of BEFORE to compare, in the format of --from
    #[arg(long, value_name = "T", allow_hyphen_values = true, requires = "against")]
    pub against_from: Option<String>,

    /// End of the period of BEFORE to compare
    #[arg(long, value_name = "T", allow_hyphen_values = true, requires = "against")]
    pub against_to: Option<String>,

    /// Compare these two arrays: md0=md127 compares md0 of BEFORE with md127 of FILE. Otherwise
    /// arrays are paired by name
    #[arg(long, value_name = "BEFORE=AFTER", value_parser = pair, requires = "against")]
    pub pair: Vec<(String, String)>,

    /// One JSON object (schema raidtrace.report/1, with --against raidtrace.report-against/1)
    #[arg(long)]
    pub json: bool,

    /// A page with pictures and tables, in one file that opens offline; - is standard output
    #[arg(long, value_name = "OUT", conflicts_with = "json")]
    pub html: Option<PathBuf>,

    /// Replace an existing file of --html
    #[arg(long, requires = "html")]
    pub force: bool,
}

/// Parses `md0=md127`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((before, after)) if !before.is_empty() && !after.is_empty() => {
            Ok((before.to_owned(), after.to_owned()))
        }
        _ => Err("two names of arrays are needed: md0=md127".to_owned()),
    }
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  raidtrace report incident.rtrace                      the whole recording, as text
  raidtrace report incident.rtrace --from +10 --to +20  seconds 10 to 20
  raidtrace report incident.rtrace --from 11:47 --to 11:52   in local time
  raidtrace report incident.rtrace --json | jq .arrays
  raidtrace report incident.rtrace --html incident.html      a page, to pass on
  raidtrace report after.rtrace --against before.rtrace      did the change help?
  raidtrace report after.rtrace --against before.rtrace --pair md0=md127

Exit status: 0 done, 1 failed or nothing recorded in that period, 2 usage.";
