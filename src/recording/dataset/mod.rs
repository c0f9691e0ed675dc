//! A Hive-partitioned Parquet dataset of many recordings and inventories, of any number of hosts.
//!
//! * [`columns`] (`columns.toml`): the tables. [`source`]: names of directories and files.
//! * [`files`]: the files of one source, replaced at once.

pub mod columns;
pub mod files;
pub mod source;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Error, Result, anyhow, bail};

/// Creates the directory of a dataset unless it exists.
///
/// # Errors
/// It is not a directory that can be created, or the name is that of object storage.
pub fn create(dataset: &Path) -> Result<()> {
    if dataset.to_str().is_some_and(|text| text.contains("://")) {
        bail!(
            "{}: object storage is not supported: name a directory, and upload it with the tool \
             of your storage, such as rclone copy or aws s3 sync",
            dataset.display()
        );
    }
    fs::create_dir_all(dataset).map_err(|error| refused(dataset, error.into()))
}

/// The error of a system call.
fn system(error: &Error) -> Option<&io::Error> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// True if files cannot be written; other sources have the same problem then.
pub fn is_of_files(error: &Error) -> bool {
    system(error).is_some()
}

/// The error of a dataset that cannot be written: what, why, and what to do.
pub fn refused(dataset: &Path, error: Error) -> Error {
    let system = system(&error);
    let advice = match system.map(io::Error::kind) {
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            "free space there, or name another directory"
        }
        Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            "name a directory that this user may write, or change its mode"
        }
        Some(ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            "name a directory, or one that does not exist"
        }
        _ => "name another directory",
    };
    let name = dataset.display();
    let why = system.map_or_else(|| format!("{error:#}"), ToString::to_string);
    anyhow!("{name}: {why}: {advice}; files that were complete are unchanged")
}
