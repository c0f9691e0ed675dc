//! Parts of the JSON that intervals of `raidtrace alloc` and of `raidtrace slow` have in common.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::machine::Dev;
use crate::printable::unhex;

/// Maximum length of the JSON. An interval of `alloc` with three filesystems, 1024 tasks and files
/// with long paths has a tenth of it, 10,000 slow operations half.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// Parses an interval. `schema` returns its schema, which must be `expected`.
///
/// # Errors
/// The text is too long or invalid.
pub(super) fn parse<T: DeserializeOwned>(
    json: &str,
    expected: &str,
    schema: impl Fn(&T) -> &str,
) -> Result<T, String> {
    if json.len() > MAX_BYTES {
        return Err(format!("more than {} MiB of JSON", MAX_BYTES >> 20));
    }
    let interval: T = serde_json::from_str(json).map_err(|e| e.to_string())?;
    match schema(&interval) {
        found if found == expected => Ok(interval),
        other => Err(format!("schema is {:?}, not {expected}", clip(other))),
    }
}

/// Length of an interval of `interval_s` seconds.
pub(super) fn length(interval_s: f64) -> Result<Duration, String> {
    let length =
        Duration::try_from_secs_f64(interval_s).ok().filter(|i| *i <= Duration::from_secs(1 << 32));
    length.ok_or_else(|| format!("interval_s is {interval_s}"))
}

/// Formats a device number as `9:3`.
pub(super) fn device(dev: u32) -> String {
    Dev::from_kernel(dev).to_string()
}

/// Inverse of [`device`].
pub(super) fn number(device: &str) -> Result<u32, String> {
    let dev = Dev::parse(device)
        .filter(|d| d.major < 1 << 12 && d.minor < 1 << 20)
        .ok_or_else(|| format!("{:?} is not a device number", clip(device)))?;
    Ok(dev.kernel())
}

/// The start of an untrusted text, for a message.
pub(super) fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A name as text; [`crate::printable::hex`] has its bytes if it is not UTF-8.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes of a name that may not be UTF-8.
pub(super) fn raw(text: String, hexadecimal: Option<String>) -> Vec<u8> {
    hexadecimal.and_then(|h| unhex(&h)).unwrap_or_else(|| text.into_bytes())
}
