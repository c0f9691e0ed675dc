//! `raidtrace serve` as a process: metrics compared with the kernel's figures, access control,
//! recordings of the last minutes, and the page in a browser.

#![allow(clippy::unwrap_used)]

#[path = "serve/cgroups.rs"]
mod cgroups;
mod common;
#[path = "serve/http.rs"]
mod http;
#[cfg(feature = "object-store")]
#[path = "object_store/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{
    EXE, Loop, MIB, SetOnDrop, Top, check_schema, idle, installed, memory, python, raidtrace, run,
    skipped, tool, tracing, until,
};
use http::{ask, get, try_ask};
use rustix::process::Signal;
use serde_json::Value;

/// A running `raidtrace serve`.
struct Serve {
    process: Top,
    /// Address and port.
    address: String,
}

impl Serve {
    fn start(target: &str, args: &[&str]) -> Self {
        Self::start_from(&mut Command::new(EXE), target, args)
    }

    /// The same, from a command with variables.
    fn start_from(command: &mut Command, target: &str, args: &[&str]) -> Self {
        command.args(["serve", target]);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let process = Top::start(command.args(args));
        let line = process.says("serving ");
        let (_, address) = line.split_once("://").unwrap();
        Self { process, address: address.trim().trim_end_matches('/').to_owned() }
    }

