//! Names of tasks, and roles of kernel threads that do storage IO.
//!
//! Pids are those of the initial PID namespace. If /proc belongs to another PID namespace (a
//! container without `--pid=host`), /proc/PID is a different task, and /proc is not used.

use super::sys::Sys;

/// A mask of this process, such as `CapEff` or `SigIgn` (proc_pid_status(5)); `None` if missing.
pub fn own_mask(sys: &Sys, field: &str) -> Option<u64> {
    let status = sys.text("/proc/self/status")?;
    let mask = |line: &str| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim().to_owned());
    u64::from_str_radix(&status.lines().find_map(mask)?, 16).ok()
}

/// One note if /proc/PID cannot be used.
pub fn notes(sys: &Sys) -> Vec<String> {
    let note = "task names come from the kernel at the time of each task's first IO, and only \
                kworkers have a role: this raidtrace runs in a PID namespace of its own, where \
                /proc/PID is a different task. Start the container with --pid=host for names that \
                follow exec";
    (!sys.has_host_pids()).then(|| note.to_owned()).into_iter().collect()
}

/// Sets the nice value of this thread, if that is permitted. Threads that it starts inherit the
/// value.
pub fn set_nice(nice: i32) {
    let _ = rustix::process::setpriority_process(None, nice);
}

/// Current name of a task, for a kworker with its work (`kworker/u8:2+flush-9:127`,
/// kernel/workqueue.c, wq_worker_comm()). `None` if the task has exited, or if /proc belongs to
/// another PID namespace.
pub fn comm(sys: &Sys, pid: u32) -> Option<Vec<u8>> {
    if !sys.has_host_pids() {
        return None;
    }
    let mut name = std::fs::read(sys.path(format!("/proc/{pid}/comm"))).ok()?;
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Some(name)
}

