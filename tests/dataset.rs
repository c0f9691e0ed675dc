//! `raidtrace export --dataset` on the recorded incidents: sums, copies, writers, names, errors,
//! and the queries of docs/dataset.md. Needs no root.

#![cfg(feature = "export")]
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Output, python, raidtrace, run, skipped, spawn};
use serde_json::Value;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/incidents/recorded");

/// The directory of a test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A recording of an incident, as if of a host with another name of at most three bytes.
    fn recording_of(&self, incident: &str, host: &str) -> String {
        let mut bytes = fs::read(incident_path(incident)).unwrap();
        let old = br#""host":"lab""#;
        let at = bytes.windows(old.len()).position(|w| w == old).unwrap();
        let name = serde_json::to_string(host).unwrap();
        let new = format!(r#""host":{}{name}"#, " ".repeat(5 - name.len()));
        bytes[at..at + old.len()].copy_from_slice(new.as_bytes());
        self.file(&format!("{incident}.rtrace"), &bytes)
    }
}

fn incident_path(incident: &str) -> String {
    format!("{RECORDED}/{incident}.rtrace")
}

fn export(dataset: &str, files: &[String]) -> Output {
    let files = files.iter().map(String::as_str);
    let options = ["export", "-f", "parquet", "--dataset", dataset];
    raidtrace(&options.into_iter().chain(files).collect::<Vec<_>>())
}

/// Exports without problems.
fn exports(dataset: &str, files: &[String]) {
    let out = export(dataset, files);
    assert_eq!((out.code(), out.stdout.as_str()), (Some(0), ""), "{out:?}");
    assert_eq!(out.stderr.lines().count(), 1, "{out:?}");
}

