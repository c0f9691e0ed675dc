//! Statements of databases on arrays with a slow member (`tests/lab/slow_databases.sh`), compared
//! with the duration in the database's own log.

use std::path::Path;

use serde_json::Value;

use super::output::{count, each, lines, word};
use super::slow::{holds_for_nearly_all, longest_wait, phase};
use super::{lab, text};

/// dm-delay's times of the slow members, and those with a tick of its timer and with another IO.
const IO_MS: f64 = 60.0;
const FLUSH_MS: f64 = 90.0;
/// Clocks are read before and after the statement, and PostgreSQL logs whole milliseconds.
const CLOCK: f64 = 2e-3;

#[derive(Debug)]
struct Statement {
    name: String,
    /// Seconds.
    begin: f64,
    end: f64,
    /// Duration in the log of the database.
    ms: f64,
    /// Process of PostgreSQL that does its IO.
    tgid: Option<u64>,
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// `1795784021.614 423 LOG:  duration: 1031.580 ms  statement: SELECT ...`: the time is that of the
/// end. A checkpoint is the work of another process.
fn postgresql(dir: &Path) -> Vec<Statement> {
    let mut checkpointer = None;
    let mut statements = Vec::new();
    for line in text(dir.join("postgresql.log")).lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(time), Some(pid), Some(message)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let pid = pid.parse::<u64>().ok();
        if message.contains("checkpoint starting: immediate force wait") {
            checkpointer = pid;
        }
        let Some((_, rest)) = message.split_once("duration: ") else { continue };
        let (ms, sql) = rest.split_once(" ms  statement: ").expect("a statement");
        let (name, tgid) = match sql.split([' ', '(']).next() {
            Some("INSERT") => ("commit", pid),
            Some("SELECT") if sql.contains("sum") => ("read", pid),
            Some("UPDATE") => ("update", pid),
            Some("CHECKPOINT") => ("checkpoint", checkpointer),
            _ => continue,
        };
        let (end, ms) = (number(time), number(ms));
        let name = name.to_owned();
        statements.push(Statement { name, begin: end - ms / 1e3, end, ms, tgid });
    }
    statements
}

/// Times of the statements, and their durations in the slow query log, which has the same order.
fn mariadb(dir: &Path) -> Vec<Statement> {
    let log = text(dir.join("mariadb.log"));
    let (mut durations, mut ms, mut is_next) = (Vec::new(), 0.0, false);
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix("# Query_time: ") {
            ms = number(rest.split(' ').next().unwrap_or_default()) * 1e3;
        } else if ["SELECT", "INSERT", "UPDATE", "FLUSH"].iter().any(|w| line.starts_with(w)) {
            if is_next {
                durations.push(ms);
            }
            is_next = line.starts_with("SELECT 'begin'");
        }
    }
    let times = text(dir.join("mariadb.times"));
    let of = |what: &'static str| {
        let words = times.lines().map(|l| l.split('\t').collect::<Vec<_>>());
        words.filter(move |w| w[0] == what).map(|w| (w[1].to_owned(), number(w[2])))
    };
    assert_eq!(of("begin").count(), durations.len(), "{log}");
    let both = of("begin").zip(of("end")).zip(durations);
    both.map(|(((name, begin), (_, end)), ms)| Statement { name, begin, end, ms, tgid: None })
        .collect()
}

/// Start and end in seconds.
fn span(operation: &Value) -> (f64, f64) {
    let start = word(operation, "start").parse::<jiff::Timestamp>().expect("a time");
    let start = start.as_microsecond() as f64 / 1e6;
    (start, start + count(operation, "total_us") as f64 / 1e6)
}

/// Time in ms in which at least one of the operations had begun and had not ended.
fn covered(operations: &[&Value]) -> f64 {
    let mut spans: Vec<_> = operations.iter().map(|o| span(o)).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut until) = (0.0, 0.0_f64);
    for (start, end) in spans {
        sum += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    sum * 1e3
}

