//! The `raidtrace` binary: what was typed -> a command -> the exit status.

use std::process::ExitCode;

use clap::Parser as _;
use raidtrace::cli::{Cli, Command};
use raidtrace::{doctor, layout, record, top};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Command::Top(args) => top::command::run(args).map(|()| ExitCode::SUCCESS),
        Command::Layout(args) => layout::command::run(args),
        Command::Record(args) => record::command::run(args),
        Command::Report(args) => raidtrace::report::command::run(args).map(|()| ExitCode::SUCCESS),
        Command::Export(args) => raidtrace::export::command::run(args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => raidtrace::replay::command::demo(args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::command::run(args),
        Command::Alloc(args) => raidtrace::alloc::command::run(args).map(|()| ExitCode::SUCCESS),
    };
    if cli.verbose {
        for line in raidtrace::probe::log() {
            eprintln!("{}", top::text::clean(&line));
        }
    }
    match result {
        Ok(status) => status,
        Err(error) => {
            // One line: what, why, and what to do. Names in it may come from anywhere.
            eprintln!("raidtrace: {}", top::text::clean(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
