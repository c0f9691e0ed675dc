//! Access control: the Host header, the bearer token, and the origin of requests that change state.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

use super::connections::Connection;

/// Headers of every response. The page loads nothing from other servers, runs only this server's
/// script, and cannot be framed.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src \
         'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Paths that need no token: the page itself, which contains no figures and asks for the token.
const PUBLIC: [&str; 4] = ["/", "/page.js", "/page.css", "/favicon.ico"];

/// Access rules.
#[derive(Debug)]
pub struct AccessRules {
    token: Option<Vec<u8>>,
    hosts: Vec<String>,
}

impl AccessRules {
    /// `token`: required token, if any. `hosts`: accepted host names, in addition to IP addresses
    /// and localhost.
    pub fn new(token: Option<Vec<u8>>, hosts: Vec<String>) -> Self {
        let hosts = hosts.into_iter().map(|h| h.to_ascii_lowercase()).collect();
        Self { token, hosts }
    }

    /// True for IP addresses, localhost and the configured names. Other names are refused because
    /// of DNS rebinding: an attacker's name can be pointed at this machine after the attacker's
    /// page was loaded.
    fn accepts_host(&self, host: &str) -> bool {
        let host = without_port(host).to_ascii_lowercase();
        let is_address = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').is_some_and(|a| a.parse::<Ipv6Addr>().is_ok()),
            None => host.parse::<IpAddr>().is_ok(),
        };
        is_address || host == "localhost" || self.hosts.contains(&host)
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else {
            return false;
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .map(HeaderValue::as_bytes)
            .and_then(|g| g.split_at_checked(7));
        given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(given.ct_eq(token))
        })
    }

    /// Status and reason for refusing the request; `None` if it is allowed.
    fn refuses(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<(StatusCode, &'static str)> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|h| h.to_str().ok());
        // RFC 9112, 3.2: two Host headers, which a proxy may read differently.
        if hosts.next().is_some() {
            return Some((StatusCode::BAD_REQUEST, "there are two Host headers\n"));
        }
        let Some(host) = host.filter(|h| self.accepts_host(h)) else {
            return Some((
                StatusCode::MISDIRECTED_REQUEST,
                "unknown host name: use an IP address, or start raidtrace serve with --host NAME\n",
            ));
        };
        let has_token = self.has_token(headers);
        if self.token.is_some() && !has_token && !PUBLIC.contains(&path) {
            return Some((
                StatusCode::UNAUTHORIZED,
                "a token is required: Authorization: Bearer TOKEN, with the token in \
                 --token-file\n",
            ));
        }
        if !matches!(*method, Method::GET | Method::HEAD)
            && !has_token
            && !is_same_origin(headers, host)
        {
            return Some((
                StatusCode::FORBIDDEN,
                "only this server's own page or a client with the token in --token-file may do \
                 this\n",
            ));
        }
        None
    }
}

/// True if the Origin header names a page of `host`.
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|o| o.to_str().ok());
    let host_of = |origin: &str| {
        let (_, host) = origin.split_once("://")?;
        Some(host.to_ascii_lowercase())
    };
    origin.and_then(host_of) == Some(host.to_ascii_lowercase())
}

fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon)
            if !host.ends_with(']') && !host[..colon].contains(':')
                || host[..colon].ends_with(']') =>
        {
            &host[..colon]
        }
        _ => host,
    }
}

