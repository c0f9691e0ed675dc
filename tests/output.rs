//! Files that `record`, `alloc`, `layout --svg` and `export` create follow the same rules.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{
    EXE, Loop, MIB, Output, SetOnDrop, Top, installed, memory, raidtrace, run, tool, tracing,
};
use rustix::process::{Signal, geteuid};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/top/replay/demo.rtrace");

/// Names in a directory, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

/// Expected mode of a new file: only root may read root's files.
fn expected_mode(folder: &Path) -> u32 {
    if geteuid().is_root() {
        return 0o600;
    }
    let path = folder.join("umask");
    fs::File::create(&path).unwrap();
    let plain = mode(&path);
    fs::remove_file(path).unwrap();
    plain
}

/// Checks the rules for `make`, which runs a command that creates the named file.
fn follows_the_rules(make: impl Fn(&str, &[&str]) -> Output) {
    let dir = memory();
    let (path, victim) = (dir.path().join("out"), dir.path().join("victim"));
    let name = path.to_str().unwrap();
    let created = || {
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(mode(&path), expected_mode(dir.path()));
        assert!(fs::metadata(&path).unwrap().len() > 100);
    };
    let succeeds = |more: &[&str]| {
        let out = make(name, more);
        assert_eq!(out.code(), Some(0), "{out:?}");
        created();
    };
    let refused = |says: &str| {
        let out = make(name, &[]);
        assert_eq!(out.code(), Some(1), "{out:?}");
        for word in [says, "already exists", "--force", "name another file"] {
            assert!(out.stderr.contains(word), "{word}: {}", out.stderr);
        }
    };
    succeeds(&[]);
    assert_eq!(names(dir.path()), ["out"]);

    // An existing file: its content remains under its other hard link.
    fs::write(&path, "precious").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    fs::hard_link(&path, &victim).unwrap();
    refused(name);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    succeeds(&["--force"]);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(fs::metadata(&victim).unwrap().nlink(), 1);

    // A planted link: first dangling, then to a file.
    for target in ["missing", "victim"] {
        fs::remove_file(&path).unwrap();
        symlink(target, &path).unwrap();
        refused("symbolic link");
        assert!(path.is_symlink());
    }
    succeeds(&["--force"]);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(names(dir.path()), ["out", "victim"]);

    // A link planted at the temporary name of the file.
    let new = dir.path().join("out.new");
    symlink("victim", &new).unwrap();
    let out = make(name, &["--force"]);
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("out.new"), "{out:?}");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(new.is_symlink());
}

#[test]
fn layout_svg() {
    follows_the_rules(|name, more| {
        let plan = ["layout", "--plan", "1T", "--level", "5", "--disks", "4"];
        raidtrace(&[&plan[..], &["--svg", name], more].concat())
    });
}

#[test]
fn export() {
    for format in ["csv", "perfetto", "fio"] {
        follows_the_rules(|name, more| {
            raidtrace(&[&["export", DEMO, "-f", format, "-o", name], more].concat())
        });
    }
}

#[test]
fn record() {
    if !tracing() {
        return;
    }
    let disk = Loop::new(16 * MIB);
    follows_the_rules(|name, more| {
        let record = ["record", &disk.device(), "-d", "0.1", "-o", name];
        raidtrace(&[&record[..], more].concat())
    });
}

#[test]
fn record_rotate() {
    if !tracing() {
        return;
    }
    let disk = Loop::new(16 * MIB);
    let device = disk.device();
    follows_the_rules(|name, more| {
        let record = ["record", &device, "--rotate", "1", "-d", "0.1", "-o", name];
        raidtrace(&[&record[..], more].concat())
    });
    // The parts of a recording have its mode.
    let dir = memory();
    let name = dir.path().join("a").display().to_string();
    let record = ["record", &device, "--rotate", "0.05", "-o", &name];
    let recorder = Top::start(Command::new(EXE).args(record));
    recorder.says("raidtrace: recording ");
    common::until("a second part", || names(dir.path()).len() > 1);
    let parts = names(dir.path());
    let out = recorder.end(Signal::KILL);
    assert_eq!(out.code(), None);
    for part in parts {
        let path = dir.path().join(&part);
        assert_eq!(mode(&path), expected_mode(dir.path()), "{part}");
    }
}

#[test]
fn alloc() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        // Cause samples in the kernel.
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::write(disk.mount.join("file"), vec![b'x'; 1 << 20]);
                disk.sync();
            }
        });
        let _done = SetOnDrop(&done);
        for option in ["--record", "--folded", "--flame"] {
            follows_the_rules(|name, more| {
                let alloc =
                    ["alloc", &disk.name, "--json", "--all", "--duration", "0.3", "--hertz", "997"];
                raidtrace(&[&alloc[..], &[option, name], more].concat())
            });
        }
    });
}

