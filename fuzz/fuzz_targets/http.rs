//! Requests to `raidtrace serve`, as bytes of a connection: no panic, an end, and no figures or
//! files without the token.
//!
//! An input is whatever a client sends before it closes its side.

#![no_main]

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use raidtrace::commands::serve::http::app::{App, Feed};
use raidtrace::commands::serve::http::connections::{Connection, serve_connection};
use raidtrace::commands::serve::http::guard::AccessRules;
use raidtrace::commands::serve::http::routes::router;
use raidtrace::commands::serve::tracing::Shared;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// Part of the requests with the token in the seeds.
const TOKEN: &[u8] = b"t0k3n";
/// Content of files outside --dump-dir.
const SECRET: &str = "content of a file that is not served";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    // Paused: timeouts end at once if nothing else can happen.
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
});
/// A directory for dumps, and a file beside it.
static FILES: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("dumps")).expect("a directory");
    fs::write(dir.path().join("dumps/raidtrace-20260101T000000Z-slow.rtrace"), "a")
        .expect("a file");
    fs::write(dir.path().join("secret.rtrace"), SECRET).expect("a file");
    dir
});

fuzz_target!(|data: &[u8]| {
    let app = Arc::new(App {
        shared: Shared::new(true),
        with_tasks: true,
        with_paths: true,
        dump_dir: Some(FILES.path().join("dumps")),
        dump_pause: Some(Duration::from_secs(10)),
        open: Arc::default(),
        pages: Feed::default(),
        downloads: Arc::new(Semaphore::new(4)),
        responses: Arc::new(Semaphore::new(16)),
    });
    let answer = RUNTIME.block_on(async {
        let guard = AccessRules::new(Some(TOKEN.to_vec()), vec!["storage1".to_owned()]);
        let routes = router(app, guard);
        let connection = Arc::new(Connection::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        let (server, client) = tokio::io::duplex(1 << 16);
        let (mut read, mut write) = tokio::io::split(client);
        let served = serve_connection(server, routes, connection, Arc::new(AtomicU64::new(1)));
        let mut answer = Vec::new();
        let exchange = async {
            let send = async {
                let _ = write.write_all(data).await;
                let _ = write.shutdown().await;
            };
            let _ = tokio::join!(served, send, read.read_to_end(&mut answer));
        };
        let limit = Duration::from_secs(300);
        let has_ended = tokio::time::timeout(limit, exchange).await.is_ok();
        // With another request behind it, a stream of events ends when an event cannot be sent.
        let streams = data.windows(11).any(|w| w == b"/api/events");
        assert!(has_ended || streams, "the connection stays open");
        answer
    });
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.contains(SECRET));
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."));
    let has_token = data.windows(TOKEN.len()).any(|w| w == TOKEN);
    assert!(has_token || !text.contains("# TYPE raidtrace"), "figures without the token");
});
