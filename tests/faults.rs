//! Unknown and damaged filesystems, devices that disappear, hostile names: raidtrace prints a note
//! and correct figures, and never panics, hangs or reports a silent zero.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    Counted, EXE, Loop, MIB, Running, Top, Watch, cells, children, idle, installed, json, list,
    memory, mount_namespaces, skipped, spawn, sum, table, tool, tracing, undisturbed, until,
};
use rustix::process::Signal;
use serde_json::Value;

fn notes(interval: &Value) -> String {
    match interval["notes"].as_array() {
        Some(notes) => notes.iter().map(|n| n.as_str().unwrap()).collect(),
        None => String::new(),
    }
}

/// Asserts that all requests have the origin `raw`.
fn all_raw(counted: &Counted) {
    let intervals = &counted.intervals;
    assert!(counted.kernel > 0);
    assert_eq!(sum(intervals, "raw", "*", "requests"), counted.kernel, "{}", table(intervals));
    assert!(cells(intervals).iter().all(|(_, c)| c["origin"] == "raw"), "{}", table(intervals));
}

/// XFS on a disk: every kind of metadata has its origin, and file data has exactly the bytes that
/// were written.
#[test]
fn xfs() {
    if !tracing() || !installed("mkfs.xfs") || !installed("xfs_io") {
        return;
    }
    let mut disk = Loop::new(512 * MIB);
    tool("mkfs.xfs", &["-q", "-m", "rmapbt=1", &disk.device()]);
    let kinds = fs::read_to_string("/proc/filesystems").unwrap();
    if !kinds.contains("\txfs") {
        common::run(Command::new("sh").args(["-c", "modprobe xfs"]));
    }
    if !fs::read_to_string("/proc/filesystems").unwrap().contains("\txfs") {
        return skipped("this kernel has no XFS");
    }
    disk.mount();
    let mount = disk.mount.to_str().unwrap().to_owned();
    let mut round = 0;
    undisturbed(|| {
        round += 1;
        idle(&disk.name);
        let (top, first) = Top::json(&[&disk.name, "-i0.2"]);
        assert!(!notes(&first).contains("raw"), "{first}");
        let watch = Watch::new(top, &disk.name);
        let many = disk.mount.join(format!("many{round}"));
        fs::create_dir(&many).unwrap();
        for i in 0..1000 {
            File::create(many.join(format!("a_rather_long_name_{i}"))).unwrap();
        }
        fs::write(disk.mount.join(format!("file{round}")), vec![b'x'; 100_000]).unwrap();
        disk.sync();
        // Writes all metadata in place, which otherwise takes a minute.
        for how in ["freeze", "thaw"] {
            tool("xfs_io", &["-x", "-c", how, &mount]);
        }
        let counted = watch.end()?;
        let intervals = &counted.intervals;
        let bytes = |origin: &str| sum(intervals, origin, "write", "bytes");
        for origin in [
            "superblock",
            "ag_header",
            "free_space_btree",
            "rmap_btree",
            "inode_btree",
            "inode_cluster",
            "directory",
            "journal",
        ] {
            assert!(bytes(origin) > 0, "{origin}: {}", table(intervals));
        }
        assert_eq!(bytes("file_data"), 25 * 4096, "{}", table(intervals));
        for origin in ["raw", "unknown", "block_bitmap", "inode_table"] {
            assert_eq!(bytes(origin), 0, "{origin}: {}", table(intervals));
        }
        Some(())
    });
}

/// Simulates an unreadable or damaged device with a file in place of its device node, in the
/// tracer's own mount namespace. The superblock of the mounted filesystem in the kernel is
/// unaffected.
fn with_another_node(disk: &Loop, node: &Path, script: &str) -> Command {
    let script =
        format!("mount --bind \"$1\" \"$2\" && {script} exec \"$0\" top \"$4\" --json -i0.2");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, EXE]);
    command.arg(node).arg(disk.device());
    command.arg(&disk.mount).arg(&disk.name);
    command
}

