//! `raidtrace top --connect` shows the same figures as the `serve` that it is connected to, also
//! after `serve` restarts.

use std::process::Command;

use serde_json::Value;

use super::common::{EXE, Top, loopback_address, memory, own_comm, raidtrace, sum, tracing, until};
use super::{Serve, connected, filesystem, write};
use rustix::process::Signal;

fn follow(address: &str, args: &[&str]) -> Top {
    let mut command = Command::new(EXE);
    Top::start(command.args(["top", "--json", "--connect", address]).args(args))
}

/// Number of file data writes in an interval.
fn data(interval: &Value) -> u64 {
    sum(std::slice::from_ref(interval), "file_data", "write", "requests")
}

#[test]
fn figures_match_those_of_serve() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let serve = Serve::start(&disk.name, &["--keep", "0", "--with-tasks"]);
    serve.settled();
    // A longer interval is the sum of intervals of one second.
    let (each_second, every_two_seconds) =
        (follow(&serve.address, &[]), follow(&serve.address, &["-i", "2"]));
    let first = [each_second.line(), every_two_seconds.line()]
        .map(|line| serde_json::from_str(&line).unwrap());
    write(&disk, 100);
    serve.settled();
    let counted = serve.sum("raidtrace_member_requests_total{") as u64;
    assert!(counted >= 100);
    for (top, first) in [each_second, every_two_seconds].into_iter().zip(first) {
        let mut intervals: Vec<Value> = vec![first];
        until("all writes", || {
            let all = intervals.iter().map(data).sum::<u64>() >= 100;
            if !all {
                intervals.push(serde_json::from_str(&top.line()).unwrap());
            }
            all
        });
        let ended = top.end(Signal::TERM);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        intervals.extend(super::common::json(&ended.stdout));
        assert_eq!(intervals.iter().map(data).sum::<u64>(), 100);
        assert_eq!(intervals[0]["schema"], "raidtrace.top/1");
        let member = &intervals[0]["arrays"][0]["members"][0];
        assert_eq!(member["name"], disk.name.as_str());
        let tasks = intervals.iter().any(|i| {
            i["arrays"][0]["tasks"].as_array().unwrap().iter().any(|t| t["comm"] == own_comm())
        });
        assert!(tasks, "{intervals:#?}");
    }
}

#[test]
fn a_restart_of_serve_is_a_gap() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    // No other process gets the port of this address between the end of `serve` and its restart.
    let listen = format!("{}:0", loopback_address());
    let serve = Serve::start(&disk.name, &["--keep", "0", "--listen", &listen]);
    let address = serve.address.clone();
    let top = follow(&address, &[]);
    top.line();
    assert_eq!(serve.process.end(Signal::TERM).code(), Some(0));
    top.says("no connection since ");
    // Part of the test: a restart within an interval is no gap.
    std::thread::sleep(std::time::Duration::from_secs(4));
    let serve = Serve::start(&disk.name, &["--keep", "0", "--listen", &address]);
    top.says("no intervals received from ");
    serve.settled();
    write(&disk, 10);
    until("the writes", || data(&serde_json::from_str(&top.line()).unwrap()) > 0);
    assert_eq!(top.end(Signal::TERM).code(), Some(0));
}

#[test]
fn errors_are_one_line() {
    let fails = |args: &[&str], code: i32, says: &str| {
        let top = [&["top", "--batch", "-n", "1", "--connect"], args].concat();
        let out = connected(|| raidtrace(&top));
        assert_eq!(out.code(), Some(code), "{out:?}");
        assert!(out.stderr.contains(says), "{out:?}");
        if code == 1 {
            assert_eq!(out.stderr.lines().count(), 1, "{out:?}");
        }
    };
    fails(&["ftp://x"], 2, "only http and https");
    fails(&["127.0.0.1:1"], 1, "cannot connect to raidtrace serve at http://127.0.0.1:1/");
    fails(&["localhost:1"], 1, "refused");
    fails(&["nowhere.invalid"], 1, "no address of the host nowhere.invalid");
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let dir = memory();
    let secret = dir.path().join("token");
    std::fs::write(&secret, "0123456789abcdef\n").unwrap();
    let secret = secret.to_str().unwrap();
    let serve = Serve::start(&disk.name, &["--token-file", secret]);
    fails(&[&serve.address], 1, "--token-file FILE");
    let wrong = dir.path().join("wrong");
    std::fs::write(&wrong, "fedcba9876543210\n").unwrap();
    fails(&[&serve.address, "--token-file", wrong.to_str().unwrap()], 1, "the token is wrong");
    let top = ["top", "--batch", "-n1", "--connect", &serve.address, "--token-file", secret];
    let out = connected(|| raidtrace(&top));
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(out.stdout.contains(&disk.name), "{out:?}");
    let https = format!("https://{}", serve.address);
    fails(&[&https], 1, "TLS");
}
