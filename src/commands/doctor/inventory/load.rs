//! Lines that `inventory` printed, on this host or on others, as files of a dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use jiff::Timestamp;

use super::row::{InventoryKind, InventoryRow, SCHEMA};
use crate::analysis::units;
use crate::commands::doctor::rules::plural;
use crate::machine::host_id::HostIdentity;
use crate::recording::dataset::columns::DatasetTable;
use crate::recording::dataset::extent::Extent;
use crate::recording::dataset::files::{DatasetFiles, Outcome};
use crate::recording::dataset::place::DatasetPlace;
use crate::recording::dataset::source::DatasetSource;
use crate::recording::dataset::{is_of_files, refused};
use crate::recording::dataset_name::DatasetName;
use crate::ui::text::clean;

/// Maximum length of a line in bytes. The commands of a finding can be long; this is a hundred
/// times the longest seen.
const MAX_LINE: u64 = 1 << 20;
/// Maximum number of bytes of different lines at once, which are in memory.
const MAX_BYTES: usize = 256 << 20;
/// Maximum time by which the clock of another host may be ahead. An inventory of the far future
/// would be the newest one for ever.
const MAX_AHEAD: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of lines that are named; the number of the others is printed.
const MAX_NAMED: usize = 5;

/// Adds the lines of `files` to `dataset`.
///
/// # Errors
/// The dataset cannot be written, or a line could not be read; the others have been added.
pub fn load(files: &[PathBuf], dataset: &DatasetName) -> Result<()> {
    let mut all = Inventories::default();
    let mut problems: Vec<String> = files.iter().flat_map(|file| all.read(file)).collect();
    problems.extend(all.remove_parts());
    all.write(dataset)?;
    let last = problems.pop();
    for problem in problems {
        eprintln!("raidtrace: {}", clean(&problem));
    }
    last.map_or(Ok(()), |last| Err(Error::msg(last)))
}

/// Rows of an inventory.
#[derive(Debug, Default)]
struct HostLines {
    /// As JSON: equal ones are one.
    lines: BTreeSet<String>,
    /// True if they include the row of the host, which is the first of a whole inventory.
    has_host: bool,
}

/// Inventories of any number of hosts.
#[derive(Debug, Default)]
pub struct Inventories {
    hosts: BTreeMap<(Timestamp, HostIdentity), HostLines>,
    bytes: usize,
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
        if time > Timestamp::now() + MAX_AHEAD {
            bail!("its time {} is in the future: set the clock of that host", row.time);
        }
        // The dataset has times in microseconds.
        let time = Timestamp::from_microsecond(time.as_microsecond())?;
        let host = HostIdentity {
            host_name: row.host_name.clone(),
            host_id: row.host_id.clone(),
            kernel: row.kernel.clone(),
        };
        let line = serde_json::to_string(row)?;
        let added = self.bytes + line.len();
        if added > MAX_BYTES {
            bail!(
                "more than {} at once: load fewer files at a time",
                units::size(MAX_BYTES as u64)
            );
        }
        let of_host = self.hosts.entry((time, host)).or_default();
        of_host.has_host |= row.kind == InventoryKind::Host;
        if of_host.lines.insert(line) {
            self.bytes = added;
        }
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
        let (mut problems, mut bad, mut lines) = (Vec::new(), 0_usize, 0_usize);
        let mut line = Vec::new();
        for number in 1_usize.. {
            line.clear();
            if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let is_cut = line.len() as u64 == MAX_LINE && !line.ends_with(b"\n");
            if is_cut {
                input.skip_until(b'\n')?;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            lines += 1;
            let row = if is_cut {
                Err(Error::msg("it is longer than 1 MiB"))
            } else {
                serde_json::from_slice::<InventoryRow>(&line).map_err(Error::from)
            };
            if let Err(error) = row.and_then(|row| self.add(&row)) {
                bad += 1;
                if bad <= MAX_NAMED {
                    problems.push(format!("line {number} is not of an inventory: {error:#}"));
                }
            }
        }
        if lines == 0 {
            problems.push("is empty".to_owned());
        }
        if bad > MAX_NAMED {
            let others = plural(bad - MAX_NAMED, "other line");
            problems.push(format!("{others} not of an inventory"));
        }
        Ok(problems)
    }

    /// Removes the inventories without the row of their host, and names them. A part of one, such
    /// as its findings or that of one array, would pass for the newest inventory of the host.
    pub fn remove_parts(&mut self) -> Vec<String> {
        let all = std::mem::take(&mut self.hosts);
        let (whole, parts) = all.into_iter().partition(|(_, of_host)| of_host.has_host);
        self.hosts = whole;
        let parts: BTreeMap<_, HostLines> = parts;
        let named = parts.into_keys().map(|(time, host)| {
            format!(
                "{}: the lines of {time} are a part of its inventory, without the row of the \
                 host: load all that `raidtrace inventory` prints as root, without a TARGET",
                host.host_name
            )
        });
        named.collect()
    }

    /// Writes the files of each host into `dataset`.
    ///
    /// # Errors
    /// The dataset cannot be written; the files of hosts before remain.
    pub fn write(self, dataset: &DatasetName) -> Result<()> {
        let place = DatasetPlace::open(dataset)?;
        place.create()?;
        let (mut hosts, mut rows, mut bytes) = (0, 0, 0);
        let mut all = self.hosts.into_iter();
        let written: Result<()> = all.try_for_each(|((time, host), HostLines { lines, .. })| {
            if let Some(size) = put(&place, time, &host, &lines)? {
                (hosts, rows, bytes) = (hosts + 1, rows + lines.len(), bytes + size);
            }
            Ok(())
        });
        eprintln!(
            "raidtrace: {dataset}: {}, {}, {}",
            plural(hosts, "host"),
            plural(rows, "row"),
            units::size(bytes)
        );
        written.map_err(|error| if is_of_files(&error) { refused(dataset, error) } else { error })
    }
}

/// Writes the file of one inventory. Returns its size in bytes; `None` if the dataset has more rows
/// of it.
fn put(
    dataset: &DatasetPlace,
    time: Timestamp,
    host: &HostIdentity,
    lines: &BTreeSet<String>,
) -> Result<Option<u64>> {
    let source = DatasetSource::of_host(time, host, "inventory");
    let mut files = DatasetFiles::new(dataset, &source)?;
    let us = time.as_microsecond();
    for line in lines {
        files.push(DatasetTable::Inventory, us, serde_json::from_str(line)?)?;
    }
    let rows = i64::try_from(lines.len()).unwrap_or(i64::MAX);
    match files.commit(Extent { from_us: us, to_us: us, rows })? {
        Outcome::Written(_, bytes) => Ok(Some(bytes)),
        Outcome::Longer | Outcome::Other(_) => {
            eprintln!("raidtrace: note: the dataset has more rows of the inventory {}", source.id);
            Ok(None)
        }
    }
}
