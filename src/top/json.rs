//! `--json`: the contract `raidtrace.top/1`, one object an interval and line.
//!
//! Fields named in the design never change; more may come. Figures are those of the interval.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::text::is_hidden;
use crate::model::files::{FileSnapshot, FileSum};
use crate::model::hist::Hist;
use crate::model::ledger::{self, Ledger};
use crate::model::snapshot::{ArraySnapshot, Lost, MemberSnapshot, Snapshot, TaskSnapshot};
use crate::model::standout;
use crate::origin::{Op, Origin};

/// Writes `snapshot` as one line and flushes it.
pub fn write(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    write_line(out, &Interval::from(snapshot))
}

/// Writes anything as one line and flushes it.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = Vec::with_capacity(4096);
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut line, Printable,
    ))?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Compact JSON whose strings hold no character that a terminal would act on or hide: also those that JSON itself
/// would let pass (DEL, C1, bidi) are escaped. Nothing is lost: a parser gets them back.
struct Printable;

impl serde_json::ser::Formatter for Printable {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (at, c) in fragment.char_indices() {
            if c.is_control() || is_hidden(c) {
                out.write_all(&fragment.as_bytes()[plain..at])?;
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
                plain = at + c.len_utf8();
            }
        }
        out.write_all(&fragment.as_bytes()[plain..])
    }
}

#[derive(Serialize)]
struct Interval<'a> {
    schema: &'static str,
    time: String,
    interval_s: f64,
    arrays: Vec<Array<'a>>,
    lost: Losses,
    overhead: Overhead,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// An array in an interval.
#[derive(Serialize)]
pub(crate) struct Array<'a> {
    name: &'a str,
    level: &'a str,
    chunk_bytes: u64,
    bytes: u64,
    disks: u32,
    trouble: Option<&'a str>,
    filesystems: &'a [String],
    standout: Option<Standout<'a>>,
    members: Vec<Member<'a>>,
    tasks: Vec<Task<'a>>,
    amplification: Vec<Amplified>,
    files: Vec<File<'a>>,
    files_rest: Sum,
    files_untold: Sum,
}

#[derive(Serialize)]
struct Standout<'a> {
    kind: standout::Kind,
    origins: &'a [Origin],
    op: Option<Op>,
    members: &'a [String],
    share: f64,
    skew: f64,
    over_s: f64,
    sentence: &'a str,
}

#[derive(Serialize)]
struct Member<'a> {
    name: &'a str,
    slot: Option<u32>,
    trouble: Option<&'a str>,
    disk: Option<Disk>,
    io: Vec<Io>,
}

#[derive(Serialize)]
struct Disk {
    in_flight: u32,
    utilisation: f64,
    requests: u64,
}

#[derive(Serialize)]
struct Io {
    origin: Origin,
    op: Op,
    requests: u64,
    bytes: u64,
    queue_us: Quantiles,
    device_us: Quantiles,
}

/// `count` says how many were measured: with 0 of them the rest means nothing.
#[derive(Serialize)]
struct Quantiles {
    p50: u64,
    p99: u64,
    max: u64,
    count: u64,
}

#[derive(Serialize)]
struct Task<'a> {
    pid: u32,
    comm: Cow<'a, str>,
    cgroup: Option<&'a str>,
    role: Option<&'a str>,
    io: Vec<Submitted>,
}

#[derive(Serialize)]
struct Submitted {
    origin: Origin,
    op: Op,
    bios: u64,
    bytes: u64,
}

/// Of this interval alone, unlike the screen's.
#[derive(Serialize)]
struct Amplified {
    origin: Origin,
    op: Op,
    entered_bytes: u64,
    data_bytes: u64,
    parity_bytes: u64,
    rmw_read_bytes: u64,
    md_bitmap_bytes: u64,
    md_journal_bytes: u64,
    factor: Option<f64>,
}

/// A file and operation. Names that are not UTF-8 have every byte in `path_bytes`, `name_bytes`, in hexadecimal.
#[derive(Serialize)]
struct File<'a> {
    dev: String,
    inode: u64,
    generation: u32,
    path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<String>,
    deleted: bool,
    op: Op,
    bios: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Sum {
    bios: u64,
    bytes: u64,
}