/// Process id of a thread; `None` as for [`sleep`].
pub fn process(sys: &Sys, pid: u32) -> Option<u32> {
    let status = sys.text(&format!("/proc/{pid}/status")).filter(|_| sys.has_host_pids())?;
    status.lines().find_map(|l| l.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Whether a task sleeps or runs. Two equal values in uninterruptible sleep mean that the task has
/// not run in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSleep {
    /// State D: it waits for a disk or a lock in the kernel.
    pub is_uninterruptible: bool,
    /// State R: it runs, or waits for a CPU.
    pub is_running: bool,
    /// Number of voluntary context switches.
    pub switches: u64,
}

/// State of a task; `None` if the task has exited, or if /proc belongs to another PID namespace.
pub fn sleep(sys: &Sys, pid: u32) -> Option<TaskSleep> {
    let status = sys.text(&format!("/proc/{pid}/status")).filter(|_| sys.has_host_pids())?;
    let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
    let state = field("State:")?;
    Some(TaskSleep {
        is_uninterruptible: state.starts_with('D'),
        is_running: state.starts_with('R'),
        switches: field("voluntary_ctxt_switches:")?.parse().ok()?,
    })
}

/// Functions on a task's kernel stack, innermost first; empty without the permission to read it.
pub fn stack(sys: &Sys, pid: u32) -> Vec<String> {
    let text = sys.text(&format!("/proc/{pid}/stack")).unwrap_or_default();
    let function = |line: &str| Some(line.split_once("] ")?.1.split('+').next()?.to_owned());
    text.lines().filter_map(function).collect()
}

/// True for a kernel thread (PF_KTHREAD of include/linux/sched.h in the flags of proc_pid_stat(5)).
/// Its empty command line would tell, too, but reading that waits for the process's `mmap_lock`,
/// which a task that hangs may hold. `None` if the task has exited, or if /proc belongs to another
/// PID namespace.
pub fn is_kernel_thread(sys: &Sys, pid: u32) -> Option<bool> {
    const PF_KTHREAD: u32 = 0x20_0000;
    let stat = sys.text(&format!("/proc/{pid}/stat")).filter(|_| sys.has_host_pids())?;
    // 7 (name, which may have `)`) S 1 7 7 0 -1 FLAGS
    let flags = stat.rsplit_once(')')?.1.split_whitespace().nth(6)?;
    Some(flags.parse::<u32>().ok()? & PF_KTHREAD != 0)
}

/// Storage role of a kernel thread by its name. `device` returns the name of a device number
/// (`9:127`), which writeback workers have in their names.
pub fn role(comm: &[u8], device: impl Fn(&str) -> Option<String>) -> Option<String> {
    let name = std::str::from_utf8(comm).ok()?;
    if let Some(journal) = name.strip_prefix("jbd2/") {
        // jbd2/md127-8: device, then the journal's inode (fs/jbd2/journal.c)
        let on = journal.rsplit_once('-').map_or(journal, |(dev, _)| dev);
        return Some(format!("jbd2 journal of {on}"));
    }
    if let Some(dev) = name.strip_prefix("xfsaild/") {
        // xfsaild/md127 (fs/xfs/xfs_trans_ail.c)
        return Some(format!("XFS metadata writeback of {dev}"));
    }
    if name.starts_with("kworker/") {
        if let Some((_, dev)) = name.split_once("flush-") {
            let on = device(dev).unwrap_or_else(|| dev.to_owned());
            return Some(format!("writeback of {on}"));
        }
        return Some("kernel worker".to_owned());
    }
    if name.starts_with("ext4lazyinit") {
        return Some("lazy inode table initialisation".to_owned());
    }
    if name.starts_with("kmmpd-") {
        return Some("ext4 multiple mount protection".to_owned());
    }
    if name.starts_with("md") {
        // The name of an array can contain `_` (md_home, md_d0); a task's name ends after 15 bytes.
        let (array, what) = name.rsplit_once('_')?;
        return Some(match what {
            "resync" => format!("resync of {array}"),
            "reshape" => format!("reshape of {array}"),
            _ => format!("md thread of {array}"),
        });
    }
    if name.starts_with("kswapd") {
        return Some("memory reclaim".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{comm, is_kernel_thread, notes, role};
    use crate::machine::Sys;
    use crate::machine::dm::Ioctl;

    #[test]
    fn tasks_of_another_pid_namespace_are_not_looked_up() {
        for (init, own, host) in [
            (Some("pid:[4026531836]"), "pid:[4026531836]", true),
            (Some("pid:[4026532211]"), "pid:[4026532211]", false),
            // The host's /proc, mounted in a container.
            (Some("pid:[4026531836]"), "pid:[4026532211]", true),
            (None, "pid:[4026532211]", false),
            (None, "pid:[4026531836]", true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            for (pid, namespace) in [("1", init), ("self", Some(own))] {
                let ns = dir.path().join("proc").join(pid).join("ns");
                fs::create_dir_all(&ns).unwrap();
                if let Some(namespace) = namespace {
                    symlink(namespace, ns.join("pid")).unwrap();
                }
            }
            let task = dir.path().join("proc/42");
            fs::create_dir(&task).unwrap();
            fs::write(task.join("comm"), "other\n").unwrap();
            fs::write(task.join("stat"), "42 (a) b) S 2 0 0 0 -1 2129984 0").unwrap();
            let sys = Sys::at(dir.path(), Box::new(Ioctl));
            assert_eq!(comm(&sys, 42).is_some(), host, "{init:?} {own}");
            assert_eq!(is_kernel_thread(&sys, 42), host.then_some(true));
            fs::write(task.join("stat"), "42 (a) b) S 2 0 0 0 -1 4194304 0").unwrap();
            assert_eq!(is_kernel_thread(&sys, 42), host.then_some(false));
            assert_eq!(notes(&sys).is_empty(), host);
        }
    }

    fn named(comm: &str) -> Option<String> {
        role(comm.as_bytes(), |dev| (dev == "9:127").then(|| "md127".to_owned()))
    }

    #[test]
    fn kernel_threads_have_storage_roles() {
        for (comm, want) in [
            ("jbd2/md127-8", Some("jbd2 journal of md127")),
            ("jbd2/dm-0-8", Some("jbd2 journal of dm-0")),
            ("xfsaild/md127", Some("XFS metadata writeback of md127")),
            ("kworker/u8:2+flush-9:127", Some("writeback of md127")),
            ("kworker/u8:2-flush-8:0", Some("writeback of 8:0")),
            ("kworker/0:1", Some("kernel worker")),
            ("md127_resync", Some("resync of md127")),
            ("md5_raid5", Some("md thread of md5")),
            ("md_home_resync", Some("resync of md_home")),
            ("md_d0_raid1", Some("md thread of md_d0")),
            ("ext4lazyinit", Some("lazy inode table initialisation")),
            ("migration/0", None),
        ] {
            assert_eq!(named(comm).as_deref(), want, "{comm}");
        }
        assert_eq!(role(b"\xff\xfe", |_| None), None);
    }
}
