//! Encodes an interval as a line of JSON for another raidtrace of the same version: the fields are
//! those of the structs in memory. Scripts should read `/api/interval`, whose fields are stable.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::analysis::recent::INTERVALS;
use crate::analysis::snapshot::{ArraySnapshot, Snapshot};

/// HTTP path of these lines in `raidtrace serve`.
pub const PATH: &str = "/api/snapshots";
/// Longest valid duration in a message.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Largest valid factor in a message.
const LARGEST: f64 = 1e9;

#[derive(Serialize)]
struct Message<'a> {
    version: &'static str,
    snapshot: &'a Snapshot,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Received {
    snapshot: Snapshot,
}

/// Encodes a snapshot as a line that ends with a newline.
///
/// # Errors
/// Never for a snapshot of a session.
pub fn encode(snapshot: &Snapshot) -> serde_json::Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut line = serde_json::to_string(&Message { version, snapshot })?;
    line.push('\n');
    Ok(line)
}

/// Decodes a line.
///
/// # Errors
/// The line cannot be parsed, as it is damaged or from another version of raidtrace, or a figure is
/// out of range.
pub fn decode(line: &[u8]) -> Result<Snapshot> {
    let read = serde_json::from_slice::<Received>(line).map(|r| r.snapshot);
    match read {
        Ok(snapshot) if is_sound(&snapshot) => Ok(snapshot),
        Ok(_) => bail!("figures out of range"),
        Err(error) => match serde_json::from_slice::<Version>(line) {
            Ok(other) if other.version != env!("CARGO_PKG_VERSION") => bail!(
                "the server runs raidtrace {:.20}, this is {}: use the same version",
                other.version.escape_debug().to_string(),
                env!("CARGO_PKG_VERSION")
            ),
            _ => bail!("not an interval of raidtrace ({error})"),
        },
    }
}

/// True if no figure is so large that a sum can overflow, and no share exceeds 1.
fn is_sound(snapshot: &Snapshot) -> bool {
    snapshot.interval <= LONGEST && snapshot.arrays.iter().all(is_array_sound)
}

fn is_array_sound(array: &ArraySnapshot) -> bool {
    let members = array.members.iter().all(|member| {
        let recent = member.recent.iter().all(|r| {
            r.interval <= LONGEST
                && r.utilisation.is_none_or(is_share)
                && (0.0..=f64::MAX / 1e6).contains(&r.waited.us)
        });
        recent
            && member.recent.len() <= INTERVALS
            && member.disk.is_none_or(|d| is_share(d.utilisation))
            && member.stall.is_none_or(|s| s.lasted <= LONGEST)
    });
    let hotspot = array.hotspot.as_ref().is_none_or(|h| {
        h.over <= LONGEST && is_share(h.share) && (0.0..=LARGEST).contains(&h.skew)
    });
    let amplification = array.amplification.as_ref();
    let stalls = array.journal_stalls.iter().all(|j| j.wait <= LONGEST * 1000);
    members && hotspot && stalls && amplification.is_none_or(|a| a.over <= LONGEST)
}

fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::analysis::fixture;
    use crate::analysis::window::Window;
    use std::time::Duration;

    /// A snapshot with every field that a session fills in.
    fn snapshot() -> crate::analysis::snapshot::Snapshot {
        let mut window = Window::new(Duration::from_secs(10));
        let mut snapshot = fixture::raid0(12);
        window.evaluate(&mut snapshot);
        snapshot
    }

    #[test]
    fn encoding_preserves_a_snapshot() {
        let sent = snapshot();
        let received = decode(encode(&sent).unwrap().as_bytes()).unwrap();
        assert_eq!(format!("{received:?}"), format!("{sent:?}"));
    }

    #[test]
    fn version_mismatch_and_damage_have_different_errors() {
        let line = encode(&snapshot()).unwrap();
        let why = |line: &str| decode(line.as_bytes()).unwrap_err().to_string();
        let other = r#"{"version":"9.9","snapshot":{}}"#;
        assert!(why(other).starts_with("the server runs raidtrace 9.9"));
        assert!(why("<html>").starts_with("not an interval"));
        assert!(why(&line[..line.len() / 2]).starts_with("not an interval"));
        let busy = line.replacen("\"utilisation\":0.", "\"utilisation\":7.", 1);
        assert_ne!(busy, line);
        assert_eq!(why(&busy), "figures out of range");
    }
}