/// What was not counted, by reason.
#[derive(Serialize)]
pub(crate) struct Losses {
    events: u64,
    rows: u64,
    issue: u64,
    pieces: u64,
    tasks: u64,
    files: u64,
    missed: u64,
    ring: u64,
}

#[derive(Serialize)]
struct Overhead {
    bpf_ns: u64,
    bpf_events: u64,
}

/// Six decimals: µs are all that is known.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

impl<'a> From<&'a Snapshot> for Interval<'a> {
    fn from(s: &'a Snapshot) -> Self {
        Self {
            schema: "raidtrace.top/1",
            time: s.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            interval_s: round(s.interval.as_secs_f64()),
            arrays: s.arrays.iter().map(|a| Array::new(a, s.interval)).collect(),
            lost: Losses::from(s.lost),
            overhead: Overhead {
                bpf_ns: s.overhead.bpf_ns,
                bpf_events: s.overhead.bpf_events,
            },
            notes: &s.notes,
        }
    }
}

impl From<Lost> for Losses {
    fn from(lost: Lost) -> Self {
        let Lost {
            rows,
            issue,
            pieces,
            tasks,
            files,
            missed,
            ring,
        } = lost;
        Self {
            events: lost.events(),
            rows,
            issue,
            pieces,
            tasks,
            files,
            missed,
            ring,
        }
    }
}

impl<'a> Array<'a> {
    pub(crate) fn new(a: &'a ArraySnapshot, interval: Duration) -> Self {
        let ledger = Ledger::of(a, interval);
        Self {
            name: &a.info.name,
            level: &a.info.level,
            chunk_bytes: a.info.chunk_bytes,
            bytes: a.info.bytes,
            disks: a.info.disks,
            trouble: a.info.trouble.as_deref(),
            filesystems: &a.info.filesystems,
            standout: a.standout.as_ref().map(Standout::from),
            members: a.members.iter().map(Member::from).collect(),
            tasks: a.tasks.iter().map(Task::from).collect(),
            amplification: ledger.rows.iter().map(Amplified::from).collect(),
            files: a.files.busiest.iter().flat_map(File::of).collect(),
            files_rest: Sum::from(a.files.rest),
            files_untold: Sum::from(a.files.untold),
        }
    }
}

impl<'a> From<&'a standout::Standout> for Standout<'a> {
    fn from(s: &'a standout::Standout) -> Self {
        Self {
            kind: s.kind,
            origins: &s.origins,
            op: s.op,
            members: &s.members,
            share: round(s.share),
            skew: round(s.skew),
            over_s: round(s.over.as_secs_f64()),
            sentence: &s.sentence,
        }
    }
}

impl<'a> From<&'a MemberSnapshot> for Member<'a> {
    fn from(m: &'a MemberSnapshot) -> Self {
        let io =
            m.io.iter()
                .filter(|c| c.requests > 0 || c.bytes > 0)
                .map(|c| Io {
                    origin: c.origin,
                    op: c.op,
                    requests: c.requests,
                    bytes: c.bytes,
                    queue_us: Quantiles::from(&c.queue),
                    device_us: Quantiles::from(&c.device),
                });
        Self {
            name: &m.name,
            slot: m.slot,
            trouble: m.trouble.as_deref(),
            disk: m.disk.map(|d| Disk {
                in_flight: d.in_flight,
                utilisation: round(d.utilisation),
                requests: d.requests,
            }),
            io: io.collect(),
        }
    }
}

impl From<&Hist> for Quantiles {
    fn from(h: &Hist) -> Self {
        Self {
            p50: h.quantile(0.5).unwrap_or(0),
            p99: h.quantile(0.99).unwrap_or(0),
            max: h.max().unwrap_or(0),
            count: h.count(),
        }
    }
}

impl<'a> From<&'a TaskSnapshot> for Task<'a> {
    fn from(t: &'a TaskSnapshot) -> Self {
        Self {
            pid: t.pid,
            comm: String::from_utf8_lossy(&t.comm),
            cgroup: t.cgroup.as_deref(),
            role: t.role.as_deref(),
            io: t
                .io
                .iter()
                .map(|i| Submitted {
                    origin: i.origin,
                    op: i.op,
                    bios: i.bios,
                    bytes: i.bytes,
                })
                .collect(),
        }
    }
}

