//! `raidtrace inventory`: a row for the host, each array, member, filesystem and finding, as JSON
//! lines or in a dataset.
//!
//! * `row`: facts and findings in, rows out.
//! * `load`: rows of any number of hosts in, files of a dataset out.

pub mod args;
#[cfg(feature = "export")]
pub(super) mod load;
pub(super) mod row;

use std::io::{self, Write as _};

use anyhow::{Result, bail};
use jiff::Timestamp;

use self::args::InventoryArgs;
use self::row::{InventoryKind, InventoryRow, SCHEMA};
use super::command::{Examined, examine};
use super::json;
use crate::analysis::time::rfc3339;
use crate::machine::Sys;
use crate::machine::host_id::HostIdentity;
#[cfg(feature = "export")]
use crate::machine::privileges;
use crate::recording::WITHOUT_PARQUET;
#[cfg(feature = "export")]
use crate::recording::dataset_name::DatasetName;
use crate::ui::lines::success_if_closed;
use crate::ui::text::clean;

/// Runs `inventory`.
///
/// # Errors
/// A target does not exist, the dataset or the output cannot be written, or a line could not be
/// read.
pub fn run(args: &InventoryArgs) -> Result<()> {
    if args.dataset.is_some() && cfg!(not(feature = "export")) {
        bail!("--dataset: {WITHOUT_PARQUET}");
    }
    #[cfg(feature = "export")]
    if let (Some(dataset), false) = (&args.dataset, args.load.is_empty()) {
        return load::load(&args.load, dataset);
    }
    let is_root = rustix::process::geteuid().is_root();
    if args.dataset.is_some() && !is_root {
        bail!("--dataset: only root can read all that an inventory has");
    }
    let Examined { facts, found, .. } = examine(&Sys::live(), &args.targets, true)?;
    for note in &facts.notes {
        eprintln!("raidtrace: note: {}", clean(note));
    }
    let mut rows = row::rows(&facts, &found, &host());
    if !args.targets.is_empty() || !is_root {
        // The row of the host says that this is the whole inventory.
        rows.retain(|row| row.kind != InventoryKind::Host);
    }
    #[cfg(feature = "export")]
    if let Some(dataset) = &args.dataset {
        let mut all = load::Inventories::default();
        rows.iter().try_for_each(|row| all.add(row))?;
        if let DatasetName::Bucket { .. } = dataset {
            // A client of a server needs none.
            privileges::keep_none();
        }
        return all.write(dataset);
    }
    let mut out = io::stdout().lock();
    let written = rows.iter().try_for_each(|row| json::write(&mut out, row));
    success_if_closed(written.and_then(|()| out.flush()), || "writing the rows".to_owned())
}

/// The row of this host.
fn host() -> InventoryRow {
    let HostIdentity { host_name, host_id, kernel } = HostIdentity::own();
    InventoryRow {
        schema: SCHEMA.to_owned(),
        time: rfc3339(Timestamp::now().as_microsecond()),
        host_name,
        host_id,
        kernel,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InventoryRow::default()
    }
}
