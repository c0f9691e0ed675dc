//! What was typed -> the file.

use anyhow::Result;

use crate::cli::Export;

/// Without the feature.
#[cfg(not(feature = "export"))]
pub fn run(_: &Export) -> Result<()> {
    anyhow::bail!(
        "this raidtrace was built without export (cargo build --features export); pyarrow, polars \
         and pandas read the recording as it is"
    )
}

/// Writes what can be read of the file; where that is not all of it, says so in the end.
#[cfg(feature = "export")]
pub fn run(args: &Export) -> Result<()> {
    use crate::trace::reader::{Reader, Wanted};
    let mut reader = Reader::open(&args.file, Wanted::Everything)?;
    let rows = to(&mut reader, args)?;
    let ending = reader.ending();
    if ending.is_cut() {
        let file = args.file.display();
        anyhow::bail!("{file}: {ending}; {rows} rows have been exported");
    }
    eprintln!("raidtrace: {rows} rows");
    Ok(())
}

#[cfg(feature = "export")]
fn to(reader: &mut crate::trace::reader::Reader, args: &Export) -> Result<u64> {
    use anyhow::Context as _;
    use std::io::{self, Write as _};
    if args.output.as_os_str() == "-" {
        return match write(reader, args, io::stdout()) {
            Err(e) if is_broken_pipe(&e) => Ok(0),
            other => other,
        };
    }
    let say = || args.output.display().to_string();
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options.open(&args.output).map_err(|e| {
        if e.kind() == io::ErrorKind::AlreadyExists {
            anyhow::anyhow!("{}: is there already; --force replaces it", say())
        } else {
            anyhow::Error::new(e).context(say())
        }
    })?;
    let written = write(reader, args, &mut file).and_then(|rows| {
        file.flush().with_context(say)?;
        Ok(rows)
    });
    if written.is_err() {
        // What is half written is no table.
        let _ = std::fs::remove_file(&args.output);
    }
    written.with_context(say)
}

#[cfg(feature = "export")]
fn write(
    reader: &mut crate::trace::reader::Reader,
    args: &Export,
    out: impl std::io::Write + Send,
) -> Result<u64> {
    use crate::cli::Format;
    let mut out = std::io::BufWriter::with_capacity(1 << 18, out);
    match args.format {
        Format::Parquet => {
            let header = serde_json::to_string(reader.header())?;
            super::table::write(reader, &crate::trace::schema::schema(header), out)
        }
        lines => Ok(super::lines::write(reader, lines, &mut out)?),
    }
}

#[cfg(feature = "export")]
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|e| e.downcast_ref().is_some_and(broken))
}