    /// Samples of the metrics, by name and labels.
    fn samples(&self) -> BTreeMap<String, f64> {
        let answer = get(&self.address, "/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        let lines = answer.body.lines().filter(|l| !l.starts_with('#'));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    /// Sum of the samples whose names start with `name`.
    fn sum(&self, name: &str) -> f64 {
        let samples = self.samples();
        samples.iter().filter(|(n, _)| n.starts_with(name)).map(|(_, v)| v).sum()
    }

    /// Waits until two more intervals have ended, so that the figures contain all earlier IO.
    fn settled(&self) {
        let before = self.sum("raidtrace_intervals_total");
        until("two intervals", || self.sum("raidtrace_intervals_total") >= before + 2.0);
    }
}

/// Writes a file that other users cannot read.
fn private(path: &Path, text: &str) {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).unwrap().write_all(text.as_bytes()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A filesystem of 32 MiB.
fn filesystem() -> Loop {
    Loop::ext4(32 * MIB, &["-b", "4096"])
}

/// Writes `count` blocks of 4 KiB to a file on `disk`, one request each.
fn write(disk: &Loop, count: u64) {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    let file = options.open(disk.mount.join("file")).unwrap();
    let buffer = vec![1; 8192];
    let at = buffer.as_ptr().align_offset(4096);
    for block in 0..count {
        file.write_all_at(&buffer[at..at + 4096], block * 4096).unwrap();
    }
}

#[test]
fn metrics_match_the_kernels_figures() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    write(&disk, 100);
    for keep in ["0", "1m"] {
        let serve = Serve::start(&disk.name, &["--keep", keep]);
        disk.sync();
        idle(&disk.name);
        serve.settled();
        let kernel = idle(&disk.name);
        let name = "raidtrace_member_requests_total";
        let data = format!(
            "{name}{{array=\"{0}\",member=\"{0}\",slot=\"0\",origin=\"file_data\",op=\"write\"}}",
            disk.name
        );
        let (before, data_before) = (serve.sum(name), serve.sum(&data));
        write(&disk, 100);
        disk.sync();
        let kernel = idle(&disk.name) - kernel;
        serve.settled();
        assert_eq!(serve.sum(name) - before, kernel as f64, "--keep {keep}");
        // A flush may complete as a write without data (empty_writes in docs/top.md).
        let written = serve.sum(&data) - data_before;
        assert!((100.0..=101.0).contains(&written), "--keep {keep}: {:?}", serve.samples());
        let bytes = data.replace("_requests_", "_bytes_");
        assert!(serve.sum(&bytes) >= 409_600.0);
        let device = data
            .replace("_requests_total{", "_device_seconds_bucket{le=\"+Inf\",")
            .replace("_total", "");
        // A request that is only a flush has no time.
        assert!(serve.sum(&device) >= 100.0);
        // The kernel skips a program that already runs on that CPU, whose task was preempted.
        let lost = serve.sum("raidtrace_lost_events_total");
        assert_eq!(lost, serve.sum("raidtrace_lost_events_total{reason=\"busy\"}"));
        assert_eq!(serve.sum("raidtrace_array_up"), 1.0);
        for thread in serve.process.threads() {
            // SYS_ADMIN, SYS_RESOURCE, SYS_NICE, SYS_PTRACE, DAC_READ_SEARCH, SYSLOG, PERFMON, BPF.
            let none = ["raidtrace", "signals", "raidtrace:write", "raidtrace:dump"];
            let has_none = none.contains(&thread.name.as_str()) || thread.name.starts_with("tokio");
            let allowed = if has_none { 0 } else { 0xc4_01a8_0004 };
            assert!(thread.no_new_privs && thread.permitted & !allowed == 0, "{thread:?}");
        }
        // 503 if no interval has ended for 10 s: this machine may have been stopped.
        until("healthy state", || get(&serve.address, "/healthz").status == 200);
        let ended = serve.process.end(Signal::TERM);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
    }
}

#[test]
fn both_formats_pass_promtool() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let serve = Serve::start(&disk.name, &["--with-tasks"]);
    write(&disk, 10);
    serve.settled();
    let open = ["Accept: application/openmetrics-text; version=1.0.0"];
    let open = ask(&serve.address, "GET", "/metrics", &open);
    assert!(open.head.contains("application/openmetrics-text"), "{open:?}");
    assert!(open.body.ends_with("# EOF\n"));
    assert!(open.body.contains("# UNIT raidtrace_member_bytes bytes\n"));
    let plain = get(&serve.address, "/metrics");
    assert!(plain.head.contains("text/plain; version=0.0.4"), "{plain:?}");
    assert!(plain.body.contains("# TYPE raidtrace_member_bytes_total counter\n"));
    let task = format!("task=\"{}\"", common::own_comm());
    assert!(plain.body.contains(&task), "{task}: {}", plain.body);
    if !installed("promtool") {
        return skipped("promtool is not on this machine (tools/setup --lab)");
    }
    let dir = memory();
    let file = dir.path().join("metrics");
    fs::write(&file, &plain.body).unwrap();
    let input = fs::File::open(&file).unwrap();
    let out = common::run_from(input.into(), Command::new("promtool").args(["check", "metrics"]));
    assert_eq!(out.code(), Some(0), "{out:?}");
}

#[test]
fn a_signal_writes_the_last_minutes() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let dir = memory();
    let path = dir.path().to_str().unwrap();
    let serve = Serve::start(&disk.name, &["--dump-dir", path]);
    write(&disk, 50);
    serve.settled();
    serve.process.signal(Signal::USR1);
    let line = serve.process.says("the last minutes are in ");
    let (_, file) = line.trim().split_once(" in ").unwrap();
    let out = raidtrace(&["report", file, "--json"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let report: Value = serde_json::from_str(&out.stdout).unwrap();
    let first = report["notes"][0].as_str().unwrap();
    assert!(first.starts_with("written because of SIGUSR1"), "{first}");
    assert!(report["requests"].as_u64().unwrap() >= 50, "{}", out.stdout);
    assert_eq!(report["lost"]["events"], 0);
    let origin = format!("Origin: http://{}", serve.address);
    assert_eq!(ask(&serve.address, "POST", "/api/dump", &[]).status, 403);
    let asked = || ask(&serve.address, "POST", "/api/dump", &[&origin]);
    // Without a token, a request is refused within a minute after the previous one.
    until("refusal", || asked().body.contains("less than 60 s ago"));
    let list: Value = serde_json::from_str(&get(&serve.address, "/dumps").body).unwrap();
    let name = list[0]["name"].as_str().unwrap();
    // A recording holds paths.
    assert_eq!(get(&serve.address, &format!("/dumps/{name}")).status, 403);
    for wrong in ["/dumps/..%2f..%2fetc%2fpasswd", "/dumps/%00", "/dumps/raidtrace-x.rtrace/y"] {
        assert!(matches!(get(&serve.address, wrong).status, 403 | 404), "{wrong}");
    }
}

/// A request, which needs no token, cannot remove recordings of rules from a full disk.
#[test]
fn a_requested_recording_removes_none_of_a_rule() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let dir = memory();
    let path = dir.path().to_str().unwrap();
    tool("mount", &["-t", "tmpfs", "-o", "size=2m", "none", path]);
    let recordings = || {
        let names = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|n| n.to_str().unwrap().ends_with(".rtrace")).count()
    };
    for n in 0..10 {
        fs::write(dir.path().join(format!("raidtrace-2026112{n}T000000Z-busy.rtrace")), [0; 65536])
            .unwrap();
    }
    let serve = Serve::start(&disk.name, &["--dump-dir", path]);
    write(&disk, 50);
    serve.settled();
    // Fills the rest.
    let mut fill = fs::File::create(dir.path().join("fill")).unwrap();
    while fill.write_all(&[0; 4096]).is_ok() {}
    drop(fill);
    assert_eq!(ask(&serve.address, "POST", "/api/dump", &[&origin_of(&serve)]).status, 202);
    serve.process.says("No space left");
    assert_eq!(recordings(), 10);
    drop(serve);
    let serve = Serve::start(&disk.name, &["--dump-dir", path, "--no-dump-requests"]);
    serve.settled();
    let refused = ask(&serve.address, "POST", "/api/dump", &[&origin_of(&serve)]);
    assert_eq!((refused.status, refused.body.contains("--no-dump-requests")), (403, true));
    drop(serve);
    tool("umount", &[path]);
}

