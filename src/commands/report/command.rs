//! `raidtrace report`.

use std::io;

use anyhow::{Context as _, Result};

use super::args::Report;
use super::{json, text};
use crate::recording::gather;

/// Reads the file and prints the report.
pub fn run(args: &Report) -> Result<()> {
    let report = gather::gather(&args.file, args.from.as_deref(), args.to.as_deref())?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = if args.json {
        json::write(&mut out, &args.file, &report)
    } else {
        text::write(&mut out, &args.file, &report)
    };
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e).context("writing the report"),
        _ => Ok(()),
    }
}
