//! `raidtrace export`.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use clap::Args as _;
use clap::error::ErrorKind;

use super::args::{Export, Format};
use super::output::{self, Folder, buffered};
use super::period::Period;
use super::written::Written;
use super::{blktrace, fio, lines, perfetto};
use crate::recording::reader::{Reader, Wanted};
use crate::ui::text::clean;

/// Exports everything that is readable. Fails at the end if the recording is damaged.
pub fn run(args: &Export) -> Result<()> {
    if args.array.is_some() && args.format != Format::Fio {
        usage("--array is for -f fio; the other formats have all arrays");
    }
    let events = [Format::Perfetto, Format::Fio, Format::Blktrace];
    if (args.from.is_some() || args.to.is_some()) && !events.contains(&args.format) {
        usage(
            "--from and --to are for -f perfetto, fio and blktrace; the other formats have the \
             column time",
        );
    }
    if args.format == Format::Parquet && cfg!(not(feature = "export")) {
        bail!(
            "this raidtrace was built without Parquet (cargo build --features export); pyarrow, \
             polars and pandas read the recording as it is"
        );
    }
    let mut reader = Reader::open(&args.file, Wanted::Everything)?;
    if let Some(note) = reader.note() {
        eprintln!("raidtrace: note: {}", clean(note));
    }
    let period = Period::new(&args.file, args.from.as_deref(), args.to.as_deref())?;
    let written = match args.format {
        Format::Blktrace if args.output != Path::new("-") => {
            Some(to_folder(&mut reader, args, period)?)
        }
        _ => to_file(&mut reader, args, period)?,
    };
    let Some(written) = written else {
        return Ok(());
    };
    for note in &written.notes {
        eprintln!("raidtrace: note: {note}");
    }
    let (count, unit) = (written.count, written.unit);
    let ending = reader.ending();
    if ending.is_cut() {
        let file = args.file.display();
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
    let mut command = Export::augment_args(clap::Command::new("raidtrace export"));
    command.error(ErrorKind::ArgumentConflict, message).exit()
}

/// Returns `None` if the reader of a pipe has closed it.
fn to_file(reader: &mut Reader, args: &Export, period: Period) -> Result<Option<Written>> {
    let array = match args.format {
        Format::Fio => fio::choose(reader.header(), args.array.as_deref())
            .with_context(|| args.file.display().to_string())?,
        _ => String::new(),
    };
    let name = || args.output.display().to_string();
    let mut output = output::open(reader.files(), &args.output, args.force)?;
    match write(reader, args, (period, &array), &mut output.file) {
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
    args: &Export,
    (period, array): (Period, &str),
    file: &mut File,
) -> Result<Written> {
    let mut out = buffered(file.try_clone()?);
    match args.format {
        #[cfg(feature = "export")]
        Format::Parquet => {
            let header = serde_json::to_string(reader.header())?;
            let schema = crate::recording::schema::schema(header);
            super::table::write(reader, &schema, out).map(rows)
        }
        #[cfg(not(feature = "export"))]
        Format::Parquet => bail!("built without Parquet"),
        Format::Csv | Format::Ndjson => Ok(rows(lines::write(reader, args.format, &mut out)?)),
        Format::Perfetto => Ok(perfetto::write(reader, period, out)?),
        Format::Fio => {
            let name = clean(&args.output.to_string_lossy()).into_owned();
            Ok(fio::write(reader, period, array, &name, out)?)
        }
        Format::Blktrace => {
            let shared = Shared(Rc::new(RefCell::new(out)));
            blktrace::write(reader, period, &mut |_| Ok(Box::new(shared.clone())))
        }
    }
}

fn rows(count: u64) -> Written {
    Written { count, unit: "rows", ..Written::default() }
}

fn to_folder(reader: &mut Reader, args: &Export, period: Period) -> Result<Written> {
    let mut folder = Folder::new(&args.output)?;
    let sources = reader.files().to_vec();
    let written =
        blktrace::write(reader, period, &mut |name| folder.create(&sources, name, args.force))
            .with_context(|| args.output.display().to_string())?;
    folder.commit()?;
    Ok(written)
}

/// One output of all members: blkparse reads such a stream with `-i -`.
#[derive(Clone)]
struct Shared(Rc<RefCell<BufWriter<File>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|e| e.downcast_ref().is_some_and(broken))
}
