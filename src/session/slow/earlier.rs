//! Tasks in a call on a file of a traced filesystem that no program traces: it began before the
//! programs were attached, or the kernel allows no hook on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::slow::asynchronous::Asynchronous;
use crate::analysis::slow::event::{
    LockWait, OffCpu, Operation, OperationFlags, OperationKind, Task,
};
use crate::machine::privileges::raised;
use crate::machine::{Dev, Sys, task};
use crate::probe::slow::asleep;

/// Maximum time of a look. The next one continues where it ended.
const MAX_LOOK: Duration = Duration::from_millis(10);

/// Parts of functions on a stack, and the operation.
const KINDS: [(&str, OperationKind); 7] = [
    ("fsync", OperationKind::Fsync),
    ("sync_file", OperationKind::Fsync),
    ("read_iter", OperationKind::Read),
    ("write_iter", OperationKind::Write),
    ("fallocate", OperationKind::Fallocate),
    ("truncate", OperationKind::Truncate),
    ("sync_fs", OperationKind::Sync),
];

/// Threads in uninterruptible sleep.
#[derive(Default)]
pub(super) struct Earlier {
    /// Number of voluntary context switches, and the time in ns at which a look first found it.
    seen: BTreeMap<u32, (u64, u64)>,
    /// The process with which the last look ended.
    after: u32,
    /// Files of the operations.
    pub files: HashMap<FileId, FileLocation>,
}

impl Earlier {
    /// Operations on filesystems for which `is_traced`, that have slept for `least` ns at `now`
    /// since a look first found them. Threads in `known` are left out.
    pub fn look(
        &mut self,
        sys: &Sys,
        known: &BTreeSet<u32>,
        is_traced: impl Fn(u32) -> bool,
        (least, now): (u64, u64),
    ) -> Vec<Operation> {
        self.files.clear();
        if !sys.has_host_pids() {
            return Vec::new();
        }
        let end = Instant::now() + MAX_LOOK;
        let processes = sys.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let mut processes: Vec<u32> = processes.collect();
        processes.sort_unstable();
        let first = processes.partition_point(|p| *p <= self.after);
        processes.rotate_left(first);
        for process in processes {
            if Instant::now() > end {
                break;
            }
            self.after = process;
            for thread in sys.names(&format!("/proc/{process}/task")) {
                let Ok(pid) = thread.parse::<u32>() else { continue };
                let state = task::sleep(sys, pid).filter(|s| s.is_uninterruptible);
                match state.filter(|_| !known.contains(&pid)) {
                    Some(s) => {
                        let seen = self.seen.entry(pid).or_insert((s.switches, now));
                        if seen.0 != s.switches {
                            *seen = (s.switches, now);
                        }
                    }
                    None => _ = self.seen.remove(&pid),
                }
            }
        }
        let mut gone = Vec::new();
        let mut found = Vec::new();
        for (&pid, &(switches, since)) in &self.seen {
            if now.saturating_sub(since) < least {
                continue;
            }
            if task::sleep(sys, pid).is_none_or(|s| !s.is_uninterruptible || s.switches != switches)
            {
                gone.push(pid);
                continue;
            }
            let Some((file, path)) = file(sys, pid).filter(|(file, _)| is_traced(file.dev)) else {
                continue;
            };
            found.push(operation(sys, pid, file, (since, now)));
            self.files.insert(file, FileLocation { path: Some(path), ..FileLocation::default() });
        }
        self.seen.retain(|pid, _| !gone.contains(pid));
        found
    }
}

/// The file of the descriptor that is the first argument of the task's system call, and its path.
fn file(sys: &Sys, pid: u32) -> Option<(FileId, Vec<u8>)> {
    let call = raised(|| sys.text(&format!("/proc/{pid}/syscall")))?;
    let mut words = call.split_whitespace();
    words.next()?.parse::<u32>().ok()?; // -1: none
    let fd = u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let link = sys.path(format!("/proc/{pid}/fd/{fd}"));
    let stat = raised(|| rustix::fs::stat(&link)).ok()?;
    let path = raised(|| std::fs::read_link(&link)).ok()?.into_os_string().into_vec();
    let dev = Dev::from_stat(stat.st_dev).kernel();
    Some((FileId { dev, inode: stat.st_ino, generation: 0 }, path))
}

fn operation(sys: &Sys, pid: u32, file: FileId, (from, to): (u64, u64)) -> Operation {
    let sleep = asleep(sys, pid, from, to);
    let is = |part: &str| sleep.stack.iter().flat_map(|s| s.iter()).any(|f| f.contains(part));
    let kind =
        KINDS.iter().find(|(part, _)| is(part)).map_or(OperationKind::Other, |(_, kind)| *kind);
    let direct = is("dio");
    Operation {
        kind,
        task: Task { pid, comm: task::comm(sys, pid).unwrap_or_default() },
        tgid: task::process(sys, pid).unwrap_or(pid),
        file: Some(file),
        dev: file.dev,
        start_ns: from,
        end_ns: to,
        position: 0,
        bytes: 0,
        flags: OperationFlags { direct, ..OperationFlags::default() },
        lock: LockWait::default(),
        pusher: None,
        asynchronous: Asynchronous::default(),
        off: OffCpu { sleeps: vec![sleep], ..OffCpu::default() },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::{Earlier, OperationKind};
    use crate::machine::tests::tree::Tree;

    #[test]
    fn a_task_that_sleeps_in_a_call_on_a_file_is_found() {
        let tree = Tree::new("");
        let status = |state: &str, switches: u64| {
            let text = format!("Tgid:\t6\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches}\n");
            tree.write("proc/7/status", &text);
        };
        tree.write("proc/6/task/7/comm", "dd\n");
        tree.write("proc/7/comm", "dd\n");
        tree.write(
            "proc/7/stack",
            "[<0>] folio_wait_bit+0x1/0x2\n[<0>] ext4_file_read_iter+0x1/0x2\n",
        );
        tree.write("proc/7/syscall", "0 0x3 0x7f 0x1000 0x0 0x0 0x0 0x7ffc 0x7f\n");
        tree.write("srv", "");
        tree.write("proc/7/fd/4", "");
        let sys = tree.sys();
        symlink(sys.path("/srv"), sys.path("/proc/7/fd/3")).unwrap();
        status("D (disk sleep)", 10);
        let mut earlier = Earlier::default();
        let mut look = |known: &[u32], now: u64| {
            let known: BTreeSet<u32> = known.iter().copied().collect();
            let found = earlier.look(&sys, &known, |_| true, (10, now));
            let found: Vec<_> = found.iter().map(|o| (o.task.pid, o.kind, o.total_ns())).collect();
            found
        };
        assert!(look(&[], 100).is_empty());
        assert_eq!(look(&[], 110), [(7, OperationKind::Read, 10)]);
        assert!(look(&[7], 120).is_empty());
        assert!(look(&[], 130).is_empty());
        assert_eq!(look(&[], 140), [(7, OperationKind::Read, 10)]);
        // It has run meanwhile.
        status("D (disk sleep)", 11);
        assert!(look(&[], 150).is_empty());
        status("S (sleeping)", 11);
        assert!(look(&[], 200).is_empty());
        status("D (disk sleep)", 11);
        tree.write("proc/7/syscall", "running\n");
        assert!(look(&[], 210).is_empty());
        assert!(look(&[], 220).is_empty(), "no system call");
    }
}