fn origin_of(serve: &Serve) -> String {
    format!("Origin: http://{}", serve.address)
}

#[test]
fn a_slow_operation_writes_the_last_minutes() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let dir = memory();
    let args = ["--dump-dir", dir.path().to_str().unwrap(), "--dump-on", "slow=1us"];
    let serve = Serve::start(&disk.name, &args);
    write(&disk, 5);
    let file = fs::File::open(disk.mount.join("file")).unwrap();
    file.sync_all().unwrap();
    serve.process.says("slow=1us: fsync of ");
    let line = serve.process.says("the last minutes are in ");
    let (_, file) = line.trim().split_once(" in ").unwrap();
    let out = raidtrace(&["slow", "--replay", file, "--batch"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stdout.contains("fsync of "), "{}", out.stdout);
    // The rule's message names a file, so /api/interval leaves it out without --with-paths.
    let interval = get(&serve.address, "/api/interval").body;
    assert!(interval.contains("slow=1us") && !interval.contains("fsync of"), "{interval}");
    answers_satisfy_their_schemas(&serve);
}

/// `serve` has written a dump because a rule fired.
fn answers_satisfy_their_schemas(serve: &Serve) {
    let Some(python) = python("jsonschema") else {
        return skipped("Python's jsonschema is not on this machine (tools/setup --lab)");
    };
    let check = |name: &str, path: &str, has: &str| {
        let mut text = String::new();
        until(path, || {
            text = get(&serve.address, path).body;
            text.contains(has)
        });
        check_schema(&python, name, &text);
    };
    check("serve-interval", "/api/interval", "\"last\":{\"name\"");
    check("serve-timeline", "/api/timeline", "\"members\"");
    check("serve-dumps", "/dumps", "\"bytes\"");
}

/// If `serve` is started as root, the threads that answer requests run as the owner of --dump-dir,
/// or as nobody.
#[test]
fn threads_that_answer_are_not_root() {
    if !tracing() {
        return;
    }
    let (disk, dir) = (filesystem(), memory());
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let dumps = dir.path().join("dumps");
    fs::create_dir(&dumps).unwrap();
    std::os::unix::fs::chown(&dumps, Some(1234), Some(1234)).unwrap();
    let path = dumps.to_str().unwrap();
    for (args, uid) in
        [(&["--dump-dir", path, "--with-paths"][..], 1234), (&["--keep", "0"], 65534)]
    {
        let serve = Serve::start(&disk.name, args);
        serve.settled();
        assert_eq!(get(&serve.address, "/dumps").status, if uid == 1234 { 200 } else { 404 });
        // Capabilities are raised for moments, to look up paths of files.
        until("threads with few capabilities", || {
            serve.process.threads().iter().all(|t| {
                let (allowed, user) = match t.name.as_str() {
                    "signals" | "raidtrace:write" | "mdstat" => (0, 0),
                    "raidtrace:trace" => (0xc4_01a8_0004, 0),
                    "raidtrace:paths" => (1 << 2, 0),
                    "overhead" => (1 << 21 | 1 << 39, 0),
                    _ => (0, uid),
                };
                println!("{t:?}");
                let few = t.permitted & !allowed == 0 && t.opens_nothing() && t.no_new_privs;
                few && t.uid == user
            })
        });
        if uid == 1234 {
            serve.process.signal(Signal::USR1);
            serve.process.says("the last minutes are in ");
            let list = get(&serve.address, "/dumps").body;
            let name = list.split('"').nth(3).unwrap();
            assert_eq!(fs::metadata(dumps.join(name)).unwrap().uid(), 1234);
            assert_eq!(get(&serve.address, &format!("/dumps/{name}")).status, 200);
        }
        assert_eq!(serve.process.end(Signal::TERM).code(), Some(0));
    }
}