#[test]
fn an_unreadable_or_damaged_superblock() {
    if !tracing() || !installed("unshare") {
        return;
    }
    let _alone = mount_namespaces();
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let dir = memory();
    let node = dir.path().join("node");
    // A superblock with one invalid field.
    let mut invalid = vec![0; 4096];
    File::open(&disk.image).unwrap().read_exact_at(&mut invalid, 0).unwrap();
    invalid[1024..1024 + 32].fill(0xff);
    for (what, bytes) in [
        ("zeroes", vec![0; 4096]),
        ("noise", vec![0xa5; 1 << 20]),
        ("nothing", Vec::new()),
        ("invalid", invalid),
    ] {
        fs::write(&node, bytes).unwrap();
        // FS_IOC_GETFSMAP of the mounted filesystem still works, unless the mount is not visible.
        for (script, raw) in [("", false), ("umount \"$3\" &&", true)] {
            undisturbed(|| {
                idle(&disk.name);
                let top = Top::start(&mut with_another_node(&disk, &node, script));
                let first: Value = serde_json::from_str(&top.line()).unwrap();
                let watch = Watch::new(top, &disk.name);
                let mut file = File::create(disk.mount.join(what)).unwrap();
                file.write_all(b"x").unwrap();
                file.sync_all().unwrap();
                let counted = watch.end()?;
                let Counted { intervals, kernel } = &counted;
                println!("{what}: {}\n{}", notes(&first), table(intervals));
                if raw {
                    assert!(notes(&first).contains("raw"), "{what}: no note: {first}");
                    all_raw(&counted);
                } else {
                    let says = ["FS_IOC_GETFSMAP", "no known filesystem", "damaged"];
                    let said = says.iter().filter(|s| notes(&first).contains(**s));
                    assert_eq!(said.count(), 2, "{what}: {first}");
                    assert!(sum(intervals, "file_data", "*", "requests") < *kernel);
                    assert_eq!(sum(intervals, "*", "*", "requests"), *kernel);
                }
                Some(())
            });
        }
    }
}

#[test]
fn unmounted_and_mounted_again_while_tracing() {
    if !tracing() {
        return;
    }
    let _alone = mount_namespaces();
    undisturbed(|| {
        let mut disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
        idle(&disk.name);
        let (top, _) = Top::json(&[&disk.name, "-i0.1"]);
        let watch = Watch::new(top, &disk.name);
        disk.umount();
        disk.mount();
        fs::create_dir(disk.mount.join("dir")).unwrap();
        disk.sync();
        let Counted { intervals, kernel } = watch.end()?;
        assert_eq!(sum(&intervals, "*", "*", "requests"), kernel, "{}", table(&intervals));
        for origin in ["superblock", "journal", "inode_table", "directory"] {
            assert!(
                sum(&intervals, origin, "write", "bytes") > 0,
                "{origin}: {}",
                table(&intervals)
            );
        }
        Some(())
    });
}

#[test]
fn detached_while_tracing() {
    if !tracing() {
        return;
    }
    let _alone = mount_namespaces();
    for how in ["--json", "--batch"] {
        let mut disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
        let mut command = Command::new(EXE);
        let top = Top::start(command.args(["top", &disk.name, how, "-i0.1"]));
        top.line();
        disk.umount();
        disk.detach();
        // Tracing continues without IO of that disk.
        for _ in 0..5 {
            top.line();
        }
        let out = top.end(Signal::INT);
        assert_eq!(out.code(), Some(0), "{out:?}");
        assert!(!out.stderr.contains("panicked"), "{out:?}");
        if how == "--json" {
            let last = json(&out.stdout).pop().unwrap();
            println!("{last}");
            assert_eq!(list(&last["arrays"]).len(), 1, "{last}");
        } else {
            println!("{}", out.stdout);
        }
    }
}

