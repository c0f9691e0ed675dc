//! contrib/prometheus/fleet.yml and contrib/grafana/fleet.json with 200 simulated hosts: a real
//! Prometheus scrapes them and evaluates the rules, another one has half an hour of their samples.
//! The hosts answer with copies of the page that a unit test of src/commands/serve/exposition
//! checks, see tests/fleet/hosts.py.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use common::{DEADLINE, Running, installed, loopback_address, memory, run, skipped, spawn, until};
use serde_json::Value;

const HOSTS: usize = 200;
/// Length of the history in hosts.py.
const HISTORY: u64 = 1800;
const PAGE: &str = "src/commands/serve/exposition/snapshots/\
                    raidtrace__commands__serve__exposition__tests__page.snap";

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(source(path)).unwrap()
}

fn dashboard(name: &str) -> Value {
    serde_json::from_str(&read(&format!("contrib/grafana/{name}.json"))).unwrap()
}

/// A query of the dashboard.
#[derive(Clone, Debug)]
struct Query {
    title: String,
    id: String,
    text: String,
    is_range: bool,
}

fn queries() -> Vec<Query> {
    let dashboard = dashboard("fleet");
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            all.push(Query {
                title: text(&panel["title"]),
                id: text(&target["refId"]),
                text: text(&target["expr"]).replace("$__range", "30m"),
                is_range: target["instant"] != true,
            });
        }
    }
    assert!(all.len() > 8);
    all
}

/// Names of the series that the rules record.
fn recorded() -> Vec<String> {
    let names = read("contrib/prometheus/fleet.yml");
    let names = names.lines().filter_map(|l| l.trim().strip_prefix("- record: "));
    names.map(str::to_owned).collect()
}

/// Metrics that the rules and the dashboard use.
fn metrics() -> BTreeSet<String> {
    let text = read("contrib/prometheus/fleet.yml") + &read("contrib/grafana/fleet.json");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let of = |w: &&str| w.starts_with("raidtrace_") || w.starts_with("node_");
    words.filter(of).map(str::to_owned).collect()
}

struct Prometheus {
    _process: Running,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts a server on the data in `dir`, and waits until it answers.
    fn start(dir: &Path, config: &str) -> Self {
        fs::write(dir.join("prometheus.yml"), config).unwrap();
        let free = TcpListener::bind((loopback_address(), 0)).unwrap().local_addr().unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
        command.arg(format!("--web.listen-address={free}"));
        command.stdout(Stdio::null()).stderr(fs::File::create(dir.join("log")).unwrap());
        let mut process = Running(spawn(&mut command));
        until("answer of Prometheus", || {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(dir.join("log")).unwrap());
            get(free, "/-/ready").is_some_and(|(status, _)| status == 200)
        });
        Self { _process: process, address: free }
    }

    /// Data in the answer of the API.
    fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let mut path = format!("/api/v1/{path}?");
        for (name, value) in parameters {
            let _ = write!(path, "{name}=");
            for byte in value.bytes() {
                let _ = match byte.is_ascii_alphanumeric() {
                    true => write!(path, "{}", char::from(byte)),
                    false => write!(path, "%{byte:02X}"),
                };
            }
            path.push('&');
        }
        let (status, body) = get(self.address, &path).unwrap();
        assert_eq!(status, 200, "{parameters:?}: {body}");
        let mut answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["status"], "success", "{parameters:?}: {body}");
        answer["data"].take()
    }

    /// Series of a query, in the order of the answer.
    fn series(&self, query: &str, time: Option<u64>) -> Vec<Value> {
        let time = time.map(|t| t.to_string());
        let time = time.iter().map(|t| ("time", t.as_str()));
        let parameters: Vec<(&str, &str)> = [("query", query)].into_iter().chain(time).collect();
        let mut data = self.ask("query", &parameters);
        data["result"].as_array_mut().map(std::mem::take).unwrap()
    }
}

/// Status and body of a response. HTTP/1.0: the body is not sent in chunks.
fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn value(series: &Value) -> f64 {
    series["value"][1].as_str().unwrap().parse().unwrap()
}

fn available() -> bool {
    for program in ["prometheus", "promtool", "python3"] {
        if !installed(program) {
            skipped(&format!("{program} is not on this machine (tools/setup --lab)"));
            return false;
        }
    }
    true
}