#[test]
fn refused_access_is_a_one_line_error() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let fails = |args: &[&str], says: &str| {
        let out = raidtrace(&[&["serve", disk.name.as_str()], args].concat());
        assert_eq!(out.code(), Some(1), "{out:?}");
        assert!(out.stderr.contains(says), "{out:?}");
        assert_eq!(out.stderr.lines().count(), 1, "{out:?}");
    };
    fails(&["--listen", "0.0.0.0:0"], "--token-file FILE");
    fails(&["--dump-dir", "/nowhere"], "is not a directory");
    fails(&["--dump-dir", "/tmp", "--keep", "0"], "--keep 0");
    fails(&["--token-file", "/nowhere"], "cannot be read");
    let dir = memory();
    let secret = dir.path().join("token");
    fs::write(&secret, "short\n").unwrap();
    let secret_path = secret.to_str().unwrap();
    fails(&["--token-file", secret_path], "can be read by every user (mode 644)");
    private(&secret, "short\n");
    fails(&["--token-file", secret_path], "at least 16");
    private(&secret, "0123456789abcdef\n");
    let fifo = dir.path().join("fifo");
    tool("mkfifo", &["-m", "600", fifo.to_str().unwrap()]);
    for endless in [fifo.to_str().unwrap(), "/dev/zero"] {
        fails(&["--token-file", endless], "not a regular file");
        fails(&["--tls-cert", endless, "--tls-key", secret_path], "not a regular file");
        fails(&["--tls-cert", secret_path, "--tls-key", endless], "not a regular file");
    }
    let mut clear = Command::new(EXE);
    clear.args(["serve", &disk.name, "--token-file", secret_path, "--listen", "0.0.0.0:0"]);
    Top::start(&mut clear).says("clients on other machines send the token unencrypted");
    let serve = Serve::start(&disk.name, &["--token-file", secret_path, "--listen", "0.0.0.0:0"]);
    let address = serve.address.replace("0.0.0.0", "127.0.0.1");
    fails(&["--listen", &address], "cannot listen on");
    assert_eq!(get(&address, "/").status, 200);
    assert_eq!(get(&address, "/metrics").status, 401);
    let bearer = "Authorization: Bearer 0123456789abcdef";
    assert_eq!(ask(&address, "GET", "/metrics", &[bearer]).status, 200);
    let renamed = ["Host: evil.example", bearer];
    assert_eq!(ask(&address, "GET", "/metrics", &renamed).status, 421);
    assert_eq!(ask(&address, "GET", "/api/timeline?after=x", &[bearer]).status, 400);
    assert_eq!(ask(&address, "GET", "/nothing", &[bearer]).status, 404);
    assert_eq!(ask(&address, "DELETE", "/metrics", &[bearer]).status, 405);
    let page = get(&address, "/");
    assert!(page.head.contains("content-security-policy: default-src 'none'"), "{page:?}");
}

