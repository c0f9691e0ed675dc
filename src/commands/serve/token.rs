//! The bearer token.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Maximum file size in bytes.
const SIZE: u64 = 4096;

/// Reads a token: the first line of a file.
///
/// # Errors
/// The file cannot be read, or its first line is not a token.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display();
    let text = File::open(path)
        .and_then(|file| {
            let mut text = String::new();
            let size = file.take(SIZE + 1).read_to_string(&mut text)?;
            if size as u64 > SIZE {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(text)
        })
        .with_context(|| format!("--token-file {name} cannot be read"))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < 16 || !token.bytes().all(|b| b.is_ascii_graphic()) {
        bail!(
            "--token-file {name}: the first line must be a token of at least 16 printable \
             characters without spaces, such as the output of openssl rand -hex 32"
        );
    }
    Ok(token.as_bytes().to_vec())
}
