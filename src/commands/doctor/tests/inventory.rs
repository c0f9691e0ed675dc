//! Rows of the inventory, and lines as a dataset.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use tempfile::TempDir;

use super::Machine;
use crate::commands::doctor::inventory::load::Inventories;
use crate::commands::doctor::inventory::row::{InventoryKind, InventoryRow, SCHEMA, rows};
use crate::recording::dataset::columns::DatasetTable;
use crate::recording::dataset_name::DatasetName;

fn host(name: &str, time: &str) -> InventoryRow {
    InventoryRow {
        schema: SCHEMA.to_owned(),
        time: time.to_owned(),
        host_name: name.to_owned(),
        host_id: Some("73f8e7e745a241a48d6c6b182aa6b760".to_owned()),
        kernel: "6.12.107+deb13-amd64".to_owned(),
        version: "0.1.0".to_owned(),
        ..InventoryRow::default()
    }
}

/// Rows of a RAID 5 with a failed disk.
fn machine(name: &str, time: &str) -> Vec<InventoryRow> {
    let machine = Machine::new("raid5", 12, None).with(
        "file sys/block/md0/md/degraded 1
        file sys/block/md0/md/dev-sdc/slot none
        file sys/block/md0/md/dev-sdc/state faulty
        file sys/block/sda/device/model ST12000NM0008
        file sys/block/sda/device/rev SN02
        file sys/block/sdb/device/firmware_rev 1.0.1",
    );
    rows(&machine.facts(), &machine.findings(), &host(name, time))
}

fn of(rows: &[InventoryRow], kind: InventoryKind) -> Vec<&InventoryRow> {
    rows.iter().filter(|row| row.kind == kind).collect()
}

fn text(rows: &[InventoryRow]) -> String {
    rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n").collect()
}

#[test]
fn schema() {
    crate::test_schema::check::<InventoryRow>(SCHEMA);
}

/// Each column of the table is a field, and the reverse; those that are never null are not.
#[test]
fn fields_are_the_columns_of_the_table() {
    let row = serde_json::to_value(host("db1", "2026-11-26T10:00:00Z")).unwrap();
    let mut fields: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
    fields.retain(|field| *field != "schema");
    let columns = DatasetTable::Inventory.columns();
    let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    // The name of the file.
    names.retain(|name| *name != "recording");
    names.sort_unstable();
    fields.sort_unstable();
    assert_eq!(fields, names);
    for column in columns.iter().filter(|column| column.name != "recording") {
        let is_null = row[&column.name].is_null();
        assert!(!is_null || column.null.is_some(), "{} is null", column.name);
    }
}

#[test]
fn rows_of_a_machine() {
    let rows = machine("db1", "2026-11-26T10:00:00.000001Z");
    assert_eq!(of(&rows, InventoryKind::Host).len(), 1);
    let [array] = of(&rows, InventoryKind::Array)[..] else { panic!("{rows:#?}") };
    assert_eq!(
        (array.array.as_deref(), array.level.as_deref(), array.chunk_bytes, array.raid_disks),
        (Some("md0"), Some("raid5"), Some(512 << 10), Some(12))
    );
    assert_eq!(array.size_bytes, Some(11 << 38));
    assert_eq!(array.health.as_deref(), Some("degraded"));
    let members = of(&rows, InventoryKind::Member);
    assert_eq!(members.len(), 12);
    let member = |name: &str| *members.iter().find(|m| m.member.as_deref() == Some(name)).unwrap();
    let a = member("sda");
    assert_eq!((a.slot, a.health.as_deref(), a.rotational), (Some(0), None, Some(true)));
    assert_eq!(a.model.as_deref().zip(a.firmware.as_deref()), Some(("ST12000NM0008", "SN02")));
    assert_eq!(member("sdb").firmware.as_deref(), Some("1.0.1"));
    assert_eq!((member("sdc").slot, member("sdc").health.as_deref()), (None, Some("faulty")));
    let [fs] = of(&rows, InventoryKind::Filesystem)[..] else { panic!("{rows:#?}") };
    assert_eq!(
        (fs.filesystem.as_deref(), fs.fs_type.as_deref(), fs.mounted_on.as_deref()),
        (Some("md0"), Some("ext4"), Some("/srv"))
    );
    assert!(fs.skew.is_some_and(|skew| skew >= 1.0), "{fs:?}");
    let found = of(&rows, InventoryKind::Finding);
    let lost = found.iter().find(|row| row.finding.as_deref() == Some("array-degraded")).unwrap();
    assert_eq!((lost.array.as_deref(), lost.severity.as_deref()), (Some("md0"), Some("critical")));
    assert!(lost.title.is_some() && lost.commands[0].starts_with("mdadm "), "{lost:?}");
    assert!(rows.iter().all(|row| row.host_name == "db1" && row.schema == SCHEMA));
}

/// A dataset, and a file of lines.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Loads a file with `text`, and returns what is wrong with it.
    fn load(&self, text: impl AsRef<[u8]>) -> Vec<String> {
        let file = self.0.path().join("hosts.jsonl");
        fs::write(&file, text).unwrap();
        let mut all = Inventories::default();
        let mut problems = all.read(&file);
        problems.extend(all.remove_parts());
        all.write(&DatasetName::Directory(self.0.path().join("fleet"))).unwrap();
        problems
    }

    /// Files and their rows, by path below the table.
    fn files(&self) -> Vec<(String, i64)> {
        let table = self.0.path().join("fleet/inventory");
        let (mut files, mut directories) = (Vec::new(), vec![table.clone()]);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let name = path.strip_prefix(&table).unwrap().display().to_string();
                    files.push((name, rows_of(&path)));
                }
            }
        }
        files.sort();
        files
    }
}