/// Every file below a directory, hidden ones too.
fn tree(directory: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![PathBuf::from(directory)];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Asserts a status, and words on stderr.
fn fails(out: &Output, code: i32, says: &[&str]) {
    assert_eq!(out.code(), Some(code), "{out:?}");
    for word in says {
        assert!(out.stderr.contains(word), "{word}: {out:?}");
    }
}

/// Runs SQL with DuckDB on the views of docs/dataset.md, in the parent directory of `fleet`.
/// Prints the rows as JSON.
fn query(folder: &Folder, python: &Path, sql: &str) -> Vec<Vec<Value>> {
    let script = "import duckdb, json, sys
for view in open(sys.argv[1]).read().split('```sql\\n')[1].split('```')[0].strip().split('\\n'):
    duckdb.execute(view)
rows = duckdb.sql(sys.argv[2]).fetchall()
print(json.dumps(rows, default=lambda v: str(v)))";
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dataset.md");
    let mut command = Command::new(python);
    let out = run(command.args(["-c", script, docs, sql]).current_dir(folder.path(".")));
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    serde_json::from_str(&out.stdout).unwrap()
}

/// Text of a value, of a number without its quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

type Sums = BTreeMap<[String; 5], [u64; 2]>;

fn sums(rows: Vec<Vec<Value>>) -> Sums {
    let number = |value: &Value| text(value).parse().unwrap();
    rows.iter()
        .map(|row| (std::array::from_fn(|at| text(&row[at])), [number(&row[5]), number(&row[6])]))
        .collect()
}

/// Requests and bytes by recording, array, member, origin and operation, from requests, from
/// intervals, and from `report`; and the verdict of each recording.
#[test]
fn sums_and_verdicts_are_those_of_the_report() {
    let Some(python) = python("duckdb") else {
        return skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
    };
    let folder = Folder::new();
    let mut files: Vec<String> = fs::read_dir(RECORDED)
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|name| name.ends_with(".rtrace"))
        .collect();
    files.sort();
    // Every sixth, one with two arrays, and one whose array changes.
    let some = files.iter().enumerate().filter(|(at, name)| {
        at % 6 == 0 || name.contains("two-arrays") || name.contains("gone-raid5")
    });
    let files: Vec<String> = some.map(|(_, name)| name.clone()).collect();
    exports(&folder.path("fleet"), &files);
    let requests = sums(query(
        &folder,
        &python,
        "select recording, \"array\", member, origin, op, sum(count), sum(bytes) from requests
         group by all",
    ));
    let intervals = sums(query(
        &folder,
        &python,
        "select recording, \"array\", member, io.origin, io.op, sum(io.requests), sum(io.bytes)
         from (select recording, \"array\", member, unnest(io) as io from intervals) group by all",
    ));
    assert_eq!(requests, intervals);
    let totals = query(
        &folder,
        &python,
        "select sum(requests), sum(bytes),
           sum(list_sum([read_requests, write_requests, flush_requests, discard_requests])),
           sum(list_sum([read_bytes, write_bytes, flush_bytes, discard_bytes])) from intervals",
    );
    assert_eq!(totals[0][..2], totals[0][2..], "no other operations were recorded");
    // By the start of the first interval: identifier, and numbers of rows.
    let recordings = query(
        &folder,
        &python,
        "with n as (
           select recording, time, 's' as what, 1 as n from submissions
           union all select recording, time, 'e', error::int from requests
           union all select recording, time, 'o', ended::int from operations
           union all select recording, time, 'c', 1 from commits
           union all select recording, time, 'i', 1 from intervals)
         select strftime(min(time) filter (what = 'i'), '%Y-%m-%dT%H:%M:%S.%fZ'), recording,
           sum(n) filter (what = 's'), sum(n) filter (what = 'e'), sum(n) filter (what = 'o'),
           sum(n) filter (what = 'c')
         from n group by recording",
    );
    let number = |value: &Value| if value.is_null() { 0 } else { text(value).parse().unwrap() };
    let counts: BTreeMap<String, (String, Vec<u64>)> = recordings
        .iter()
        .map(|row| (text(&row[0]), (text(&row[1]), row[2..].iter().map(number).collect())))
        .collect();
    let verdicts = query(
        &folder,
        &python,
        "select recording, \"array\", severity, cause, cause_name, waiting_us, sentence
         from verdicts",
    );
    let mut reported = Sums::new();
    for file in &files {
        let out = raidtrace(&["report", file, "--json"]);
        let report: Value = serde_json::from_str(&out.stdout).unwrap();
        let (recording, counts) = &counts[report["from"].as_str().unwrap()];
        let dump = raidtrace(&["export", file, "-f", "ndjson", "-o", "-"]).stdout;
        let slow = dump.lines().filter(|line| line.contains("\"kind\":\"slow\""));
        let slow: Vec<Value> = slow
            .map(|line| serde_json::from_str(line).unwrap())
            .map(|row: Value| serde_json::from_str(row["text"].as_str().unwrap()).unwrap())
            .collect();
        let all = |field: &str| -> u64 {
            slow.iter().map(|interval| interval[field].as_array().unwrap().len() as u64).sum()
        };
        let [submissions, errors] = ["submissions", "errors"].map(|n| report[n].as_u64().unwrap());
        let expected = [submissions, errors, all("operations"), all("commits")];
        assert_eq!(counts[..], expected, "{file}");
        for array in report["arrays"].as_array().unwrap() {
            let name = |value: &Value| value.as_str().unwrap().to_owned();
            for member in array["members"].as_array().unwrap() {
                for io in member["io"].as_array().unwrap() {
                    let key = [&array["name"], &member["name"], &io["origin"], &io["op"]].map(name);
                    let [array, member, origin, op] = key;
                    let sum = ["requests", "bytes"].map(|sum| io[sum].as_u64().unwrap());
                    reported.insert([recording.clone(), array, member, origin, op], sum);
                }
            }
            let worst = &array["verdict"];
            let expected = [
                &Value::from(recording.as_str()),
                &array["name"],
                &worst["severity"],
                &worst["cause"]["kind"],
                &worst["cause"]["name"],
                &worst["waiting"]["us"],
            ];
            // A report begins with the time; that of calm storage has a sentence of its own.
            let sentence = worst["sentence"].as_str().unwrap();
            let is_said = |row: &[Value]| {
                worst["severity"] == "none" || sentence.ends_with(row[6].as_str().unwrap())
            };
            let is = |row: &Vec<Value>| row[..6].iter().eq(expected) && is_said(row);
            assert!(verdicts.iter().any(is), "{file}: {worst}");
        }
    }
    assert_eq!(requests, reported);
}

