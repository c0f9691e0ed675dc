//! Command line arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub mod manual;
pub mod version;

use crate::commands::{alloc, doctor, export, layout, record, report, serve, slow, top};

/// Which disk of this md array is busy, with which kind of filesystem block or md write, and on
/// whose behalf.
#[derive(Debug, Parser)]
#[command(name = "raidtrace", version, max_term_width = 100)]
pub struct Cli {
    /// Print at the end what libbpf and the kernel's verifier said, and how long the programs are
    #[arg(short, long, global = true)]
    pub verbose: bool,

    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The live screen: members, origins, processes, latencies
    #[command(after_help = top::args::EXAMPLES)]
    Top(top::args::Top),
    /// Why an fsync, a read or a write took so long: its waits, and who or what caused each
    #[command(after_help = slow::args::EXAMPLES)]
    Slow(slow::args::Slow),
    /// Record every request and submission into a file, to be looked at anywhere, without root
    #[command(after_help = record::args::EXAMPLES)]
    Record(record::args::Record),
    /// Metrics for Prometheus, a page, and the last minutes before it went wrong, all day
    #[command(after_help = serve::args::EXAMPLES)]
    Serve(serve::args::Serve),
    /// What a recording says: members, origins, latencies, processes, files, and hot spots
    #[command(after_help = report::args::EXAMPLES)]
    Report(report::args::Report),
    /// A recording as Parquet, CSV or JSON, for other tools
    #[command(after_help = export::args::EXAMPLES)]
    Export(export::args::Export),
    /// Where a filesystem's metadata falls on the members of an array, and how evenly
    #[command(after_help = layout::args::EXAMPLES)]
    Layout(Box<layout::args::Layout>),
    /// What is wrong or risky with arrays, filesystems, mounts and this kernel, and the command that fixes it
    #[command(after_help = doctor::args::EXAMPLES)]
    Doctor(doctor::args::Doctor),
    /// What the ext4 block allocator spends its time on, and why
    #[command(after_help = alloc::args::EXAMPLES)]
    Alloc(alloc::args::Alloc),
    /// The screen with a real incident in it: 20,000 touch on a RAID 0 of 12 disks; no root, no array
    Demo(top::args::Demo),
    /// Write the manual pages into a directory; packages have them
    #[command(hide = true)]
    Manual {
        /// Directory, which is created
        dir: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_sound() {
        super::Cli::command().debug_assert();
    }
}