/// hosts.py with the time at which its history starts.
fn hosts(what: &str, start: u64) -> Command {
    let mut command = Command::new("python3");
    command.arg(source("tests/fleet/hosts.py")).arg(what).arg(source(PAGE));
    command.arg(start.to_string());
    command
}

/// The time at which a history that ends now starts.
fn start() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() - HISTORY
}

#[test]
fn a_prometheus_scrapes_200_hosts_and_evaluates_the_rules() {
    if !available() {
        return;
    }
    let mut server = Running(spawn(hosts("serve", start()).stdout(Stdio::piped())));
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let dir = memory();
    // A minute per evaluation is long for a test. Only the scale of increase1m depends on it.
    let fleet = read("contrib/prometheus/fleet.yml");
    assert_eq!(fleet.matches("interval: 1m\n").count(), 1);
    fs::write(dir.path().join("fleet.yml"), fleet.replace("interval: 1m\n", "interval: 2s\n"))
        .unwrap();
    let rules = source("contrib/prometheus/rules.yml");
    let mut config = format!(
        "global: {{scrape_interval: 3s, evaluation_interval: 5s}}\n\
         rule_files: [fleet.yml, {}]\nscrape_configs:\n",
        rules.display()
    );
    for (job, path, number) in [("raidtrace", "metrics", 9753), ("node", "node", 9100)] {
        let targets: Vec<String> = (0..HOSTS).map(|i| format!("host{i:03}:{number}")).collect();
        let _ = write!(
            config,
            "- job_name: {job}\n  static_configs: [{{targets: ['{}']}}]\n  relabel_configs:\n  \
             - {{source_labels: [__address__], target_label: instance}}\n  \
             - {{source_labels: [__address__], regex: '(.*):.*', target_label: __metrics_path__, \
             replacement: /$1/{path}}}\n  \
             - {{target_label: __address__, replacement: '127.0.0.1:{}'}}\n",
            targets.join("', '"),
            port.trim()
        );
    }
    let prometheus = Prometheus::start(dir.path(), &config);
    let answers = |query: &str, enough: &dyn Fn(&[Value]) -> bool| {
        until(query, || {
            std::thread::sleep(Duration::from_millis(200));
            enough(&prometheus.series(query, None))
        });
    };
    for job in ["raidtrace", "node"] {
        let up = format!("sum(up{{job=\"{job}\"}})");
        answers(&up, &|all| all.first().is_some_and(|one| value(one) == HOSTS as f64));
    }
    let queries: Vec<String> = queries().into_iter().map(|q| q.text).collect();
    for query in recorded().iter().chain(&queries) {
        answers(query, &|all| !all.is_empty());
    }
    until("evaluation of every rule", || {
        std::thread::sleep(Duration::from_millis(200));
        let data = prometheus.ask("rules", &[]);
        let groups = data["groups"].as_array().unwrap();
        assert_eq!(groups.len(), 2, "{data}");
        let rules: Vec<&Value> =
            groups.iter().flat_map(|g| g["rules"].as_array().unwrap()).collect();
        for rule in &rules {
            assert!(rule["health"] != "err", "{rule}");
        }
        rules.iter().all(|r| r["health"] == "ok")
    });
}

/// Host, or model, that comes first in the answer.
const FIRST: [(&str, &str, &str); 11] = [
    ("Slow now", "A", "host042:9753"),
    ("Slow now", "B", "host099:9753"),
    ("Longest waits", "A", "host099:9753"),
    ("Worst skews", "A", "host017:9753"),
    ("Slow members", "A", "host042:9753"),
    ("Slow members", "B", "host042:9753"),
    ("Degraded or stopped", "A", "host123:9753"),
    ("Degraded or stopped", "B", "host131:9753"),
    ("Incomplete figures", "A", "host150:9753"),
    ("Incomplete figures", "B", "host160:9753"),
    ("Models of members", "B", "ST4000NM0023"),
];

