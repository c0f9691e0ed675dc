//! `raidtrace serve`: starts the session and the HTTP side, and runs until a signal.

use std::collections::HashSet;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

#[cfg(feature = "export")]
use anyhow::anyhow;
use anyhow::{Context as _, Result, bail};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use super::args::ServeArgs;
#[cfg(feature = "export")]
use super::dataset::DatasetWriter;
use super::dump::{Dumper, log_line};
use super::http::app::{App, Feed};
use super::http::connections::{self, tls};
use super::http::events_publisher;
use super::http::guard::{AccessRules, refuses_address};
use super::http::routes::router;
use super::rules::DumpRule;
use super::token;
use super::tracing::{
    INTERVAL, MIN_OPEN_REQUEST_PAUSE, MIN_REQUEST_PAUSE, Shared, Tracing, TracingOptions, Writers,
};
use crate::analysis::units;
use crate::machine::Sys;
#[cfg(feature = "export")]
use crate::machine::host_id::HostIdentity;
use crate::machine::signals::{End, asked_to_dump, asked_to_end};
use crate::machine::{landlock, limits, privileges};
use crate::recording::WITHOUT_PARQUET;
#[cfg(feature = "export")]
use crate::recording::dataset::place::DatasetPlace;
use crate::recording::dataset_name::DatasetName;
use crate::session::engine::{Engine, MAX_LAST_WAIT, Tick, runtime};

/// Maximum number of concurrent downloads.
const MAX_DOWNLOADS: usize = 4;
/// Maximum number of large responses in memory. Metrics of 64 members take 3.3 MiB.
const MAX_RESPONSES: usize = 16;

/// Serves until Ctrl-C or a signal.
pub fn run(args: &ServeArgs) -> Result<()> {
    if let Some(why) = privileges::missing_message("serve") {
        bail!(why);
    }
    let token = args.token_file.as_deref().map(token::read).transpose()?;
    if let Some(why) = refuses_address(args.listen, token.is_some(), args.insecure) {
        bail!(why);
    }
    if args.keep.is_zero() && args.dump_dir.is_some() {
        bail!("--dump-dir needs a recording in memory: remove --keep 0 or --dump-dir");
    }
    if args.dataset.is_some() && cfg!(not(feature = "export")) {
        bail!("--dataset: {WITHOUT_PARQUET}");
    }
    let has_slow = args.dump_on.iter().any(|r| matches!(r, DumpRule::Slow(_)));
    let mut names = HashSet::new();
    if let Some(twice) = args.dump_on.iter().find(|r| !names.insert(r.name())) {
        bail!("--dump-on has two {} rules: give at most one rule of each kind", twice.name());
    }
    if args.keep.is_zero() && has_slow {
        bail!("--dump-on slow=TIME needs a recording in memory: remove --keep 0");
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(tls(cert, key)?),
        _ => None,
    };
    if token.is_some() && tls.is_none() && !args.listen.ip().to_canonical().is_loopback() {
        log_line(
            "note: clients on other machines send the token unencrypted: add --tls-cert and \
             --tls-key",
        );
    }
    // The recording, up to two copies that are being written, and the rest of the process.
    let needed = 3 * args.keep_bytes + (300 << 20);
    if let Some(limit) = limits::memory(&Sys::live()).filter(|limit| *limit < needed)
        && !args.keep.is_zero()
    {
        log_line(&format!(
            "note: this service may use {}, and the kernel ends it if it uses more; with \
             --keep-bytes {} it needs up to {needed} bytes: set MemoryMax={needed} (systemctl edit \
             raidtrace), or reduce --keep-bytes",
            units::size(limit),
            units::size(args.keep_bytes)
        ));
    }
    #[cfg(feature = "export")]
    let place = args.dataset.as_ref().map(DatasetPlace::open).transpose()?;
    let listener = listen(args)?;
    let end = asked_to_end()?;
    let asked = asked_to_dump()?;
    let shared = Shared::new(args.dump_dir.is_some());
    let max_cgroups = args.with_cgroups.map(usize::from);
    let options = TracingOptions {
        targets: args.targets.clone(),
        keep: args.keep,
        keep_bytes: args.keep_bytes,
        rules: args.dump_on.clone(),
        with_tasks: args.with_tasks,
        max_cgroups,
    };
    let runtime = runtime()?;
    let engine = {
        let (shared, dump_dir) = (Arc::clone(&shared), args.dump_dir.as_deref());
        let dataset = match &args.dataset {
            Some(DatasetName::Directory(path)) => Some(path.as_path()),
            _ => None,
        };
        #[cfg(feature = "export")]
        let start = move || {
            let most = max_cgroups.unwrap_or(0);
            let start = |place| DatasetWriter::start(place, HostIdentity::own(), most);
            place.map(start).transpose()
        };
        // Start the threads that write after dropping capabilities: like the HTTP side, they need
        // none.
        let (ready, writers) = std::sync::mpsc::channel();
        let engine = Engine::start(
            move || {
                privileges::keep_for_serving();
                let writers = writers.recv().context("starting the session")?;
                Tracing::start(Sys::live(), &options, writers, shared)
            },
            INTERVAL,
            INTERVAL,
        )?;
        // A client of object storage needs names of hosts and a network, but no file to write.
        #[cfg(feature = "export")]
        let (start, in_bucket) = if dataset.is_none() {
            let client = move || {
                limit(None, &[], &["/"], true);
                start()
            };
            let started = std::thread::spawn(client).join();
            (None, started.map_err(|_| anyhow!("the thread for the dataset has ended"))??)
        } else {
            (Some(start), None)
        };
        // The own use of CPU and memory, and time zones.
        let readable = ["/proc/self", "/etc/localtime", "/usr/share/zoneinfo"];
        let writable: Vec<&Path> = dump_dir.into_iter().chain(dataset).collect();
        limit(dump_dir.or(dataset), &writable, &readable, false);
        let started = args.dump_dir.clone().map(|dir| Dumper::start(dir, args.dump_bytes));
        let writers = Writers {
            dumper: started.transpose()?,
            #[cfg(feature = "export")]
            dataset: start.map_or(Ok(in_bucket), |start| start())?,
        };
        let _ = ready.send(writers);
        engine
    };
    let own_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hosts = args.host.iter().cloned().chain([own_name]).collect();
    let app = Arc::new(App {
        shared,
        with_tasks: args.with_tasks,
        with_paths: args.with_paths,
        dump_dir: args.dump_dir.clone(),
        dump_pause: (!args.no_dump_requests).then_some(if token.is_some() {
            MIN_REQUEST_PAUSE
        } else {
            MIN_OPEN_REQUEST_PAUSE
        }),
        open: Arc::new(AtomicU64::new(0)),
        pages: Feed::default(),
        downloads: Arc::new(Semaphore::new(MAX_DOWNLOADS)),
        responses: Arc::new(Semaphore::new(MAX_RESPONSES)),
    });
    let served = runtime.block_on(serve(
        engine,
        app,
        AccessRules::new(token, hosts),
        listener,
        tls,
        end,
        asked,
    ));
    // Do not wait for reads of the directory for dumps, which may hang.
    runtime.shutdown_background();
    served
}