#[test]
fn stalled_clients_do_not_block_other_clients() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let serve = Serve::start(&disk.name, &[]);
    let not_reading: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(&serve.address).unwrap();
            let request = format!("GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", serve.address);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut noise = TcpStream::connect(&serve.address).unwrap();
    noise.write_all(&[0xff; 1000]).unwrap();
    // The server closes silent connections after 15 s. If this machine is slower, connect again.
    let mut silent: Vec<TcpStream> = Vec::new();
    until("connections that stay open while metrics are read", || {
        silent.clear();
        silent.extend((0..200).map(|_| TcpStream::connect(&serve.address).unwrap()));
        serve.settled();
        // 64 of an address.
        serve.sum("raidtrace_http_connections") >= 60.0
    });
    drop(not_reading);
    until("end of the silent connections", || serve.sum("raidtrace_http_connections") < 10.0);
    drop(silent);
    assert_eq!(serve.sum("raidtrace_lost_events_total"), 0.0);
    for _ in 0..2000 {
        drop(TcpStream::connect(&serve.address).unwrap());
    }
    serve.settled();
}

/// Clients that hold more connections than there are places, each with a request every moment, do
/// not keep a scrape with the token waiting.
#[test]
fn clients_without_the_token_do_not_block_a_scrape() {
    if !tracing() {
        return;
    }
    let (disk, dir) = (filesystem(), memory());
    let secret = dir.path().join("token");
    private(&secret, "0123456789abcdef\n");
    let serve = Serve::start(&disk.name, &["--token-file", secret.to_str().unwrap()]);
    let request = format!("GET /favicon.ico HTTP/1.1\r\nHost: {}\r\n\r\n", serve.address);
    let connect = || {
        let address = serve.address.parse().unwrap();
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        Some(stream)
    };
    let (rounds, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut streams: Vec<Option<TcpStream>> = (0..400).map(|_| connect()).collect();
            while !done.load(Ordering::Relaxed) {
                for stream in &mut streams {
                    let sent = stream.as_mut().map(|s| s.write_all(request.as_bytes()));
                    if !matches!(sent, Some(Ok(()))) {
                        *stream = connect();
                    }
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _done = SetOnDrop(&done);
        until("requests on all connections", || rounds.load(Ordering::Relaxed) > 0);
        let bearer = "Authorization: Bearer 0123456789abcdef";
        // A connection may be closed before its request arrives. Scrapers then try again.
        for _ in 0..5 {
            until("scrape with the token", || {
                try_ask(&serve.address, "GET", "/metrics", &[bearer]).is_ok_and(|a| a.status == 200)
            });
        }
    });
}

#[test]
fn https_answers_with_the_certificate() {
    if !tracing() {
        return;
    }
    if !installed("openssl") || !installed("curl") {
        return skipped("openssl or curl is not on this machine");
    }
    let disk = filesystem();
    let dir = memory();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    tool(
        "openssl",
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            &key,
            "-out",
            &cert,
        ],
    );
    let out = raidtrace(&["serve", &disk.name, "--tls-cert", &cert, "--tls-key", &cert]);
    assert_eq!(out.code(), Some(1), "{out:?}");
    let serve = Serve::start(&disk.name, &["--tls-cert", &cert, "--tls-key", &key]);
    let port = serve.address.rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}/healthz");
    serve_is_healthy(&url, &cert);
}

fn serve_is_healthy(url: &str, cert: &str) {
    until("an answer", || {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--noproxy", "*", "--cacert", cert, url]);
        let out = run(&mut curl);
        assert!(out.code() == Some(0), "{out:?}");
        out.stdout == "ok\n"
    });
}

/// Content, updates, a restart, keys and screenshots: tests/serve/page.py.
#[test]
fn the_page_shows_changes() {
    if !tracing() {
        return;
    }
    let (Some(python), true) = (python("selenium"), installed("chromedriver")) else {
        return skipped("Chromium's driver or selenium is not on this machine (tools/setup --lab)");
    };
    let disk = filesystem();
    let dir = memory();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/page.py");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&pictures).unwrap();
    let mut command = Command::new(python);
    command.arg(script).arg(EXE).arg(&disk.name);
    command.args([disk.mount.as_path(), dir.path(), &pictures]);
    let out = run(&mut command);
    assert_eq!(out.code(), Some(0), "{}\n{}", out.stdout, out.stderr);
}

