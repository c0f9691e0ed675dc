//! `raidtrace export`.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::Args as _;
use clap::error::ErrorKind;

use super::args::{ExportArgs, Format};
use super::output::{self, buffered};
use super::period::ExportPeriod;
use super::written::ExportSummary;
use super::{fio, lines, perfetto};
use crate::recording::WITHOUT_PARQUET;
use crate::recording::reader::{Reader, WantedColumns};
use crate::ui::text::clean;

/// Exports everything that is readable. Fails at the end if the recording is damaged.
pub fn run(args: &ExportArgs) -> Result<()> {
    if args.array.is_some() && args.format != Format::Fio {
        usage("--array is for -f fio; the other formats have all arrays");
    }
    let events = [Format::Perfetto, Format::Fio];
    if (args.from.is_some() || args.to.is_some()) && !events.contains(&args.format) {
        usage(
            "--from and --to are for -f perfetto and fio; the other formats have the column time",
        );
    }
    if args.dataset.is_some() && args.format != Format::Parquet {
        usage("--dataset is for -f parquet");
    }
    if args.dataset.is_none() && args.files.len() > 1 {
        usage("several FILEs are for --dataset; -o takes one");
    }
    if args.format == Format::Parquet && cfg!(not(feature = "export")) {
        bail!("{WITHOUT_PARQUET}; pyarrow, polars and pandas read the recording as it is");
    }
    #[cfg(feature = "export")]
    if let Some(dataset) = &args.dataset {
        return super::dataset::run(&args.files, dataset);
    }
    let ([file], Some(output)) = (&args.files[..], &args.output) else {
        usage("a FILE and -o are required");
    };
    let mut reader = Reader::open(file, WantedColumns::Everything)?;
    if let Some(note) = reader.note() {
        eprintln!("raidtrace: note: {}", clean(note));
    }
    let period = ExportPeriod::new(file, args.from.as_deref(), args.to.as_deref())?;
    let written = to_file(&mut reader, args, (file, output), period)?;
    let Some(written) = written else {
        return Ok(());
    };
    for note in &written.notes {
        eprintln!("raidtrace: note: {note}");
    }
    let (count, unit) = (written.count, written.unit);
    let ending = reader.ending();
    if ending.is_cut() {
        let file = file.display();
        bail!("{file}: {ending}; {count} {unit} have been exported");
    }
    eprintln!("raidtrace: {count} {unit}");
    if let Some(hint) = written.hint {
        eprintln!("raidtrace: {hint}");
    }
    Ok(())
}

/// Exits with a usage error, like clap.
fn usage(message: &str) -> ! {
    let mut command = ExportArgs::augment_args(clap::Command::new("raidtrace export"));
    command.error(ErrorKind::ArgumentConflict, message).exit()
}

/// Returns `None` if the reader of a pipe has closed it.
fn to_file(
    reader: &mut Reader,
    args: &ExportArgs,
    (file, path): (&Path, &Path),
    period: ExportPeriod,
) -> Result<Option<ExportSummary>> {
    let array = match args.format {
        Format::Fio => fio::choose(reader.header(), args.array.as_deref())
            .with_context(|| file.display().to_string())?,
        _ => String::new(),
    };
    let name = || path.display().to_string();
    let mut output = output::open(reader.files(), path, args.force)?;
    match write(reader, args.format, path, (period, &array), &mut output.file) {
        // A closed pipe (`| head`) is not a failure.
        Err(e) if output.pending.is_none() && is_broken_pipe(&e) => Ok(None),
        Err(e) => Err(e).with_context(name),
        Ok(written) => {
            output.commit().with_context(name)?;
            Ok(Some(written))
        }
    }
}

fn write(
    reader: &mut Reader,
    format: Format,
    path: &Path,
    (period, array): (ExportPeriod, &str),
    file: &mut File,
) -> Result<ExportSummary> {
    let mut out = buffered(file.try_clone()?);
    match format {
        #[cfg(feature = "export")]
        Format::Parquet => {
            let header = serde_json::to_string(reader.header())?;
            let schema = crate::recording::schema::schema(header);
            super::table::write(reader, &schema, out).map(rows)
        }
        #[cfg(not(feature = "export"))]
        Format::Parquet => bail!("built without Parquet"),
        Format::Csv | Format::Ndjson => Ok(rows(lines::write(reader, format, &mut out)?)),
        Format::Perfetto => Ok(perfetto::write(reader, period, out)?),
        Format::Fio => {
            let name = clean(&path.to_string_lossy()).into_owned();
            Ok(fio::write(reader, period, array, &name, out)?)
        }
    }
}

fn rows(count: u64) -> ExportSummary {
    ExportSummary { count, unit: "rows", ..ExportSummary::default() }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|e| e.downcast_ref().is_some_and(broken))
}
