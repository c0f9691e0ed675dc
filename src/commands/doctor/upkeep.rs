//! Maintenance of arrays by the host: monitoring, checks, and dirty limits of the page cache.

use std::time::{Duration, Instant, SystemTime};

use super::facts::{DirtyLimit, Host};
use crate::machine::Sys;

/// Time limit for reading /proc: hosts with many containers have many processes.
const MAX_TIME: Duration = Duration::from_millis(300);
const DAY: u64 = 24 * 3600;
const CHECKS: &str = "/var/lib/mdcheck";

pub fn host(sys: &Sys) -> Host {
    let uptime = sys.text("/proc/uptime");
    let seconds = uptime.and_then(|t| t.split('.').next()?.parse::<u64>().ok());
    Host { uptime_days: seconds.map(|s| s / DAY), monitored: monitored(sys), dirty: dirty(sys) }
}

/// True if an `mdadm --monitor` process exists; `None` if /proc does not show all processes of the
/// host.
fn monitored(sys: &Sys) -> Option<bool> {
    // With hidepid /proc has only the processes of this user.
    let hidden = sys.is_live() && sys.text("/proc/1/comm").is_none();
    if hidden || !sys.has_host_pids() {
        return None;
    }
    let start = Instant::now();
    for pid in sys.names("/proc") {
        if !pid.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        if start.elapsed() > MAX_TIME {
            return None;
        }
        if sys.text(&format!("/proc/{pid}/comm")).as_deref() != Some("mdadm") {
            continue;
        }
        let line = sys.text(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if monitors(&line) {
            return Some(true);
        }
    }
    Some(false)
}

/// True for `mdadm --monitor --scan` and `mdadm -Fs`, false for `mdadm --monitor --oneshot`.
/// Arguments end with NUL.
fn monitors(cmdline: &str) -> bool {
    let short =
        |arg: &str, letter| arg.starts_with('-') && !arg.starts_with("--") && arg.contains(letter);
    let args = || cmdline.split('\0').skip(1);
    args().any(|a| a == "--monitor" || a == "--follow" || short(a, 'F'))
        && !args().any(|a| a == "--oneshot" || short(a, '1'))
}

/// Days since mdcheck last worked on an array, from its file (`Checked_UUID`, or `MD_UUID_UUID`
/// until its check is complete). Without `uuid` (md/uuid) any file counts.
pub fn checked_days(sys: &Sys, uuid: Option<&str>) -> Option<u64> {
    let hex = |text: &str| -> String { text.chars().filter(char::is_ascii_hexdigit).collect() };
    let uuid = uuid.map(|u| hex(u).to_ascii_lowercase());
    let age_days = |name: &str| {
        let id = name.strip_prefix("Checked_").or_else(|| name.strip_prefix("MD_UUID_"))?;
        let mine = uuid.as_ref().is_none_or(|u| hex(id).to_ascii_lowercase() == *u);
        let file = sys.path(format!("{CHECKS}/{name}"));
        let at = std::fs::symlink_metadata(file).ok()?.modified().ok()?;
        let age = SystemTime::now().duration_since(at).unwrap_or_default();
        mine.then_some(age.as_secs() / DAY)
    };
    sys.names(CHECKS).iter().filter_map(|name| age_days(name)).min()
}

/// vm.dirty_bytes, or vm.dirty_ratio of the available memory.
fn dirty(sys: &Sys) -> Option<DirtyLimit> {
    let vm = |name: &str| sys.number::<u64>(&format!("/proc/sys/vm/{name}"));
    if let Some(bytes) = vm("dirty_bytes").filter(|n| *n > 0) {
        return Some(DirtyLimit { bytes, setting: format!("vm.dirty_bytes is {bytes}") });
    }
    let ratio = vm("dirty_ratio").filter(|r| *r <= 100)?;
    let text = sys.text("/proc/meminfo")?;
    let available = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = available.split_whitespace().next()?.parse().ok()?;
    Some(DirtyLimit {
        bytes: kib.saturating_mul(1024) / 100 * ratio,
        setting: format!(
            "vm.dirty_ratio is {ratio} % of the available memory, {kib} KiB now (MemAvailable)"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::{checked_days, monitors};
    use crate::machine::tests::tree::Tree;

    #[test]
    fn monitor_command_lines() {
        for (line, does) in [
            ("/sbin/mdadm\0--monitor\0--scan\0", true),
            ("mdadm\0-Fs\0", true),
            ("mdadm\0--follow\0/dev/md0\0", true),
            ("mdadm\0--monitor\0--scan\0--oneshot\0", false),
            ("mdadm\0-F1s\0", false),
            ("mdadm\0--detail\0/dev/md0\0", false),
            ("--monitor\0", false),
            ("", false),
        ] {
            assert_eq!(monitors(line), does, "{line:?}");
        }
    }

    #[test]
    fn age_of_mdcheck_files() {
        let tree = Tree::new("file var/lib/mdcheck/Checked_01234567:89abcdef:01234567:89ABCDEF x");
        let sys = tree.sys();
        assert_eq!(checked_days(&sys, None), Some(0));
        let mine = "01234567-89ab-cdef-0123-456789abcdef";
        assert_eq!(checked_days(&sys, Some(mine)), Some(0));
        assert_eq!(checked_days(&sys, Some("ffffffff-89ab-cdef-0123-456789abcdef")), None);
        assert_eq!(checked_days(&Tree::new("").sys(), None), None);
    }
}