/// The rows of `--dataset` have the sums of the metrics, and belong to the owner of the directory.
#[test]
fn intervals_are_added_to_a_dataset() {
    if !tracing() || !cfg!(feature = "export") {
        return;
    }
    let Some(python) = python("duckdb") else {
        return skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
    };
    let disk = filesystem();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let dataset = folder.path().join("fleet");
    fs::create_dir(&dataset).unwrap();
    std::os::unix::fs::chown(&dataset, Some(65_533), Some(65_533)).unwrap();
    let path = dataset.display().to_string();
    let serve = Serve::start(&disk.name, &["--dataset", &path]);
    write(&disk, 100);
    disk.sync();
    idle(&disk.name);
    serve.settled();
    let counted = serve.sum("raidtrace_member_requests_total");
    assert!(counted >= 100.0, "{counted}");
    let out = serve.process.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let script = "import duckdb, sys
intervals = duckdb.read_parquet(sys.argv[1] + '/intervals/*/*/*.parquet')
verdicts = duckdb.read_parquet(sys.argv[1] + '/verdicts/*/*/*.parquet')
print(duckdb.sql('select sum(requests), min(interval_us) > 0 from intervals').fetchall(),
      duckdb.sql('select count(*) > 0 from verdicts').fetchall())";
    let mut command = Command::new(python);
    let out = run(command.args(["-c", script, &path]));
    assert_eq!(out.stdout.trim(), format!("[({counted:.0}, True)] [(True,)]"), "{out:?}");
    let mut directories = vec![dataset];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let of = entry.metadata().unwrap();
            assert_eq!(of.uid(), 65_533, "{}", entry.path().display());
            if of.is_dir() {
                directories.push(entry.path());
            }
        }
    }
}

/// The same in a bucket, which threads of nobody write. Their client needs the names of hosts.
#[cfg(feature = "object-store")]
#[test]
fn intervals_are_added_to_a_bucket() {
    if !tracing() {
        return;
    }
    let Some(mut server) = server::Server::start() else { return };
    let url = server.variables.0[0].1.replace("127.0.0.1", "localhost");
    let variables = server.variables.with("AWS_ENDPOINT_URL", &url);
    let disk = filesystem();
    let dumps = memory();
    let dir = dumps.path().display().to_string();
    let start = |variables: &server::Variables| {
        let mut command = Command::new(EXE);
        variables.of(&mut command);
        let args = ["--dataset", "s3://serve/a", "--dump-dir", &dir];
        Serve::start_from(&mut command, &disk.name, &args)
    };
    let serve = start(&variables);
    let threads = serve.process.threads();
    // The kernel keeps 15 bytes of the name.
    let writer = threads.iter().find(|thread| thread.name == "raidtrace:datas");
    let writer = writer.expect("the thread that writes the bucket");
    assert_eq!((writer.uid, writer.permitted), (65_534, 0));
    write(&disk, 100);
    disk.sync();
    idle(&disk.name);
    serve.settled();
    let counted = serve.sum("raidtrace_member_requests_total");
    assert!(counted >= 100.0, "{counted}");
    let out = serve.process.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(!out.stderr.contains("s3://"), "{out:?}");
    assert_eq!(server.ask("sum serve/a/intervals requests"), format!("{counted:.0}"));

    // Wrong keys are reported at the start, not after an hour, and do not stop the tracing.
    let wrong = variables.with("AWS_SECRET_ACCESS_KEY", "hunter2");
    let mut command = Command::new(EXE);
    wrong.of(command.args(["serve", &disk.name, "--dataset", "s3://serve/a"]));
    let process = Top::start(command.args(["--listen", "127.0.0.1:0"]));
    let note = process.says("note: s3://serve/a: ");
    assert!(note.contains("SignatureDoesNotMatch") && !note.contains("hunter2"), "{note}");
    drop(process);
    let serve = start(&wrong);
    serve.settled();
    let out = serve.process.end(Signal::INT);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stderr.contains("the dataset lacks the last "), "{out:?}");
}

#[test]
fn a_dataset_that_cannot_be_written_is_an_error() {
    if !tracing() || !cfg!(feature = "export") {
        return;
    }
    let disk = filesystem();
    let out = raidtrace(&["serve", &disk.name, "--dataset", "/nonexistent/fleet"]);
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("--dataset /nonexistent/fleet cannot be written"), "{out:?}");
}
