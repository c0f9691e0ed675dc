//! Identifier of this installation.

use std::fs;

use ring::hmac;

/// Identifier of raidtrace for systemd's application-specific machine ids.
const APPLICATION: u128 = 0x6f3d_1c52_9a0e_4b77_8d46_27c5_b1e8_03fa;

/// A host, and its kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostIdentity {
    pub host_name: String,
    pub host_id: Option<String>,
    /// `uname -r`.
    pub kernel: String,
}

impl HostIdentity {
    /// This host.
    pub fn own() -> Self {
        let uname = rustix::system::uname();
        Self {
            host_name: uname.nodename().to_string_lossy().into_owned(),
            host_id: host_id(),
            kernel: uname.release().to_string_lossy().into_owned(),
        }
    }
}

/// Identifier of this installation: 32 hexadecimal digits; `None` without a valid /etc/machine-id.
///
/// machine-id(5) asks not to publish the id itself: this one is derived from it, as by
/// `systemd-id128 machine-id --app-specific=6f3d1c52-9a0e-4b77-8d46-27c5b1e803fa`.
fn host_id() -> Option<String> {
    derived(&fs::read_to_string("/etc/machine-id").ok()?)
}

/// The identifier for the text of /etc/machine-id, see sd_id128_get_machine_app_specific(3).
fn derived(machine_id: &str) -> Option<String> {
    let id = machine_id.trim_end();
    let key = u128::from_str_radix(id, 16).ok().filter(|key| id.len() == 32 && *key != 0)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key.to_be_bytes());
    let tag = hmac::sign(&key, &APPLICATION.to_be_bytes());
    let (bytes, _) = tag.as_ref().split_first_chunk()?;
    // Version 4, variant DCE.
    let id = u128::from_be_bytes(*bytes) & !(0xf000 << 64 | 0xc << 60) | 0x4000 << 64 | 0x8 << 60;
    Some(format!("{id:032x}"))
}

#[cfg(test)]
mod tests {
    use super::derived;

    #[test]
    fn ids_are_those_of_systemd() {
        let id = derived("0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(id, "73f8e7e745a241a48d6c6b182aa6b760");
        for none in ["", "uninitialized\n", "0123", "00000000000000000000000000000000\n"] {
            assert_eq!(derived(none), None, "{none:?}");
        }
    }
}