/// Makes this thread, and those that it starts, run as the owner of a directory or as nobody, with
/// access to these files and, if it `connects`, to servers.
fn limit(owner: Option<&Path>, writable: &[&Path], readable: &[&str], connects: bool) {
    let left = privileges::leave_root(owner);
    privileges::keep_none();
    let limited = landlock::allow_only(writable, readable, connects);
    if let Err(why) = left.and(limited)
        && rustix::process::geteuid().is_root()
    {
        log_line(&format!(
            "note: the threads that use the network can open files of root ({why}): run serve \
             under another user, as the systemd unit does"
        ));
    }
}

fn listen(args: &ServeArgs) -> Result<TcpListener> {
    // With CAP_NET_BIND_SERVICE, ports below 1024 too.
    let listener = privileges::raised(|| TcpListener::bind(args.listen)).with_context(|| {
        format!(
            "cannot listen on {}: another raidtrace serve or another program may use the port (ss \
             -ltnp); choose another port with --listen",
            args.listen
        )
    })?;
    listener.set_nonblocking(true).context("the socket")?;
    Ok(listener)
}

async fn serve(
    mut engine: Engine<(), ()>,
    app: Arc<App>,
    guard: AccessRules,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut end: End,
    mut asked: mpsc::Receiver<()>,
) -> Result<()> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let address = listener.local_addr().context("the socket")?;
    let listener = tokio::net::TcpListener::from_std(listener).context("the socket")?;
    let open = Arc::clone(&app.open);
    tokio::spawn(events_publisher(Arc::clone(&app)));
    let routes = router(Arc::clone(&app), guard);
    tokio::spawn(connections::serve(listener, tls, routes, open));
    let mut printed = HashSet::new();
    loop {
        tokio::select! {
            () = &mut end => break,
            Some(()) = asked.recv() => {
                if let Err(why) = app.shared.request_dump("SIGUSR1", MIN_REQUEST_PAUSE) {
                    log_line(&why);
                }
            }
            tick = engine.tick() => match tick {
                None => break,
                Some(Tick::Interval(())) => {}
                Some(Tick::Notes(notes)) => new_notes(&notes, &mut printed),
                Some(Tick::Started { subjects, notes }) => {
                    new_notes(&notes, &mut printed);
                    log_line(&format!("serving {subjects} at {scheme}://{address}/"));
                }
            }
        }
    }
    engine.end(Some(MAX_LAST_WAIT))?.result
}

/// Prints notes that are not in `printed`. Then replaces `printed` with the current notes.
fn new_notes(notes: &[String], printed: &mut HashSet<String>) {
    for note in notes {
        if !printed.contains(note) {
            log_line(&format!("note: {note}"));
        }
    }
    *printed = notes.iter().cloned().collect();
}