impl From<&ledger::Row> for Amplified {
    fn from(r: &ledger::Row) -> Self {
        Self {
            origin: r.origin,
            op: r.op,
            entered_bytes: r.entered,
            data_bytes: r.data,
            parity_bytes: r.parity,
            rmw_read_bytes: r.rmw_read,
            md_bitmap_bytes: r.md_bitmap,
            md_journal_bytes: r.md_journal,
            factor: r.factor().map(round),
        }
    }
}

impl<'a> File<'a> {
    fn of(file: &'a FileSnapshot) -> impl Iterator<Item = Self> {
        let (id, place) = (file.id, &file.place);
        let text = |bytes: &'a Option<Vec<u8>>| bytes.as_deref().map(String::from_utf8_lossy);
        file.io.iter().map(move |io| Self {
            dev: id.device(),
            inode: id.inode,
            generation: id.generation,
            path: text(&place.path),
            path_bytes: hex(place.path.as_deref()),
            name: text(&place.name),
            name_bytes: hex(place.name.as_deref()),
            deleted: place.deleted,
            op: io.op,
            bios: io.bios,
            bytes: io.bytes,
        })
    }
}

impl From<FileSum> for Sum {
    fn from(FileSum { bios, bytes }: FileSum) -> Self {
        Self { bios, bytes }
    }
}