fn four() -> Vec<String> {
    ["ordered-data", "no-space", "dirty-limit", "two-arrays"].map(incident_path).to_vec()
}

#[test]
fn the_same_recordings_again_change_nothing() {
    let folder = Folder::new();
    let fleet = folder.path("fleet");
    exports(&fleet, &four());
    let before = tree(&fleet);
    assert!(before.keys().all(|name| name.extension().is_some_and(|e| e == "parquet")));
    assert_eq!(before.len(), 4 * 6, "{:?}", before.keys());
    exports(&fleet, &four());
    assert!(tree(&fleet) == before);
}

#[test]
fn several_processes_write_at_once() {
    let folder = Folder::new();
    let (alone, fleet) = (folder.path("alone"), folder.path("fleet"));
    exports(&alone, &four());
    let start = |reverse: bool| {
        let mut files = four();
        if reverse {
            files.reverse();
        }
        let mut command = Command::new(common::EXE);
        command.args(["export", "-f", "parquet", "--dataset", &fleet]).args(files);
        spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()))
    };
    // Two in the same order wait for each other at each recording.
    let writers = [start(false), start(false), start(true)];
    for writer in writers {
        let out = writer.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    assert!(tree(&fleet) == tree(&alone));
}

#[test]
fn hosts_have_any_name() {
    let folder = Folder::new();
    let fleet = folder.path("fleet");
    let names = ["../", "a=b", "%2F", "\u{e9}*", "", "007", "lab"];
    let incidents = [
        "ordered-data",
        "no-space",
        "dirty-limit",
        "io-max-bytes",
        "control-fstrim",
        "control-bursts",
        "control-uneven",
    ];
    for (incident, name) in incidents.into_iter().zip(names) {
        exports(&fleet, &[folder.recording_of(incident, name)]);
    }
    let paths = tree(&fleet).into_keys().map(|path| path.display().to_string());
    let intervals = paths.filter(|path| path.starts_with("intervals/"));
    let mut hosts: Vec<String> =
        intervals.map(|path| path.split('/').nth(2).unwrap().to_owned()).collect();
    hosts.sort();
    let default = "host=__HIVE_DEFAULT_PARTITION__";
    let expected = [
        "host=%252F",
        "host=..%2F",
        "host=007",
        default,
        "host=a%3Db",
        "host=lab",
        "host=\u{e9}%2A",
    ];
    assert_eq!(hosts, expected);
    let Some(python) = python("duckdb") else {
        return skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
    };
    let sql = "select distinct coalesce(host, ''), host_name, typeof(host) from intervals";
    let rows = query(&folder, &python, sql);
    assert_eq!(rows.len(), names.len());
    for row in rows {
        assert_eq!((&row[0], text(&row[2]).as_str()), (&row[1], "VARCHAR"), "{row:?}");
    }
}

#[test]
fn damaged_files_among_good_ones() {
    let folder = Folder::new();
    let (fleet, good) = (folder.path("fleet"), folder.path("good"));
    let whole = fs::read(incident_path("two-arrays")).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() * 4 / 5;
    damaged[middle..middle + 3000].fill(0x55);
    let damaged = folder.file("damaged.rtrace", &damaged);
    let (empty, other) = (folder.file("empty", b""), folder.file("other", &[7; 1000]));
    let missing = folder.path("missing");
    let [first, second] = ["ordered-data", "no-space"].map(incident_path);
    let out =
        export(&fleet, &[empty, first.clone(), damaged.clone(), other, missing, second.clone()]);
    fails(
        &out,
        1,
        &["empty: is empty", "other: not a raidtrace recording", "missing: No such file"],
    );
    fails(&out, 1, &["damaged.rtrace: the recording is damaged", "3 of 6 recordings"]);
    exports(&good, &[first, second]);
    let (all, good) = (tree(&fleet), tree(&good));
    assert!(good.iter().all(|(name, bytes)| all.get(name) == Some(bytes)));
    assert_eq!(all.len(), good.len() + 6, "the readable part of the damaged one");
    // Alone, with one line about it. Then the whole recording replaces it, and stays.
    let lines = |out: &Output| out.stderr.lines().count();
    let out = export(&fleet, std::slice::from_ref(&damaged));
    assert_eq!((out.code(), lines(&out)), (Some(1), 2), "{out:?}");
    assert!(tree(&fleet) == all);
    exports(&fleet, &[folder.file("whole.rtrace", &whole)]);
    let all = tree(&fleet);
    fails(&export(&fleet, &[damaged]), 1, &["the dataset has a longer copy", "is damaged"]);
    assert!(tree(&fleet) == all);
    let one = folder.path("one");
    exports(&one, &[incident_path("two-arrays")]);
    assert!(tree(&one).iter().all(|(name, bytes)| all.get(name) == Some(bytes)));
}

