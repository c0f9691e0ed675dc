//! Capabilities (`tests/lab/privileges.sh`): runs without one capability, and capabilities that
//! threads keep.

use std::path::Path;

use super::{intervals, lab, text};

/// Exit status and notes of a run with some capabilities.
fn tried(dir: &Path, name: &str) -> (String, String) {
    let status = text(dir.join(format!("{name}.status")));
    (status.trim().to_owned(), text(dir.join(format!("{name}.err"))))
}

/// Origins of all requests.
fn origins(dir: &Path, name: &str) -> Vec<String> {
    let mut origins = Vec::new();
    for interval in intervals(dir.join(format!("{name}.out"))) {
        for io in interval["arrays"][0]["members"]
            .as_array()
            .expect("members")
            .iter()
            .flat_map(|m| m["io"].as_array().expect("io"))
        {
            origins.push(io["origin"].as_str().expect("origin").to_owned());
        }
    }
    origins.sort();
    origins.dedup();
    origins
}

pub(super) fn each_capability_has_its_use(kernel: &str) {
    let Some(dir) = lab(kernel, "privileges") else {
        return;
    };
    let (status, notes) = tried(&dir, "all+sys_admin");
    assert_eq!((status.as_str(), notes.as_str()), ("0", ""));
    for name in ["all+sys_admin", "all", "setcap", "no_dac_read_search", "no_syslog"] {
        let found = origins(&dir, name);
        println!("{name}: {found:?}");
        for origin in ["block_bitmap", "inode_table", "journal", "parity"] {
            assert!(found.iter().any(|o| o == origin), "{name}: {found:?}");
        }
    }
    for (name, note) in [
        ("all", "cap_sys_admin"),
        ("setcap", "cap_sys_admin"),
        ("no_dac_read_search", "superblocks of loop0, loop1, loop2 cannot be read"),
        ("no_syslog", "the kernel hides the addresses"),
    ] {
        let (status, notes) = tried(&dir, name);
        assert_eq!(status, "0", "{name}: {notes}");
        assert!(notes.contains(note), "{name}: {notes}");
    }
    for (name, missing) in [
        ("no_bpf", "(missing: cap_bpf)"),
        ("no_perfmon", "(missing: cap_perfmon)"),
        ("none", "(missing: cap_bpf,cap_perfmon)"),
    ] {
        let (status, error) = tried(&dir, name);
        assert_eq!(status, "1", "{name}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(missing) && error.contains("sudo setcap"), "{error}");
    }
}

/// Without CAP_SYS_ADMIN the table of a volume on the array cannot be read.
pub(super) fn volumes_need_sys_admin(kernel: &str) {
    let Some(dir) = lab(kernel, "privileges") else {
        return;
    };
    let (status, notes) = tried(&dir, "volume+sys_admin");
    assert_eq!((status.as_str(), notes.as_str()), ("0", ""));
    let found = origins(&dir, "volume+sys_admin");
    assert!(found.iter().any(|o| o == "superblock"), "{found:?}");
    let (status, notes) = tried(&dir, "volume");
    assert_eq!(status, "0", "{notes}");
    let note = "the device mapper table of dm-0 cannot be read";
    assert!(notes.contains(note), "{notes}");
    let found = origins(&dir, "volume");
    // Only the location identifies a superblock; other blocks are recognised when ext4 writes them.
    assert!(!found.iter().any(|o| o == "superblock"), "{found:?}");
}

pub(super) fn capabilities_are_given_up(kernel: &str) {
    let Some(dir) = lab(kernel, "privileges") else {
        return;
    };
    let kept = text(dir.join("kept"));
    let values = |field: &str| -> Vec<String> {
        let lines = kept.lines().filter_map(|l| l.strip_prefix(field));
        lines.map(|v| v.trim().to_owned()).collect()
    };
    assert!(values("Name:").len() >= 4, "{kept}");
    assert!(values("NoNewPrivs:").iter().all(|v| v == "1"), "{kept}");
    // No thread keeps CAP_SYS_RAWIO (17), CAP_SYS_MODULE (16) or CAP_NET_ADMIN (12). Only the one
    // that traces keeps CAP_SYS_PTRACE (19).
    let (never, ptrace) = (1u64 << 17 | 1 << 16 | 1 << 12, 1 << 19);
    let mask = |value: &String| u64::from_str_radix(value, 16).expect("a mask");
    for (name, value) in values("Name:").iter().zip(values("CapPrm:").iter().map(mask)) {
        assert_eq!(value & never, 0, "{kept}");
        assert!(value & ptrace == 0 || name == "raidtrace:trace", "{kept}");
    }
    // The thread of the screen. It is not always the first one: the shell sorts thread ids as text.
    let screen = values("Name:").iter().position(|n| n == "raidtrace");
    let screen = screen.expect("the main thread");
    assert_eq!(values("CapEff:")[screen], "0000000000000000", "{kept}");
    let notes = text(dir.join("root.err"));
    assert!(notes.contains("mounted on /mnt/md120"), "{notes}");

    let user = text(dir.join("user"));
    let lines: Vec<&str> = user.lines().collect();
    assert_eq!(lines, ["1000", "/home/ann", "CapEff:\t0000000000000000"]);
    assert_eq!(text(dir.join("as_root")).trim(), "0");
}
