//! `raidtrace doctor` as a process, on a loop device of this machine. Rules are tested in
//! `src/commands/doctor/tests`, and on real arrays in `tests/lab.rs`.

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

/// The commands of a finding fix it.
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
    let found = found.iter().find(|f| f["id"] == "fs-errors-continue").unwrap();
    assert_eq!((&found["severity"], &found["filesystem"]), (&"info".into(), &name.as_str().into()));
    let commands = found["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 2, "{found}");
    for command in commands {
        tool("sh", &["-ec", command.as_str().unwrap()]);
    }
    let after = findings(&doctor());
    assert!(!after.iter().any(|f| f["id"] == "fs-errors-continue"), "{after:?}");
}

/// A covered mount point leads to another filesystem: neither its path nor its inodes are used.
#[test]
fn covered_mount() {
    if !root() {
        return;
    }
    let mut disk = Loop::ext4(64 * MIB, &["-b", "4096", "-e", "continue"]);
    std::fs::write(disk.mount.join("file"), "data").unwrap();
    let path = disk.mount.to_str().unwrap().to_owned();
    tool("mount", &["-t", "tmpfs", "none", &path]);
    let out = raidtrace(&["doctor", &disk.name, "--json"]);
    tool("umount", &[&path]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let object: Value = serde_json::from_str(&out.stdout).unwrap();
    let notes = object["notes"].to_string();
    assert!(notes.contains("leads to another filesystem"), "{notes}");
    for finding in findings(&out) {
        assert_eq!(finding["mounted_on"], Value::Null, "{finding}");
        assert!(!finding["commands"].to_string().contains(&path), "{finding}");
    }
    assert_eq!(std::fs::read(disk.mount.join("file")).unwrap(), b"data");
    disk.umount();
}

/// Prints the number of findings that are left out.
#[test]
fn findings_that_are_left_out() {
    let bogus = raidtrace(&["doctor", "--ignore", "no-such-rule"]);
    assert_eq!(bogus.code(), Some(2), "{bogus:?}");
    if !root() {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096", "-e", "continue"]);
    let name = &disk.name;
    let known = disk.mount.join("known");
    let line = format!("# known\nfs-errors-continue {name}\nfs-nobarrier {name}\n");
    std::fs::write(&known, line).unwrap();
    let known = known.to_str().unwrap();
    let doctor = |args: &[&str]| {
        let out = raidtrace(&[&["doctor", name, "--json"], args].concat());
        let object: Value = serde_json::from_str(&out.stdout).unwrap();
        let found = findings(&out);
        let shown = found.iter().any(|f| f["id"] == "fs-errors-continue");
        (shown, object["left_out"].clone(), object["notes"].to_string())
    };
    let (shown, left_out, _) = doctor(&[]);
    assert!(shown && left_out["ignored"] == 0, "{left_out}");
    for (args, by) in [
        (["--ignore", "fs-errors-continue"], "ignored"),
        (["--acknowledged", known], "acknowledged"),
        (["--min-severity", "warning"], "below_min_severity"),
    ] {
        let (shown, left_out, notes) = doctor(&args);
        assert!(!shown && left_out[by].as_u64() >= Some(1), "{by}: {left_out}");
        assert_eq!(notes.contains("line 3, fs-nobarrier"), by == "acknowledged", "{notes}");
    }
    let text = raidtrace(&["doctor", name, "--acknowledged", known]);
    assert!(text.stdout.contains("left out: 1"), "{text:?}");
    std::fs::write(known, "fs-errors-continue\n").unwrap();
    let wrong = raidtrace(&["doctor", name, "--acknowledged", known]);
    assert_eq!(wrong.code(), Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("line 1") && wrong.stderr.lines().count() == 1, "{wrong:?}");
}

#[test]
fn recording_of_another_machine() {
    if !root() {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096", "-e", "remount-ro"]);
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/top/replay/demo.rtrace");
    let out = raidtrace(&["doctor", &disk.name, "--json", "--load", demo]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let object: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(object["live"]["recording"], demo);
    let notes = object["notes"].to_string();
    assert!(notes.contains("has none of these arrays"), "{notes}");

    let none = disk.mount.join("none.rtrace");
    let out = raidtrace(&["doctor", &disk.name, "--load", none.to_str().unwrap()]);
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("none.rtrace") && out.stderr.lines().count() == 1, "{out:?}");
    for with in ["--live=1", "--kernel"] {
        let out = raidtrace(&["doctor", "--load", demo, with]);
        assert_eq!(out.code(), Some(2), "{out:?}");
    }
}

#[test]
fn the_kernel() {
    let out = raidtrace(&["doctor", "--kernel"]);
    assert!(matches!(out.code(), Some(0 | 3)), "{out:?}");
    for line in ["requirements", "features", "requests, bytes, times", "capabilities"] {
        assert!(out.stdout.contains(line), "{line}: {out:?}");
    }
    let object: Value =
        serde_json::from_str(&raidtrace(&["doctor", "--kernel", "--json"]).stdout).unwrap();
    assert!(object["release"].as_str().is_some_and(|r| !r.is_empty()));
    assert!(object["features"].as_array().is_some_and(|g| g.len() >= 7));
}
