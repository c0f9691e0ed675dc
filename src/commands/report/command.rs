//! `raidtrace report`.

use std::io;

use anyhow::Result;

use super::args::ReportArgs;
use super::lines::write_page;
use super::{against, html, json, text};
use crate::recording::gather;
use crate::ui::lines::success_if_closed;

/// Reads the file and prints the report, or writes it as a page.
pub fn run(args: &ReportArgs) -> Result<()> {
    if let Some(before) = &args.against {
        return against::command::run(args, before);
    }
    if let Some(path) = &args.html {
        return write_page(args, path, || {
            let (from, to) = (args.from.as_deref(), args.to.as_deref());
            let report = gather::gather_detailed(&args.file, from, to)?;
            Ok(html::draw(&args.file, &report))
        });
    }
    let report = gather::gather(&args.file, args.from.as_deref(), args.to.as_deref())?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = if args.json {
        json::write(&mut out, &args.file, &report)
    } else {
        text::write(&mut out, &args.file, &report)
    };
    success_if_closed(written, || "writing the report".to_owned())
}
