//! Hostile files: rules do not panic, control characters are not printed, and names are quoted in
//! commands.

use std::fs;
use std::path::{Path, PathBuf};

use super::Machine;
use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::kernel::{Ability, Properties};
use crate::commands::doctor::{json, table};

const GARBAGE: [&[u8]; 10] = [
    b"",
    b"\xff\xfe\x80",
    b"-1\n",
    b"18446744073709551615\n",
    b"99999999999999999999999999 9\n",
    b"\x1b[2J\x1b]0;owned\x07\r\n",
    b"18446744073709551615 18446744073709551615\n9 9\n",
    b"stripe=18446744073709551615\nerrors=\nnodelalloc=x\n",
    b"6.1.[\n",
    b"file\n",
];

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap() {
            t if t.is_dir() => files(&entry.path(), found),
            t if t.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

fn printed(machine: &Machine) -> (String, Vec<Finding>) {
    let facts = machine.facts();
    let found = crate::commands::doctor::rules::check(&facts);
    let able = Ability::new(&Properties::default(), Vec::new());
    let mut out = Vec::new();
    let diagnosis = super::diagnosis(&facts, &found, &able);
    table::write(&mut out, &diagnosis).unwrap();
    json::write(&mut out, &json::object(&diagnosis)).unwrap();
    (String::from_utf8(out).unwrap(), found)
}

#[track_caller]
fn assert_printable(text: &str) {
    let odd = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(odd, None, "{text}");
}

#[test]
fn garbage_in_each_file_in_turn() {
    let machine = Machine::new("raid5", 3, Some(32744));
    let mut paths = Vec::new();
    for dir in ["sys", "proc/fs", "proc/sys"] {
        files(&machine.tree.path(dir), &mut paths);
    }
    // Except the files that list devices: without them there are no facts. `machine` has tests for
    // these.
    paths.retain(|p| !p.ends_with("dev") && !p.ends_with("array_state"));
    for path in &paths {
        let good = fs::read(path).unwrap();
        for bad in GARBAGE {
            machine.tree.write(path, bad);
            assert_printable(&printed(&machine).0);
        }
        fs::remove_file(path).unwrap();
        assert_printable(&printed(&machine).0);
        machine.tree.write(path, good);
    }
    machine.no_findings();
}

#[test]
fn garbage_in_all_files_at_once() {
    for bad in GARBAGE {
        let machine = Machine::new("raid5", 3, Some(32744));
        let mut paths = Vec::new();
        files(&machine.tree.path("sys/block"), &mut paths);
        files(&machine.tree.path("proc/fs"), &mut paths);
        paths.retain(|p| !p.ends_with("dev") && !p.ends_with("array_state"));
        for path in &paths {
            machine.tree.write(path, bad);
        }
        assert_printable(&printed(&machine).0);
    }
}

#[test]
fn names_are_quoted_in_commands() {
    let mut machine = Machine::raid6()
        .with("file sys/block/sdd/device/model \u{1b}[31mEVIL\u{202e}")
        .with("file sys/fs/ext4/md0/errors_count 1")
        .with("file sys/fs/ext4/md0/last_error_func \u{1b}]0;title\u{7}");
    machine.tree.add("mount 9:0 /$(reboot)\\040;\\033[2J ext4 /dev/md0 rw");
    let (text, found) = printed(&machine);
    assert_printable(&text);
    assert!(text.contains("EVIL"));
    for command in found.iter().flat_map(|f| &f.commands).filter(|c| c.contains("reboot")) {
        assert!(command.contains("$'/$(reboot)"), "{command}");
    }
}
