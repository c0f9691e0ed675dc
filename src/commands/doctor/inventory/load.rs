//! Lines that `inventory` printed, on this host or on others, as files of a dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, bail};
use jiff::Timestamp;

use super::row::{InventoryRow, SCHEMA};
use crate::analysis::units;
use crate::commands::doctor::rules::plural;
use crate::machine::host_id::HostIdentity;
use crate::recording::dataset::columns::DatasetTable;
use crate::recording::dataset::files::{DatasetFiles, Extent, Outcome};
use crate::recording::dataset::source::DatasetSource;
use crate::recording::dataset::{create, is_of_files, refused};
use crate::ui::text::clean;

/// Maximum length of a line in bytes. The commands of a finding can be long; this is a hundred
/// times the longest seen.
const MAX_LINE: u64 = 1 << 20;
/// Maximum number of rows at once: they are sorted in memory, about 1 GiB then.
const MAX_ROWS: usize = 1 << 20;
/// Maximum number of lines that are named; the number of the others is printed.
const MAX_NAMED: usize = 5;

/// Adds the lines of `files` to `dataset`.
///
/// # Errors
/// The dataset cannot be written, or a line could not be read; the others have been added.
pub fn load(files: &[PathBuf], dataset: &Path) -> Result<()> {
    let mut all = Inventories::default();
    let mut problems: Vec<String> = files.iter().flat_map(|file| all.read(file)).collect();
    all.write(dataset)?;
    let last = problems.pop();
    for problem in problems {
        eprintln!("raidtrace: {}", clean(&problem));
    }
    last.map_or(Ok(()), |last| Err(Error::msg(last)))
}

/// Inventories of any number of hosts.
#[derive(Debug, Default)]
pub struct Inventories {
    /// Rows as JSON: equal ones are one.
    hosts: BTreeMap<(Timestamp, HostIdentity), BTreeSet<String>>,
    rows: usize,
}

impl Inventories {
    /// Adds a row.
    ///
    /// # Errors
    /// It is of another schema, has no possible time, or there are too many rows.
    pub fn add(&mut self, row: &InventoryRow) -> Result<()> {
        if row.schema != SCHEMA {
            bail!("its schema is {:?}, not {SCHEMA}", row.schema);
        }
        let time: Timestamp = row.time.parse().context("its time")?;
        if time.as_second() < 0 {
            bail!("its time {} is before 1970", row.time);
        }
        if self.rows >= MAX_ROWS {
            bail!("more than {MAX_ROWS} rows at once: load fewer files at a time");
        }
        let host = HostIdentity {
            host_name: row.host_name.clone(),
            host_id: row.host_id.clone(),
            kernel: row.kernel.clone(),
        };
        let lines = self.hosts.entry((time, host)).or_default();
        let is_new = lines.insert(serde_json::to_string(row)?);
        self.rows += usize::from(is_new);
        Ok(())
    }

    /// Adds the lines of a file; - is standard input. Returns what is wrong with it.
    pub fn read(&mut self, file: &Path) -> Vec<String> {
        let name = if file == Path::new("-") { Path::new("standard input") } else { file };
        let problems = if file == Path::new("-") {
            self.read_lines(io::stdin().lock())
        } else {
            File::open(file).and_then(|file| self.read_lines(BufReader::new(file)))
        };
        let problems = problems.unwrap_or_else(|error| vec![error.to_string()]);
        problems.into_iter().map(|problem| format!("{}: {problem}", name.display())).collect()
    }

    fn read_lines(&mut self, mut input: impl BufRead) -> io::Result<Vec<String>> {
        let (mut problems, mut bad) = (Vec::new(), 0_usize);
        let mut line = Vec::new();
        for number in 1_usize.. {
            line.clear();
            if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                if number == 1 {
                    problems.push("is empty".to_owned());
                }
                break;
            }
            if line.len() as u64 == MAX_LINE {
                input.skip_until(b'\n')?;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let row = serde_json::from_slice::<InventoryRow>(&line).map_err(Error::from);
            if let Err(error) = row.and_then(|row| self.add(&row)) {
                bad += 1;
                if bad <= MAX_NAMED {
                    problems.push(format!("line {number} is not of an inventory: {error:#}"));
                }
            }
        }
        if bad > MAX_NAMED {
            problems.push(format!("{} more lines are not of an inventory", bad - MAX_NAMED));
        }
        Ok(problems)
    }

    /// Writes the files of each host into `dataset`.
    ///
    /// # Errors
    /// The dataset cannot be written; the files of hosts before remain.
    pub fn write(self, dataset: &Path) -> Result<()> {
        create(dataset)?;
        let (mut hosts, mut rows, mut bytes) = (0, 0, 0);
        let written = self.hosts.into_iter().try_for_each(|((time, host), lines)| {
            let size = put(dataset, time, &host, &lines)?;
            (hosts, rows, bytes) = (hosts + 1, rows + lines.len(), bytes + size);
            Ok(())
        });
        eprintln!(
            "raidtrace: {}: {}, {}, {}",
            dataset.display(),
            plural(hosts, "host"),
            plural(rows, "row"),
            units::size(bytes)
        );
        written.map_err(
            |error: Error| {
                if is_of_files(&error) { refused(dataset, error) } else { error }
            },
        )
    }
}

/// Writes the file of one inventory. Returns its size in bytes; 0 if the dataset has more of it.
fn put(
    dataset: &Path,
    time: Timestamp,
    host: &HostIdentity,
    lines: &BTreeSet<String>,
) -> Result<u64> {
    let source = DatasetSource::of_host(time, host);
    let mut files = DatasetFiles::new(dataset, &source)?;
    let us = time.as_microsecond();
    for line in lines {
        files.push(DatasetTable::Inventory, us, serde_json::from_str(line)?)?;
    }
    let rows = i64::try_from(lines.len()).unwrap_or(i64::MAX);
    match files.commit(Extent { from_us: us, to_us: us, rows })? {
        Outcome::Written(_, bytes) => Ok(bytes),
        Outcome::Longer | Outcome::Other(_) => {
            eprintln!("raidtrace: note: the dataset has more rows of the inventory {}", source.id);
            Ok(0)
        }
    }
}