#[test]
fn every_panel_of_the_fleet_ranks_half_an_hour_of_200_hosts() {
    if !available() {
        return;
    }
    let start = start();
    let end = start + HISTORY;
    let dir = memory();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut history = hosts("history", start);
    history.args(metrics()).stdout(fs::File::create(path("history")).unwrap());
    assert!(Running(spawn(&mut history)).wait().success());
    let into_blocks = ["tsdb", "create-blocks-from"];
    let mut command = Command::new("promtool");
    command.args(into_blocks).args(["openmetrics", &path("history"), &path("data")]);
    let out = run(&mut command);
    assert_eq!(out.code(), Some(0), "{out:?}");
    fs::remove_file(path("history")).unwrap();
    // Rules that use other rules see the series only in the second run, and Prometheus sees new
    // blocks when it starts.
    for _ in 0..2 {
        let prometheus = Prometheus::start(dir.path(), "");
        let mut command = Command::new("promtool");
        command.args(into_blocks).args(["rules", "--url"]);
        command.arg(format!("http://{}", prometheus.address));
        command.args(["--eval-interval=60s", "--start", &start.to_string()]);
        command.args(["--end", &end.to_string(), "--output-dir", &path("data")]);
        let out = run(command.arg(source("contrib/prometheus/fleet.yml")));
        assert_eq!(out.code(), Some(0), "{out:?}");
    }
    let prometheus = Prometheus::start(dir.path(), "");
    for name in recorded() {
        assert!(!prometheus.series(&name, Some(end)).is_empty(), "{name}");
    }
    let mut ranked = BTreeSet::new();
    for query in queries() {
        let all = prometheus.series(&query.text, Some(end));
        assert!(!all.is_empty(), "{query:?}");
        let of = |(title, id, _): &&_| (*title, *id) == (&query.title[..], &query.id[..]);
        if let Some((title, id, first)) = FIRST.iter().find(of) {
            let metric = &all[0]["metric"];
            let name = metric.get("instance").or_else(|| metric.get("model")).unwrap();
            assert_eq!(name, first, "{query:?}: {all:?}");
            ranked.insert((title, id));
        }
        if query.is_range {
            let range = [
                ("query", &query.text[..]),
                ("start", &start.to_string()),
                ("end", &end.to_string()),
                ("step", "60"),
            ];
            let data = prometheus.ask("query_range", &range);
            assert!(!data["result"].as_array().unwrap().is_empty(), "{query:?}");
        }
    }
    assert_eq!(ranked.len(), FIRST.len(), "{ranked:?}");
    // A check made one host slow for ten minutes.
    let seconds = "sum by (instance) (sum_over_time(\
                   array_cause:raidtrace_verdict_seconds:increase1m{cause=\"resync\"}[30m]))";
    let all = prometheus.series(seconds, Some(end));
    assert_eq!(all.len(), 1, "{all:?}");
    assert!((540.0..=660.0).contains(&value(&all[0])), "{all:?}");
}

/// Grafana loads a dashboard whatever its panels refer to, so this test checks the data source, and
/// the links to the other dashboard and its variables.
#[test]
fn the_dashboard_of_the_fleet_links_to_that_of_a_host() {
    let (fleet, host) = (dashboard("fleet"), dashboard("raidtrace"));
    let names = |of: &Value| -> BTreeSet<String> {
        let list = of["templating"]["list"].as_array().unwrap().iter();
        list.map(|v| v["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_ne!(fleet["uid"], host["uid"]);
    let panels = fleet["panels"].as_array().unwrap();
    assert!(panels.len() <= 8);
    let mut cells = BTreeSet::new();
    let mut links = 0;
    for (i, panel) in panels.iter().enumerate() {
        assert_eq!(panel["id"], i + 1);
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        assert!(panel["description"].as_str().is_some_and(|d| d.ends_with('.')), "{panel}");
        let [x, y, w, h] =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24, "{panel}");
        for (x, y) in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert((x, y)), "panels overlap: {panel}");
        }
        let fields = panel["fieldConfig"]["defaults"]["links"].as_array();
        for url in fields.into_iter().flatten().map(|link| link["url"].as_str().unwrap()) {
            let (to, variables) = url.split_once('?').unwrap();
            assert_eq!(to, format!("/d/{}", host["uid"].as_str().unwrap()));
            for variable in variables.split('&').filter_map(|v| v.strip_prefix("var-")) {
                let (name, _) = variable.split_once('=').unwrap();
                assert!(names(&host).contains(name), "{url}");
            }
            links += 1;
        }
    }
    assert!(links >= 5);
    assert!(names(&fleet).contains("datasource"));
}
