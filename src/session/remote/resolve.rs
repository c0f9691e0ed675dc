//! IP addresses of a host name, from getent(1).
//!
//! getaddrinfo(3) loads the name services of /etc/nsswitch.conf into the process. In a static
//! binary they may belong to another version of the C library: a binary of Debian 12 crashes on
//! Debian 13. getent uses the machine's own library.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

/// Addresses of `host`, an IP address or a name, without duplicates. Cancel safe: getent is killed.
///
/// # Errors
/// The name is unknown, or getent cannot be run.
pub(super) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let output = Command::new("getent")
        .args(["ahosts", "--", host])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await;
    let output = match output {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            bail!("no getent on this machine to look up {host}: use an IP address")
        }
        other => other.context("getent")?,
    };
    let addresses = parse(&String::from_utf8_lossy(&output.stdout), port);
    if addresses.is_empty() {
        bail!("no address of the host {host} is known (getent ahosts)");
    }
    Ok(addresses)
}

/// Addresses in the output of getent: one at the start of each line, several lines for each.
fn parse(text: &str, port: u16) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for line in text.lines() {
        let word = line.split_whitespace().next();
        if let Some(address) = word.and_then(|w| w.parse().ok()) {
            let address = SocketAddr::new(address, port);
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn addresses_of_getent() {
        let text = "::1             STREAM localhost\n::1             DGRAM  \n127.0.0.1       \
                    STREAM \nfe80::1%eth0    RAW\n\nx";
        let found: Vec<_> = parse(text, 9).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["[::1]:9", "127.0.0.1:9"]);
    }
}
