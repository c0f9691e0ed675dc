//! `raidtrace export`.

use anyhow::Result;

use crate::commands::export::args::Export;

/// Fails, because this binary was built without the feature `export`.
#[cfg(not(feature = "export"))]
pub fn run(_: &Export) -> Result<()> {
    anyhow::bail!(
        "this raidtrace was built without export (cargo build --features export); pyarrow, polars \
         and pandas read the recording as it is"
    )
}

/// Exports every readable row. Fails at the end if the recording is damaged.
#[cfg(feature = "export")]
pub fn run(args: &Export) -> Result<()> {
    use crate::recording::reader::{Reader, Wanted};
    let mut reader = Reader::open(&args.file, Wanted::Everything)?;
    if let Some(note) = reader.note() {
        eprintln!("raidtrace: note: {}", crate::ui::text::clean(note));
    }
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
fn to(reader: &mut crate::recording::reader::Reader, args: &Export) -> Result<u64> {
    use crate::machine::output::Destination;
    use anyhow::Context as _;
    use std::os::unix::fs::MetadataExt as _;
    let output_name = || args.output.display().to_string();
    let id = |found: std::fs::Metadata| (found.dev(), found.ino());
    let old = args.output.symlink_metadata().ok().map(id);
    let mut sources = reader.files().iter();
    if old.is_some() && sources.any(|source| source.metadata().ok().map(id) == old) {
        anyhow::bail!("{}: is the recording to export", output_name());
    }
    let destination = Destination::new(&args.output, args.force)?;
    let mut output = destination.open().with_context(output_name)?;
    match write(reader, args, &mut output.file) {
        // A closed pipe (`| head`) is not a failure.
        Err(e) if output.pending.is_none() && is_broken_pipe(&e) => Ok(0),
        Err(e) => Err(e).with_context(output_name),
        Ok(rows) => {
            output.commit().with_context(output_name)?;
            Ok(rows)
        }
    }
}

#[cfg(feature = "export")]
fn write(
    reader: &mut crate::recording::reader::Reader,
    args: &Export,
    out: impl std::io::Write + Send,
) -> Result<u64> {
    use crate::commands::export::args::Format;
    let mut out = std::io::BufWriter::with_capacity(1 << 18, out);
    match args.format {
        Format::Parquet => {
            let header = serde_json::to_string(reader.header())?;
            super::table::write(reader, &crate::recording::schema::schema(header), out)
        }
        lines => Ok(super::lines::write(reader, lines, &mut out)?),
    }
}

#[cfg(feature = "export")]
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|e| e.downcast_ref().is_some_and(broken))
}
