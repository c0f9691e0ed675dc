//! One guest for each scenario and kernel, booted once for all tests that use its files.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    sync::{Arc, Mutex, Once, OnceLock, PoisonError},
    thread::sleep,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::scenarios::scenarios;

pub const HOME: &str = env!("CARGO_MANIFEST_DIR");
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");
/// Exit status of tools/vm if no guest was run.
const NOT_RUN: i32 = 120;
/// Memory for a guest, its files included.
const GUEST_MIB: u64 = 4096;
/// Limit for a guest in seconds, several times the longest run on an idle machine. The scripts' own
/// waits have shorter limits and name what they wait for.
const TIMEOUT: &str = "2400";
/// Scenarios that compare times. A guest's clock counts its instructions there, so that it stands
/// still while this machine runs something else, and does not wait for timers.
const COUNTS_INSTRUCTIONS: [&str; 10] = [
    "slow",
    "slow_async",
    "slow_databases",
    "slow_files",
    "slow_md",
    "slow_parts",
    "slow_unended",
    "slow_waits",
    "slow_xfs",
    "rt",
];
/// Pseudo-scenario: the core group of `tools/truth`, which boots its own guests.
pub const CORE: &str = "truth";

/// Result of a scenario: the directory of its files, the reason why it was skipped, or the failure.
type Run = Result<Result<PathBuf, String>, String>;

/// True if RAIDTRACE_LAB has this value.
fn wanted(what: &str) -> bool {
    env::var("RAIDTRACE_LAB").is_ok_and(|v| v == what)
}

/// The output directory of `tests/lab/SCENARIO.sh` on this kernel; `None` if skipped. A guest is
/// booted once for all tests of a scenario.
pub fn lab(kernel: &str, scenario: &str) -> Option<PathBuf> {
    // Before anything is skipped, so that a run without guests finds a test in the wrong list.
    assert!(
        scenarios().any(|guest| guest == (kernel, scenario)),
        "not a guest of this run in tests/lab/scenarios.rs: {scenario} on {kernel}"
    );
    if wanted("0") {
        return skipped("RAIDTRACE_LAB is 0");
    }
    run_ahead();
    match run(kernel, scenario) {
        Ok(Ok(dir)) => Some(dir),
        Ok(Err(why)) if wanted("1") => panic!("not run: {why}"),
        Ok(Err(why)) => skipped(&why),
        Err(how) => panic!("{scenario}-{kernel}: {how}"),
    }
}

fn run(kernel: &str, scenario: &str) -> Run {
    static RUNS: Mutex<BTreeMap<String, Arc<OnceLock<Run>>>> = Mutex::new(BTreeMap::new());

    let name = format!("{scenario}-{kernel}");
    let dir = Path::new(SCRATCH).join("lab").join(&name);
    let run = RUNS.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().clone();
    run.get_or_init(|| {
        let how = if scenario == CORE { core } else { boot };
        let result = how(kernel, scenario, &dir);
        let verdict = match result {
            Ok(Ok(_)) => "ended",
            Ok(Err(_)) => "was not run",
            Err(_) => "FAILED",
        };
        note(&format!("{scenario} on {kernel} {verdict}"));
        result
    })
    .clone()
}

/// Boots the guests of this run before their tests, if all tests are run. The harness has one
/// thread per CPU, and otherwise all tests of one scenario would wait for one guest.
fn run_ahead() {
    static BEGUN: Once = Once::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    if env::args().skip(1).any(|a| !a.starts_with('-')) {
        return; // some tests only
    }
    BEGUN.call_once(|| {
        for _ in 0..guests() {
            std::thread::spawn(|| {
                while let Some((kernel, scenario)) =
                    scenarios().nth(NEXT.fetch_add(1, Ordering::Relaxed))
                {
                    let _ = run(kernel, scenario);
                }
            });
        }
    });
}

/// Prints to stderr directly, because the harness captures the output of a passing test.
fn skipped(why: &str) -> Option<PathBuf> {
    let test = std::thread::current().name().unwrap_or("lab").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    None
}

/// Number of guests that may run at a time: three for two CPUs. An emulated guest has one thread,
/// and its script waits for a third of the time.
fn guests() -> usize {
    static GUESTS: OnceLock<usize> = OnceLock::new();

    // Computed only once: memory of running guests must not be counted again.
    *GUESTS.get_or_init(|| {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let memory = available_mib().map_or(1, |mib| (mib / GUEST_MIB).max(1));
        (cpus + cpus / 2).min(usize::try_from(memory).unwrap_or(cpus))
    })
}

/// A line "guest: ..." of a run's progress, which the harness does not capture: if the run is cut
/// off, it shows which guests had not ended.
fn note(what: &str) {
    let _ = writeln!(std::io::stderr(), "guest: {what}");
}

/// Held while a guest runs.
fn one_guest() -> std::io::Result<fs::File> {
    loop {
        for guest in 0..guests() {
            let lock = fs::File::create(Path::new(SCRATCH).join(format!("lab.{guest}.lock")))?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                Err(Errno::WOULDBLOCK) => {}
                Err(e) => return Err(e.into()),
            }
        }
        sleep(Duration::from_millis(200));
    }
}

/// MemAvailable of /proc/meminfo.
fn available_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

