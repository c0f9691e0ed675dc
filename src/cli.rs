//! Command line arguments.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

pub mod manual;
pub mod version;

use crate::commands::{alloc, doctor, export, layout, record, report, serve, slow, top, why};

/// Which disk of this md array is busy, with which kind of filesystem block or md write, and on
/// whose behalf.
#[derive(Debug, Parser)]
#[command(name = "raidtrace", version, max_term_width = 100)]
pub struct Cli {
    /// At the end, print libbpf and verifier messages and the program lengths
    #[arg(short, long, global = true)]
    pub verbose: bool,

    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether storage is slow here, for whom, since when, why, and what to do
    #[command(after_help = why::args::EXAMPLES)]
    Why(why::args::WhyArgs),
    /// Show the live screen: members, origins, processes, latencies
    #[command(after_help = top::args::EXAMPLES)]
    Top(top::args::TopArgs),
    /// Explain why an fsync, a read or a write was slow: its waits, and the cause of each
    #[command(after_help = slow::args::EXAMPLES)]
    Slow(slow::args::SlowArgs),
    /// Record every request and submission to a file, for analysis anywhere without root
    #[command(after_help = record::args::EXAMPLES)]
    Record(record::args::RecordArgs),
    /// Serve Prometheus metrics and a web page, and keep a recording of the last minutes
    #[command(after_help = serve::args::EXAMPLES)]
    Serve(serve::args::ServeArgs),
    /// Summarize a recording: members, origins, latencies, processes, files, and hot spots
    #[command(after_help = report::args::EXAMPLES)]
    Report(report::args::ReportArgs),
    /// Export a recording for other tools: Parquet, CSV, JSON, Perfetto, fio
    #[command(after_help = export::args::EXAMPLES)]
    Export(export::args::ExportArgs),
    /// Show where a filesystem's metadata falls on the members of an array, and how evenly
    #[command(after_help = layout::args::EXAMPLES)]
    Layout(Box<layout::args::LayoutArgs>),
    /// Find problems with arrays, filesystems, mounts and the kernel, and commands to fix them
    #[command(after_help = doctor::args::EXAMPLES)]
    Doctor(doctor::args::DoctorArgs),
    /// List arrays, members, filesystems and findings as rows, for many hosts
    #[command(after_help = doctor::inventory::args::EXAMPLES)]
    Inventory(doctor::inventory::args::InventoryArgs),
    /// Show what the ext4 block allocator spends its time on, and why
    #[command(after_help = alloc::args::EXAMPLES)]
    Alloc(alloc::args::AllocArgs),
    /// Replay a recorded incident, on ext4 or XFS; needs no root and no array
    Demo(top::args::DemoArgs),
    /// Write the manual pages into a directory; packages include them
    #[command(hide = true)]
    Manual {
        /// Directory; created if it does not exist
        dir: PathBuf,
    },
}

impl Command {
    /// True if the command reads only files that its arguments name, and nothing of this machine.
    pub fn is_offline(&self) -> bool {
        match self {
            Self::Report(_) | Self::Export(_) | Self::Demo(_) | Self::Manual { .. } => true,
            Self::Top(args) => args.replay.is_some(),
            Self::Slow(args) => args.replay.is_some(),
            Self::Why(args) => args.replay.is_some(),
            Self::Alloc(args) => args.replay.is_some(),
            Self::Inventory(args) => !args.load.is_empty(),
            Self::Layout(args) => {
                let is_text = |name: &String| name == "-" || Path::new(name).is_file();
                args.plan.is_some() || args.target.as_ref().is_some_and(is_text)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn clap_definition_is_valid() {
        super::Cli::command().debug_assert();
    }
}
