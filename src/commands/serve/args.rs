//! Arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::cgroups::DEFAULT_MAX as DEFAULT_MAX_CGROUPS;
use super::rules::DumpRule;
use crate::analysis::placement::size;
use crate::recording::dataset_name::DatasetName;
use crate::ui::completion;
use crate::ui::typed::{DatasetParser, time};

/// Arguments of `serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Array, member, disk, partition or mount point; default: every md array that holds a mounted
    /// filesystem, or else every running one, or else every disk that holds one
    #[arg(value_name = "TARGET", add = completion::targets())]
    pub targets: Vec<String>,

    /// Address and port to listen on. Addresses other than loopback need --token-file or --insecure
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9753")]
    pub listen: SocketAddr,

    /// Require the token in the first line of this file ("Authorization: Bearer TOKEN");
    /// Prometheus: authorization, credentials_file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Answer every client that can reach the address, without a token
    #[arg(long, conflicts_with = "token_file")]
    pub insecure: bool,

    /// Also answer requests for this host name, in addition to IP addresses, localhost and this
    /// machine's name
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,

    /// Serve HTTPS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Keep a recording of the last TIME in memory (10m, 1h); 0 keeps none, with the overhead of
    /// raidtrace top
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = keep)]
    pub keep: Duration,

    /// Maximum size of the recording in memory (8M to 16G)
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = keep_bytes)]
    pub keep_bytes: u64,

    /// Directory to which the recording in memory is written when a rule fires, on SIGUSR1 and from
    /// the page
    #[arg(long, value_name = "DIR")]
    pub dump_dir: Option<PathBuf>,

    /// Refuse requests for a recording from the page and from other HTTP clients
    #[arg(long, requires = "dump_dir")]
    pub no_dump_requests: bool,

    /// Remove recordings in --dump-dir when all take more than this: requested ones first, then the
    /// oldest; the newest of each rule stays
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    pub dump_bytes: u64,

    /// Every hour, add the intervals and verdicts to the Parquet dataset in this directory, or in
    /// s3://BUCKET/PREFIX (docs/dataset.md)
    #[arg(
        long,
        value_name = "DIR|URL",
        value_parser = DatasetParser,
        value_hint = ValueHint::DirPath,
    )]
    pub dataset: Option<DatasetName>,

    /// Rules: p99=TIME (of a member, over 10 s), slow=TIME (an operation on a file, as raidtrace
    /// slow), skew=FACTOR (of a hot spot), busy=PERCENT (of a member, while the others are at most
    /// half as busy), fail-slow (a member, for an hour), lost (events), degraded (an array loses a
    /// member)
    #[arg(
        long,
        value_name = "RULE,...",
        value_delimiter = ',',
        default_value = "stalled,slow-array,fail-slow,lost,degraded"
    )]
    pub dump_on: Vec<DumpRule>,

    /// Show task names on the page and in the metrics
    #[arg(long)]
    pub with_tasks: bool,

    /// Also add up bytes and waiting times by cgroup (container, pod, unit), in the metrics and in
    /// --dataset; at most N cgroups [default: 50], the others together as other
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DEFAULT_MAX_CGROUPS,
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub with_cgroups: Option<u16>,

    /// Show file paths on the page, and allow downloads of recordings, which contain file paths
    #[arg(long)]
    pub with_paths: bool,
}

fn keep(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => time(text).and_then(|keep| {
            let range = Duration::from_secs(10)..=Duration::from_secs(24 * 3600);
            if range.contains(&keep) {
                Ok(keep)
            } else {
                Err("must be 0, or 10s to 24h".to_owned())
            }
        }),
    }
}

fn keep_bytes(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes @ 0x80_0000..=0x4_0000_0000 => Ok(bytes),
        _ => Err("must be 8M to 16G".to_owned()),
    }
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace serve                                 metrics and page at http://127.0.0.1:9753/
  sudo raidtrace serve md127 --dump-dir /var/lib/raidtrace --dump-on p99=200ms,degraded
                                                       write the last ten minutes when a rule fires
  sudo raidtrace serve --listen 0.0.0.0:9753 --token-file /etc/raidtrace/token
  curl http://127.0.0.1:9753/metrics                   the metrics that Prometheus scrapes
  pkill -USR1 -f 'raidtrace serve'                     write the last minutes now
  sudo raidtrace report /var/lib/raidtrace/raidtrace-20261124T042540Z-p99.rtrace

Exit status: 0 done (also after Ctrl-C and SIGTERM), 1 failed, 2 usage.";

#[cfg(test)]
mod tests {
    use super::{keep, keep_bytes};

    #[test]
    fn times_and_sizes() {
        assert_eq!(keep("0").unwrap().as_secs(), 0);
        assert_eq!(keep("10m").unwrap().as_secs(), 600);
        assert!(keep("1s").is_err() && keep("2000h").is_err() && keep("x").is_err());
        assert_eq!(keep_bytes("64M"), Ok(64 << 20));
        assert!(keep_bytes("4M").is_err() && keep_bytes("1T").is_err());
    }
}