/// Task names are escaped before they reach a terminal.
#[test]
fn escape_sequences_in_a_name() {
    if !tracing() {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let write = || {
        let path = disk.mount.join("file");
        std::thread::spawn(move || {
            fs::write("/proc/thread-self/comm", b"\x1b]0;x\x07\xff").unwrap();
            let mut file = File::options();
            let file =
                file.create(true).write(true).custom_flags(libc_o_direct()).open(path).unwrap();
            let page = Page([b'x'; 4096]);
            file.write_all_at(&page.0, 0).unwrap();
        })
        .join()
        .unwrap();
    };
    let (top, _) = Top::json(&[&disk.name, "-i0.3"]);
    write();
    let out = top.end(Signal::TERM);
    assert!(!out.stdout.trim_end().chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
    let intervals = json(&out.stdout);
    let comms: Vec<&str> = intervals
        .iter()
        .flat_map(|i| list(&i["arrays"][0]["tasks"]))
        .map(|t| t["comm"].as_str().unwrap())
        .collect();
    assert!(comms.contains(&"\x1b]0;x\x07\u{fffd}"), "{comms:?}");

    let mut command = Command::new(EXE);
    let top = Top::start(command.args(["top", &disk.name, "--batch", "-i0.3"]));
    top.line();
    write();
    let out = top.end(Signal::TERM);
    assert!(!out.stdout.contains(['\x1b', '\x07']), "{out:?}");
    assert!(out.stdout.contains("\\x1b]0;x\\x07"), "{out:?}");
}

/// In a container, /proc/PID is not the task with the PID that the kernel reports. In this test,
/// /proc/PID is a process `sleep`.
#[test]
fn names_in_another_pid_namespace() {
    if !tracing() || !installed("unshare") {
        return;
    }
    let _alone = mount_namespaces();
    let disk = Loop::ext4(64 * MIB, &["-b", "4096"]);
    let mut dd = spawn(
        Command::new("sh")
            .args(["-c", "read go; exec dd if=/dev/zero of=\"$0\" bs=4k count=100 oflag=direct"])
            .arg(disk.mount.join("file"))
            .stdin(Stdio::piped())
            .stderr(Stdio::null()),
    );
    let pid = dd.id();
    // raidtrace has pid 1: its end ends the namespace.
    let script = "echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid; sleep 1000 & exec \"$0\" top \
                  \"$2\" --json -i0.3";
    let top = Top::start(
        Command::new("unshare")
            .args(["--pid", "--fork", "--mount-proc", "sh", "-c", script, EXE])
            .args([&pid.to_string(), &disk.name]),
    );
    let first = top.line();
    dd.stdin.take().unwrap().write_all(b"\n").unwrap();
    let status = Running(dd).wait();
    assert!(status.success());
    let mut tasks: Vec<Value> = Vec::new();
    until("task of the other namespace", || {
        let interval = json(&top.line()).remove(0);
        let rows = list(&interval["arrays"][0]["tasks"]).iter();
        tasks.extend(rows.filter(|task| task["pid"] == pid).cloned());
        !tasks.is_empty()
    });
    // unshare waits for its child, raidtrace.
    let child = children(top.pid());
    let [child] = child[..] else { panic!("{child:?}") };
    let child = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
    rustix::process::kill_process(child, Signal::INT).unwrap();
    let out = top.ends();
    assert_eq!(out.code(), Some(0), "{out:?}");
    for task in tasks {
        assert_eq!(task["comm"], "dd", "{task}");
        assert!(task["role"].is_null(), "{task}");
    }
    let note = "a PID namespace of its own";
    assert_eq!(out.stderr.matches(note).count(), 1, "{}", out.stderr);
    assert!(first.contains(note), "{first}");
}

#[repr(align(4096))]
struct Page([u8; 4096]);

fn libc_o_direct() -> i32 {
    rustix::fs::OFlags::DIRECT.bits().try_into().unwrap()
}

/// A soft limit on open files is raised; a hard one is named.
#[test]
fn a_limit_on_open_files_is_named() {
    if !tracing() {
        return;
    }
    let disk = Loop::new(4 * MIB);
    let limited = |limit: &str| {
        let mut top = Command::new("sh");
        top.args(["-c", &format!("ulimit {limit} 30 && exec \"$@\""), "sh", EXE]);
        common::run(top.args(["top", &disk.name, "--batch", "-n1", "-i0.1"]))
    };
    let out = limited("-Sn");
    assert_eq!(out.code(), Some(0), "{out:?}");
    let out = limited("-n");
    assert_eq!(out.code(), Some(1), "{out:?}");
    assert!(out.stderr.contains("the limit on open files is 30"), "{out:?}");
}