#[test]
fn a_dataset_that_cannot_be_written() {
    let folder = Folder::new();
    let file = folder.file("file", b"");
    let recording = four();
    fails(&export(&file, &recording), 1, &["file: ", "name a directory"]);
    let inside = format!("{file}/fleet");
    fails(&export(&inside, &recording), 1, &["Not a directory", "name a directory"]);
    if cfg!(not(feature = "object-store")) {
        let says = ["s3://bucket/fleet: ", "built without object storage", "rclone copy"];
        fails(&export("s3://bucket/fleet", &recording), 1, &says);
        let out = raidtrace(&["inventory", "--load", &file, "--dataset", "s3://bucket"]);
        fails(&out, 1, &["built without object storage"]);
    }
    assert!(!Path::new("s3:").exists());
    fails(&export("/proc/self/fleet", &recording), 1, &["/proc/self/fleet: ", "name"]);
    // The third recording exceeds a limit of the file size.
    let fleet = folder.path("fleet");
    exports(&fleet, &recording[..2]);
    let before = tree(&fleet);
    let big = incident_path("slow-raid0");
    let shell = "trap '' XFSZ; ulimit -f 40; exec \"$0\" export -f parquet --dataset \"$@\"";
    let mut command = Command::new("bash");
    let out = run(command.args(["-c", shell, common::EXE, &fleet, &recording[0], &big]));
    fails(&out, 1, &["fleet: File too large", "files that were complete are unchanged"]);
    assert!(tree(&fleet) == before, "{:?}", tree(&fleet).keys());
}

#[test]
fn options_that_do_not_go_together() {
    for wrong in [
        &["-f", "csv", "--dataset", "d", "a"][..],
        &["-f", "parquet", "--dataset", "d", "-o", "x", "a"],
        &["-f", "parquet", "--dataset", "d", "--force", "a"],
        &["-f", "parquet", "-o", "x", "a", "b"],
        &["-f", "parquet", "--dataset", "d"],
        &["-f", "parquet", "a"],
    ] {
        let out = raidtrace(&[&["export"], wrong].concat());
        assert_eq!((out.code(), out.stdout.as_str()), (Some(2), ""), "{wrong:?}");
    }
    assert!(!Path::new("d").exists());
}

#[test]
fn duckdb_answers_the_queries_of_the_page() {
    let Some(python) = python("duckdb") else {
        return skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
    };
    let folder = Folder::new();
    let files = [
        ("bitmaps-3-of-12", "db1"),
        ("postgresql-slow-member", "db2"),
        ("rebuild-raid6", "db3"),
        ("small-journal", "db4"),
        ("control-steady", "db5"),
        ("direct-io", "db6"),
    ]
    .map(|(incident, host)| folder.recording_of(incident, host));
    let out = export(&folder.path("fleet"), &files);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dataset.md");
    let page = fs::read_to_string(&docs).unwrap();
    let summary = out.stderr.replace(&folder.path("fleet"), "fleet");
    assert!(page.contains(&summary), "{summary}");
    let first = tree(&folder.path(".")).into_keys().find(|path| path.starts_with("fleet/requests"));
    let first = first.unwrap().display().to_string();
    assert!(page.contains(&first), "{first}");
    let script = "import duckdb, json, re, sys
text = open(sys.argv[1]).read()
def answer(sql):
    found = duckdb.sql(sql)
    cells = ([str('' if v is None else v) for v in row] for row in [found.columns, \
    *found.fetchall()])
    return ''.join(' | '.join(row).rstrip() + '\\n' for row in cells)
views = text.split('```sql\\n')[1].split('```')[0]
for view in views.strip().split('\\n'):
    duckdb.execute(view)
queries = re.findall(r'```sql\\n([^`]*?)```\\n```text\\n(.*?)```', text, re.S)
print(json.dumps([[sql, shown, answer(sql)] for sql, shown in queries]))";
    let mut command = Command::new(python);
    let out = run(command.args(["-c", script]).arg(&docs).current_dir(folder.path(".")));
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    let queries: Vec<(String, String, String)> = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(queries.len(), 6);
    for (sql, shown, answer) in &queries {
        assert_eq!(shown, answer, "{sql}");
    }
}

