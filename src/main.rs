//! The `raidtrace` binary: parses the arguments, runs a command, and returns its exit status.

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;
use raidtrace::cli::{Cli, Command, manual, version};
use raidtrace::commands::{alloc, doctor, export, layout, record, report, serve, slow, top, why};
use raidtrace::machine::{limits, privileges};
use raidtrace::ui::text::clean;

fn main() -> ExitCode {
    privileges::lower();
    // Shell completion: with COMPLETE=bash, zsh or fish in the environment, this prints the
    // completions and exits.
    CompleteEnv::with_factory(Cli::command).complete();
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    if version::is_asked(&arguments) {
        let _ = writeln!(io::stdout(), "{}", version::text());
        return ExitCode::SUCCESS;
    }
    let cli = Cli::parse();
    limits::set_up();
    if cli.command.is_offline() {
        privileges::keep_for_files();
    }
    let success = |()| ExitCode::SUCCESS;
    let result = match &cli.command {
        Command::Why(args) => why::command::run(args),
        Command::Top(args) => top::command::run(args).map(success),
        Command::Slow(args) => slow::command::run(args).map(success),
        Command::Layout(args) => layout::command::run(args),
        Command::Record(args) => record::command::run(args),
        Command::Serve(args) => serve::command::run(args).map(success),
        Command::Report(args) => report::command::run(args).map(success),
        Command::Export(args) => export::command::run(args).map(success),
        Command::Demo(args) => top::replay::command::demo(args).map(success),
        Command::Doctor(args) => doctor::command::run(args),
        Command::Inventory(args) => doctor::inventory::run(args).map(success),
        Command::Alloc(args) => alloc::command::run(args).map(success),
        Command::Manual { dir } => manual::write(dir).map(success),
    };
    if cli.verbose {
        for line in raidtrace::probe::log() {
            eprintln!("{}", clean(&line));
        }
    }
    match result {
        Ok(status) => status,
        Err(error) => {
            // One line: the failure, its cause, and the remedy. Names in the error are untrusted.
            eprintln!("raidtrace: {}", clean(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
