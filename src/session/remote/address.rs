//! Address of a `raidtrace serve`.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// Default port of `raidtrace serve`.
pub const PORT: u16 = 9753;

/// An address as typed by the user: `db1`, `db1:9753`, `http://db1:9753/`, `https://db1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// True for HTTPS.
    pub is_tls: bool,
    /// Host name, or IP address without brackets.
    pub host: String,
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "not an address such as db1, db1:9753 or https://db1:9753".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_tls = match uri.scheme_str() {
            None | Some("http") => false,
            Some("https") => true,
            Some(_) => return Err("only http and https are supported".to_owned()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err("user names are not supported: pass a token with --token-file".to_owned());
        }
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        if !matches!(path, "" | "/") {
            return Err("an address must end after the port".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.port_u16() {
            Some(port) => port,
            // The port is not a number, or too large.
            None if authority.as_str().len() > authority.host().len() => return Err(wrong()),
            None => PORT,
        };
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self { is_tls, host: host.to_owned(), port })
    }
}

impl Address {
    /// Value of the Host header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}/", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::Address;
    use proptest::prelude::*;

    #[test]
    fn typed_addresses_are_parsed() {
        for (typed, read) in [
            ("db1", "http://db1:9753/"),
            ("db1:80", "http://db1:80/"),
            ("10.1.2.3", "http://10.1.2.3:9753/"),
            ("http://db1.example/", "http://db1.example:9753/"),
            ("https://db1:443", "https://db1:443/"),
            ("http://[::1]:9753", "http://[::1]:9753/"),
            ("[fe80::1]", "http://[fe80::1]:9753/"),
        ] {
            let address: Address = typed.parse().unwrap();
            assert_eq!(address.to_string(), read);
            assert_eq!(read.parse(), Ok(address));
        }
        for wrong in [
            "",
            "/",
            "ftp://db1",
            "http://db1/metrics",
            "http://me@db1",
            "db1:99999",
            "db1:",
            "http://",
            "a b",
        ] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }
}
