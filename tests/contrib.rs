//! Files in `contrib/`: promtool tests the rules, a real Prometheus answers the queries of the
//! dashboard, and systemd-analyze checks the unit.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{
    EXE, Loop, MIB, Running, Top, installed, loopback_address, memory, run, skipped, spawn,
    tracing, until,
};
use serde_json::Value;

fn contrib(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib").join(path)
}

#[test]
fn rules_pass_promtool() {
    if !installed("promtool") {
        return skipped("promtool is not on this machine (tools/setup --lab)");
    }
    for args in [
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
        ["check", "rules", "fleet.yml"],
        ["test", "rules", "fleet_test.yml"],
    ] {
        let mut command = Command::new("promtool");
        let out = run(command.args(args).current_dir(contrib("prometheus")));
        assert_eq!(out.code(), Some(0), "{out:?}");
    }
}

#[test]
fn the_unit_is_confined() {
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager"]);
    command.arg(contrib("systemd/raidtrace.service"));
    if !installed("systemd-analyze") {
        return skipped("systemd-analyze is not on this machine (tools/setup --lab)");
    }
    let out = run(&mut command);
    let last = out.stdout.lines().rfind(|l| l.contains("Overall exposure level"));
    let score = last.and_then(|l| l.split(": ").nth(1)?.split(' ').next()?.parse::<f64>().ok());
    assert!(score.is_some_and(|score| score <= 2.0), "{out:?}");
}

/// Queries of the dashboard, with its variables filled in.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(contrib("grafana/raidtrace.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|p| p["targets"].as_array().unwrap());
    targets
        .map(|target| {
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "20s");
            query.replace("$instance", ".*").replace("$array", ".*")
        })
        .collect()
}

#[test]
fn every_query_of_the_dashboard_returns_data() {
    if !tracing() {
        return;
    }
    if !installed("prometheus") || !installed("promtool") {
        return skipped("Prometheus is not on this machine (tools/setup --lab)");
    }
    let disk = Loop::ext4(32 * MIB, &["-b", "4096"]);
    let mut command = Command::new(EXE);
    let serve = Top::start(command.args(["serve", &disk.name, "--listen", "127.0.0.1:0"]));
    let line = serve.says("serving ");
    let address = line.trim().trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
    let dir = memory();
    let config = dir.path().join("prometheus.yml");
    let scrape = format!(
        "scrape_configs: [{{job_name: raidtrace, scrape_interval: 1s, static_configs: [{{targets: \
         ['{address}']}}]}}]\n"
    );
    fs::write(&config, scrape).unwrap();
    let free = TcpListener::bind((loopback_address(), 0)).unwrap().local_addr().unwrap();
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", config.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()));
    prometheus.arg(format!("--web.listen-address={free}"));
    let _prometheus = Running(spawn(prometheus.stdout(Stdio::null()).stderr(Stdio::null())));
    let server = format!("http://{free}");
    let mut block = 0;
    // `up == 1`: Prometheus accepts the metrics that it scrapes.
    let all = queries().into_iter().chain(["up == 1".to_owned()]);
    for query in all {
        until(&query, || {
            // Cause some IO of each kind, so that rates are not empty.
            block += 1;
            let path = disk.mount.join(format!("file{}", block % 50));
            fs::write(&path, vec![0; 65_536]).unwrap();
            disk.sync();
            let mut promtool = Command::new("promtool");
            let out = run(promtool.args(["query", "instant", &server, &query]));
            out.code() == Some(0) && !out.stdout.trim().is_empty()
        });
    }
}