/// A copy of the binary without symbols, which are half of a debug build and would fill the
/// guest's memory.
fn program() -> std::io::Result<&'static Path> {
    static PROGRAM: OnceLock<Result<PathBuf, i32>> = OnceLock::new();

    let made = PROGRAM.get_or_init(|| {
        let built = env!("CARGO_BIN_EXE_raidtrace");
        // Another run of the tests may do the same.
        let new = Path::new(SCRATCH).join(format!("raidtrace.{}", std::process::id()));
        let program = Path::new(SCRATCH).join("raidtrace");
        let stripped = Command::new("strip").arg("-o").arg(&new).arg(built).status();
        if !stripped.is_ok_and(|s| s.success()) {
            fs::copy(built, &new).map_err(|e| e.raw_os_error().unwrap_or(0))?;
        }
        fs::rename(&new, &program).map_err(|e| e.raw_os_error().unwrap_or(0))?;
        Ok(program)
    });
    match made {
        Ok(path) => Ok(path),
        Err(e) => Err(std::io::Error::from_raw_os_error(*e)),
    }
}

fn failed(what: &str, error: std::io::Error) -> String {
    format!("{what}: {error}")
}

fn core(kernel: &str, scenario: &str, _: &Path) -> Run {
    let _lock = one_guest().map_err(|e| failed("lab.lock", e))?;
    note(&format!("{scenario} on {kernel} begins"));
    let keep = Path::new(SCRATCH).join("lab/truth");
    let output = Command::new(Path::new(HOME).join("tools/truth"))
        .args(["--group", "core", "--guests", "1", "--kernel", kernel])
        .arg("--raidtrace")
        .arg(env!("CARGO_BIN_EXE_raidtrace"))
        .arg("--keep")
        .arg(&keep)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed("tools/truth", e))?;
    match output.status.code() {
        Some(0) => Ok(Ok(keep)),
        Some(2) => Ok(Err(why_not(&output))),
        _ => Err(status_and_output(&output)),
    }
}

/// Shows why tools/vm has started a second guest, if it has.
fn second_guest(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("starting a second guest") {
        let _ = writeln!(std::io::stderr(), "note: {said}");
    }
}

fn why_not(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")
}

fn boot(kernel: &str, scenario: &str, dir: &Path) -> Run {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).map_err(|e| failed("target/tmp", e))?;
    let _lock = one_guest().map_err(|e| failed("lab.lock", e))?;
    note(&format!("{scenario} on {kernel} begins"));
    let program = program().map_err(|e| failed("a copy of raidtrace", e))?;

    let mut vm = Command::new(Path::new(HOME).join("tools/vm"));
    if ["device_read", "slow_async", "slow_unended", "slow_waits"].contains(&scenario) {
        let Some(fio) = installed("fio") else {
            return Ok(Err("no fio on this machine".to_owned()));
        };
        vm.arg("--file").arg(fio);
    }
    if scenario == "dm_raid" {
        let Some(lvm) = installed("lvm") else {
            return Ok(Err("no lvm on this machine".to_owned()));
        };
        vm.arg("--file").arg(lvm);
    }
    if scenario == "slow_databases" {
        match databases().map_err(|e| failed("tools/incident/databases.py", e))? {
            Ok(files) => vm.args(files),
            Err(why) => return Ok(Err(why)),
        };
    }
    if scenario == "nvme" {
        (0..6).for_each(|_| _ = vm.args(["--nvme", "1G,paths=2"]));
    }
    if COUNTS_INSTRUCTIONS.contains(&scenario) {
        vm.args(["--icount", "0"]);
    }
    let output = vm
        .args(["--memory", memory(scenario)])
        .args(["--timeout", TIMEOUT])
        .arg("--out")
        .arg(dir)
        .arg("--file")
        .arg(Path::new(HOME).join("tests/lab/lib.sh"))
        .arg("--file")
        .arg(Path::new(HOME).join("tools/oracle/guest/guest.sh"))
        .arg("--file")
        .arg(program)
        .arg(kernel)
        .arg(Path::new(HOME).join(format!("tests/lab/{scenario}.sh")))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed("tools/vm", e))?;
    match output.status.code() {
        Some(0) => {
            second_guest(&output);
            Ok(Ok(dir.to_owned()))
        }
        Some(NOT_RUN) => Ok(Err(why_not(&output))),
        _ => Err(status_and_output(&output)),
    }
}

/// A program of this machine that is not in the guests' root.
fn installed(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let dirs = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    dirs.map(|dir| dir.join(name)).find(|program| program.exists())
}

/// Arguments of tools/vm for the databases, or the reason why one is missing.
fn databases() -> std::io::Result<Result<Vec<String>, String>> {
    let output = Command::new(Path::new(HOME).join("tools/incident/databases.py"))
        .arg(Path::new(SCRATCH).join("databases"))
        .args(["postgresql", "mariadb"])
        .output()?;
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    Ok(if output.status.success() { Ok(lines) } else { Err(why_not(&output)) })
}

pub fn status_and_output(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Memory of a guest in MiB. Its disks are files in memory.
fn memory(scenario: &str) -> &'static str {
    match scenario {
        "skew" | "alloc_full" | "alloc_livelock" | "doctor_paste" | "placement" | "layout_load" => {
            "3072"
        }
        _ => "2048",
    }
}