/// Names such as /dev/fd/3, for descriptors that a shell has opened.
#[test]
fn names_of_open_files() {
    if !installed("bash") {
        return;
    }
    let dir = memory();
    let to = dir.path().join("a.csv");
    let plain = raidtrace(&["export", DEMO, "-f", "csv", "-o", "-"]).stdout;
    assert!(plain.len() > 1000);
    for redirected in [
        r#"-o /dev/stdout > "$2""#,
        r#"-o /dev/stdout | cat > "$2""#,
        r#"-o /proc/self/fd/1 > "$2""#,
        r#"-o /dev/fd/3 3> "$2""#,
        r#"-o /dev/stderr 2> >(grep -v '^raidtrace: ' > "$2"; touch "$2".done)
        while [ ! -e "$2".done ]; do sleep 0.02; done"#,
    ] {
        let script = format!("\"$0\" export \"$1\" -f csv {redirected}");
        let out = run(Command::new("bash").args(["-c", &script, EXE, DEMO, to.to_str().unwrap()]));
        assert_eq!(out.code(), Some(0), "{redirected}: {out:?}");
        assert_eq!(fs::read_to_string(&to).unwrap(), plain, "{redirected}");
    }
    // The picture would end up in the middle of the report.
    let plan = ["layout", "--plan", "1T", "--level", "5", "--disks", "4"];
    let out = raidtrace(&[&plan[..], &["--svg", "-"]].concat());
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("standard output"), "{out:?}");
}

/// A write beyond `ulimit -f` fails like one to a full disk: a message, and no FILE.new is left.
#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let dir = memory();
    let limited = |args: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 1 && exec \"$@\"", "sh", EXE]).args(args);
        run(&mut command)
    };
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let csv = limited(&["export", DEMO, "-f", "csv", "-o", &path("a.csv")]);
    let html = limited(&["report", DEMO, "--html", &path("a.html")]);
    for out in [csv, html] {
        assert_eq!(out.code(), Some(1), "{out:?}");
        assert!(out.stderr.contains("File too large"), "{out:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Capabilities of the binary or of a service do not open files that the user who names them may
/// not read.
#[test]
fn capabilities_do_not_open_files_of_others() {
    if !tracing() || !installed("setpriv") || !installed("mke2fs") || !installed("setcap") {
        return;
    }
    let disk = Loop::ext4(32 * MIB, &["-b", "4096"]);
    let dir = memory();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = |name: &str, from: &str, mode| {
        let path = dir.path().join(name);
        fs::copy(from, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let exe = place("raidtrace", EXE, 0o755);
    tool("setcap", &["cap_bpf,cap_perfmon,cap_dac_read_search,cap_syslog=ep", &exe]);
    let (public, secret) = (place("public", DEMO, 0o644), place("secret", DEMO, 0o600));
    let nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        run(command.arg(&exe).args(args))
    };
    assert_eq!(nobody(&["report", &public]).code(), Some(0));
    for args in [
        &["report", &secret][..],
        &["report", &public, "--against", &secret],
        &["export", &secret, "-f", "csv", "-o", "-"],
        &["top", "--replay", &secret, "--batch"],
        &["slow", "--replay", &secret, "--batch"],
        &["alloc", "--replay", &secret, "--batch"],
        &["why", "--replay", &secret],
        &["layout", &secret],
        &["layout", "--load", &secret],
        &["layout", &disk.device(), "--load", &secret],
        &["doctor", "--acknowledged", &secret],
        &["doctor", "--load", &secret],
        &["serve", &disk.name, "--token-file", &secret],
        &["serve", &disk.name, "--tls-cert", &secret, "--tls-key", &secret],
    ] {
        let out = nobody(args);
        assert!(!matches!(out.code(), None | Some(0)), "{args:?}: {out:?}");
        assert!(out.stderr.contains("Permission denied"), "{args:?}: {out:?}");
        assert_eq!(out.stdout, "", "{args:?}");
    }
    // Devices are read.
    let out = nobody(&["top", &disk.name, "--json", "-n1", "-i0.2"]);
    assert_eq!(out.code(), Some(0), "{out:?}");
    assert!(!out.stdout.contains("FS_IOC_GETFSMAP"), "{out:?}");
    let out = nobody(&["layout", &disk.device()]);
    assert_eq!(out.code(), Some(0), "{out:?}");
}
