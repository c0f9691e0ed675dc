//! The views of contrib/sql, over a fleet of `tools/fleet`: DuckDB and Spark give the same rows,
//! and the anomaly planted for each question is its answer. Needs no root.

#![cfg(feature = "export")]
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use common::{EXE, generator, installed, python, run, skipped};
use serde::Deserialize;
use serde_json::{Value, json};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const HOSTILE: &str = "a/b='c\"\n%2F*";

#[derive(Debug, Deserialize)]
struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Answer {
    fn cell(&self, row: usize, column: &str) -> &Value {
        let at = self.columns.iter().position(|name| name == column);
        &self.rows[row][at.unwrap_or_else(|| panic!("no column {column}"))]
    }

    fn number(&self, row: usize, column: &str) -> f64 {
        self.cell(row, column).as_f64().unwrap()
    }

    /// Asserts the values of some columns of a row.
    fn has(&self, row: usize, cells: &[(&str, Value)]) {
        for (column, value) in cells {
            assert_eq!(self.cell(row, column), value, "{column} in row {row} of {self:?}");
        }
    }
}

/// True for equal values; numbers that are not integers may differ in their last digits.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) if a.is_f64() || b.is_f64() => {
            (x - y).abs() <= 1e-9 * x.abs().max(y.abs())
        }
        _ => a == b,
    }
}

fn compare(view: &str, duckdb: &Answer, spark: &Answer) {
    assert_eq!(duckdb.columns, spark.columns, "{view}");
    assert_eq!(duckdb.rows.len(), spark.rows.len(), "{view}: {duckdb:?}\n{spark:?}");
    for (a, b) in duckdb.rows.iter().zip(&spark.rows) {
        assert!(a.iter().zip(b).all(|(a, b)| is_same(a, b)), "{view}: {a:?}\n{b:?}");
    }
}