/// Lines of an inventory of a host with two disks, one of which has failed since.
fn inventory_of(host: &str, day: u32, health: &str) -> String {
    let row = |kind: &str, fields: &str| {
        format!(
            "{{\"schema\":\"raidtrace.inventory/1\",\"time\":\"2026-11-{day}T06:00:00Z\",\
             \"host_name\":\"{host}\",\"host_id\":null,\"kernel\":\"6.12\",\"version\":\"0.1.0\",\
             \"commands\":[],\"kind\":\"{kind}\"{fields}}}\n"
        )
    };
    let member = |name: &str, health: &str| {
        let fields = format!(
            ",\"array\":\"md0\",\"member\":\"{name}\",\"health\":{health},\
             \"model\":\"ST12000NM0008\",\"firmware\":\"SN02\""
        );
        row("member", &fields)
    };
    [row("host", ""), member("sda", "null"), member("sdb", health)].concat()
}

#[test]
fn inventories_of_many_hosts() {
    let Some(python) = python("duckdb") else {
        return skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
    };
    let folder = Folder::new();
    let fleet = folder.path("fleet");
    let old = folder.file("old.jsonl", inventory_of("db1", 25, "null").as_bytes());
    let lines = inventory_of("db1", 26, "\"faulty\"") + &inventory_of("db2", 26, "null");
    let new = folder.file("new.jsonl", lines.as_bytes());
    let out = raidtrace(&["inventory", "--load", &old, &new, "--dataset", &fleet]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stderr.contains("3 hosts, 9 rows"), "{out:?}");
    let before = tree(&fleet);
    let piped = format!("cat {new} {old} | $0 inventory --load - --dataset {fleet}");
    let mut shell = Command::new("sh");
    let out = run(shell.args(["-c", &piped, env!("CARGO_BIN_EXE_raidtrace")]));
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(tree(&fleet) == before);
    // A host that could not be reached.
    let bad = folder.file("bad.jsonl", b"ssh: connect to host db3 port 22: No route to host\n");
    let out = raidtrace(&["inventory", "--load", &bad, "--load", &new, "--dataset", &fleet]);
    fails(&out, 1, &["bad.jsonl: line 1 is not of an inventory"]);
    assert!(tree(&fleet) == before);

    let script = "import duckdb, json, sys
section = open(sys.argv[1]).read().split('## Inventories')[1]
rows = duckdb.sql(section.split('```sql\\n')[1].split('```')[0]).fetchall()
print(json.dumps(rows))";
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dataset.md");
    let mut command = Command::new(python);
    let out = run(command.args(["-c", script, docs]).current_dir(folder.path(".")));
    assert_eq!(out.code(), Some(0), "{}", out.stderr);
    assert_eq!(out.stdout.trim(), "[[\"ST12000NM0008\", \"SN02\", 2, 4, 1]]");
}

#[test]
fn inventory_options_that_do_not_go_together() {
    fails(&raidtrace(&["inventory", "--load", "x"]), 2, &["--dataset"]);
    let both = ["inventory", "md0", "--load", "x", "--dataset", "y"];
    fails(&raidtrace(&both), 2, &["--load"]);
    fails(&raidtrace(&["inventory", "md77"]), 1, &["md77"]);
}
