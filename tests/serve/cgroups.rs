//! `--with-cgroups`: bytes of two real cgroups compared with those of dd, and the time that one
//! waits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::{
    Loop, MIB, Running, default_writeback, idle, installed, python, run, skipped, spawn, tracing,
    until,
};
use super::http::get;
use super::{Serve, filesystem};
use rustix::process::Signal;

/// A cgroup of the unified hierarchy. It is removed on drop.
struct Group {
    dir: PathBuf,
    /// Value of the label.
    path: String,
}

impl Group {
    /// `None` without a writable hierarchy.
    fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let top = fields.find(|fields| fields[2] == "cgroup2")?[1].to_owned();
        let name = format!("raidtrace-serve-{}-{name}", std::process::id());
        let group = Self { dir: Path::new(&top).join(&name), path: format!("/{name}") };
        fs::create_dir(&group.dir).ok()?;
        let is_usable = fs::metadata(group.dir.join("cgroup.procs")).is_ok();
        is_usable.then_some(group)
    }

    /// A shell command that runs in the cgroup.
    fn command(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        let inside = "echo $$ > \"$0/cgroup.procs\" && ";
        shell.args(["-c", &[inside, command].concat()]).arg(&self.dir);
        shell
    }

    fn run(&self, command: &str) {
        let out = run(&mut self.command(command));
        assert_eq!(out.code(), Some(0), "{out:?}");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // EBUSY until the last task has left. Not a failure of the test.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Sum of the samples of a family that have these labels.
fn sample(samples: &BTreeMap<String, f64>, family: &str, labels: &[(&str, &str)]) -> f64 {
    let has =
        |key: &str| labels.iter().all(|(name, value)| key.contains(&format!("{name}=\"{value}\"")));
    let own = |key: &str| key.starts_with(&format!("{family}{{"));
    samples.iter().filter(|(key, _)| own(key) && has(key)).map(|(_, value)| value).sum()
}

const SUBMITTED: &str = "raidtrace_cgroup_submitted_bytes_total";
const DIRTIED: &str = "raidtrace_cgroup_dirtied_bytes_total";
const WAITING: &str = "raidtrace_cgroup_waiting_seconds_total";

/// dd writes directly in one cgroup, and through the page cache in another; the metrics and the
/// dataset have these bytes.
#[test]
fn bytes_of_two_cgroups_are_those_of_dd() {
    if !(tracing() && installed("dd")) {
        return;
    }
    let (Some(direct), Some(buffered)) = (Group::new("direct"), Group::new("buffered")) else {
        return skipped("no cgroup2 hierarchy in which a cgroup can be made");
    };
    let _settings = default_writeback();
    let disk = filesystem();
    let to = disk.mount.display().to_string();
    let dataset = super::common::memory();
    for keep in ["0", "1m"] {
        let mut args = vec!["--with-cgroups", "--keep", keep];
        let path = dataset.path().join(keep).display().to_string();
        if cfg!(feature = "export") {
            fs::create_dir(&path).unwrap();
            args.extend(["--dataset", &path]);
        }
        let serve = Serve::start(&disk.name, &args);
        direct.run(&format!("dd if=/dev/zero of={to}/direct bs=1M count=3 oflag=direct"));
        buffered.run(&format!("dd if=/dev/zero of={to}/buffered bs=1M count=2 conv=fsync"));
        disk.sync();
        idle(&disk.name);
        serve.settled();
        let samples = serve.samples();
        let of = |family, group: &Group, label| {
            sample(&samples, family, &[("cgroup", &group.path), label])
        };
        let write = ("op", "write");
        let (three, two) = ((3 * MIB) as f64, (2 * MIB) as f64);
        assert_eq!(of(SUBMITTED, &direct, write), three, "{samples:?}");
        assert_eq!(of(DIRTIED, &direct, ("kind", "data")), 0.0, "{samples:?}");
        assert_eq!(of(DIRTIED, &buffered, ("kind", "data")), two, "{samples:?}");
        // A block counts once in a transaction, for the task that dirtied it first.
        let metadata = [&direct, &buffered].map(|group| of(DIRTIED, group, ("kind", "metadata")));
        assert!(metadata[0] + metadata[1] > 0.0, "{samples:?}");
        // dd's fsync submits what writeback has not.
        let root = sample(&samples, SUBMITTED, &[("cgroup", "/"), write]);
        let submitted = of(SUBMITTED, &buffered, write);
        assert!(submitted <= two && submitted + root >= two, "{samples:?}");
        // Each byte is in one cgroup.
        let all = sample(&samples, "raidtrace_array_submitted_bytes_total", &[]);
        assert_eq!(sample(&samples, SUBMITTED, &[]), all, "{samples:?}");
        assert_eq!(serve.process.end(Signal::TERM).code(), Some(0));
        fs::remove_file(disk.mount.join("direct")).unwrap();
        fs::remove_file(disk.mount.join("buffered")).unwrap();
        // Ends the transaction in which this task has dirtied the metadata.
        disk.sync();
        if !cfg!(feature = "export") {
            continue;
        }
        let Some(python) = python("duckdb") else {
            skipped("DuckDB's Python package is not on this machine (tools/setup --lab)");
            continue;
        };
        let script = "import duckdb, sys
rows = duckdb.read_parquet(sys.argv[1] + '/cgroups/*/*/*.parquet')
for row in duckdb.sql('''select sum(write_bytes)::bigint, sum(dirtied_data_bytes)::bigint
                         from rows where cgroup in (?, ?) group by cgroup order by cgroup desc''',
                      params=sys.argv[2:]).fetchall():
    print(*row)";
        let mut command = Command::new(python);
        let out = run(command.args(["-c", script, &path, &direct.path, &buffered.path]));
        let expected = format!("{three:.0} 0\n{submitted:.0} {two:.0}\n");
        assert_eq!(out.stdout, expected, "{out:?}");
    }
}

/// A task that reads without a pause sleeps in most of the samples.
#[test]
fn a_cgroup_that_reads_waits() {
    if !(tracing() && installed("dd")) {
        return;
    }
    let Some(group) = Group::new("reads") else {
        return skipped("no cgroup2 hierarchy in which a cgroup can be made");
    };
    // Sparse: more than dd reads in seconds.
    let disk = Loop::new(4096 * MIB);
    let serve = Serve::start(&disk.name, &["--with-cgroups=5", "--keep", "0"]);
    let mut dd: Option<Running> = None;
    until("time that the cgroup waits", || {
        if dd.as_mut().is_none_or(|dd| dd.0.try_wait().unwrap().is_some()) {
            let read =
                format!("exec dd if={} of=/dev/null bs=4k iflag=direct 2>/dev/null", disk.device());
            dd = Some(Running(spawn(&mut group.command(&read))));
        }
        sample(&serve.samples(), WAITING, &[("cgroup", &group.path), ("array", &disk.name)]) > 0.0
    });
    drop(dd);
    let samples = serve.samples();
    assert!(sample(&samples, SUBMITTED, &[("cgroup", &group.path), ("op", "read")]) > 0.0);
    assert_eq!(sample(&samples, WAITING, &[("cgroup", "/")]), 0.0, "{samples:?}");
}

#[test]
fn no_metric_has_a_cgroup_unless_asked_for() {
    if !tracing() {
        return;
    }
    let disk = filesystem();
    let serve = Serve::start(&disk.name, &["--with-tasks", "--keep", "0"]);
    super::write(&disk, 10);
    serve.settled();
    assert!(serve.sum("raidtrace_task_submitted_bytes_total") > 0.0);
    let page = get(&serve.address, "/metrics").body;
    let lines = page.lines().filter(|line| !line.starts_with("# HELP raidtrace_dropped_series"));
    assert_eq!(
        lines
            .filter(|line| line.contains("cgroup=") || line.contains("raidtrace_cgroup"))
            .collect::<Vec<_>>(),
        [""; 0]
    );
    for wrong in ["--with-cgroups=0", "--with-cgroups=1001", "--with-cgroups=x"] {
        let out = super::raidtrace(&["serve", &disk.name, wrong]);
        assert_eq!(out.code(), Some(2), "{out:?}");
    }
}
