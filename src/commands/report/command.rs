//! `raidtrace report`.

use std::io;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::args::Report;
use super::{against, html, json, text};
use crate::machine::output::Destination;
use crate::recording::gather;

/// Reads the file and prints the report, or writes it as a page.
pub fn run(args: &Report) -> Result<()> {
    if let Some(before) = &args.against {
        return against::command::run(args, before);
    }
    if let Some(path) = &args.html {
        return page(args, path);
    }
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

/// Writes the page. Checks the output first, which takes less time than reading the recording.
fn page(args: &Report, path: &Path) -> Result<()> {
    let destination = Destination::new(path, args.force)?;
    let report = gather::gather_detailed(&args.file, args.from.as_deref(), args.to.as_deref())?;
    let page = html::draw(&args.file, &report);
    let output = destination.open();
    let written = output.and_then(|output| output.write(|out| out.write_all(page.as_bytes())));
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(e).with_context(|| format!("{}: writing the page", path.display()))
        }
        _ => Ok(()),
    }
}
