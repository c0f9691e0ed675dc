//! `--json`: one object per interval, each on its own line (schema `raidtrace.alloc/1`). All figures cover one interval.

use std::io::{self, Write};

use crate::analysis::alloc::AllocSnapshot;
use crate::recording::alloc::Interval;
use crate::ui::json::write_line;

/// Writes `snapshot` as one line and flushes it.
pub fn write(out: &mut impl Write, snapshot: &AllocSnapshot) -> io::Result<()> {
    write_line(out, &Interval::new(snapshot))
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::analysis::alloc::{AllocSnapshot, Counts, Source};
    use crate::analysis::alloc::{figures, fixture};
    use crate::recording::alloc::Interval;
    use crate::ui::text::is_hidden;
    use serde_json::Value;

    fn line(snapshot: &AllocSnapshot) -> Value {
        let mut out = Vec::new();
        write(&mut out, snapshot).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let odd = |c: char| c.is_control() || is_hidden(c);
        assert!(!text.trim_end().contains(odd));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn fields_of_an_interval() {
        let v = line(&fixture::linear());
        assert_eq!(v["schema"], "raidtrace.alloc/1");
        assert_eq!(v["time"], "2026-11-20T12:00:01Z");
        assert_eq!(v["interval_s"].as_f64(), Some(1.0));
        let fs = &v["filesystems"][0];
        assert_eq!((&fs["name"], &fs["dev"]), (&"md3".into(), &"9:3".into()));
        assert_eq!(fs["groups"].as_u64(), Some(221_184));
        assert_eq!(fs["reason"]["id"], "linear_scan");
        assert_eq!(fs["reason"]["rule"], "alloc-linear");
        assert_eq!(fs["requests"].as_u64(), Some(22));
        assert_eq!(fs["latency_us"]["count"].as_u64(), Some(21));
        assert_eq!(fs["latency_us"]["p50"].as_u64(), Some(40_960));
        assert_eq!(fs["searches"]["reached"][1]["name"], "cr2");
        assert_eq!(fs["searches"]["reached"][1]["searches"].as_u64(), Some(20));
        let looked = &fs["looked"];
        assert_eq!(looked["p50"].as_u64(), Some(524_287));
        assert_eq!(looked["buckets"][1][0].as_u64(), Some(262_144));
        assert_eq!(looked["criteria"][0]["name"], "cr0");
        assert_eq!(looked["reasons"]["order"].as_u64(), Some(4640));
        assert_eq!(fs["fragmentation"]["largest"][9].as_u64(), Some(900));
        assert_eq!(fs["tasks"][0]["role"], "writeback");
        assert_eq!(fs["tasks"][0]["nanoseconds"].as_u64(), Some(911_000_000));
        assert_eq!(fs["files"][1]["path"], Value::Null);
        assert_eq!(v["cpu"]["allocator"].as_u64(), Some(97));
        assert_eq!(v["cpu"]["hottest"][0], "ext4_mb_good_group");
        assert_eq!(v["cpus"][1]["cpu"].as_u64(), Some(5));
        assert_eq!(v["sources"]["groups"], "fentry");
        assert_eq!(v["sources"]["fragmentation"], "mb_groups");
        assert_eq!(v["lost"]["events"].as_u64(), Some(0));
        assert_eq!(v["overhead"]["bpf_ns"].as_u64(), Some(4_200_000));
    }

    #[test]
    fn unknown_figures_are_null() {
        let v = line(&fixture::degraded());
        let fs = &v["filesystems"][0];
        for figure in ["looked", "waits_us", "fragmentation"] {
            assert!(fs[figure].is_null(), "{figure}: {}", fs[figure]);
        }
        assert_eq!(fs["reads"]["needed"].as_u64(), Some(0));
        assert_eq!(v["sources"]["groups"], "none");
        assert!(v["notes"][0].as_str().unwrap().contains("refused"));
    }

    #[test]
    fn uncounted_figures_are_null() {
        let mut s = fixture::linear();
        let hooked = line(&s);
        let looked = hooked["filesystems"][0]["tasks"][0]["looked"].as_u64();
        assert!(looked > Some(0), "{looked:?}");
        let mut keys = vec!["given", "got_blocks", "nanoseconds"];
        s.filesystems[0].counts = Counts::default();
        s.sources.insert(figures::LATENCY, Source::None);
        s.sources.insert(figures::GROUPS, Source::MbStats);
        for figure in [None, Some(figures::REQUESTS)] {
            if let Some(figure) = figure {
                s.sources.insert(figure, Source::None);
                keys.extend(["requests", "asked_blocks"]);
            }
            let v = line(&s);
            let fs = &v["filesystems"][0];
            for key in [
                "requests",
                "asked_blocks",
                "given",
                "got_blocks",
                "nanoseconds",
            ] {
                assert_eq!(fs[key].is_null(), keys.contains(&key), "{key}: {}", fs[key]);
            }
            for rows in ["tasks", "files"] {
                let looked = fs[rows][0].get("looked");
                assert_eq!(looked, Some(&Value::Null), "{rows}");
            }
        }
    }

    #[test]
    fn differing_counts_are_both_written() {
        assert!(line(&fixture::linear())["filesystems"][0]["mb_stats"].is_null());
        let v = line(&fixture::counted_twice(false));
        assert_eq!(v["notes"].as_array().map(Vec::len), Some(0));
        let v = line(&fixture::counted_twice(true));
        let by_ext4 = &v["filesystems"][0]["mb_stats"];
        assert_eq!(by_ext4["groups"].as_u64(), Some(4_581_822));
        assert_eq!(by_ext4["searches"].as_u64(), Some(118));
        let note = v["notes"][0].as_str().unwrap();
        assert!(
            note.starts_with("md3: 9,163,644 groups") && note.contains(" 4,581,822 by ext4's own"),
            "{note}"
        );
        // Reading drops the note and writing computes it again, because the sum of several intervals has different figures.
        let read = Interval::parse(0, &v.to_string()).unwrap().snapshot;
        assert!(read.notes.is_empty(), "{:?}", read.notes);
        let mut again = line(&read);
        again["time"] = v["time"].clone();
        assert_eq!(again, v);
    }

    #[test]
    fn rows_without_counts_are_omitted() {
        let v = line(&fixture::empty());
        let fs = &v["filesystems"][0];
        for rows in ["tasks", "files", "members"] {
            assert_eq!(fs[rows].as_array().unwrap().len(), 0, "{rows}");
        }
        assert!(fs["reason"].is_null());
        assert_eq!(fs["latency_us"]["count"].as_u64(), Some(0));
        assert_eq!(v["cpus"].as_array().unwrap().len(), 0);
        let v = line(&fixture::huge());
        assert_eq!(v["filesystems"].as_array().unwrap().len(), 3);
        let task = &v["filesystems"][0]["tasks"][1];
        assert!(task["comm_bytes"].as_str().unwrap().starts_with("1b5d303b"));
    }
}
