//! Accepts connections, with limits on their number, on the time to send a request, and on the time
//! to receive a response.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Maximum number of connections. Further connections wait in the kernel's listen queue.
const CONNECTIONS: usize = 256;
/// Timeout for the headers of a request, including the next request on an open connection, and for
/// the TLS handshake.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Write timeout: a client must accept some bytes of the response within this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of the headers of a request.
const HEADERS: usize = 16 << 10;
/// Pause after an error of accept(2), such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads the certificate and the key.
///
/// # Errors
/// A file cannot be read, or the key does not match the certificate.
pub fn tls(cert: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .with_context(|| format!("--tls-cert {} cannot be read", cert.display()))?;
    let secret = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("--tls-key {} cannot be read", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .with_context(|| format!("{} and {} cannot be used", cert.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves `router` on `listener` until the returned future is dropped. `open` counts the open
/// connections.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    open: Arc<AtomicU64>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (tls, router, open) = (tls.clone(), router.clone(), Arc::clone(&open));
        tokio::spawn(async move {
            open.fetch_add(1, Ordering::Relaxed);
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(WRITE_TIMEOUT));
            let _ = match tls {
                None => serve_connection(stream, router).await,
                Some(tls) => {
                    let accepted = tls.accept(Box::pin(stream));
                    match tokio::time::timeout(REQUEST_TIMEOUT, accepted).await {
                        Ok(Ok(stream)) => serve_connection(stream, router).await,
                        _ => Ok(()),
                    }
                }
            };
            open.fetch_sub(1, Ordering::Relaxed);
            drop(permit);
        });
    }
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite, router: Router) -> io::Result<()> {
    let stream = pin!(stream);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    served.await.map_err(io::Error::other)
}