#[test]
fn both_engines_find_what_was_planted() {
    let Some(python) = python("duckdb, pyspark") else {
        return skipped(
            "DuckDB's and Spark's Python packages are not on this machine (tools/setup)",
        );
    };
    if !installed("java") {
        return skipped("Spark needs java, which is not on this machine (tools/setup --lab)");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut tool = Command::new(&python);
    tool.arg(format!("{ROOT}/tools/fleet")).args(["--raidtrace", EXE, "--out"]);
    tool.arg(folder.path());
    tool.args(generator());
    let out = run(&mut tool);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let mut script = Command::new(&python);
    script.args(["tests/fleet_sql.py", "contrib/sql"].map(|path| format!("{ROOT}/{path}")));
    // Without the deadline of `run`: Spark takes a minute of CPU time, beside guests five.
    let out = script.current_dir(folder.path()).env("TZ", "UTC").output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut all: BTreeMap<String, BTreeMap<String, Answer>> =
        serde_json::from_slice(&out.stdout).unwrap();
    let (found, spark) = (all.remove("duckdb").unwrap(), all.remove("spark").unwrap());
    assert!(found.keys().eq(spark.keys()));
    for (view, answer) in &found {
        compare(view, answer, &spark[view]);
    }
    planted(&found);
}

/// Asserts the anomalies that `tools/fleet --help` lists.
fn planted(found: &BTreeMap<String, Answer>) {
    let mut checked = BTreeSet::new();
    let mut first = |view: &str, rows: usize, cells: &[(&str, Value)]| {
        checked.insert(view.to_owned());
        let answer = &found[view];
        // 0: any number.
        assert!(rows == 0 || answer.rows.len() == rows, "{view}: {answer:?}");
        answer.has(0, cells);
    };
    first(
        "hot_spot_layout",
        1,
        &[("host_name", json!("host01")), ("skew", json!(7.5)), ("level", json!("raid0"))],
    );
    first("commits_by_kernel", 2, &[("kernel", json!("6.19.3")), ("hosts", json!(5))]);
    first("models_inode_tables", 0, &[("model", json!("ALPHA-8"))]);
    let slow = [("host_name", json!("incident1")), ("cause", json!("member"))];
    first("waiting_last_night", 0, &slow);
    first("waiting_by_cause", 0, &[("day", json!("2026-11-26")), ("cause", json!("member"))]);
    first("slow_members", 2, &[("host_name", json!("incident1")), ("member", json!("vdb"))]);
    first("missing_events", 0, &[("host_name", json!("host04"))]);
    first("degraded_arrays", 1, &[("host_name", json!("host05"))]);
    first("write_amplification", 4, &[]);
    first("md_writes", 1, &[("host_name", json!("host07"))]);
    first("top_cgroups", 0, &[("cgroup", json!("/system.slice/backup.service"))]);
    first("fsync_phases", 0, &[("phase", json!("own_flush"))]);
    first("firmware", 2, &[("model", json!("BETA-2")), ("firmware", json!("FW2"))]);
    first("findings", 0, &[("finding", json!("array-degraded")), ("hosts", json!(1))]);
    first("requeues", 0, &[("model", json!("ZETA-4")), ("hosts", json!(1))]);
    first("rising_writes", 2, &[("host_name", json!("host10"))]);
    let backup = json!("/system.slice/backup.service");
    first(
        "waits_by_tenant",
        1,
        &[("culprit", backup), ("hosts", json!(2)), ("seconds", json!(3.0))],
    );
    assert!(checked.iter().eq(found.keys()), "{checked:?}");

    let number = |view: &str, row, column: &str| found[view].number(row, column);
    assert!(number("commits_by_kernel", 0, "times_fastest") > 3.0);
    let inode_tables = |row| number("models_inode_tables", row, "p50_us");
    assert!(inode_tables(0) > 2.0 * inode_tables(1));
    found["slow_members"].has(1, &[("host_name", json!("host03")), ("member", json!("sdb"))]);
    found["rising_writes"].has(1, &[("host_name", json!("host05"))]);
    let cost = |column| number("degraded_arrays", 0, column);
    assert!(cost("p99_us") > 1.5 * cost("in_sync_p99_us"));
    // The night before is not last night.
    let night = &found["waiting_last_night"];
    let hosts = (0..night.rows.len()).map(|row| night.cell(row, "host_name").clone());
    let hosts: BTreeSet<String> = hosts.map(|host| host.as_str().unwrap().to_owned()).collect();
    assert!(hosts.iter().eq(["incident1", "incident3"]), "{hosts:?}");
    for (row, level) in ["raid10", "raid1", "raid5", "raid0"].into_iter().enumerate() {
        let answer = &found["write_amplification"];
        answer.has(row, &[("level", json!(level))]);
        assert_eq!(answer.number(row, "parity") > 0.9, level == "raid5");
        assert_eq!(answer.number(row, "read") > 0.9, level == "raid5");
        assert_eq!(answer.number(row, "md") > 0.9, level == "raid10");
    }
    // Two hosts of one name are two: this is one of them, 20 submissions a second, twice a minute.
    found["requeues"].has(0, &[("requests", json!(2400)), ("requeues", json!(2400))]);
    // The name of a host with separators and a line break, from the whole way through a path.
    let rows = 0..found["missing_events"].rows.len();
    let mut names = rows.map(|row| found["missing_events"].cell(row, "host_name"));
    assert!(names.any(|name| name == HOSTILE));
    found["findings"].has(1, &[("finding", json!("array-stopped")), ("example", json!(HOSTILE))]);
}

/// Each view begins with its question and its decision, and README.md lists it.
#[test]
fn each_view_names_its_question() {
    let readme = fs::read_to_string(format!("{ROOT}/contrib/sql/README.md")).unwrap();
    for entry in fs::read_dir(format!("{ROOT}/contrib/sql")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.ends_with(".sql") || name.starts_with("tables.") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap();
        let (question, decision) = first.split_once("? Decides ").unwrap();
        let question = question.strip_prefix("-- ").unwrap();
        let decision = decision.trim_end_matches('.');
        let row = format!("| [`{name}`]({name}) | {question} | {decision} |");
        assert!(readme.contains(&row), "README.md lacks: {row}");
        let view = format!("create or replace temporary view {} as", name.replace(".sql", ""));
        assert!(text.contains(&view), "{name}: {view}");
    }
}
