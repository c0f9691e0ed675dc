//! A Hive-partitioned Parquet dataset of many recordings and inventories, of any number of hosts.
//!
//! * [`columns`] (`columns.toml`): the tables. [`source`]: names of directories and files.
//! * [`files`]: the files of one source. [`place`]: puts them into a [`directory`], or into a
//!   `bucket` of object storage. [`extent`]: the part of a source that a file was made of.

#[cfg(feature = "object-store")]
mod bucket;
pub mod columns;
pub mod directory;
pub mod extent;
pub mod files;
pub mod place;
pub mod source;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};

use anyhow::{Error, anyhow};

use crate::recording::dataset_name::DatasetName;

/// The error of a system call or of a server.
fn system(error: &Error) -> Option<&io::Error> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// True if files cannot be written; other sources have the same problem then.
pub fn is_of_files(error: &Error) -> bool {
    system(error).is_some()
}

/// The error of a dataset that cannot be written: what, why, and what to do.
pub fn refused(name: &DatasetName, error: Error) -> Error {
    let system = system(&error);
    let kind = system.map(io::Error::kind);
    let advice = match name {
        DatasetName::Directory(_) => of_directory(kind),
        DatasetName::Bucket { .. } => of_bucket(kind),
    };
    let why = system.map_or_else(|| format!("{error:#}"), ToString::to_string);
    anyhow!("{name}: {why}: {advice}; files that were complete are unchanged")
}

fn of_directory(kind: Option<ErrorKind>) -> &'static str {
    match kind {
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
    }
}

fn of_bucket(kind: Option<ErrorKind>) -> &'static str {
    match kind {
        Some(ErrorKind::StorageFull) => "free space in the bucket, or raise its quota",
        Some(ErrorKind::PermissionDenied) => {
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they \
             may list, read, write and delete objects there"
        }
        Some(ErrorKind::NotFound) => "create the bucket, or name another one",
        Some(ErrorKind::NotConnected | ErrorKind::TimedOut) => {
            "check the network and AWS_ENDPOINT_URL"
        }
        _ => "check AWS_REGION, AWS_ENDPOINT_URL and the other variables, or name a directory",
    }
}
