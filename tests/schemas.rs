//! What `--json` prints satisfies the JSON Schemas in docs/schemas, and has no other field: for
//! recordings of incidents, for plans, and for this machine. Needs Python's jsonschema.
//! `tests/serve.rs` checks what `serve` answers.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{check_schema, installed, python, raidtrace, skipped};

const HOME: &str = env!("CARGO_MANIFEST_DIR");
/// Incidents whose objects have different parts.
const INCIDENTS: [&str; 7] = [
    "ag-headers",
    "allocator",
    "io-max",
    "lvm-raid1",
    "postgresql-slow-member",
    "rebuild-raid5-hdd",
    "two-arrays",
];

#[test]
fn output_satisfies_its_schema() {
    let Some(python) = python("jsonschema") else {
        return skipped("Python's jsonschema is not on this machine (tools/setup --lab)");
    };
    let prints = |name: &str, args: &[&str]| {
        let out = raidtrace(args);
        assert!(!out.stdout.is_empty(), "{args:?}: {out:?}");
        check_schema(&python, name, &out.stdout);
    };
    let recorded = |name: &str| format!("{HOME}/tests/incidents/recorded/{name}.rtrace");
    for incident in INCIDENTS {
        let file = recorded(incident);
        prints("report", &["report", "--json", &file]);
        prints("why", &["why", "--json", "--replay", &file]);
        prints("top", &["top", "--json", "--replay", &file]);
    }
    let (before, after) = (recorded("control-steady"), recorded("slow-raid5"));
    prints("report-against", &["report", "--json", &after, "--against", &before]);
    prints("doctor", &["doctor", "--json"]);
    prints("doctor-kernel", &["doctor", "--kernel", "--json"]);
    prints("inventory", &["inventory"]);
    let array = ["--plan", "1T", "--level", "raid5", "--disks", "6", "--chunk", "512K", "--json"];
    prints("layout", &[&["layout"], &array[..]].concat());
    prints("layout", &[&["layout", "--grow-to", "7"], &array[..]].concat());
    prints("layout-search", &[&["layout", "--search"], &array[..]].concat());
    if installed("mkfs.xfs") {
        prints("layout", &[&["layout", "--fs", "xfs"], &array[..]].concat());
        prints("layout-search", &[&["layout", "--fs", "xfs", "--search"], &array[..]].concat());
    }
    let demo = format!("{HOME}/src/commands/top/replay/demo.rtrace");
    prints("layout-load", &["layout", "--load", &demo, "--json", "-g", "32744"]);
    prints("slow", &["slow", "--json", "--replay", &recorded("postgresql-slow-member")]);
    // Intervals of a guest with PostgreSQL and MariaDB, and of the allocator, of which there is no
    // recording.
    let slow =
        fs::read_to_string(format!("{HOME}/src/commands/slow/view/databases.jsonl")).unwrap();
    check_schema(&python, "slow", &slow);
    for interval in ["cold", "linear"] {
        let path = format!("{HOME}/src/recording/format/alloc-{interval}.json");
        let value: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        check_schema(&python, "alloc", &value.to_string());
    }
}
