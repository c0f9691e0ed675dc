//! `raidtrace serve` on arrays that fail, stop and return (`tests/lab/serve.sh`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{lab, text};

/// Samples of the metrics, by name and labels.
fn samples(dir: &Path, name: &str) -> BTreeMap<String, f64> {
    let metrics = text(dir.join(format!("{name}.metrics")));
    let lines = metrics.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

/// Requests of a member, according to the metrics and to the kernel.
fn requests(dir: &Path, name: &str, member: &str) -> (f64, f64) {
    let label = format!("member=\"{member}\"");
    let counted = samples(dir, name)
        .into_iter()
        .filter(|(n, _)| n.starts_with("raidtrace_member_requests_total{") && n.contains(&label))
        .map(|(_, value)| value)
        .sum();
    let stat = text(dir.join(format!("{name}.stat")));
    let line = stat.lines().find(|l| l.starts_with(member));
    let fields: Vec<f64> = line
        .expect("a member")
        .split_whitespace()
        .skip(1)
        .map(|f| f.parse().expect("a number"))
        .collect();
    let kernel = [0, 4, 11, 15].iter().filter_map(|i| fields.get(*i)).sum();
    (counted, kernel)
}

pub(super) fn metrics_of_arrays_that_fail_and_return(kernel: &str) {
    let Some(dir) = lab(kernel, "serve") else {
        return;
    };
    assert_eq!(text(dir.join("serve.status")).trim(), "0");
    assert_eq!(text(dir.join("health")).trim(), "ok");
    for (from, to) in [("first", "second"), ("second", "third")] {
        for member in ["loop0", "loop1"] {
            let ((before, kernel_before), (after, kernel)) =
                (requests(&dir, from, member), requests(&dir, to, member));
            let counted = after - before;
            assert_eq!(counted, kernel - kernel_before, "{member}, {from} to {to}");
            assert!(counted > 0.0 || from == "second");
        }
    }
    // Counters never decrease: not when a member fails, nor when an array stops and returns.
    let names = ["first", "second", "third", "degraded", "stopped", "last"];
    let all = names.map(|name| samples(&dir, name));
    for (earlier, later) in all.iter().zip(all.iter().skip(1)) {
        for (name, value) in earlier.iter().filter(|(n, _)| n.contains("_total{")) {
            let now = later.get(name).copied();
            assert!(now.is_some_and(|now| now >= *value), "{name}: {value}, {now:?}");
        }
    }
    let [.., degraded, stopped, last] = &all;
    let of = |samples: &BTreeMap<String, f64>, name: &str| samples.get(name).copied();
    let missing = "raidtrace_array_missing_members{array=\"md121\"}";
    assert_eq!((of(degraded, missing), of(last, missing)), (Some(1.0), Some(0.0)));
    let up = "raidtrace_array_up{array=\"md120\"}";
    assert_eq!((of(stopped, up), of(last, up)), (Some(0.0), Some(1.0)));
    assert_eq!(of(last, "raidtrace_update_failed"), Some(0.0));
    // The kernel's counts of a member that fails cannot be compared.
    let lost =
        |reason: &str| of(last, &format!("raidtrace_lost_events_total{{reason=\"{reason}\"}}"));
    for reason in ["rows", "issue", "pieces", "ring", "busy", "missed"] {
        assert_eq!(lost(reason), Some(0.0), "{reason}");
    }
    // The first thread answers requests.
    let capabilities = text(dir.join("capabilities"));
    assert!(capabilities.contains("CapEff:\t0000000000000000"), "{capabilities}");
    assert!(capabilities.contains("NoNewPrivs:\t1"), "{capabilities}");
    each_dump_says_why(&dir);
}

fn each_dump_says_why(dir: &Path) {
    let reports: Vec<Value> = std::fs::read_dir(dir.join("dumps"))
        .expect("dumps")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| serde_json::from_str(&text(path)).expect("a report"))
        .collect();
    let first = |report: &Value| report["notes"][0].as_str().expect("a note").to_owned();
    let mut notes: Vec<String> = reports.iter().map(first).collect();
    notes.sort();
    assert_eq!(notes.len(), 2, "{notes:?}");
    let [busy, degraded] = [&notes[0], &notes[1]];
    // slow4 is the third dm-delay device.
    assert!(busy.starts_with("written because of busy=80%: dm-2 is busy"), "{busy}");
    assert!(degraded.contains("degraded: md121 lacks 1"), "{degraded}");
}