/// Operations on files that contain `part`, one of which is in each statement that has IO there.
fn on<'a>(operations: &[&'a Value], op: &str, part: &str) -> Vec<&'a Value> {
    let is = |o: &&&Value| word(o, "op") == op && word(o, "path").contains(part);
    operations.iter().filter(is).copied().collect()
}

/// The operations of each slow statement explain its duration, and name its files and the slow
/// member.
pub(super) fn slow_statements_have_their_io(kernel: &str) {
    let Some(dir) = lab(kernel, "slow_databases") else {
        return;
    };
    let intervals = lines(&dir, "slow");
    for interval in &intervals {
        assert_eq!(interval["lost"]["events"], 0, "{}", interval["lost"]);
    }
    let all: Vec<&Value> = intervals.iter().flat_map(|i| each(i, "operations")).collect();
    for o in &all {
        let sum: u64 = each(o, "phases").iter().map(|p| count(p, "us")).sum();
        assert_eq!(sum, count(o, "total_us"), "{o}");
    }
    for (database, comm, member, statements, names) in [
        (
            "PostgreSQL",
            "postgres",
            "dm-1",
            postgresql(&dir),
            &["commit", "read", "update", "checkpoint"],
        ),
        ("MariaDB", "mariadbd", "dm-3", mariadb(&dir), &["commit", "read", "update", "flush"]),
    ] {
        for name in names {
            assert!(statements.iter().any(|s| s.name == *name), "{database}: {statements:?}");
        }
        for s in &statements {
            let own = all.iter().copied().filter(|o| {
                let (start, end) = span(o);
                // Other threads of MariaDB do IO of earlier statements, too.
                word(o, "comm") == comm
                    && s.tgid.is_none_or(|tgid| count(o, "tgid") == tgid)
                    && start >= s.begin - CLOCK
                    && end <= s.end + CLOCK
            });
            let own: Vec<&Value> = own.collect();
            let ms = covered(&own);
            println!(
                "{database} {}: {:.1} ms, {:.1} ms in {} operations",
                s.name,
                s.ms,
                ms,
                own.len()
            );
            assert!(ms <= s.ms + 2e3 * CLOCK, "{s:?}: {ms} ms of IO");
            // MariaDB scans 20,000 rows for the update: 60 to 150 ms of an emulated CPU.
            let rest = if s.name == "update" { f64::max(s.ms * 0.4, 200.0) } else { s.ms * 0.2 };
            assert!(ms > 0.0 && s.ms - ms <= rest, "{s:?}: {ms} ms of IO");
            holds_for_nearly_all(&own, |o| longest_wait(o)["member"] == member);
            // The file that the statement waits for, with the injected times.
            let (op, file, wait, injected) = match (database, s.name.as_str()) {
                ("PostgreSQL", "commit") => ("fdatasync", "/pg_wal/", "own_flush", FLUSH_MS),
                ("PostgreSQL", "checkpoint") => ("fsync", "/base/", "", IO_MS),
                ("PostgreSQL", _) => ("read", "/base/", "data_read", IO_MS),
                (_, "commit") => ("fdatasync", "/ib_logfile0", "own_flush", FLUSH_MS),
                (_, "flush") => ("write", "/lab/stock.ibd", "direct_io", IO_MS),
                _ => ("read", "/lab/stock.ibd", "direct_io", IO_MS),
            };
            let named = on(&own, op, file);
            assert!(!named.is_empty() || s.name == "update", "{s:?}: no {op} of {file}: {own:#?}");
            for o in named {
                let waited = phase(o, wait).unwrap_or(&o["phases"][0]);
                assert_eq!(waited["member"], member, "{o:#}");
                // Read-ahead may have begun before the operation.
                let us = waited["member_us"].as_f64().expect("us");
                // The timer of dm-delay counts in ticks of 4 ms, the first of which has begun.
                assert!(us / 1e3 >= injected - 5.0, "{o:#}");
            }
        }
    }
}
