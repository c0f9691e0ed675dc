//! The bearer token.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// Opens a regular file and reads it. Neither a FIFO nor an endless device blocks.
///
/// # Errors
/// The file cannot be read, is not a regular file, or has more than `most` bytes.
pub fn contents(path: &Path, most: u64) -> io::Result<(File, Vec<u8>)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    if (&file).take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((file, bytes))
}

/// Reads a token: the first line of a file.
///
/// # Errors
/// The file cannot be read, every user may read it, or its first line is not a token.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let cannot = || format!("--token-file {name} cannot be read");
    let (file, text) = contents(path, MAX_FILE_BYTES).with_context(cannot)?;
    let mode = file.metadata().with_context(cannot)?.permissions().mode();
    if mode & 0o004 != 0 {
        bail!("--token-file {name} can be read by every user (mode {:o}): chmod 640", mode & 0o777);
    }
    let text = String::from_utf8(text).unwrap_or_default();
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < 16 || !token.bytes().all(|b| b.is_ascii_graphic()) {
        bail!(
            "--token-file {name}: the first line must be a token of at least 16 printable \
             characters without spaces, such as the output of openssl rand -hex 32"
        );
    }
    Ok(token.as_bytes().to_vec())
}
