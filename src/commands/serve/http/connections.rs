//! Accepts connections, with limits on their number, on the time to send a request, and on the time
//! to receive a response.
//!
//! A new connection always gets a place: of too many connections, the one without the token whose
//! last request is the oldest is closed. So neither slow nor idle clients keep a scrape waiting.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::commands::serve::token::contents;

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of connections without the token from one address (IPv6: from one /64).
const MAX_PER_PEER: usize = 64;
/// Timeout for the headers of a request, including the next request on an open connection, and for
/// the TLS handshake.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Write timeout: a client must accept some bytes of the response within this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of a PEM file.
const MAX_PEM_BYTES: u64 = 1 << 20;
/// Maximum size of the headers of a request.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Pause after an error of accept(2), such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads the certificate and the key.
///
/// # Errors
/// A file cannot be read, or the key does not match the certificate.
pub fn tls(cert: &Path, key: &Path) -> Result<TlsAcceptor> {
    let of_cert = || format!("--tls-cert {} cannot be read", cert.display());
    let of_key = || format!("--tls-key {} cannot be read", key.display());
    let (_, chain) = contents(cert, MAX_PEM_BYTES).with_context(of_cert)?;
    let chain = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<Vec<_>, _>>()
        .with_context(of_cert)?;
    let (_, secret) = contents(key, MAX_PEM_BYTES).with_context(of_key)?;
    let secret = PrivateKeyDer::from_pem_slice(&secret).with_context(of_key)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .with_context(|| format!("{} and {} cannot be used", cert.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// An open connection, as an extension of its requests.
#[derive(Debug)]
pub struct Connection {
    peer: IpAddr,
    /// True after a request with the token.
    is_authorised: AtomicBool,
    /// Number of the last request on any connection when this one sent its last request, or was
    /// accepted.
    used: AtomicU64,
}

impl Connection {
    pub fn new(peer: IpAddr, used: u64) -> Self {
        Self { peer, is_authorised: AtomicBool::new(false), used: AtomicU64::new(used) }
    }

    /// Marks the connection as one of a client that has the token.
    pub fn authorise(&self) {
        self.is_authorised.store(true, Ordering::Relaxed);
    }

    /// Order of closing, the lowest first.
    fn rank(&self) -> (bool, u64) {
        (self.is_authorised.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed))
    }
}

/// Open connections and the tasks that serve them.
#[derive(Default)]
struct Connections(Vec<(Arc<Connection>, JoinHandle<()>)>);

impl Connections {
    /// Closes a connection if there is no place for another from `peer`.
    fn make_room(&mut self, peer: IpAddr) {
        self.0.retain(|(_, task)| !task.is_finished());
        let of_peer = |c: &Connection| c.peer == peer && !c.rank().0;
        let too_many = self.0.iter().filter(|(c, _)| of_peer(c)).count() >= MAX_PER_PEER;
        if !too_many && self.0.len() < MAX_CONNECTIONS {
            return;
        }
        let candidates = self.0.iter().enumerate().filter(|(_, (c, _))| !too_many || of_peer(c));
        if let Some((index, _)) = candidates.min_by_key(|(_, (c, _))| c.rank()) {
            let (_, task) = self.0.swap_remove(index);
            task.abort();
        }
    }
}

/// Address by which connections are counted: for IPv6 the network of 64 bits, which one host
/// usually has to itself.
fn counted(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64))
        }
        other => other,
    }
}

/// Counts a connection while it exists.
struct OpenConnection(Arc<AtomicU64>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves `router` on `listener` until the returned future is dropped. `open` counts the open
/// connections.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    open: Arc<AtomicU64>,
) {
    let mut places = Connections::default();
    let clock = Arc::new(AtomicU64::new(0));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok((stream, address)) => (stream, counted(address.ip())),
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // Requests that have arrived are read first: their token keeps their connection open.
        tokio::task::yield_now().await;
        places.make_room(peer);
        let _ = stream.set_nodelay(true);
        let connection = Arc::new(Connection::new(peer, clock.fetch_add(1, Ordering::Relaxed)));
        open.fetch_add(1, Ordering::Relaxed);
        let counted = OpenConnection(Arc::clone(&open));
        let (tls, router, clock) = (tls.clone(), router.clone(), Arc::clone(&clock));
        let served = Arc::clone(&connection);
        let task = tokio::spawn(async move {
            let _counted = counted;
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(WRITE_TIMEOUT));
            let _ = match tls {
                None => serve_connection(stream, router, served, clock).await,
                Some(tls) => {
                    let accepted = tls.accept(Box::pin(stream));
                    match tokio::time::timeout(REQUEST_TIMEOUT, accepted).await {
                        Ok(Ok(stream)) => serve_connection(stream, router, served, clock).await,
                        _ => Ok(()),
                    }
                }
            };
        });
        places.0.push((connection, task));
    }
}

/// Answers the requests on `stream`. `clock` numbers requests, see [`Connection`].
pub async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite,
    router: Router,
    connection: Arc<Connection>,
    clock: Arc<AtomicU64>,
) -> io::Result<()> {
    let stream = pin!(stream);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        connection.used.store(clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        request.extensions_mut().insert(Arc::clone(&connection));
        router.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    served.await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::{Connection, Connections, MAX_CONNECTIONS, MAX_PER_PEER, counted};

    #[tokio::test]
    async fn the_oldest_connection_without_the_token_is_closed() {
        let mut places = Connections::default();
        let mut used = 0;
        let mut add = |places: &mut Connections, peer: &str, is_authorised| {
            let peer = counted(peer.parse().unwrap());
            places.make_room(peer);
            used += 1;
            let connection = Arc::new(Connection {
                peer,
                is_authorised: AtomicBool::new(is_authorised),
                used: AtomicU64::new(used),
            });
            let task = tokio::spawn(std::future::pending());
            places.0.push((Arc::clone(&connection), task));
            connection
        };
        let is_open = |places: &Connections, c: &Arc<Connection>| {
            places.0.iter().any(|(open, _)| Arc::ptr_eq(open, c))
        };
        let of = |places: &Connections, peer: &str| {
            places.0.iter().filter(|(c, _)| c.peer == counted(peer.parse().unwrap())).count()
        };
        let scrape = add(&mut places, "10.0.0.1", true);
        let first = add(&mut places, "10.0.0.1", false);
        for _ in 0..200 {
            add(&mut places, "10.0.0.1", false);
        }
        assert_eq!(of(&places, "10.0.0.1"), MAX_PER_PEER + 1);
        assert!(!is_open(&places, &first) && is_open(&places, &scrape));
        for peer in 0..2000 {
            add(&mut places, &format!("10.1.{}.{}", peer / 200, peer % 200), false);
        }
        assert_eq!(places.0.len(), MAX_CONNECTIONS);
        assert!(is_open(&places, &scrape));
        // Addresses of one IPv6 network count as one.
        for host in 0..2 * MAX_PER_PEER {
            add(&mut places, &format!("2001:db8::{host:x}"), false);
        }
        assert_eq!(of(&places, "2001:db8::ffff"), MAX_PER_PEER);
        assert_eq!(counted("::1".parse().unwrap()).to_string(), "::1");
    }
}