fn rows_of(path: &Path) -> i64 {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    file.metadata().file_metadata().num_rows()
}

#[test]
fn the_same_lines_again_change_nothing() {
    let folder = Folder::new();
    let first = machine("db1", "2026-11-26T23:59:59.999999Z");
    let second = machine("db2", "2026-11-27T00:00:00Z");
    let both = text(&first) + &text(&second);
    assert_eq!(folder.load(&both), [""; 0]);
    let files = folder.files();
    let [one, two] = &files[..] else { panic!("{files:?}") };
    assert!(one.0.starts_with("date=2026-11-26/host=db1/20261126T235959.999999Z-"), "{one:?}");
    assert!(two.0.starts_with("date=2026-11-27/host=db2/20261127T000000.000000Z-"), "{two:?}");
    assert_eq!((one.1 as usize, two.1 as usize), (first.len(), second.len()));
    // Again, in another order, twice, and cut.
    let mut lines: Vec<String> = both.lines().map(|line| format!("{line}\n")).collect();
    lines.reverse();
    for text in [both.clone(), lines.concat(), both.repeat(2), text(&first[..3])] {
        assert_eq!(folder.load(&text), [""; 0]);
        assert_eq!(folder.files(), files);
    }
    // A whole inventory replaces one that was cut short.
    let other = Folder::new();
    other.load(text(&first[..3]));
    assert_eq!(other.files()[0].1, 3);
    other.load(&both);
    assert_eq!(other.files(), files);
}

#[test]
fn hosts_with_the_same_name_have_a_file_each() {
    let folder = Folder::new();
    let first = host("db/1", "2026-11-26T10:00:00Z");
    let second = InventoryRow { host_id: None, ..first.clone() };
    assert_eq!(folder.load(text(&[first, second])), [""; 0]);
    let files = folder.files();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| file.0.contains("/host=db%2F1/")), "{files:?}");
}

/// A line that is as long as can be does not take the next one with it.
#[test]
fn a_line_of_the_maximum_length() {
    let folder = Folder::new();
    let mut first = text(&[host("db1", "2026-11-26T10:00:00Z")]);
    first.insert_str(first.len() - 1, &" ".repeat((1 << 20) - first.len()));
    assert_eq!(first.len(), 1 << 20);
    assert_eq!(folder.load(first + &text(&[host("db2", "2026-11-26T10:00:00Z")])), [""; 0]);
    assert_eq!(folder.files().len(), 2);
}

/// The findings alone would replace the rest, or pass for the newest inventory.
#[test]
fn a_part_of_an_inventory_is_refused() {
    let folder = Folder::new();
    let rows = machine("db1", "2026-11-26T10:00:00.0000001Z");
    folder.load(text(&rows));
    let files = folder.files();
    let found: Vec<InventoryRow> =
        rows.iter().filter(|row| row.kind == InventoryKind::Finding).cloned().collect();
    let problems = folder.load(text(&found));
    assert!(problems.len() == 1 && problems[0].starts_with("db1: "), "{problems:?}");
    assert_eq!(folder.files(), files);
}

/// Others may write the directory: root does not write where their links lead.
#[test]
fn links_in_the_dataset_are_refused() {
    let folder = Folder::new();
    let elsewhere = folder.0.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(folder.0.path().join("fleet")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.0.path().join("fleet/inventory")).unwrap();
    let mut all = Inventories::default();
    all.add(&host("db1", "2026-11-26T10:00:00Z")).unwrap();
    let error =
        all.write(&DatasetName::Directory(folder.0.path().join("fleet"))).unwrap_err().to_string();
    assert!(error.contains("fleet/inventory is not a directory"), "{error}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn lines_that_cannot_be_read_are_named() {
    let folder = Folder::new();
    let good = text(&[host("db1", "2026-11-26T10:00:00Z")]);
    let other = InventoryRow { schema: "raidtrace.top/1".to_owned(), ..host("x", "") };
    let early = text(&[host("db1", "1969-12-31T23:59:59Z")]);
    let late = text(&[host("db1", "9999-12-30T00:00:00Z")]);
    let long = format!("{{\"host_name\": \"{}\"}}\n", "x".repeat(3 << 20));
    let other = text(&[other]);
    let bad = format!("sudo: a password is required\n\n{other}{early}{late}{long}\u{0}\n");
    let mut problems = folder.load(bad.clone() + &good);
    for says in [
        "line 1 ",
        "raidtrace.top/1",
        "before 1970",
        "in the future",
        "longer than",
        "1 other line not of an inventory",
    ] {
        let problem = problems.remove(0);
        assert!(problem.contains(says) && problem.contains("hosts.jsonl"), "{says}: {problem}");
    }
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(folder.files().len(), 1);
    assert!(folder.load([0xff_u8; 9])[0].contains("line 1 is not of an inventory"));
    assert!(folder.load("\n\n").iter().any(|problem| problem.contains("is empty")));
    assert!(folder.load("?\n".repeat(9)).last().unwrap().contains("4 other lines"));
    let mut all = Inventories::default();
    assert!(all.read(&PathBuf::from("/nonexistent"))[0].contains("/nonexistent: "));
}