/// Of what is not UTF-8.
pub(crate) fn hex(bytes: Option<&[u8]>) -> Option<String> {
    let bytes = bytes.filter(|b| std::str::from_utf8(b).is_err())?;
    Some(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// What [`hex`] wrote; `None` where that makes no sense.
pub(crate) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let pairs = hex.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::model::fixture;
    use serde_json::Value;

    fn line(snapshot: &crate::model::snapshot::Snapshot) -> String {
        let mut out = Vec::new();
        write(&mut out, snapshot).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn files() {
        let text = line(&fixture::raid0(12));
        let v: Value = serde_json::from_str(&text).unwrap();
        let array = &v["arrays"][0];
        let files = array["files"].as_array().unwrap();
        let first = &files[0];
        assert_eq!(
            (&first["dev"], &first["op"]),
            (&"9:127".into(), &"read".into())
        );
        assert_eq!((&first["inode"], &first["bios"]), (&12.into(), &400.into()));
        assert_eq!(first["bytes"].as_u64(), Some(400 * 16384));
        assert!(first["path"].as_str().unwrap().ends_with("/2619.17"));
        assert!(first.get("path_bytes").is_none());
        assert_eq!(
            (&files[1]["inode"], &files[1]["op"]),
            (&12.into(), &"write".into())
        );
        let odd = files.iter().find(|f| f["inode"] == 1_835_021).unwrap();
        assert_eq!(
            (&odd["path"], &odd["deleted"]),
            (&Value::Null, &true.into())
        );
        assert_eq!(
            (&odd["name"], &odd["name_bytes"]),
            (&"a\nb\u{fffd}".into(), &"610a62ff".into())
        );
        assert_eq!(array["files_rest"]["bios"].as_u64(), Some(60));
        assert_eq!(array["files_untold"]["bytes"].as_u64(), Some(28 * 16384));
    }

    /// The names and types that design.md promises.
    #[test]
    fn contract() {
        let text = line(&fixture::raid0(12));
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with('\n'));
        let v: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(v["schema"], "raidtrace.top/1");
        assert_eq!(v["time"], "2026-11-20T12:00:01Z");
        assert_eq!(v["interval_s"].as_f64(), Some(1.0));
        assert_eq!(v["lost"]["events"].as_u64(), Some(0));
        assert_eq!(v["overhead"]["bpf_ns"].as_u64(), Some(8_200_000));
        assert_eq!(v["overhead"]["bpf_events"].as_u64(), Some(21_400));
        let array = &v["arrays"][0];
        assert_eq!(array["name"], "md127");
        assert_eq!(array["level"], "raid0");
        assert_eq!(array["chunk_bytes"].as_u64(), Some(524_288));
        assert_eq!(array["members"].as_array().unwrap().len(), 12);
        let member = &array["members"][0];
        assert_eq!(member["name"], "loop1");
        assert_eq!(member["slot"].as_u64(), Some(0));
        let cells = member["io"].as_array().unwrap();
        let bitmap = cells
            .iter()
            .find(|c| c["origin"] == "block_bitmap")
            .unwrap();
        assert_eq!(bitmap["op"], "write");
        assert_eq!(bitmap["requests"].as_u64(), Some(121));
        assert_eq!(bitmap["bytes"].as_u64(), Some(121 * 4096));
        for time in ["queue_us", "device_us"] {
            for name in ["p50", "p99", "max", "count"] {
                assert!(bitmap[time][name].is_u64(), "{time}.{name}");
            }
            assert_eq!(bitmap[time]["count"].as_u64(), Some(121));
        }
        assert_eq!(array["standout"]["kind"], "uneven");
        assert_eq!(array["standout"]["members"][1], "loop5");
    }

    #[test]
    fn amplification_is_of_the_interval_and_adds_up() {
        let mut snapshot = fixture::raid5();
        snapshot.arrays[0].ledger = None; // the screen's
        let v: Value = serde_json::from_str(&line(&snapshot)).unwrap();
        let array = &v["arrays"][0];
        let rows = array["amplification"].as_array().unwrap();
        let row = |origin, op| {
            let mut rows = rows.iter();
            rows.find(|r| r["origin"] == origin && r["op"] == op)
                .unwrap()
        };
        let data = row("file_data", "write");
        assert_eq!(data["entered_bytes"].as_u64(), Some(1206 * 4096));
        let (parity, pre_read) = (1366.0 * 1200.0 / 1358.0, 2406.0 * 2290.0 / 2400.0);
        let factor = 1.0 + (parity + pre_read + 36.0 * 1206.0 / 1574.0) / 1206.0;
        assert!((data["factor"].as_f64().unwrap() - factor).abs() < 1e-5);
        assert_eq!(row("file_data", "read")["factor"].as_f64(), Some(1.0));
        assert!(row("resync", "write")["factor"].is_null());
        let cells = array["members"].as_array().unwrap().iter();
        let cells = cells.flat_map(|m| m["io"].as_array().unwrap());
        let moved: u64 = cells.map(|c| c["bytes"].as_u64().unwrap()).sum();
        let charged: u64 = ["data", "parity", "rmw_read", "md_bitmap", "md_journal"]
            .iter()
            .flat_map(|part| rows.iter().map(move |r| &r[format!("{part}_bytes")]))
            .map(|bytes| bytes.as_u64().unwrap())
            .sum();
        assert_eq!(charged, moved);
    }

    #[test]
    fn only_rows_with_something_to_say() {
        let mut snapshot = fixture::raid0(12);
        let io = &mut snapshot.arrays[0].members[1].io;
        (io[0].requests, io[0].bytes) = (0, 0);
        snapshot.arrays[0].members[2].slot = None;
        let v: Value = serde_json::from_str(&line(&snapshot)).unwrap();
        let members = &v["arrays"][0]["members"];
        assert!(
            members[1]["io"]
                .as_array()
                .unwrap()
                .iter()
                .all(|c| c["origin"] != "block_bitmap")
        );
        assert!(members[2]["slot"].is_null());
        // An idle member stays, or nobody could tell a mean.
        let v: Value = serde_json::from_str(&line(&fixture::idle(12))).unwrap();
        assert_eq!(v["arrays"][0]["members"].as_array().unwrap().len(), 12);
        assert_eq!(
            v["arrays"][0]["members"][0]["io"].as_array().unwrap().len(),
            0
        );
    }

    #[test]
    fn untrusted_bytes_are_escaped_and_come_back() {
        let text = line(&fixture::raid0(1));
        assert!(
            !text
                .trim_end()
                .chars()
                .any(|c| c.is_control() || super::is_hidden(c))
        );
        let v: Value = serde_json::from_str(&text).unwrap();
        let task = &v["arrays"][0]["tasks"][3];
        assert_eq!(task["comm"], "\x1b]0;rm -rf\x07\u{fffd}");
        assert_eq!(task["cgroup"], "/user.slice/\u{202e}evil");
    }

    #[test]
    fn broken_pipe_is_the_callers() {
        struct Closed;
        impl std::io::Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let error = write(&mut Closed, &fixture::idle(1)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
}
