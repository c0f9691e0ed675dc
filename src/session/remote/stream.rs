//! HTTP client: one request, whose response is one line for each interval.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::Address;
use super::message::PATH;
use super::resolve::resolve;

/// Time limit for connecting and receiving the response headers.
const CONNECT: Duration = Duration::from_secs(5);
/// Maximum line length in bytes. An interval of 64 members has about 200 KiB.
const LINE: usize = 16 << 20;

/// A connection that yields lines.
pub struct Stream {
    body: Incoming,
    buffer: Vec<u8>,
    /// Number of leading bytes of `buffer` that contain no newline.
    searched: usize,
}

impl Stream {
    /// Connects and requests intervals.
    ///
    /// # Errors
    /// The connection failed, or the response has another status than 200.
    pub async fn open(address: &Address, token: Option<&[u8]>) -> Result<Self> {
        let opened = tokio::time::timeout(CONNECT, connect(address, token)).await;
        let body = opened
            .unwrap_or_else(|_| Err(anyhow!("no response within {} s", CONNECT.as_secs())))
            .with_context(|| format!("cannot connect to raidtrace serve at {address}"))?;
        Ok(Self { body, buffer: Vec::new(), searched: 0 })
    }

    /// The next line. Cancel safe.
    ///
    /// # Errors
    /// The connection ended, or a line is too long.
    pub async fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            let new = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = new.iter().position(|b| *b == b'\n') {
                let end = self.searched + end + 1;
                let line = self.buffer.drain(..end).collect();
                self.searched = 0;
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.searched > LINE {
                bail!("a line is longer than {} MiB", LINE >> 20);
            }
            let frame = self
                .body
                .frame()
                .await
                .context("the connection was closed")?
                .context("the connection was cut")?;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
        }
    }
}

async fn connect(address: &Address, token: Option<&[u8]>) -> Result<Incoming> {
    let addresses = resolve(&address.host, address.port).await?;
    let stream = TcpStream::connect(addresses.as_slice()).await?;
    let _ = stream.set_nodelay(true);
    if !address.is_tls {
        return ask(stream, address, token).await;
    }
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if roots.is_empty() {
        bail!(
            "this machine has no CA certificates to verify the server: install ca-certificates, \
             or set SSL_CERT_FILE to a file"
        );
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(address.host.clone())?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.map_err(certificate)?;
    ask(stream, address, token).await
}

fn certificate(error: io::Error) -> anyhow::Error {
    anyhow::Error::from(error)
        .context("TLS (to trust a private certificate, set SSL_CERT_FILE to its file)")
}

async fn ask<S>(stream: S, address: &Address, token: Option<&[u8]>) -> Result<Incoming>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request =
        Request::get(PATH).header(HOST, address.authority()).header(ACCEPT, "application/x-ndjson");
    if let Some(token) = token {
        let value = [b"Bearer ", token].concat();
        request = request.header(AUTHORIZATION, value);
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?);
    let answer = answer.await?;
    let why = match answer.status() {
        StatusCode::OK => return Ok(answer.into_body()),
        StatusCode::UNAUTHORIZED if token.is_some() => "the token is wrong",
        StatusCode::UNAUTHORIZED => "a token is required: --token-file FILE",
        StatusCode::NOT_FOUND => "not a raidtrace serve, or an older version",
        StatusCode::MISDIRECTED_REQUEST => {
            "the server does not accept this host name: use its IP address, or start it with \
             --host NAME"
        }
        StatusCode::SERVICE_UNAVAILABLE => "too many connections",
        other => bail!("the server responds with {other}"),
    };
    bail!(why)
}
