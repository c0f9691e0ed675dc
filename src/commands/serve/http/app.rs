//! State shared by all request handlers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use tokio::sync::{Semaphore, watch};

use crate::commands::serve::tracing::Shared;

/// Maximum number of pages with live updates. Metrics have no such limit.
const MAX_SUBSCRIBERS: usize = 100;

/// Maximum time to send a large response.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum wait for a permit to build a large response.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Chunk size of a large response in bytes.
const CHUNK: usize = 64 << 10;

pub struct App {
    pub shared: Arc<Shared>,
    /// Show tasks on the page.
    pub with_tasks: bool,
    /// Show paths of files, and permit downloads.
    pub with_paths: bool,
    pub dump_dir: Option<PathBuf>,
    /// Shortest time between two requests of a dump; `None` if they are refused.
    pub dump_pause: Option<Duration>,
    pub open: Arc<AtomicU64>,
    /// Intervals for pages.
    pub pages: Feed,
    /// Permits for concurrent downloads.
    pub downloads: Arc<Semaphore>,
    /// Permits for large responses in memory.
    pub responses: Arc<Semaphore>,
}

impl App {
    /// Responds with a large text, which `make` builds once a permit is available. Cuts off clients
    /// that are too slow.
    pub async fn large(
        &self,
        content_type: &'static str,
        make: impl FnOnce() -> String,
    ) -> Response {
        let permit = Arc::clone(&self.responses).acquire_owned();
        let Ok(Ok(permit)) = tokio::time::timeout(PERMIT_TIMEOUT, permit).await else {
            let text = "too many large responses: try again later\n";
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        };
        let text = Bytes::from(make());
        let headers = [
            (header::CONTENT_TYPE, content_type.to_owned()),
            (header::CONTENT_LENGTH, text.len().to_string()),
        ];
        let state = (text, Instant::now() + SEND_TIMEOUT, permit);
        let chunks = stream::unfold(state, |(mut text, end, permit)| async move {
            if text.is_empty() {
                return None;
            }
            let chunk = text.split_to(text.len().min(CHUNK));
            let chunk = match Instant::now() < end {
                true => Ok(chunk),
                false => Err(io::Error::from(io::ErrorKind::TimedOut)),
            };
            Some((chunk, (text, end, permit)))
        });
        (headers, Body::from_stream(chunks)).into_response()
    }
}

/// The last interval as text. The text is built once for all subscribers, and only if there are
/// any.
pub struct Feed {
    /// Text of the last interval that ended while there were subscribers; empty before that.
    pub text: watch::Sender<Arc<str>>,
    /// Permits for new subscribers.
    pub room: Arc<Semaphore>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            text: watch::Sender::new(Arc::from("")),
            room: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
        }
    }
}
