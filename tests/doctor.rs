//! `raidtrace doctor` from outside: on a loop device of this machine, and what it says when it cannot. Rules are tested in
//! `src/doctor/tests`, on real arrays in `tests/lab.rs`.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Loop, MIB, Output, raidtrace, root, tool};
use serde_json::Value;

fn findings(out: &Output) -> Vec<Value> {
    let object: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(object["schema"], "raidtrace.doctor/1");
    object["findings"].as_array().unwrap().clone()
}

#[test]
fn wrong_usage_and_targets() {
    assert_eq!(raidtrace(&["doctor", "--bogus"]).code(), Some(2));
    let out = raidtrace(&["doctor", "no-such-disk"]);
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("no such device") && out.stderr.lines().count() == 1);
    assert_eq!(out.stdout, "");
}

/// Its findings follow what is on the disk, and its commands mend what they are for.
#[test]
fn a_filesystem_that_continues_on_errors() {
    if !root() {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096", "-e", "continue"]);
    let name = disk.name.clone();
    let doctor = || raidtrace(&["doctor", &name, "--json"]);
    let out = doctor();
    assert_eq!(out.code(), Some(0), "{out:?}");
    let found = findings(&out);
    let found = found
        .iter()
        .find(|f| f["id"] == "fs-errors-continue")
        .unwrap();
    assert_eq!(
        (&found["severity"], &found["filesystem"]),
        (&"info".into(), &name.as_str().into())
    );
    let commands = found["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 2, "{found}");
    for command in commands {
        tool("sh", &["-ec", command.as_str().unwrap()]);
    }
    let after = findings(&doctor());
    assert!(
        !after.iter().any(|f| f["id"] == "fs-errors-continue"),
        "{after:?}"
    );
}

#[test]
fn the_kernel() {
    let out = raidtrace(&["doctor", "--kernel"]);
    assert!(matches!(out.code(), Some(0 | 3)), "{out:?}");
    for line in [
        "it takes",
        "it gives",
        "requests, bytes, times",
        "capabilities",
    ] {
        assert!(out.stdout.contains(line), "{line}: {out:?}");
    }
    let object: Value =
        serde_json::from_str(&raidtrace(&["doctor", "--kernel", "--json"]).stdout).unwrap();
    assert!(object["release"].as_str().is_some_and(|r| !r.is_empty()));
    assert!(object["gives"].as_array().is_some_and(|g| g.len() >= 7));
}
