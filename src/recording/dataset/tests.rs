//! The definitions of the tables, and docs/dataset.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::columns::{DatasetTable, TABLES, TableColumn};

const ALL: [DatasetTable; 8] = [
    DatasetTable::Requests,
    DatasetTable::Submissions,
    DatasetTable::Intervals,
    DatasetTable::Verdicts,
    DatasetTable::Operations,
    DatasetTable::Commits,
    DatasetTable::Inventory,
    DatasetTable::Cgroups,
];

#[test]
fn every_column_is_defined() {
    let read: BTreeMap<String, Vec<TableColumn>> =
        toml::from_str(include_str!("columns.toml")).expect("columns.toml");
    let mut names: Vec<&str> = read.keys().map(String::as_str).collect();
    let mut expected = [&TABLES[..], &["common"]].concat();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    for table in ALL {
        let columns = table.columns();
        assert_eq!((columns[0].name.as_str(), table.name()), ("time", TABLES[table as usize]));
        let mut names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}", table.name());
        assert!(!names.contains(&"host") && !names.contains(&"date"), "partitions");
    }
}

/// Rows of docs/dataset.md. UPDATE_DOCS=1 writes them.
#[test]
fn the_page_has_every_column() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dataset.md");
    let mut page = fs::read_to_string(&path).unwrap();
    let row = |prefix: &str, column: &TableColumn| {
        let kind = format!("{:?}", column.kind).to_lowercase();
        let null = column.null.as_deref().unwrap_or_default();
        let name = format!("{prefix}{}", column.name);
        format!("| `{name}` | {kind} | {} | {null} | {} |\n", column.unit, column.help)
    };
    for table in ALL {
        let mut rows = "| column | type | unit | null | |\n|---|---|---|---|---|\n".to_owned();
        for column in table.columns() {
            rows += &row("", column);
            let prefix = format!("{}[].", column.name);
            column.columns.iter().for_each(|field| rows += &row(&prefix, field));
        }
        let section = format!("\n### {}\n", table.name());
        let start = page.find(&section).unwrap_or_else(|| panic!("no section {}", table.name()));
        let from = start + page[start..].find("\n| column |").unwrap() + 1;
        let to = page[from..].find("\n\n").map_or(page.len(), |length| from + length + 1);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            page.replace_range(from..to, &rows);
            fs::write(&path, &page).unwrap();
        }
        assert!(
            page.contains(&rows),
            "docs/dataset.md lacks a column of {}:\n{rows}",
            table.name()
        );
    }
}