/// Passes the request on or refuses it, and adds [`HEADERS`] to the response.
pub async fn guard(
    State(guard): State<Arc<AccessRules>>,
    request: Request,
    next: Next,
) -> Response {
    let has_token = guard.has_token(request.headers());
    if let Some(connection) = request.extensions().get::<Arc<Connection>>().filter(|_| has_token) {
        connection.authorise();
    }
    let refused = guard.refuses(request.method(), request.uri().path(), request.headers());
    let mut response = match refused {
        Some((StatusCode::UNAUTHORIZED, text)) => {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
        }
        Some(refused) => refused.into_response(),
        None => next.run(request).await,
    };
    // Clients without the token do not keep connections.
    if guard.token.is_some() && !has_token {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Reason for refusing to listen on this address; `None` if it is allowed.
pub fn refuses_address(listen: SocketAddr, has_token: bool, insecure: bool) -> Option<String> {
    let is_loopback = listen.ip().to_canonical().is_loopback();
    (!is_loopback && !has_token && !insecure).then(|| {
        format!(
            "--listen {listen} is reachable from other machines, and the figures reveal details \
             of this one: require a token with --token-file FILE, or add --insecure"
        )
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
    use proptest::prelude::*;

    use super::{AccessRules, refuses_address, without_port};

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn unknown_host_names_are_refused() {
        let guard = AccessRules::new(None, vec!["Storage1".to_owned()]);
        let status = |host: &str| {
            let refused = guard.refuses(&Method::GET, "/metrics", &headers(&[("host", host)]));
            refused.map(|(status, _)| status.as_u16())
        };
        for host in [
            "127.0.0.1:9753",
            "127.0.0.1",
            "[::1]:9753",
            "[::1]",
            "localhost:1",
            "LOCALHOST",
            "storage1:9753",
            "10.1.2.3",
        ] {
            assert_eq!(status(host), None, "{host}");
        }
        for host in [
            "evil.example:9753",
            "localhost.evil.example",
            "",
            ":9753",
            "127.0.0.1.nip.io",
            "[127.0.0.1]",
            "[[::1]]",
            "[::1",
        ] {
            assert_eq!(status(host), Some(421), "{host}");
        }
        let mut two = headers(&[("host", "127.0.0.1")]);
        two.append("host", "evil.example".parse().unwrap());
        let two = guard.refuses(&Method::GET, "/metrics", &two);
        assert_eq!(two.unwrap().0, StatusCode::BAD_REQUEST);
        let none = guard.refuses(&Method::GET, "/metrics", &HeaderMap::new());
        assert_eq!(none.unwrap().0, StatusCode::MISDIRECTED_REQUEST);
    }

    #[test]
    fn the_token_is_required() {
        let guard = AccessRules::new(Some(b"secret".to_vec()), Vec::new());
        let status = |path: &str, token: Option<&str>| {
            let mut all = vec![("host", "10.0.0.1")];
            all.extend(token.map(|t| ("authorization", t)));
            guard.refuses(&Method::GET, path, &headers(&all)).map(|(status, _)| status.as_u16())
        };
        assert_eq!(status("/", None), None);
        assert_eq!(status("/metrics", None), Some(401));
        assert_eq!(status("/metrics", Some("Bearer secret")), None);
        assert_eq!(status("/metrics", Some("bearer secret")), None);
        for wrong in ["Bearer secre", "Bearer secret ", "Basic secret", "secret", ""] {
            assert_eq!(status("/metrics", Some(wrong)), Some(401), "{wrong}");
        }
    }

    #[test]
    fn only_same_origin_requests_may_post() {
        let guard = AccessRules::new(None, Vec::new());
        let status = |origin: Option<&str>| {
            let mut all = vec![("host", "127.0.0.1:9753")];
            all.extend(origin.map(|o| ("origin", o)));
            let refused = guard.refuses(&Method::POST, "/dump", &headers(&all));
            refused.map(|(status, _)| status.as_u16())
        };
        assert_eq!(status(Some("http://127.0.0.1:9753")), None);
        for wrong in [None, Some("null"), Some("http://evil.example"), Some("http://127.0.0.1:80")]
        {
            assert_eq!(status(wrong), Some(403), "{wrong:?}");
        }
    }

    #[test]
    fn non_loopback_addresses_need_a_token_or_insecure() {
        let refused = |address: &str, token, insecure| {
            refuses_address(address.parse().unwrap(), token, insecure).is_some()
        };
        assert!(!refused("127.0.0.1:1", false, false));
        assert!(!refused("[::1]:1", false, false));
        assert!(!refused("[::ffff:127.0.0.1]:1", false, false));
        assert!(refused("0.0.0.0:1", false, false));
        assert!(refused("[::]:1", false, false));
        assert!(!refused("0.0.0.0:1", true, false));
        assert!(!refused("0.0.0.0:1", false, true));
    }

    proptest! {
        #[test]
        fn any_host_header_is_parsed(host in "\\PC{0,40}") {
            let known = AccessRules::new(None, Vec::new()).accepts_host(&host);
            prop_assert!(!known || host.len() >= 2);
            prop_assert!(host.starts_with(without_port(&host)));
        }
    }
}
